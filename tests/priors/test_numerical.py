"""The numerical prior: densities of every kind, sharp and weak tilts, and its speed."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from miniamp import priors


def tilts(x: np.ndarray) -> list[tuple[float, np.ndarray]]:
    return [(A, A * x + np.sqrt(A) * np.cos(7.0 * x)) for A in (1e-6, 0.1, 10.0, 1e4, 1e9, 1e14)]


@pytest.mark.parametrize(
    ("numerical", "exact"),
    [
        (
            priors.Numerical(lambda x: 3.0 - 0.5 * np.square(x - 1e3) / 1e-6),
            priors.Gaussian(1e3, 1e-6),
        ),
        (priors.Numerical(lambda x: -0.5 * np.square(x) / 1e12), priors.Gaussian(0.0, 1e12)),
        (
            priors.Numerical(
                lambda x: np.logaddexp(
                    -0.5 * np.square(x + 4.0) / 0.25, -0.5 * np.square(x - 5.0) / 0.01 + np.log(5.0)
                )
            ),
            priors.GaussianMixture([0.5, 0.5], [-4.0, 5.0], [0.25, 0.01]),
        ),
        (
            priors.Numerical(lambda x: -0.5 * np.square(x - 6.0), support=(0.0, np.inf)),
            priors.NonNegativeGaussian(6.0, 1.0),
        ),
    ],
    ids=["narrow and far", "wide", "two peaks", "half line"],
)
def test_equals_the_closed_form(numerical: priors.Numerical, exact: priors.ScalarPrior) -> None:
    for A, B in tilts(exact.sample(np.random.default_rng(1), 50)):
        mean, var = numerical.moments(A, B)
        exact_mean, exact_var = exact.moments(A, B)
        slack = 1e-9 * np.sqrt(exact_var) + 1e-14 * np.abs(exact_mean)
        assert np.all(np.abs(mean - exact_mean) <= slack)
        np.testing.assert_allclose(var, exact_var, rtol=1e-9)
        np.testing.assert_allclose(
            numerical.log_partition(A, B), exact.log_partition(A, B), rtol=1e-11, atol=1e-9
        )


DENSITIES = {
    "uniform": (lambda x: np.zeros(np.shape(x)), (-1.0, 2.0), stats.uniform(-1.0, 3.0)),
    "beta": (
        lambda x: -0.5 * np.log(x) + 2.0 * np.log1p(-x),
        (0.0, 1.0),
        stats.beta(0.5, 3.0),
    ),
    "gamma": (lambda x: 2.0 * np.log(x) - x, (0.0, np.inf), stats.gamma(3.0)),
    "student": (
        lambda x: -3.0 * np.log1p(np.square(x) / 5.0),
        (-np.inf, np.inf),
        stats.t(5.0),
    ),
    "logistic": (
        lambda x: -np.abs(x) - 2.0 * np.log1p(np.exp(-np.abs(x))),
        (-np.inf, np.inf),
        stats.logistic(),
    ),
}


@pytest.mark.parametrize("name", DENSITIES)
def test_without_a_tilt_it_is_the_distribution_itself(name: str) -> None:
    log_density, support, known = DENSITIES[name]
    prior = priors.Numerical(log_density, support)
    mean, var = prior.moments(0.0, 0.0)
    assert prior.log_partition(0.0, 0.0) == pytest.approx(0.0, abs=1e-12)
    assert mean == pytest.approx(known.mean(), abs=1e-8)
    assert var == pytest.approx(known.var(), rel=1e-7)
    # n = 10,000: the Kolmogorov-Smirnov distance exceeds 2/sqrt(n) once in 1,500 times.
    draws = prior.sample(np.random.default_rng(3), 10_000)
    assert stats.kstest(draws, known.cdf).statistic < 0.02


def quartic(x: mp.mpf, A: float, B: float) -> mp.mpf:
    return -(x**4) - A * x**2 / 2 + B * x


def test_quartic_against_thirty_digits() -> None:
    prior = priors.Numerical(lambda x: -(x**4))
    with mp.workdps(30):
        for A, B in ((0.0, 0.0), (0.0, 50.0), (2.0, -3.0), (1e3, 2e2), (1e8, 1e8)):
            peak = float(prior.moments(A, B)[0])
            width = 1.0 / np.sqrt(A + 12.0 * peak**2 + 1.0)
            cuts = [peak + k * width for k in (-40, -15, -8, -4, -2, 0, 2, 4, 8, 15, 40)]

            shift = quartic(mp.mpf(peak), A, B)
            powers = [
                mp.quad(
                    lambda x, k=k, A=A, B=B, peak=peak, shift=shift: (
                        (x - peak) ** k * mp.exp(quartic(x, A, B) - shift)
                    ),
                    cuts,
                )
                for k in range(3)
            ]
            mass = powers[0]
            exact_mean = peak + powers[1] / mass
            exact_var = powers[2] / mass - (powers[1] / mass) ** 2
            log_norm = mp.log(2 * mp.gamma(mp.mpf(5) / 4))
            mean, var = prior.moments(A, B)
            assert abs(mean - exact_mean) < 1e-10 * mp.sqrt(exact_var) + 1e-15 * abs(exact_mean)
            assert abs(var / exact_var - 1) < 1e-10
            exact_log = shift + mp.log(mass) - log_norm
            assert abs(prior.log_partition(A, B) - exact_log) < 1e-12 * (1 + abs(exact_log))


def test_a_kink_that_is_not_named_costs_little() -> None:
    plain = priors.Numerical(lambda x: -np.abs(x - 0.3))
    named = priors.Numerical(lambda x: -np.abs(x - 0.3), breakpoints=[0.3])
    B = np.linspace(-3.0, 3.0, 41)
    for A in (0.5, 50.0, 5e5):
        for one, other in zip(plain.moments(A, A * B), named.moments(A, A * B), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9 / np.sqrt(A))


def test_tails_that_are_too_heavy_are_said_to_be_infinite() -> None:
    cauchy = priors.Numerical(lambda x: -np.log1p(np.square(x)))
    assert cauchy.log_partition(0.0, 0.0) == pytest.approx(0.0, abs=1e-10)
    assert np.isposinf(cauchy.moments(0.0, 0.0)[1])
    assert cauchy.moments(1.0, 0.0)[1] < 1.0
    laplace = priors.Numerical(lambda x: -np.abs(x), breakpoints=[0.0])
    assert np.isposinf(laplace.log_partition(0.0, 1.5))
    assert laplace.moments(0.0, -1.5) == (-np.inf, np.inf)


def test_an_undeclared_support_is_found() -> None:
    """Where the formula is not a number there is no mass."""
    found = priors.Numerical(lambda x: np.log(1.0 - np.square(x)))
    assert found.moments(0.0, 0.0)[1] == pytest.approx(0.2, rel=1e-8)


def test_fitted_returns_itself() -> None:
    prior = priors.Numerical(lambda x: -(x**4))
    assert prior.fitted(1.0, np.zeros(3)) is prior


def test_a_coordinate_costs_a_bounded_number_of_evaluations() -> None:
    """Vectorised: few calls of the user's formula, and a bounded number of points a coordinate."""
    calls: list[int] = []

    def log_density(x: np.ndarray) -> np.ndarray:
        calls.append(np.size(x))
        return -np.abs(x) / 0.7

    prior = priors.Numerical(log_density, breakpoints=[0.0])
    x = np.random.default_rng(0).normal(size=2000)
    for A in (1.0, 1e4):
        calls.clear()
        prior.moments(A, A * x)
        assert len(calls) < 300
        assert sum(calls) < 1000 * x.size
