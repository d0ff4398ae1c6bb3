"""The scalar channel: exact where it can be, and the generic path against high precision."""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

from miniamp import errors, priors
from miniamp.theory.scalar import ScalarChannel, field_rule, scalar_channel

MIXTURES = [
    priors.Gaussian(mean=0.3, var=2.0),
    priors.GaussBernoulli(rho=0.3),
    priors.GaussBernoulli(rho=0.05, mean=2.0, var=0.01),
    priors.GaussBernoulli(rho=0.9, mean=-0.5, var=3.0),
    priors.Rademacher(p=0.2),
    priors.Discrete(points=[-1.0, 0.0, 2.0], weights=[0.2, 0.5, 0.3]),
    priors.GaussianMixture(weights=[0.5, 0.3, 0.2], means=[0.0, -1.0, 2.0], vars=[0.0, 0.5, 0.1]),
]


def unmixed(prior):
    """The same channel by the generic path."""
    channel = ScalarChannel(prior)
    kind = type("Opaque", (type(prior),), {"components": lambda self: None})
    return ScalarChannel(kind(**prior.parameters())), channel


@pytest.mark.parametrize("prior", MIXTURES, ids=repr)
def test_the_two_paths_agree(prior):
    generic, special = unmixed(prior)
    # Errors below 1e-10 of a discrete prior lie where its points are 16 noise scales apart.
    lam = np.logspace(-3, 1.5 if special.decay() else 12, 12) / special.variance
    assert_allclose(generic.mmse(lam), special.mmse(lam), rtol=1e-9)
    assert_allclose(generic.information(lam), special.information(lam), rtol=1e-9)


@pytest.mark.parametrize("lam", [0.1, 30.0])
def test_laplace_against_high_precision(lam):
    mpmath.mp.dps = 25
    root = mpmath.sqrt(lam)

    def half(c):
        """Integral over x > 0 of exp(-lam x^2/2 + c x)/2."""
        scale = mpmath.sqrt(2 * lam)
        return (
            mpmath.sqrt(mpmath.pi)
            / (2 * scale)
            * mpmath.exp((c / scale) ** 2)
            * mpmath.erfc(-c / scale)
        )

    def log_partition(b):
        return mpmath.log(half(b - 1) + half(-b - 1))

    def integrand(u):
        variance = mpmath.diff(log_partition, root * u, 2)
        return mpmath.npdf(u) * mpmath.exp(log_partition(root * u)) * variance

    far = 14 + 30 * float(root)
    exact = 2 * mpmath.quad(
        integrand, [0, 2, 6, 14, far / 4, far], method="gauss-legendre", maxdegree=4
    )
    assert_allclose(float(scalar_channel(LAPLACE).mmse(lam)), float(exact), rtol=1e-7)


LAPLACE = priors.Laplace(scale=1.0)


def test_a_numerical_prior_agrees_with_its_closed_form():
    generic = ScalarChannel(priors.Numerical(lambda x: -np.abs(x), breakpoints=[0.0]))
    for lam in (0.5, 20.0, 1e6):
        expected = scalar_channel(LAPLACE)._integrated(lam)
        assert_allclose(np.exp(generic._integrated(lam)), np.exp(expected), rtol=1e-9)


def test_sparse_at_extreme_precision():
    # epsilon -> rho/lambda, with a correction of order sqrt(log lambda/lambda).
    channel = scalar_channel(priors.GaussBernoulli(rho=0.3))
    assert_allclose(1e28 * channel.mmse(1e28), 0.3, rtol=1e-11)
    assert channel.dimension() == pytest.approx(0.3, rel=1e-15)


def test_entropy_is_the_information_of_a_perfect_observation():
    weights = np.array([0.2, 0.5, 0.3])
    channel = scalar_channel(priors.Discrete(points=[-1.0, 0.0, 2.0], weights=weights))
    assert_allclose(channel.information(np.inf), -weights @ np.log(weights), rtol=1e-11)
    assert channel.mmse(np.inf) == 0.0


def test_mmse_of_two_points_far_apart_by_its_asymptotics():
    # epsilon of +-1 is sqrt(pi/(2 lambda)) pi exp(-lambda/2) (1 + O(1/lambda)) at lambda = 400.
    lam = 400.0
    exact = float(
        mpmath.exp(-lam / 2)
        / mpmath.sqrt(2 * mpmath.pi)
        * mpmath.quad(lambda u: mpmath.exp(-u * u / 2) / mpmath.cosh(20 * u), [-3, -0.5, 0, 0.5, 3])
    )
    assert_allclose(scalar_channel(priors.Rademacher()).mmse(lam), exact, rtol=1e-10)


@pytest.mark.parametrize("prior", [*MIXTURES, LAPLACE], ids=repr)
def test_i_mmse(prior):
    channel = scalar_channel(prior)
    lam, h = 1.7, 1e-4
    slope = (channel.information(lam + h) - channel.information(lam - h)) / (2 * h)
    assert_allclose(slope, channel.mmse(lam) / 2, rtol=1e-7)


@pytest.mark.parametrize("lam", [0.5, 20.0])
def test_information_from_the_log_partition(lam):
    prior = priors.GaussBernoulli(rho=0.2, mean=0.5, var=2.0)
    u, weights = field_rule(prior, lam, prior.landmarks())
    direct = lam * 0.45 / 2 - weights @ prior.log_partition(lam, np.sqrt(lam) * u)
    assert_allclose(scalar_channel(prior).information(lam), direct, rtol=1e-11)


def test_refuses_what_it_cannot_describe():
    with pytest.raises(errors.InvalidInputError, match="scalar prior"):
        scalar_channel("sparse")
    with pytest.raises(errors.InvalidInputError, match="shared"):
        scalar_channel(priors.Gaussian(var=[1.0, 2.0]))
    with pytest.raises(errors.InvalidInputError, match="variance is 0"):
        scalar_channel(priors.Rademacher(p=1.0))
    cauchy = priors.Numerical(lambda x: -np.log1p(np.square(x)))
    with pytest.raises(errors.InvalidInputError, match=r"variance is inf.* tails fall off faster"):
        scalar_channel(cauchy)
