import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from miniamp import Posterior, Tilt, errors, priors

N = 4
RHO, A = 0.3, np.array([0.0, 0.5, 3.0, 20.0])
B = np.array([0.7, -1.0, 4.0, 0.3])


@pytest.fixture
def belief():
    return Posterior(priors.GaussBernoulli(rho=RHO), N).tilted(Tilt(A, B))


def by_quadrature(a, b, power):
    """Integral of x^power over the tilted spike and slab, by brute force."""
    slab = quad(lambda x: x**power * norm.pdf(x) * np.exp(-a * x**2 / 2 + b * x), -20, 20)[0]
    return RHO * slab + (1 - RHO) * (power == 0)


@pytest.mark.parametrize("i", range(N))
def test_moments_are_those_of_the_tilted_prior(belief, i):
    Z, first, second = (by_quadrature(A[i], B[i], p) for p in range(3))
    assert belief.mean[i] == pytest.approx(first / Z, rel=1e-7)
    assert belief.var[i] == pytest.approx(second / Z - (first / Z) ** 2, rel=1e-7)


def test_log_partition_sums_over_the_coefficients(belief):
    expected = sum(np.log(by_quadrature(a, b, 0)) for a, b in zip(A, B, strict=True))
    assert belief.log_partition() == pytest.approx(expected, rel=1e-8)


def test_no_data_is_the_prior():
    belief = Posterior(priors.Gaussian(mean=[1.0, 2.0], var=[3.0, 4.0]), 2)
    np.testing.assert_array_equal(belief.mean, [1.0, 2.0])
    np.testing.assert_array_equal(belief.var, [3.0, 4.0])
    assert belief.log_partition() == 0.0


def test_samples_agree_with_the_moments(belief, rng):
    draws = belief.sample(rng, size=40_000)
    assert draws.shape == (40_000, N)
    # Five standard errors: a false alarm once in a million runs, and the seed is fixed.
    standard_error = np.sqrt(belief.var / len(draws))
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - belief.mean), 5 * standard_error)
    np.testing.assert_allclose(draws.var(axis=0), belief.var, rtol=0.06)


def test_one_sample_is_one_vector(belief, rng):
    assert belief.sample(rng).shape == (N,)


def test_a_seed_in_place_of_a_generator(belief):
    expected = belief.sample(np.random.default_rng(3), 2)
    np.testing.assert_array_equal(belief.sample(3, 2), expected)
    with pytest.raises(errors.InvalidTypeError, match=r"^rng: "):
        belief.sample("three")


def test_tilting_gives_a_new_belief_and_leaves_the_old(belief):
    mean, tilt = belief.mean.copy(), belief.tilt
    new = belief.tilted(Tilt(np.ones(N), np.ones(N)))
    assert new is not belief
    assert belief.tilt is tilt
    np.testing.assert_array_equal(belief.mean, mean)
    np.testing.assert_array_equal(new.tilt.A, A + 1.0)
    assert np.all(new.mean != mean)
    assert (new.prior, new.size) == (belief.prior, belief.size)


@pytest.mark.parametrize("name", ["tilt", "prior", "size", "mean", "anything"])
def test_a_belief_is_frozen(belief, name):
    with pytest.raises(AttributeError):
        setattr(belief, name, None)


def test_moments_are_computed_once(belief):
    assert belief.moments is belief.moments


def test_size_one_works():
    assert Posterior(priors.Rademacher(), 1).mean.shape == (1,)


@pytest.mark.parametrize("size", [0, -3])
def test_no_belief_about_nothing(size):
    with pytest.raises(errors.InvalidInputError, match=r"^size: .*expected a whole number >= 1"):
        Posterior(priors.Gaussian(), size)


@pytest.mark.parametrize("size", [2.5, "three", None])
def test_size_is_a_whole_number(size):
    with pytest.raises(errors.InvalidTypeError, match=r"^size: "):
        Posterior(priors.Gaussian(), size)


def test_hyper_parameters_must_fit_the_size():
    with pytest.raises(errors.InvalidInputError, match=r"^prior: .*\(3,\).*5 coefficients"):
        Posterior(priors.Gaussian(var=[1.0, 2.0, 3.0]), 5)


def test_a_prior_is_needed():
    with pytest.raises(errors.InvalidTypeError, match=r"^prior: "):
        Posterior("gaussian", 3)
