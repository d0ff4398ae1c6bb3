"""Particular values and limits of the scalar priors with closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from miniamp import priors


def test_inclusion_probability_is_bayes_rule() -> None:
    A, B = 4.0, np.array([-3.0, 0.0, 2.0, 9.0])
    for prior in (
        priors.GaussBernoulli(0.2, 0.5, 2.0),
        priors.SparseNonNegative(0.2, 0.5, 2.0),
    ):
        slab = np.exp(prior.replaced(rho=1.0).log_partition(A, B))
        expected = 0.2 * slab / (0.2 * slab + 0.8)
        np.testing.assert_allclose(prior.inclusion_probability(A, B), expected, rtol=1e-13)


@pytest.mark.parametrize("prior", [priors.GaussBernoulli(1e-300), priors.GaussBernoulli(1.0)])
def test_inclusion_at_the_ends_of_rho(prior: priors.GaussBernoulli) -> None:
    A, B = 1.0, np.array([0.0, 1e3, 1e6])
    included = prior.inclusion_probability(A, B)
    expected = [1.0, 1.0, 1.0] if prior.rho == 1.0 else [7.1e-301, 1.0, 1.0]
    np.testing.assert_allclose(included, expected, rtol=0.01)
    assert np.all(prior.moments(A, B)[1] > 0.0)


def test_a_small_field_gives_a_small_rademacher_mean_to_all_digits() -> None:
    mean, _ = priors.Rademacher().moments(1.0, 1e-20)
    assert mean == pytest.approx(1e-20, rel=1e-15)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_a_certain_sign_stays_certain(p: float) -> None:
    prior = priors.Rademacher(p)
    mean, var = prior.moments(1.0, np.array([-1e6, 0.0, 1e6]))
    np.testing.assert_array_equal(mean, 2.0 * p - 1.0)
    np.testing.assert_array_equal(var, 0.0)
    assert np.all(prior.sample(np.random.default_rng(0), 9, 1.0, 0.0) == 2.0 * p - 1.0)


def test_discrete_signs_are_rademacher() -> None:
    A, B = 10.0, np.linspace(-20.0, 20.0, 21)
    points, signs = priors.Discrete([-1.0, 1.0], [0.3, 0.7]), priors.Rademacher(0.7)
    for one, other in zip(points.moments(A, B), signs.moments(A, B), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-16)


def test_discrete_keeps_the_small_difference_of_neighbours_under_a_sharp_tilt() -> None:
    """Halfway between two points the odds are even, though each term is 1e14."""
    prior = priors.Discrete([0.0, 1.0, 2.0])
    share = prior.probabilities(1e14, 1.5e14)
    np.testing.assert_allclose(share, [0.0, 0.5, 0.5], rtol=1e-15)


def test_mixture_with_a_spike_is_gauss_bernoulli() -> None:
    spike = priors.GaussianMixture([0.7, 0.3], [0.0, 0.5], [0.0, 2.0])
    slab = priors.GaussBernoulli(0.3, 0.5, 2.0)
    for A in (0.0, 1.0, 1e8):
        B = np.linspace(-3.0, 3.0, 13) * np.sqrt(max(A, 1.0))
        for one, other in zip(spike.moments(A, B), slab.moments(A, B), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-300)


def test_components_of_a_mixture_keep_their_odds_under_a_sharp_tilt() -> None:
    """B^2/2A = 5e13 is common to both; the odds at x = 1 are those of the densities there."""
    prior = priors.GaussianMixture([0.5, 0.5], [0.0, 1.0], [1.0, 4.0])
    share = prior.probabilities(1e14, 1e14)
    odds = np.exp(-0.5) / 0.5
    assert share[0] / share[1] == pytest.approx(odds, rel=1e-12)


def test_laplace_beyond_its_rate_is_infinite_without_precision() -> None:
    prior = priors.Laplace(0.5)
    assert np.isposinf(prior.log_partition(0.0, 2.0))
    assert prior.moments(0.0, -3.0) == (-np.inf, np.inf)
    assert prior.moments(0.0, 0.0)[1] == pytest.approx(0.5)


@pytest.mark.parametrize("A", [0.0, 1e-30, 1e-18, 1e-12])
def test_laplace_without_precision_is_two_exponentials(A: float) -> None:
    mean, var = priors.Laplace(1.0).moments(A, 0.5)
    # (1/(1-b) - 1/(1+b)) with weights 3/4 and 1/4 of the two sides.
    assert mean == pytest.approx(4.0 / 3.0, rel=1e-9)
    assert var == pytest.approx(2.0 * (1.0 + 0.25) / 0.75**2, rel=1e-9)


def test_non_negative_far_below_zero_is_an_exponential() -> None:
    mean, var = priors.NonNegativeGaussian().moments(1.0, -1e8)
    assert mean == pytest.approx(1e-8, rel=1e-12)
    assert var == pytest.approx(1e-16, rel=1e-12)


def test_per_coordinate_points() -> None:
    prior = priors.Discrete([[0.0, 1.0], [5.0, 6.0]], [0.5, 0.5])
    assert prior.shape == (2,)
    np.testing.assert_allclose(prior.moments(0.0, np.zeros(2))[0], [0.5, 5.5])
    np.testing.assert_allclose(prior.at(np.array([1]), 2).points, [5.0, 6.0])  # one set: shared
