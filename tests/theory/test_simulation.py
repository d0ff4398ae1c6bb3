"""The algorithm meets its theory: Mini-AMP at N = 4000 against state evolution.

Truths are stratified (quantiles of the prior, shuffled), so that the fluctuation of |x|^2, which is
most of the deviation at finite N, is gone (errata E5); medians over seeds. What is left fluctuates
like 1/sqrt(N), with a factor of a few for the smaller number of rows and for the sensitivity of a
fixed point to its data: 4/sqrt(4000) = 6.3 %.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from miniamp import Posterior, Stop, channels, datasets, evidence, priors, stream, theory

N = 4000
SEEDS = (1, 2, 3)
TOLERANCE = 4.0 / np.sqrt(N)

PAIRS = [
    (priors.GaussBernoulli(rho=0.3), channels.Gaussian(var=0.01), 0.5),
    (priors.Gaussian(mean=0.2, var=0.5), channels.Gaussian(var=0.1), 0.5),
    (priors.Rademacher(p=0.5), channels.Probit(var=0.1), 0.5),
    (priors.Laplace(scale=0.7), channels.Gaussian(var=0.05), 0.5),
    (priors.Discrete([-1.0, 0.0, 1.0], [0.1, 0.8, 0.1]), channels.Gaussian(var=0.1), 0.4),
    (priors.Gaussian(), channels.Logistic(), 0.5),
    (priors.NonNegativeGaussian(mean=0.0, var=1.0), channels.StudentT(df=4.0, scale=0.3), 0.5),
    (priors.SparseNonNegative(rho=0.3), channels.Gaussian(var=0.01), 0.4),
    (priors.GaussBernoulli(rho=0.2), channels.Interval([-0.4, 0.4], var=0.01), 0.5),
    (priors.Gaussian(var=0.5), channels.Poisson(), 0.3),
]


def simulated(prior, channel, alpha_b, batches, stop, truth=None, true_channel=None):
    """Median errors of Mini-AMP after each batch."""
    truth = prior if truth is None else truth
    true_channel = channel if true_channel is None else true_channel
    runs = []
    for seed in SEEDS:
        problem = datasets.glm_stream(
            truth, true_channel, N, alpha_b, batches, rng=seed, stratified=True
        )
        rows = (evidence.Batch(Phi, y, channel) for Phi, y in problem)
        runs.append([problem.mse(b.mean) for b, _ in stream(Posterior(prior, N), rows, stop)])
    return np.median(runs, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize(("prior", "channel", "alpha_b"), PAIRS, ids=lambda x: repr(x)[:30])
def test_converged_batches(prior, channel, alpha_b):
    found = simulated(prior, channel, alpha_b, 2, Stop(max_iter=60, tol=1e-5))
    curve = theory.learning_curve(prior, channel, alpha_b, batches=2)
    assert_allclose(found, curve.mse, rtol=TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize(("prior", "channel", "alpha_b"), PAIRS[:4], ids=lambda x: repr(x)[:30])
def test_three_iterations_a_batch(prior, channel, alpha_b):
    found = simulated(prior, channel, alpha_b, 3, Stop(max_iter=3))
    curve = theory.learning_curve(prior, channel, alpha_b, batches=3, t_max=3)
    assert_allclose(found, curve.mse, rtol=TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prior", "channel", "truth", "true_channel"),
    [
        (priors.GaussBernoulli(rho=0.2), channels.Gaussian(0.01),
         priors.GaussBernoulli(rho=0.3), channels.Gaussian(0.01)),
        (priors.Laplace(scale=1.0), channels.Gaussian(0.1),
         priors.GaussBernoulli(rho=0.3), channels.Gaussian(0.02)),
        (priors.Gaussian(), channels.Probit(0.5), priors.Rademacher(), channels.Logistic()),
    ],
    ids=["prior", "prior and noise", "prior and channel"],
)  # fmt: skip
def test_mismatched(prior, channel, truth, true_channel):
    stop = Stop(max_iter=60, tol=1e-5)
    found = simulated(prior, channel, 0.5, 2, stop, truth, true_channel)
    curve = theory.learning_curve(
        prior, channel, 0.5, batches=2, truth=truth, true_channel=true_channel
    )
    assert_allclose(found, curve.mse, rtol=0.05)
