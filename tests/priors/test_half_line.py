"""The normal cut to the half line, against 60 digits."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from miniamp.numerics.normal import half_line_moments, log_scaled_mass, sample_half_line
from miniamp.priors import NonNegativeGaussian

PLACES = [-1e8, -1e5, -300.0, -30.0, -5.0, -3.01, -3.0, -2.99, -1.0, 0.0, 1.0, 8.0, 40.0, 1e6]


@pytest.mark.parametrize("u", PLACES)
def test_mass_and_moments_keep_all_digits(u: float) -> None:
    with mp.workdps(80):
        exact = mp.mpf(u)
        log_mass = mp.log(mp.ncdf(exact)) + exact**2 / 2
        hazard = mp.npdf(exact) / mp.ncdf(exact)
        exact_mean, exact_var = exact + hazard, 1 - hazard * (hazard + exact)
        mean, var = half_line_moments(u)
        assert abs(log_scaled_mass(u) - log_mass) <= 1e-13 * (1 + abs(log_mass))
        assert abs(mean / exact_mean - 1) < 1e-13
        assert abs(var / exact_var - 1) < 1e-12


def test_far_in_the_tail_the_variance_is_that_of_an_exponential() -> None:
    u = -np.geomspace(1e4, 1e8, 9)
    mean, var = half_line_moments(u)
    np.testing.assert_allclose(mean, -1.0 / u, rtol=3e-8)
    np.testing.assert_allclose(var, 1.0 / u**2, rtol=6e-8)


@pytest.mark.parametrize("u", [-1e8, -50.0, -5.01, -4.99, -1.0, 0.0, 3.0, 50.0])
def test_draws_have_the_moments_and_the_sign(u: float) -> None:
    """n = 40,000, seed 0: five standard errors."""
    n = 40_000
    draws = sample_half_line(np.random.default_rng(0), np.full(n, u))
    mean, var = half_line_moments(u)
    assert draws.min() >= 0.0
    assert abs(draws.mean() - mean) < 5.0 * np.sqrt(var / n)
    # The fourth central moment of a cut normal is at most that of an exponential: 9 var^2.
    assert abs(draws.var() - var) < 5.0 * var * np.sqrt(8.0 / n)


def fit_half_line(
    mean: np.ndarray, var: np.ndarray, first: np.ndarray, second: np.ndarray, *more: object
) -> tuple[np.ndarray, np.ndarray]:
    """From E x and E x^2 instead of mean and variance."""
    return NonNegativeGaussian(mean, var).refitted(first, second - first**2, *more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("mean", "var"), [(0.0, 1.0), (3.0, 0.5), (-4.0, 2.0), (1e3, 1.0)])
def test_the_fit_finds_the_normal_whose_moments_it_is_given(mean: float, var: float) -> None:
    width = np.sqrt(var)
    first, spread = half_line_moments(mean / width)
    first, second = width * first, var * (spread + first**2)
    arguments = np.array([first]), np.array([second]), np.ones(1)
    start = np.asarray(mean + 0.3), np.asarray(1.7 * var)
    both = fit_half_line(*start, *arguments, frozenset({"mean", "var"}))
    np.testing.assert_allclose(both, (mean, var), rtol=1e-5, atol=1e-8)
    only_var = fit_half_line(np.asarray(mean), start[1], *arguments, frozenset({"var"}))
    np.testing.assert_allclose(only_var, (mean, var), rtol=1e-5)
    only_mean = fit_half_line(start[0], np.asarray(var), *arguments, frozenset({"mean"}))
    np.testing.assert_allclose(only_mean, (mean, var), rtol=1e-5, atol=1e-5)


def test_the_fit_stops_on_the_way_to_an_exponential() -> None:
    """E x^2 = 3 (E x)^2 is wider than any cut normal; the best is bounded, not infinite."""
    free = frozenset({"mean", "var"})
    mean, var = fit_half_line(
        np.asarray(0.0), np.asarray(1.0), np.array([1.0]), np.array([3.0]), np.ones(1), free
    )
    assert np.isfinite([mean, var]).all()
    assert mean / np.sqrt(var) == pytest.approx(-20.0)


def test_without_weight_the_fit_changes_nothing() -> None:
    old = np.asarray(0.5), np.asarray(2.0)
    found = fit_half_line(*old, np.ones(3), np.ones(3), np.zeros(3), frozenset({"mean", "var"}))
    assert found == old
