"""The planner: what it answers, and that its answers are those of the curves."""

from types import SimpleNamespace

import numpy as np
import pytest

from miniamp import channels, errors, priors, theory
from miniamp.estimators.settings import _planned
from miniamp.theory.planning import largest_batch, memory_of

SPARSE = priors.GaussBernoulli(rho=0.3)
CLEAN = channels.Gaussian(var=1e-8)
NOISY = channels.Gaussian(var=0.01)


def test_fewest_rows_is_one_batch_past_the_spinodal():
    found = theory.plan(SPARSE, CLEAN, 10_000, target_mse=1e-6)
    assert found.fewest_rows.rows == int(np.ceil(found.transitions.spinodal * 10_000))
    assert found.hard_rows == (3700, 4802)
    assert found.least_memory.batch_rows == 1
    assert found.least_memory.rows > 5 * found.fewest_rows.rows


def test_every_choice_meets_the_target_at_its_rows():
    found = theory.plan(SPARSE, NOISY, 1000, target_mse=0.01)
    for choice in found.choices:
        assert choice.rows is not None
        assert choice.mse <= 0.01 * (1 + 1e-9)
        if choice.alpha_b > 0.0:
            curve = theory.learning_curve(
                SPARSE, NOISY, choice.alpha_b, batches=choice.rows // choice.batch_rows
            )
            assert curve.reaches(0.01) == pytest.approx(choice.rows / 1000)


def test_a_memory_limit_is_kept_and_priced():
    free = theory.plan(SPARSE, NOISY, 1000, target_mse=0.01)
    bound = theory.plan(SPARSE, NOISY, 1000, target_mse=0.01, max_memory="1MB")
    assert bound.pick.memory <= 1e6
    fitting = [choice for choice in bound.choices if choice.memory <= 1e6]
    assert "all that fits" in [choice.name for choice in fitting]
    assert bound.pick.rows == min(choice.rows for choice in fitting)
    assert bound.memory_cost == bound.pick.rows / free.fewest_rows.rows > 1.0
    assert f"factor {bound.memory_cost:.2f}" in str(bound)


def test_unequal_batches_are_recommended_where_they_pay():
    found = theory.plan(
        SPARSE, channels.Gaussian(var=1e-4), 1000, target_mse=1e-4, max_memory="4MB"
    )
    assert found.unequal is found.schedule
    assert found.schedule.rows * 1000 < 0.95 * found.pick.rows
    assert "Unequal batches do better: in rows, 492, then 428" in str(found)
    assert theory.plan(SPARSE, NOISY, 1000, target_mse=0.01).schedule is None
    design = theory.Spectrum.condition(10.0, 0.5)
    worse = theory.plan(SPARSE, NOISY, 1000, target_mse=0.01, design=design)
    assert (
        worse.fewest_rows.rows > theory.plan(SPARSE, NOISY, 1000, target_mse=0.01).fewest_rows.rows
    )
    with pytest.raises(errors.InvalidInputError, match="mean squared norm"):
        theory.plan(SPARSE, NOISY, 1000, design=theory.Spectrum([3.0], columns=10))


def test_a_budget_without_a_target_asks_for_the_smallest_error():
    found = theory.plan(SPARSE, NOISY, 1000, budget_rows=800)
    assert found.pick.mse <= 1.25 * min(choice.mse for choice in found.choices)
    offline = theory.offline_curve(SPARSE, NOISY, [0.8]).mse[0]
    assert found.fewest_rows.mse == pytest.approx(offline)


def test_a_target_beyond_the_budget_is_out_of_reach():
    found = theory.plan(SPARSE, NOISY, 1000, target_mse=1e-3, budget_rows=300)
    assert all(choice.rows is None for choice in found.choices)
    assert "out of reach" in str(found)


def test_the_table_shows_the_pick():
    found = theory.plan(SPARSE, NOISY, 1000, target_mse=0.01)
    lines = str(found).splitlines()
    (shown,) = (line for line in lines if line.startswith("> "))
    assert found.pick.name in shown


def test_plot_has_a_curve_for_every_choice():
    pytest.importorskip("matplotlib").use("Agg")
    found = theory.plan(SPARSE, NOISY, 1000, target_mse=0.01)
    labels = [line.get_label() for line in found.plot().get_lines()]
    assert set(labels) >= {choice.name for choice in found.choices}


def test_memory_and_its_inverse():
    rows = largest_batch(1e6, 1000)
    assert memory_of(rows, 1000) <= 1e6 < memory_of(rows + 1, 1000)


def test_refusals():
    with pytest.raises(errors.InvalidInputError, match="features"):
        theory.plan(SPARSE, NOISY, 0)
    with pytest.raises(errors.InvalidInputError, match="prior variance"):
        theory.plan(SPARSE, NOISY, 1000, target_mse=0.5)
    with pytest.raises(errors.InvalidInputError, match="max_memory"):
        theory.plan(SPARSE, NOISY, 1000, target_mse=0.01, max_memory="lots")
    with pytest.raises(errors.InvalidInputError, match="at least"):
        theory.plan(SPARSE, NOISY, 1000, target_mse=0.01, max_memory=100)


def test_long_streams_are_planned_quickly_and_without_a_schedule():
    found = theory.plan(SPARSE, NOISY, 1000, budget_rows=100_000, max_memory="4MB")
    assert found.schedule is None
    assert found.unequal is None


def test_fit_takes_the_batches_that_theory_schedules():
    """4,800 rows of 4,000 features do not fit in 64 MB: 1,992 of them come first, not a third."""
    model = SimpleNamespace(
        prior=priors.GaussBernoulli(rho=0.3), channel=channels.Gaussian(var=1e-4), learn_prior=True
    )
    rows = np.broadcast_to(0.0, (100_000, 4000))
    assert _planned(model, rows[:4800]) == [1992, 1992, 816]
    assert sum(_planned(model, rows)) == 100_000
