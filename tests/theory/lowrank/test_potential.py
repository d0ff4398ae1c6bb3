"""The free energy is stationary at fixed points, as errata L8 has it and as print does not."""

from __future__ import annotations

import numpy as np
import pytest

from miniamp import absorb, priors
from miniamp.theory import lowrank
from miniamp.theory.lowrank import ConvergedColumns, LabelLaw
from miniamp.theory.lowrank.curves import CONVERGED


def gradient(phi: object, at: np.ndarray, step: float = 1e-5) -> np.ndarray:
    slopes = []
    for k in range(len(at)):
        shift = step * np.eye(len(at))[k] * max(abs(at[k]), 1e-2)
        slopes.append((phi(at + shift) - phi(at - shift)) / (2 * shift[k]))  # type: ignore[operator]
    return np.array(slopes)


@pytest.mark.parametrize(("R", "noise", "alpha_b"), [(5, 0.1, 0.5), (2, 0.3, 0.8), (8, 0.05, 0.2)])
def test_stationary_at_the_fixed_points_of_a_stream(R: int, noise: float, alpha_b: float) -> None:
    before = LabelLaw(R, noise)
    for _ in range(4):
        after, _info = absorb(before, ConvergedColumns(alpha_b))
        lam = np.array([after.a, after.columns / R])
        point = np.concatenate([lam / (noise + lam), lam])

        def phi(x: np.ndarray, law: LabelLaw = before) -> float:
            return law.free_energy(x[:2], x[2:], law.lam, alpha_b)

        assert np.abs(gradient(phi, point)).max() < 1e-6
        before = after


def test_without_the_factor_alpha_nothing_is_stationary() -> None:
    """Errata L8: as printed, the derivative in the overlap of U is about -1.2."""
    law = LabelLaw(5, 0.1)
    after, _ = absorb(law, ConvergedColumns(0.5))
    lam = np.array([after.a, after.columns / 5])
    M_U = lam / (0.1 + lam)

    def printed(a: float) -> float:
        moved = np.array([a, M_U[1] + a - M_U[0]])
        with_alpha = law.free_energy(moved, lam, law.lam, 0.5)
        without = law.free_energy(moved, lam, law.lam, 0.0)
        return without + (with_alpha - without) / 0.5

    step = 1e-5
    slope = (printed(M_U[0] + step) - printed(M_U[0] - step)) / (2 * step)
    assert abs(slope) > 0.5


def test_matrices_agree_with_eigenvalues() -> None:
    """The R x R free energy by quasi-Monte Carlo is the reduced one, to its stated error."""
    R, noise, alpha_b = 3, 0.2, 0.7
    rng = np.random.default_rng(0)
    for _ in range(3):
        M_U, lam = rng.uniform(0.05, 0.6, size=(2, 2))
        before = 0.3 * lam
        J = np.ones((R, R)) / R
        as_matrix = [p[0] * (np.eye(R) - J) + p[1] * J for p in (M_U, lam, before)]
        full = lowrank.free_energy(
            priors.GaussianRows(R), priors.OneHot(R), noise, *as_matrix[:2], alpha_b, as_matrix[2]
        )
        exact = LabelLaw(R, noise).free_energy(M_U, lam, before, alpha_b)
        assert abs(full.value - exact) < 5 * full.error + 1e-12
        assert full.error < 1e-2


def test_full_recursion_is_stationary_in_every_direction() -> None:
    """Unreduced matrices, unequal labels: the gradient of phi in M_U and lambda_V vanishes."""
    prior_u, prior_v = priors.GaussianRows(2), priors.OneHot(2, weights=[0.3, 0.7])
    run, _ = absorb(
        lowrank.MatrixLaw.replicates(prior_u, prior_v, 0.2, 14, 0)[0],
        ConvergedColumns(0.6),
        CONVERGED,
    )
    lam = run.lam.signal
    M_U, nothing, step = run.overlap_u(run.lam).signal, np.zeros((2, 2)), 1e-3
    for k, m in ((0, 0), (0, 1), (1, 1)):
        D = np.zeros((2, 2))
        D[k, m] = D[m, k] = step
        slope_M = (
            run.free_energy(M_U + D, lam, nothing, 0.6)
            - run.free_energy(M_U - D, lam, nothing, 0.6)
        ) / (2 * step)
        slope_lam = (
            run.free_energy(M_U, lam + D, nothing, 0.6)
            - run.free_energy(M_U, lam - D, nothing, 0.6)
        ) / (2 * step)
        # 2^14 points leave an error of about 1e-3 in the averages over the labels.
        assert abs(slope_M) < 1e-2
        assert abs(slope_lam) < 1e-5
