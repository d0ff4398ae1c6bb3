"""Contracts of every prior of rows: moments are derivatives of log Z, samples and draws agree."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import qmc

from miniamp import Posterior, Tilt, priors

RNG = np.random.default_rng(0)
R = 3


def some_tilt(rows: int = 6, strength: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    root = RNG.normal(size=(R, R))
    return strength * root @ root.T / R, RNG.normal(size=(rows, R))


EXACT = {
    "gaussian": priors.GaussianRows(R),
    "gaussian with a mean": priors.GaussianRows(
        R, mean=[0.5, -1.0, 0.0], cov=[[1.0, 0.3, 0.0], [0.3, 2.0, 0.1], [0.0, 0.1, 0.5]]
    ),
    "one-hot": priors.OneHot(R),
    "one-hot with weights": priors.OneHot(R, weights=[0.2, 0.5, 0.3]),
    "sparse": priors.SparseRows(R, rho=0.3, mean=0.2, cov=[1.0, 2.0, 0.5]),
}
MEAN_FIELD = {
    "non-negative": priors.NonNegativeRows(R, var=0.7),
    "lifted Rademacher": priors.MeanFieldRows(priors.Rademacher(0.4), R),
    "lifted Gauss-Bernoulli": priors.MeanFieldRows(priors.GaussBernoulli(rho=0.3), R),
}
ALL = {**EXACT, **MEAN_FIELD}
every = pytest.mark.parametrize("prior", ALL.values(), ids=ALL.keys())
every_exact = pytest.mark.parametrize("prior", EXACT.values(), ids=EXACT.keys())


def test_every_row_prior_of_the_package_is_here() -> None:
    classes = {
        value
        for value in vars(priors).values()
        if isinstance(value, type) and issubclass(value, priors.RowPrior)
    }
    assert classes - {priors.RowPrior} == {type(prior) for prior in ALL.values()}


@every
def test_moments_are_derivatives_of_the_log_partition(prior: priors.RowPrior) -> None:
    A, B = some_tilt(strength=0.3)
    mean, cov = prior.moments(A, B)
    cov = np.broadcast_to(cov, (*mean.shape, R))
    step = 1e-5
    for k in range(R):
        shift = step * np.eye(R)[k]
        slope = (prior.log_partition(A, B + shift) - prior.log_partition(A, B - shift)) / (2 * step)
        response = (prior.moments(A, B + shift)[0] - prior.moments(A, B - shift)[0]) / (2 * step)
        np.testing.assert_allclose(mean[:, k], slope, atol=1e-8)
        np.testing.assert_allclose(cov[:, k], response, atol=1e-8)


@every
def test_covariances_are_positive_definite_and_add_up(prior: priors.RowPrior) -> None:
    A, B = some_tilt()
    mean, cov = prior.moments(A, B)
    cov = np.broadcast_to(cov, (*mean.shape, R))
    # A label's probabilities sum to one: the direction (1, ..., 1) has no variance at all.
    assert np.linalg.eigvalsh(cov).min() > -1e-15
    np.testing.assert_allclose(prior.totals(A, B)[0], mean, atol=1e-15)
    np.testing.assert_allclose(prior.totals(A, B)[1], cov.sum(axis=0), atol=1e-13)
    np.testing.assert_allclose(
        prior.variances(A, B), np.diagonal(cov, axis1=1, axis2=2), atol=1e-15
    )


@every
def test_no_tilt_leaves_the_prior(prior: priors.RowPrior) -> None:
    nothing = prior.no_tilt(4)
    assert nothing.A.shape == (R, R)
    assert nothing.B.shape == (4, R)
    np.testing.assert_allclose(prior.log_partition(nothing.A, nothing.B), 0.0, atol=1e-14)


@every
def test_samples_match_the_moments(prior: priors.RowPrior) -> None:
    rows = 40_000
    # A diagonal tilt, where the mean field of the lifted priors is exact too.
    A, B = np.diag([0.5, 1.0, 2.0]), np.array([0.3, -0.2, 0.8])
    drawn = prior.sample(np.random.default_rng(1), rows, A, B)
    mean, cov = prior.moments(A, B[None, :])
    cov = np.broadcast_to(cov, (1, R, R))[0]
    spread = np.sqrt(np.diag(cov) / rows)
    assert drawn.shape == (rows, R)
    assert (np.abs(drawn.mean(axis=0) - mean[0]) < 5 * spread).all()
    np.testing.assert_allclose(np.cov(drawn.T), cov, atol=10 * np.max(cov) / np.sqrt(rows))


@every
def test_draws_from_uniforms_match_the_prior(prior: priors.RowPrior) -> None:
    uniforms = qmc.Sobol(R + 1, rng=np.random.default_rng(2)).random_base2(12)
    drawn = prior.draw(np.clip(uniforms, 1e-12, 1 - 1e-12))
    nothing = prior.no_tilt(1)
    mean, cov = prior.moments(nothing.A, nothing.B)
    cov = np.broadcast_to(cov, (1, R, R))[0]
    np.testing.assert_allclose(drawn.mean(axis=0), mean[0], atol=0.03)
    np.testing.assert_allclose(np.cov(drawn.T), cov, atol=0.1)


@every_exact
def test_an_em_step_never_lowers_the_likelihood(prior: priors.RowPrior) -> None:
    A, B = some_tilt(rows=200)
    before = prior
    for _ in range(4):
        after = before.fitted(A, B)
        gain = after.log_partition(A, B).sum() - before.log_partition(A, B).sum()
        assert gain > -1e-9
        before = after
    assert after.log_partition(A, B).sum() > prior.log_partition(A, B).sum() + 1e-3


def test_non_negative_rows_learn_their_variance() -> None:
    truth = priors.NonNegativeRows(R, var=4.0)
    rng = np.random.default_rng(3)
    A = 5.0 * np.eye(R)
    B = truth.sample(rng, 3000) @ A + rng.normal(size=(3000, R)) @ np.sqrt(A)
    prior = priors.NonNegativeRows(R, var=1.0)
    for _ in range(20):
        prior = prior.fitted(A, B)
    # The variance of a half-normal square over 9000 draws: a standard error of 1.5 %.
    assert abs(prior.var - 4.0) < 0.25


@every
def test_a_posterior_carries_rows(prior: priors.RowPrior) -> None:
    A, B = some_tilt()
    belief = Posterior(prior, len(B))
    tilted = belief.tilted(Tilt(A, B))
    np.testing.assert_array_equal(tilted.mean, prior.moments(A, B)[0])
    assert tilted.sample(np.random.default_rng(0)).shape == B.shape
    assert not belief.tilt.B.any()


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: priors.GaussianRows(0), "dim"),
        (lambda: priors.GaussianRows(2, mean=[1.0, 2.0, 3.0]), "mean"),
        (lambda: priors.GaussianRows(2, cov=[[1.0, 2.0], [2.0, 1.0]]), "cov"),
        (lambda: priors.OneHot(3, weights=[0.5, 0.5]), "weights"),
        (lambda: priors.OneHot(2, weights=[-0.5, 1.5]), "weights"),
        (lambda: priors.SparseRows(2, rho=1.0), "rho"),
        (lambda: priors.NonNegativeRows(2, var=0.0), "var"),
        (lambda: priors.MeanFieldRows(3, 2), "prior"),
        (lambda: priors.MeanFieldRows(priors.Gaussian(var=[1.0, 2.0]), 2), "prior"),
    ],
)
def test_bad_hyper_parameters_are_named(make: object, name: str) -> None:
    from miniamp.errors import InvalidInputError

    with pytest.raises(InvalidInputError, match=f"^{name}: "):
        make()  # type: ignore[operator]


def test_sparse_rows_that_are_all_zero_keep_what_the_others_would_be():
    """Tilts that rule the slab out leave no row to refit it to: it was refitted to 0/0."""
    narrow = priors.SparseRows(2, rho=0.3, mean=1.0, cov=1e-6)
    fitted = narrow.fitted(1e5 * np.eye(2), np.zeros((5, 2)))
    assert fitted.rho < 1e-15
    np.testing.assert_array_equal(fitted.mean, narrow.mean)
    np.testing.assert_array_equal(fitted.cov, narrow.cov)
