"""Thresholds of the clustering, continuous and first order."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from miniamp import priors
from miniamp.theory import lowrank
from miniamp.theory.scalar import scalar_channel

REFERENCE = json.loads(
    (Path(__file__).parents[2] / "reference" / "lowrank.json").read_text(encoding="utf-8")
)


def found(R: int, noise: float) -> lowrank.Transitions:
    return lowrank.transitions(priors.GaussianRows(R), priors.OneHot(R), noise)


@pytest.mark.parametrize("row", REFERENCE["thresholds"], ids=str)
def test_reference(row: dict[str, float]) -> None:
    ours = found(int(row["R"]), row["Delta"])
    assert ours.weak_recovery == pytest.approx(row["alpha_c"], rel=1e-12)
    assert ours.spinodal == pytest.approx(row["alpha_spinodal"], rel=1e-8)
    assert ours.information == pytest.approx(row["alpha_IT"], rel=1e-8)
    assert ours.first_order == row["first_order"]


def test_first_order_depends_on_the_noise() -> None:
    """Errata L12: first order iff Delta < (R - 4)/(2 R)."""
    narrow = found(5, 0.05)
    assert narrow.first_order
    assert narrow.spinodal == pytest.approx(0.06223, abs=1e-5)
    assert narrow.information == pytest.approx(0.06226, abs=1e-5)
    assert not found(5, 0.12).first_order
    assert not found(4, 0.05).first_order
    assert found(8, 0.2).first_order
    assert not found(8, 0.26).first_order


def test_verdicts() -> None:
    model = priors.GaussianRows(8), priors.OneHot(8), 0.05
    assert lowrank.verdict(*model, alpha_b=0.2).phase == "easy"
    assert lowrank.verdict(*model, alpha_b=0.15).phase == "hard"
    slow = lowrank.verdict(*model, alpha_b=0.04, size=1000)
    assert slow.phase == "impossible"
    assert slow.growth == pytest.approx(1.0 / (1.0 - 0.04 / 0.16))
    assert lowrank.verdict(*model, alpha_b=0.04, size=10**6).escape > slow.escape


def test_state_evolution_knows_the_same_thresholds() -> None:
    R, noise = 8, 0.05
    model = priors.GaussianRows(R), priors.OneHot(R), noise
    edges = found(R, noise)
    inside = lowrank.offline_curve(
        *model, edges.spinodal * np.array([1.0 - 1e-3, 1.0 + 1e-3]), informed=True
    )
    assert inside.overlap[0] == 0.0
    assert inside.overlap[1] > 1e-3
    amp = lowrank.offline_curve(*model, edges.weak_recovery * np.array([0.999, 1.001]))
    assert amp.overlap[0] == 0.0
    assert amp.overlap[1] > 1e-3


def test_non_negative_rows_of_rank_one_by_scalar_integrals() -> None:
    """lambda = alpha q_v(q_u(lambda)) with the exact MMSE of a non-negative coefficient."""
    noise, alpha, lam = 0.5, 0.4, 1e-3
    scalar = scalar_channel(priors.NonNegativeGaussian(var=2.0))
    for _ in range(300):
        q_u = scalar.power - float(scalar.mmse(lam / noise))
        lam = alpha * q_u / (noise + q_u)
    model = priors.NonNegativeRows(1, var=2.0), priors.GaussianRows(1), noise
    for curve in (lowrank.learning_curve, lowrank.mmse_curve):
        found = curve(*model, alpha, batches=1, points=11)
        exact = float(scalar.mmse(lam / noise))
        assert found.mse[0] == pytest.approx(exact, abs=4.5 * found.error[0])
    # Their mean shows the signs: something is known from the first column on.
    assert lowrank.transitions(*model, points=10).weak_recovery is None


def test_sparse_pca_of_rank_one_by_scalar_integrals() -> None:
    """alpha(lambda) = lambda/q_v(q_u(lambda)) from the exact MMSE of a sparse coefficient.

    Its minimum is where the informed branch begins. Averages over 2^13 points are off by 2 to 3 %
    for coefficients of which one in twenty is not zero, and the search by 1 %: 6 %.
    """
    noise, scalar = 0.5, scalar_channel(priors.GaussBernoulli(rho=0.05, var=20.0))
    lam = np.geomspace(1e-3, 1.0, 4000)
    q_u = 1.0 - scalar.mmse(lam / noise)
    alpha = lam * (1.0 + noise / q_u)
    model = priors.SparseRows(1, rho=0.05, cov=20.0), priors.GaussianRows(1), noise
    found = lowrank.transitions(*model)
    assert found.weak_recovery == pytest.approx(noise**2)
    assert alpha[0] == pytest.approx(noise**2, rel=5e-2)
    assert found.lower_spinodal == pytest.approx(alpha.min(), rel=0.06)
    assert found.first_order
    assert found.lower_spinodal < found.information < found.weak_recovery
    dense = lowrank.transitions(priors.SparseRows(1, rho=0.5, cov=2.0), *model[1:])
    assert not dense.first_order
    # In the hard phase the best fixed point of a batch is far better than that of AMP.
    hard = 0.5 * (found.information + found.weak_recovery)
    amp = lowrank.learning_curve(*model, hard, batches=1, points=11)
    best = lowrank.mmse_curve(*model, hard, batches=1, points=11)
    assert best.mse[0] < 0.8 * amp.mse[0]
    # The verdict is that of these: nothing for AMP below weak recovery, all that there is above.
    assert lowrank.verdict(*model, hard).phase == "hard"
    assert lowrank.verdict(*model, 0.5 * found.lower_spinodal).phase == "impossible"
    assert lowrank.verdict(*model, 2.0 * found.weak_recovery).phase == "easy"
