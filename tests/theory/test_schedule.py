"""Schedules: the numbers of hand-made ones, and that no sequence found otherwise does better."""

import itertools
import time

import numpy as np
import pytest

from miniamp import absorb, channels, errors, priors, theory
from miniamp.theory import ConvergedBatch, Law
from miniamp.theory.limits import offline_alpha

SPARSE = priors.GaussBernoulli(rho=0.3)
CHANNEL = channels.Gaussian(var=1e-4)


def error(sizes, prior=SPARSE, channel=CHANNEL):
    law = Law(prior)
    for size in sizes:
        law, _ = absorb(law, ConvergedBatch(size, channel))
    return law.mse


def test_one_large_batch_first_crosses_the_threshold():
    """The same 1.2 N rows in five ways: seeding in time."""
    assert error([0.2] * 6) == pytest.approx(0.0224, rel=5e-3)
    assert error([0.05] * 24) == pytest.approx(0.0362, rel=5e-3)
    seeded = error([0.5] + [0.05] * 14)
    assert seeded == pytest.approx(7.57e-5, rel=5e-3)
    assert error([0.05] * 14 + [0.5]) == pytest.approx(2.5e-4, rel=2e-2)
    found = theory.schedule(SPARSE, CHANNEL, rows=1.2, largest=0.5)
    assert sum(found.sizes) == pytest.approx(1.2)
    assert found.mse == pytest.approx(error(found.sizes))
    assert error([1.2]) < found.mse < seeded


@pytest.mark.parametrize("largest", [0.2, 0.45, 0.47, 0.5])
def test_no_sequence_on_a_grid_does_better(largest):
    """Every order of up to four batches on a grid of largest/6 that uses at most 1.2 N rows."""
    found = theory.schedule(SPARSE, CHANNEL, rows=1.2, largest=largest)
    assert max(found.sizes) <= largest * (1 + 1e-9)
    grid = largest * np.arange(1, 7) / 6
    rng = np.random.default_rng(0)
    every = [s for n in range(1, 5) for s in itertools.product(grid, repeat=n) if sum(s) <= 1.2]
    for k in rng.choice(len(every), size=min(len(every), 60), replace=False):
        assert error(every[k]) >= found.mse * (1 - 1e-9)
    # Sequences that use every row, at random.
    for _ in range(30):
        sizes = []
        while sum(sizes) < 1.2 - 1e-9:
            sizes.append(min(rng.uniform(0.02, 1.3) * largest, largest, 1.2 - sum(sizes)))
        assert error(sizes) >= found.mse * (1 - 1e-9)


@pytest.mark.parametrize(
    ("prior", "channel", "largest"),
    [
        (SPARSE, CHANNEL, 0.45),
        (SPARSE, channels.Gaussian(var=0.0), 0.33),
        (priors.Rademacher(), channels.Probit(var=0.1), 1.0),
        (priors.Gaussian(), channels.Logistic(), 0.7),
    ],
    ids=repr,
)
def test_no_equal_batches_do_better(prior, channel, largest):
    found = theory.schedule(prior, channel, rows=2.0, largest=largest)
    for number in range(int(np.ceil(2.0 / largest)), 25):
        curve = theory.learning_curve(prior, channel, 2.0 / number, batches=number)
        assert curve.mse[-1] >= found.mse * (1 - 1e-9)
    for way in found.others[:-1]:
        assert way.mse >= found.mse * (1 - 1e-9)
    assert found.others[-1].mse <= found.mse * (1 + 1e-9)


@pytest.mark.parametrize("largest", [0.3, 0.45, 0.5])
def test_fewest_rows_to_a_target(largest):
    found = theory.schedule(SPARSE, CHANNEL, target=1e-4, largest=largest)
    assert found.reached
    assert error(found.sizes) <= 1e-4 * (1 + 1e-9)
    # The dual question has the same answer: one percent fewer rows miss the target.
    fewer = theory.schedule(SPARSE, CHANNEL, rows=0.99 * found.rows, largest=largest)
    assert fewer.mse > 1e-4
    for way in found.others[:-1]:
        assert way.rows >= found.rows * (1 - 1e-9)
    out = theory.schedule(SPARSE, CHANNEL, rows=0.5, target=1e-4, largest=largest)
    assert not out.reached
    assert "out of reach" in str(out)


