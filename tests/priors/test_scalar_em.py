"""EM on scalar priors: run to the end, it finds the hyper-parameters that the data came from.

N = 20,000 coordinates, seed 0, each seen as B = A x + sqrt(A) noise. Tolerances are five times the
standard error 1/sqrt(N) of the parameter, were the data complete, times at most 3 for what noise
hides.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pytest

from miniamp import priors
from miniamp.arrays import Array
from miniamp.priors import ScalarPrior

N = 20_000
LOOSE = 15.0 / np.sqrt(N)
P = TypeVar("P", bound=ScalarPrior)


def seen(truth: ScalarPrior, A: float) -> tuple[float, Array]:
    rng = np.random.default_rng(0)
    return A, A * truth.sample(rng, N) + np.sqrt(A) * rng.normal(size=N)


def learned(start: P, tilt: tuple[float, Array], steps: int = 60, fixed: tuple[str, ...] = ()) -> P:
    for _ in range(steps):
        start = start.fitted(*tilt, fixed=fixed)
    return start


def test_gaussian() -> None:
    found = learned(priors.Gaussian(), seen(priors.Gaussian(1.0, 0.5), 10.0))
    assert found.mean == pytest.approx(1.0, abs=LOOSE)
    assert found.var == pytest.approx(0.5, rel=LOOSE)


def test_gauss_bernoulli() -> None:
    tilt = seen(priors.GaussBernoulli(0.2, 0.5, 2.0), 30.0)
    found = learned(priors.GaussBernoulli(0.5, 0.0, 1.0), tilt)
    assert found.rho == pytest.approx(0.2, abs=LOOSE)
    assert found.mean == pytest.approx(0.5, abs=2.0 * LOOSE)
    assert found.var == pytest.approx(2.0, rel=2.0 * LOOSE)


def test_what_is_held_stays_and_the_rest_is_learned_about_it() -> None:
    tilt = seen(priors.GaussBernoulli(0.2, 0.5, 2.0), 30.0)
    found = learned(priors.GaussBernoulli(0.5, 0.0, 1.0), tilt, fixed=("mean",))
    assert found.mean == 0.0
    # About a mean held at 0 the slab's second moment is var + mean^2.
    assert found.var == pytest.approx(2.25, rel=3.0 * LOOSE)


def test_rademacher() -> None:
    found = learned(priors.Rademacher(0.5), seen(priors.Rademacher(0.8), 2.0))
    assert found.p == pytest.approx(0.8, abs=LOOSE)


def test_discrete() -> None:
    truth = priors.Discrete([-1.0, 0.0, 3.0], [0.2, 0.7, 0.1])
    found = learned(priors.Discrete([-1.0, 0.0, 3.0]), seen(truth, 10.0))
    np.testing.assert_allclose(found.weights, truth.weights, atol=LOOSE)
    np.testing.assert_array_equal(found.points, truth.points)


def test_laplace() -> None:
    found = learned(priors.Laplace(2.0), seen(priors.Laplace(0.5), 10.0))
    assert found.scale == pytest.approx(0.5, rel=LOOSE)


def test_non_negative_gaussian() -> None:
    found = learned(
        priors.NonNegativeGaussian(0.0, 1.0), seen(priors.NonNegativeGaussian(2.0, 0.8), 20.0)
    )
    assert found.mean == pytest.approx(2.0, abs=LOOSE)
    assert found.var == pytest.approx(0.8, rel=LOOSE)


def test_sparse_non_negative() -> None:
    tilt = seen(priors.SparseNonNegative(0.3, 0.0, 2.0), 100.0)
    found = learned(priors.SparseNonNegative(0.6, 0.0, 0.5), tilt, 100, fixed=("mean",))
    assert found.rho == pytest.approx(0.3, abs=LOOSE)
    assert found.var == pytest.approx(2.0, rel=2.0 * LOOSE)


def test_gaussian_mixture() -> None:
    truth = priors.GaussianMixture([0.6, 0.4], [-1.0, 2.0], [0.2, 0.5])
    start = priors.GaussianMixture([0.5, 0.5], [-0.5, 0.5], [1.0, 1.0])
    found = learned(start, seen(truth, 20.0), 200)
    np.testing.assert_allclose(found.weights, truth.weights, atol=LOOSE)
    np.testing.assert_allclose(found.means, truth.means, atol=LOOSE)
    np.testing.assert_allclose(found.vars, truth.vars, rtol=3.0 * LOOSE)


def test_a_spike_in_a_mixture_stays_a_spike() -> None:
    start = priors.GaussianMixture([0.5, 0.5], [0.3, 0.0], [0.0, 1.0])
    found = learned(start, seen(priors.Gaussian(0.0, 2.0), 20.0), 5)
    assert found.means[0] == 0.3
    assert found.vars[0] == 0.0
    assert found.vars[1] > 1.0


def test_an_empty_component_keeps_its_place() -> None:
    start = priors.GaussianMixture([1.0, 0.0], [0.0, 5.0], [1.0, 2.0])
    found = start.fitted(*seen(priors.Gaussian(), 5.0))
    assert (found.means[1], found.vars[1], found.weights[1]) == (5.0, 2.0, 0.0)


def test_what_is_one_a_coordinate_stays_while_the_shared_is_learned() -> None:
    rng = np.random.default_rng(1)
    mean = rng.normal(size=N)
    A, B = seen(priors.Gaussian(mean, 0.3), 10.0)
    for start in (
        priors.Gaussian(mean, 1.0),
        priors.GaussBernoulli(1.0, mean, 1.0),
        priors.GaussianMixture([1.0], mean[:, None], [1.0]),
    ):
        found = learned(start, (A, B), 40)
        variance = np.ravel(found.parameters()[found.names[-1]])
        assert variance == pytest.approx(0.3, rel=LOOSE)
        np.testing.assert_array_equal(np.ravel(found.parameters()[found.names[-2]]), mean)


def test_without_data_nothing_changes() -> None:
    for prior in (
        priors.Gaussian(0.3, 2.0),
        priors.GaussBernoulli(0.2, 0.3, 2.0),
        priors.Laplace(0.7),
        priors.NonNegativeGaussian(0.4, 2.0),
        priors.SparseNonNegative(0.2, 0.4, 2.0),
        priors.Discrete([0.0, 1.0], [0.3, 0.7]),
        priors.GaussianMixture([0.3, 0.7], [0.0, 1.0], [1.0, 2.0]),
        priors.Rademacher(0.3),
    ):
        found = prior.fitted(0.0, np.zeros(5))
        for name, value in prior.parameters().items():
            np.testing.assert_allclose(getattr(found, name), value, rtol=1e-6)


def test_rho_does_not_die_where_nothing_is_included() -> None:
    found = priors.GaussBernoulli(1e-300).fitted(1e14, np.zeros(10))
    assert found.rho > 0.0
    assert found.var > 0.0
