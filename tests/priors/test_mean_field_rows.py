"""The mean-field rows against exact integration: signs and factors of errata L15 to L17."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from miniamp import priors


def exact_moments(A: np.ndarray, b: np.ndarray, var: float) -> tuple[np.ndarray, np.ndarray]:
    """Moments of a cut Gaussian row by a fine grid, for R = 2 or 3."""
    R = len(b)
    nodes, weights = np.polynomial.legendre.leggauss(60 if R == 2 else 32)
    x = 0.5 * 6.0 * np.sqrt(var) * (nodes + 1.0)
    grid = np.array(list(itertools.product(x, repeat=R)))
    mass = np.prod(np.array(list(itertools.product(weights, repeat=R))), axis=1)
    log_density = (
        -0.5 * np.einsum("ik,kl,il->i", grid, A, grid) + grid @ b - 0.5 * (grid**2).sum(1) / var
    )
    density = mass * np.exp(log_density - log_density.max())
    density /= density.sum()
    mean = density @ grid
    return mean, (grid * density[:, None]).T @ grid - np.outer(mean, mean)


@pytest.mark.parametrize("R", [2, 3])
def test_non_negative_rows_against_integration(R: int) -> None:
    rng = np.random.default_rng(R)
    prior = priors.NonNegativeRows(R, var=1.0)
    errors, spreads = [], []
    for _ in range(10):
        # Soft labels: diagonal weights with a coupling of about a fifth of them.
        A = np.diag(rng.uniform(4.0, 8.0, size=R))
        A += 0.8 * (np.ones((R, R)) - np.eye(R))
        b = A @ rng.uniform(0.3, 1.0, size=R) + rng.normal(size=R)
        mean, cov = prior.moments(A, b[None, :])
        true_mean, true_cov = exact_moments(A, b, 1.0)
        errors.append(np.abs(mean[0] - true_mean).mean())
        spreads.append(np.abs(cov[0] - true_cov).mean() / np.abs(true_cov).mean())
    # Errata L16: the printed factor 1/2 in the field would leave a mean error of 0.02 and more.
    assert np.mean(errors) < 0.006
    assert np.mean(spreads) < 0.06


def test_the_printed_factor_one_half_is_worse() -> None:
    """Errata L16: B - (1/2) A_off m instead of B - A_off m misses the exact mean widely."""
    A = np.array([[6.0, 1.0], [1.0, 5.0]])
    b = np.array([4.0, 3.0])
    true_mean, _ = exact_moments(A, b, 1.0)
    ours = priors.NonNegativeRows(2, var=1.0).moments(A, b[None, :])[0][0]
    halved = A - 0.5 * (A - np.diag(np.diag(A)))
    printed = priors.NonNegativeRows(2, var=1.0).moments(halved, b[None, :])[0][0]
    assert np.abs(ours - true_mean).max() < 0.2 * np.abs(printed - true_mean).max()


def test_the_full_response_keeps_covariances_positive() -> None:
    """Errata L17: at first order, -A_kl sigma_k sigma_l, positivity is lost for soft labels."""
    rng = np.random.default_rng(0)
    R, lost = 10, 0
    prior = priors.NonNegativeRows(R, var=1.0)
    for _ in range(20):
        P = rng.dirichlet(np.ones(R), size=30)
        A = 2.0 * P.T @ P
        cov = prior.moments(A, rng.normal(size=(1, R)))[1][0]
        assert np.linalg.eigvalsh(cov).min() > 0.0
        sigma = 1.0 / (np.diag(A) + 1.0)
        off = A - np.diag(np.diag(A))
        first_order = np.diag(sigma) - sigma[:, None] * off * sigma
        lost += np.linalg.eigvalsh(first_order).min() <= 0.0
    assert lost > 0


def test_a_diagonal_tilt_is_exact() -> None:
    rng = np.random.default_rng(1)
    scalar = priors.GaussBernoulli(rho=0.2, var=2.0)
    A, B = np.diag([0.5, 3.0]), rng.normal(size=(5, 2))
    mean, cov = priors.MeanFieldRows(scalar, 2).moments(A, B)
    want_mean, want_var = scalar.moments(np.diag(A), B)
    np.testing.assert_allclose(mean, want_mean)
    np.testing.assert_allclose(np.diagonal(cov, axis1=1, axis2=2), want_var)


def test_gaussian_rows_lifted_from_scalars_have_the_exact_means() -> None:
    """For Gaussians mean field is exact in the mean and, by its response, in the covariance."""
    rng = np.random.default_rng(2)
    root = rng.normal(size=(3, 3))
    A, B = root @ root.T, rng.normal(size=(4, 3))
    lifted = priors.MeanFieldRows(priors.Gaussian(var=0.5), 3).moments(A, B)
    exact = priors.GaussianRows(3, cov=0.5).moments(A, B)
    np.testing.assert_allclose(lifted[0], exact[0], atol=1e-11)
    np.testing.assert_allclose(lifted[1][0], exact[1], atol=1e-12)
