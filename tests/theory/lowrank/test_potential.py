"""The free energy is stationary at fixed points, as errata L8 has it and as print does not."""

from __future__ import annotations

import numpy as np
import pytest

from miniamp import absorb, channels, priors, theory
from miniamp.errors import InvalidInputError
from miniamp.theory import lowrank
from miniamp.theory.lowrank import ConvergedColumns, LabelLaw
from miniamp.theory.lowrank.labels import LabelBalance
from miniamp.theory.lowrank.matrix import CONVERGED


def gradient(phi: object, at: np.ndarray, step: float = 1e-5) -> np.ndarray:
    slopes = []
    for k in range(len(at)):
        shift = step * np.eye(len(at))[k] * max(abs(at[k]), 1e-2)
        slopes.append((phi(at + shift) - phi(at - shift)) / (2 * shift[k]))  # type: ignore[operator]
    return np.array(slopes)


@pytest.mark.parametrize(("R", "noise", "alpha_b"), [(5, 0.1, 0.5), (2, 0.3, 0.8), (8, 0.05, 0.2)])
def test_stationary_at_the_fixed_points_of_a_stream(R: int, noise: float, alpha_b: float) -> None:
    """The potential of a batch, by the error E and the precision that goes with it, is flat."""
    before = LabelLaw(R, noise)
    for _ in range(4):
        after, _info = absorb(before, ConvergedColumns(alpha_b))
        balance = before.balance

        def phi(x: np.ndarray, balance: LabelBalance = balance) -> float:
            known, lam = x
            pull = 0.5 * (lam - balance.lam) * (1.0 - known)
            rows = alpha_b * float(balance.output.information(1.0 - known))
            return float(balance.scalar.information(lam)) - pull + rows

        lam = after.a / noise
        assert np.abs(gradient(phi, np.array([lam / (1.0 + lam), lam]))).max() < 1e-6
        before = after


def test_without_the_factor_alpha_nothing_is_stationary() -> None:
    """Errata L8: as printed, the derivative in the overlap of U is about -1.2."""
    R, noise, alpha_b = 5, 0.1, 0.5
    law, _ = absorb(LabelLaw(R, noise), ConvergedColumns(alpha_b))
    a = law.a
    M_U, step = a / (noise + a), 1e-5

    def printed(known: float) -> float:
        # R - 1 directions: the pull of the overlap, and the columns without their number.
        columns = float(law.balance.output.information(1.0 - known))
        return (R - 1) * (0.5 * known * a / noise + columns)

    slope = (printed(M_U + step) - printed(M_U - step)) / (2 * step)
    assert abs(slope) > 0.5


def test_matrices_agree_with_the_reduction() -> None:
    """The R x R free energy by quasi-Monte Carlo is R - 1 times the reduced one, to its error.

    Between two overlaps that distinguish labels, that of the mean direction being the same.
    """
    R, noise, alpha_b = 3, 0.2, 0.7
    rng, J = np.random.default_rng(0), np.ones((3, 3)) / 3
    balance = LabelBalance(R, noise)

    def reduced(known: float, lam: float, before: float) -> float:
        of_u = 0.5 * (lam - np.log1p(lam))
        columns = float(balance.output.information(1.0 - known))
        return (R - 1) * (0.5 * known * (lam - before) - of_u + alpha_b * columns)

    for _ in range(3):
        common, *apart = rng.uniform(0.05, 0.6, size=3)
        full, exact = [], []
        for known in apart:
            lam = 0.8 * known
            ends = (known, lam, 0.3 * lam)
            as_matrix = [x * (np.eye(R) - J) + common * J for x in ends]
            model = priors.GaussianRows(R), priors.OneHot(R), noise
            full.append(lowrank.free_energy(*model, *as_matrix[:2], alpha_b, as_matrix[2]))
            exact.append(reduced(known, lam / noise, 0.3 * lam / noise))
        error = full[0].error + full[1].error
        assert abs(full[1].value - full[0].value - (exact[1] - exact[0])) < 5 * error + 1e-12
        assert error < 2e-2


def test_full_recursion_is_stationary_in_every_direction() -> None:
    """Unreduced matrices, unequal labels: the gradient of phi in M_U and lambda_V vanishes."""
    prior_u, prior_v = priors.GaussianRows(2), priors.OneHot(2, weights=[0.3, 0.7])
    run, _ = absorb(
        lowrank.MatrixLaw.replicates(prior_u, prior_v, 0.2, 14)[0],
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


def test_arguments_of_another_rank_are_named() -> None:
    model, square = (priors.GaussianRows(2), priors.OneHot(2)), np.zeros((2, 2))
    with pytest.raises(InvalidInputError, match="M_U: got shape"):
        lowrank.free_energy(*model, 0.1, np.zeros((3, 3)), square, 0.5)
    with pytest.raises(InvalidInputError, match=r"noise: got -0\.1"):
        lowrank.free_energy(*model, -0.1, square, square, 0.5)
    with pytest.raises(InvalidInputError, match="prior_v: got dim 3"):
        lowrank.free_energy(model[0], priors.OneHot(3), 0.1, square, square, 0.5)
    with pytest.raises(InvalidInputError, match="truth_u: got Gaussian"):
        lowrank.learning_curve(*model, 0.1, 0.5, batches=1, truth_u=priors.Gaussian())
    for alphas in ([[0.5, 1.0]], [0.0], [-1.0]):
        with pytest.raises(InvalidInputError, match="alphas: got"):
            lowrank.offline_curve(*model, 0.1, alphas)


def test_a_curve_of_columns_is_not_one_of_rows() -> None:
    """Its overlap is that of V: what it would say of new rows was a number without a meaning."""
    curve = lowrank.learning_curve(priors.GaussianRows(2), priors.OneHot(2), 0.1, 0.5, batches=1)
    with pytest.raises(InvalidInputError, match="curve: got that of a low-rank model"):
        theory.generalisation_error(priors.Gaussian(), channels.Gaussian(), curve)
    pytest.importorskip("matplotlib")
    assert curve.plot().get_xlabel() == "columns / rows of U"