@pytest.mark.parametrize(("noise", "target", "largest"), [(1e-2, 2e-5, 1.0), (1.0, 2e-4, 3.0)])
def test_a_target_that_takes_many_batches_is_reached(noise, target, largest):
    """Small batches lose little: any error is within reach, of rows one by one too."""
    prior, channel = priors.GaussBernoulli(rho=0.02), channels.Gaussian(var=noise)
    found = theory.schedule(prior, channel, target=target, largest=largest)
    assert error(found.sizes, prior, channel) <= target * (1 + 1e-9)
    assert max(found.sizes) <= largest * (1 + 1e-9)
    once = found.others[-1].rows
    assert once < found.rows < 1.05 * once
    for way in found.others[:-1]:
        assert way.rows >= found.rows * (1 - 1e-9)


@pytest.mark.parametrize(("rows", "largest"), [(3.0, 0.01), (1.0, 0.02), (30.0, 0.1)])
def test_long_schedules_stay_within_the_limit(rows, largest):
    prior, channel = priors.GaussBernoulli(rho=0.02), channels.Gaussian(var=0.01)
    found = theory.schedule(prior, channel, rows=rows, largest=largest)
    assert max(found.sizes) <= largest * (1 + 1e-9)
    assert found.rows == pytest.approx(rows, rel=1e-9)
    for way in found.others[:-1]:
        assert way.mse >= found.mse * (1 - 1e-9)


@pytest.mark.parametrize("rho", [0.02, 0.1])
@pytest.mark.parametrize("target", [0.3, 1e-2, 1e-4])
def test_one_batch_where_one_is_allowed(rho, target):
    """Two batches never do better than both as one."""
    model = priors.GaussBernoulli(rho=rho), channels.Gaussian(var=1e-8)
    found = theory.schedule(*model, target=target * rho, largest=1.0)
    assert len(found.sizes) == 1
    assert found.reached
    assert found.rows == pytest.approx(offline_alpha(*model, target * rho), rel=2e-4)
    assert all(way.rows >= found.rows * (1 - 1e-9) for way in found.others)
    assert len(theory.schedule(*model, rows=0.3, largest=0.4).sizes) == 1


def test_a_perceptron_needs_a_small_batch_first():
    """Just below the threshold 1.4926, a small batch before the large one saves a third."""
    model = priors.Rademacher(), channels.Probit(var=0.0)
    found = theory.schedule(*model, target=1e-3, largest=1.4)
    assert found.sizes == pytest.approx((0.2934, 1.4), abs=2e-3)
    equal = min(way.rows for way in found.others[:-1])
    assert found.rows < 0.7 * equal


def test_a_schedule_takes_less_than_two_seconds():
    begin = time.process_time()
    theory.schedule(priors.GaussBernoulli(rho=0.3), CHANNEL, target=1e-3, largest=0.3)
    assert time.process_time() - begin < 2.0


def test_a_design_and_the_table():
    design = theory.Spectrum.condition(10.0, 0.5)
    plain = theory.schedule(SPARSE, CHANNEL, rows=2.0, largest=0.5)
    worse = theory.schedule(SPARSE, CHANNEL, rows=2.0, largest=0.5, design=design)
    assert worse.mse > plain.mse
    lines = str(plain).splitlines()
    assert lines[1].startswith("> schedule")
    assert "all rows at once" in str(plain)
    assert lines[-1] == "Batches in order: 4 x 0.5"


def test_refusals():
    with pytest.raises(errors.InvalidInputError, match="rows, target"):
        theory.schedule(SPARSE, CHANNEL)
    with pytest.raises(errors.InvalidInputError, match="prior variance"):
        theory.schedule(SPARSE, CHANNEL, target=0.5)
    with pytest.raises(errors.InvalidInputError, match="largest"):
        theory.schedule(SPARSE, CHANNEL, rows=1.0, largest=0.0)
    with pytest.raises(errors.InvalidInputError, match="5,000 batches"):
        theory.schedule(SPARSE, CHANNEL, rows=1.0, largest=1e-4)
