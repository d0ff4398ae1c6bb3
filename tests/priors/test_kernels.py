"""The compiled moments say what the plain ones say."""

from __future__ import annotations

import numpy as np
import pytest

from miniamp import Posterior, evidence, priors
from miniamp.channels import Gaussian
from miniamp.priors import kernels

EACH = np.linspace(0.1, 0.9, 400)
PRIORS = [
    priors.Gaussian(mean=0.3, var=2.0),
    priors.Gaussian(mean=EACH, var=EACH),
    priors.GaussBernoulli(rho=0.3, mean=-0.4, var=2.0),
    priors.GaussBernoulli(rho=1.0),
    priors.GaussBernoulli(rho=EACH, mean=1.0 - EACH, var=EACH),
    priors.Rademacher(),
    priors.Rademacher(p=EACH),
    priors.Rademacher(p=1.0),
]


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_compiled_moments_equal_plain_ones(prior, rng):
    """One row that says nothing, of a belief that has seen much: the loop returns its moments."""
    size = len(EACH)
    A = 10.0 ** rng.uniform(-8.0, 14.0, size)
    B = rng.normal(size=size) * np.sqrt(A) * 10.0 ** rng.uniform(-3.0, 6.0, size)
    out = compiled_moments(prior, A, B)
    for ours, plain in zip(out, prior.moments(A, B), strict=True):
        # The exponent B^2/A reaches 1e12, and its rounding is that of the probability.
        np.testing.assert_allclose(ours, plain, rtol=1e-3, atol=1e-15)
    gentle = np.abs(B) < 30.0 * np.sqrt(A)
    for ours, plain in zip(out, prior.moments(A, B), strict=True):
        np.testing.assert_allclose(ours[gentle], plain[gentle], rtol=1e-12, atol=1e-15)


def compiled_moments(prior, A, B):
    from miniamp.designs import dense_kernels
    from miniamp.kernel import read_only

    size = len(A)
    kernel = prior.kernel(size)
    mean, var = np.zeros(size), np.ones(size)
    channel = Gaussian(var=1.0).kernel()
    dense_kernels.online(
        read_only(np.zeros((1, size))), read_only(np.zeros(1)), channel.parameters,
        channel.address, kernel.parameters, kernel.address, A.copy(), B.copy(), mean, var,
        *np.empty((4, 1)),
    )  # fmt: skip
    return mean, var


def test_the_exponential_is_right_to_the_last_bit_but_one():
    """Against extended precision; zero once the result is no longer a normal number."""
    t = np.concatenate([np.linspace(0.0, 40.0, 40001), np.linspace(40.0, 708.0, 20001)])
    exact = np.exp(-t.astype(np.longdouble)).astype(np.float64)
    ours = np.array([kernels.exp_minus(one) for one in t])
    np.testing.assert_allclose(ours, exact, rtol=2.0 * np.finfo(np.float64).eps)
    assert [kernels.exp_minus(one) for one in (0.0, 709.0, 1e300, np.inf)] == [1.0, 0.0, 0.0, 0.0]
    assert np.isnan(kernels.exp_minus(np.nan))


def test_a_prior_without_a_kernel_is_served_by_numpy(rng):
    prior = priors.Laplace()
    assert prior.kernel(3) is None
    Phi, y = rng.normal(size=(5, 3)), rng.normal(size=5)
    belief, _ = evidence.adf(Posterior(prior, 3), Phi, y, Gaussian(var=0.1))
    assert np.isfinite(belief.mean).all()
