"""The mutual information: exactly solvable cases, I-MMSE, and its relation to the free energy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad

from miniamp import channels, errors, priors, theory

RIDGE = priors.Gaussian()
SPARSE = priors.GaussBernoulli(rho=0.3)


def marchenko_pastur(alpha, var, lam):
    """I(x; y, r)/N for x ~ N(0, 1), y = Phi x + noise and r = lam x + N(0, lam), exactly."""
    low, high = (1 - np.sqrt(alpha)) ** 2, (1 + np.sqrt(alpha)) ** 2

    def density(angle):
        # eigenvalue = centre + radius cos(angle): the square-root edges are smooth in the angle.
        eigenvalue = (low + high) / 2 + (high - low) / 2 * np.cos(angle)
        spectrum = ((high - low) / 2 * np.sin(angle)) ** 2 / (2 * np.pi * eigenvalue)
        return spectrum * np.log1p(eigenvalue / (var * (1 + lam)))

    bulk = quad(density, 0, np.pi, epsabs=1e-13, epsrel=1e-13, limit=200)[0]
    return 0.5 * bulk + 0.5 * np.log1p(lam)


@pytest.mark.parametrize(
    ("alpha", "var", "lam"), [(0.5, 0.1, 0.0), (0.4, 0.2, 3.0), (2.0, 1.0, 0.0), (0.9, 1e-3, 1.0)]
)
def test_gaussian_model_is_marchenko_pastur(alpha, var, lam):
    (point,) = theory.fixed_points(RIDGE, channels.Gaussian(var), alpha, lam)
    assert_allclose(point.mutual_information, marchenko_pastur(alpha, var, lam), rtol=1e-12)


def test_numbers_of_the_errata():
    # As printed these are .8959 and .696 (errata A1, A2).
    (first,) = theory.fixed_points(RIDGE, channels.Gaussian(0.1), 0.5)
    (second,) = theory.fixed_points(RIDGE, channels.Gaussian(0.2), 0.4, lam=3.0)
    assert_allclose(first.mutual_information, 0.5415779092832449, rtol=1e-12)
    assert_allclose(second.mutual_information, 0.8433483923290392, rtol=1e-12)


def test_no_data_no_information():
    for lam in (0.0, 3.0):
        i = theory.mutual_information(RIDGE, channels.Gaussian(0.1), [0.1, 0.5], 0.0, lam)
        assert_allclose(i, 0.5 * np.log1p(lam), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("lam", [0.0, 2.0])
def test_i_mmse(lam):
    # d i/d(1/Delta) = (alpha/2) E/(1 + E/Delta) (errata A4).
    alpha, var, h = 0.6, 0.05, 1e-4

    def information(precision):
        (point,) = theory.fixed_points(SPARSE, channels.Gaussian(1.0 / precision), alpha, lam)
        return point.mutual_information, point.mse

    p = 1.0 / var
    slope = (information(p + h)[0] - information(p - h)[0]) / (2 * h)
    mse = information(p)[1]
    assert_allclose(slope, alpha / 2 * mse / (1 + mse / var), rtol=1e-6)


@pytest.mark.parametrize(
    ("prior", "channel"),
    [(SPARSE, channels.Gaussian(0.01)), (priors.Rademacher(0.3), channels.Probit(0.1)),
     (RIDGE, channels.Logistic())],
)  # fmt: skip
@pytest.mark.parametrize("lam", [0.0, 2.0])
def test_free_energy_is_stationary_and_gives_the_information(prior, channel, lam):
    alpha = 0.7
    (point,) = theory.fixed_points(prior, channel, alpha, lam)
    power = float(np.sum(np.square(prior.moments(0.0, 0.0)[0]) + prior.moments(0.0, 0.0)[1]))
    m, m_hat = power - point.mse, point.lam - lam

    def phi(a, b):
        return float(theory.free_energy(prior, channel, a, b, alpha, lam))

    h = 1e-6
    assert abs(phi(m + h, m_hat) - phi(m - h, m_hat)) / (2 * h) < 1e-6
    assert abs(phi(m, m_hat + h) - phi(m, m_hat - h)) / (2 * h) < 1e-6
    # phi - alpha H + lam E x^2/2 is the mutual information (errata A8).
    found = phi(m, m_hat) - alpha * conditional_entropy(channel, power) + lam * power / 2
    assert_allclose(found, point.mutual_information, rtol=1e-7)


def conditional_entropy(channel, power):
    """H[P(y | z)] over z ~ N(0, power)."""
    if isinstance(channel, channels.Gaussian):
        return 0.5 * np.log(2 * np.pi * np.e * float(channel.var))
    z = np.sqrt(power) * np.linspace(-9.0, 9.0, 1201)
    weights = np.exp(-z * z / (2 * power))
    p = channel.predict_proba(z, 0.0)
    entropy = np.sum(-p * np.log(np.maximum(p, 1e-300)), axis=-1)
    return float(weights @ entropy / weights.sum())


def test_landscape_has_two_minima_where_two_fixed_points_are_stable():
    channel = channels.Gaussian(1e-8)
    points = theory.fixed_points(SPARSE, channel, 0.4)
    assert [point.stable for point in points] == [True, False, True]
    for point, sign in zip(points, (1, -1, 1), strict=True):
        around = point.mse * np.array([0.9, 1.0, 1.1])
        left, middle, right = theory.mutual_information(SPARSE, channel, around, 0.4)
        assert sign * (left - middle) > 0
        assert sign * (right - middle) > 0


def test_shapes_and_refusals():
    channel = channels.Gaussian(0.1)
    assert theory.mutual_information(SPARSE, channel, np.full((2, 3), 0.1), 0.5).shape == (2, 3)
    assert theory.mutual_information(SPARSE, channel, 0.1, 0.5).shape == ()
    with pytest.raises(errors.InvalidInputError, match="mse"):
        theory.mutual_information(SPARSE, channel, 0.5, 0.5)
    with pytest.raises(errors.InvalidInputError, match="alpha"):
        theory.fixed_points(SPARSE, channel, -1.0)
