"""State evolution of low-rank models against the reference and against itself."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from miniamp import priors
from miniamp.errors import InvalidInputError
from miniamp.theory import lowrank

REFERENCE = json.loads(
    (Path(__file__).parents[2] / "reference" / "lowrank.json").read_text(encoding="utf-8")
)


def model(R: int, noise: float) -> tuple[priors.GaussianRows, priors.OneHot, float]:
    return priors.GaussianRows(R), priors.OneHot(R), noise


def check(curve: lowrank.Curve, rows: list[dict[str, float]]) -> None:
    for name, key in (("mse", "mse_U"), ("label_error", "err_V"), ("label_mse", "mse_V")):
        np.testing.assert_allclose(getattr(curve, name), [row[key] for row in rows], rtol=1e-8)


def test_offline_reference() -> None:
    rows = REFERENCE["offline R=5 Delta=0.1"]
    check(lowrank.offline_curve(*model(5, 0.1), [row["alpha"] for row in rows]), rows)


@pytest.mark.parametrize(
    ("key", "R", "noise"),
    [("minibatch R=5 Delta=0.1", 5, 0.1), ("minibatch R=2 Delta=0.3", 2, 0.3)],
)
def test_mini_batch_reference(key: str, R: int, noise: float) -> None:
    for alpha_b, rows in REFERENCE[key].items():
        curve = lowrank.learning_curve(*model(R, noise), float(alpha_b), batches=len(rows))
        np.testing.assert_allclose(curve.alpha, [row["alpha"] for row in rows])
        check(curve, rows)


def test_a_seed_grows_below_the_threshold() -> None:
    """Errata L14: by 1/(1 - alpha_b/alpha_c) a batch while it is small."""
    expected = REFERENCE["subcritical growth per batch R=5 Delta=0.1"]
    growth = next(iter(expected.values()))
    curve = lowrank.learning_curve(*model(5, 0.1), 0.1, batches=4, seed=1e-6)
    np.testing.assert_allclose(curve.overlap[1:] / curve.overlap[:-1], growth, rtol=1e-6)
    # Without one nothing happens but the grand mean (errata L13).
    silent = lowrank.learning_curve(*model(5, 0.1), 0.1, alpha_max=0.4)
    assert not silent.overlap.any()
    uniform = silent.alpha / 5
    np.testing.assert_allclose(silent.mse, 1.0 - uniform / (0.1 + uniform) / 5, rtol=1e-14)


def test_units_of_the_signal_drop_out() -> None:
    plain = lowrank.learning_curve(*model(3, 0.1), 0.5, batches=2)
    scaled = lowrank.learning_curve(
        priors.GaussianRows(3, cov=4.0), priors.OneHot(3), 0.4, 0.5, batches=2
    )
    np.testing.assert_allclose(scaled.mse, 4.0 * plain.mse, rtol=1e-12)
    np.testing.assert_allclose(scaled.label_error, plain.label_error, rtol=1e-12)


def test_few_iterations_approach_the_fixed_point_from_above() -> None:
    curves = [
        lowrank.learning_curve(*model(5, 0.1), 0.5, batches=3, t_max=t, seed=1e-3).mse
        for t in (1, 3, 10, 300)
    ]
    assert all((more <= less + 1e-12).all() for less, more in itertools.pairwise(curves))
    converged = lowrank.learning_curve(*model(5, 0.1), 0.5, batches=3, seed=1e-3).mse
    np.testing.assert_allclose(curves[-1], converged, rtol=1e-6)


@pytest.mark.parametrize("R", [2, 5])
def test_the_full_recursion_agrees_with_the_reduction(R: int) -> None:
    exact = lowrank.learning_curve(*model(R, 0.1), 0.6, batches=2)
    full = lowrank.learning_curve(*model(R, 0.1), 0.6, batches=2, full=True, points=10)
    assert (full.error > 0.0).all()
    assert (full.error < 0.02 * full.mse).all()
    assert (np.abs(full.mse - exact.mse) < 4.5 * full.error + 1e-9).all()
    difference = np.abs(full.label_error - exact.label_error)
    assert (difference < 4.5 * full.label_error_error + 1e-9).all()


def test_unequal_labels_and_other_priors_run() -> None:
    """Any pair of priors: unequal weights are found at smaller alpha; sparse rows are predicted."""
    unequal = lowrank.learning_curve(
        priors.GaussianRows(2), priors.OneHot(2, weights=[0.2, 0.8]), 0.1, 0.5, batches=1, points=9
    )
    assert 0.0 < unequal.label_error[0] < 0.2
    factor = lowrank.learning_curve(
        priors.SparseRows(2, rho=0.3), priors.GaussianRows(2), 0.1, 1.0, batches=1, points=9
    )
    assert 0.0 < factor.mse[0] < 0.3
    assert np.isnan(factor.label_error[0])


def test_mmse_is_never_above_amp() -> None:
    amp = lowrank.learning_curve(*model(8, 0.05), 0.15, batches=3)
    best = lowrank.mmse_curve(*model(8, 0.05), 0.15, batches=3)
    assert (best.mse <= amp.mse + 1e-12).all()
    # Between the information threshold .1472 and alpha_c = .16 the first batch is hard.
    assert best.label_error[0] < amp.label_error[0] - 0.2


def test_bad_input_is_named() -> None:
    for bad, name in (
        ({"alpha_b": 0.0, "batches": 1}, "alpha_b"),
        ({"alpha_b": 0.5}, "batches, alpha_max"),
        ({"alpha_b": 0.5, "batches": 1, "alpha_max": 1.0}, "batches, alpha_max"),
        ({"alpha_b": 0.5, "batches": 0}, "batches"),
    ):
        with pytest.raises(InvalidInputError, match=f"^{name}: "):
            lowrank.learning_curve(*model(3, 0.1), **bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"^prior_v: "):
        lowrank.learning_curve(priors.GaussianRows(2), priors.OneHot(3), 0.1, 0.5, batches=1)
    with pytest.raises(InvalidInputError, match=r"^noise: "):
        lowrank.offline_curve(*model(3, 0.0), [1.0])
