"""Models of one stream, weighted by their forecasts or their evidence."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax

from miniamp import Posterior, channels, priors
from miniamp.datasets import glm_stream
from miniamp.errors import InvalidInputError
from miniamp.learning import Model
from miniamp.model_average import ModelAverage

N = 80


def two(channel, memory=0):
    kinds = (priors.Gaussian(), priors.GaussBernoulli(0.1))
    return ModelAverage([Model(Posterior(prior, N, memory=memory), channel) for prior in kinds])


@pytest.mark.parametrize(("rho", "winner"), [(0.05, 1), (1.0, 0)])
def test_the_model_that_is_right_wins(rho, winner):
    # N = 80, seed 0; a Gauss-Bernoulli prior with rho = 1 is the Gaussian and can at best draw.
    channel = channels.Gaussian(1e-2)
    average = two(channels.Gaussian())
    for Phi, y in glm_stream(priors.GaussBernoulli(rho), channel, N, 0.5, 5, 0):
        average = average.learned(Phi, y, fixed=("mean",))
    assert average.weights.sum() == pytest.approx(1.0)
    assert average.scores[winner] > average.scores[1 - winner] - 1.0
    if winner == 1:
        assert average.weights[1] > 0.99
        assert average.best is average.models[1]


def test_the_average_is_no_worse_than_the_best_by_more_than_a_bit():
    channel = channels.Logistic()
    problem = glm_stream(priors.GaussBernoulli(0.2, var=30.0), channel, N, 0.5, 8, 1)
    average, loss, rows = two(channel), 0.0, 0
    for k, (Phi, y) in enumerate(problem):
        if k:
            chance = (1.0 + y * average.forecast(Phi)[0]) / 2.0
            loss, rows = loss - np.sum(np.log(chance)), rows + len(y)
        average = average.learned(Phi, y, fixed=("mean",))
    # Rows of a batch are weighted alike, so that the bound log 2 holds up to what a batch decides.
    assert loss < -max(average.scores) + np.log(2.0) + 1.0
    assert rows == 7 * 40


def test_forecasts_are_those_of_the_mixture(rng):
    average = two(channels.Gaussian())
    Phi = rng.normal(size=(40, N))
    average = average.learned(Phi, rng.normal(size=40))
    assert average.scores == (0.0, 0.0)  # a first batch sets the scale, and is not scored
    new = rng.normal(size=(3, N))
    (m0, v0), (m1, v1) = (model.forecast(new) for model in average.models)
    mean, var = average.forecast(new)
    np.testing.assert_allclose(mean, (m0 + m1) / 2.0)
    np.testing.assert_allclose(var, (v0 + v1) / 2.0 + np.square(m0 - m1) / 4.0)


def test_bad_rivals_are_refused_and_the_old_ones_stay(rng):
    with pytest.raises(InvalidInputError, match="models"):
        ModelAverage([])
    average = two(channels.Gaussian())
    with pytest.raises(InvalidInputError, match="scores"):
        ModelAverage(average.models, (0.0,))
    with pytest.raises(InvalidInputError, match="Phi"):
        average.learned(rng.normal(size=(4, N + 1)), np.ones(4))
    assert average.scores == (0.0, 0.0)


def gaussians(widths, size):
    beliefs = [Posterior(priors.Gaussian(var=width), size, memory=size) for width in widths]
    models = [Model(belief, channels.Gaussian(var=0.5)) for belief in beliefs]
    return ModelAverage(models, weigh_by="evidence")


@pytest.mark.parametrize("cut", [1, 3, 24])
def test_weights_by_evidence_are_the_posterior_probabilities_of_the_models(cut, rng):
    """Three widths of a Gaussian prior, 10 correlated columns, 24 rows, however they are cut."""
    widths, Phi = (0.5, 1.0, 2.0), rng.normal(size=(24, 10)) + 1.0
    y = Phi @ rng.normal(size=10) + np.sqrt(0.5) * rng.normal(size=24)
    average = gaussians(widths, 10)
    for k in range(0, 24, cut):
        part = slice(k, k + cut)
        average = average.learned(Phi[part], y[part], fixed=("mean", "var"), noise=False)
    laws = [stats.multivariate_normal(cov=w * Phi @ Phi.T + 0.5 * np.eye(24)) for w in widths]
    exact = softmax([law.logpdf(y) for law in laws])
    assert 0.01 < exact.max() < 0.99
    np.testing.assert_allclose(average.weights, exact, rtol=1e-8)


def test_evidence_finds_the_true_prior_on_a_stream_of_small_batches():
    """N = 80, 20 batches of 4 rows, seed 0, all hyper-parameters given."""
    channel, kinds = channels.Gaussian(1e-2), (priors.Gaussian(var=0.1), priors.GaussBernoulli(0.1))
    for true, prior in enumerate(kinds):
        models = [Model(Posterior(kind, N, memory=N), channel) for kind in kinds]
        average = ModelAverage(models, weigh_by="evidence")
        for Phi, y in glm_stream(prior, channel, N, 0.05, 20, 0):
            average = average.learned(Phi, y, fixed=("mean", "var", "rho"), noise=False)
        assert average.weights[true] > 0.99


def test_other_weights_are_refused():
    with pytest.raises(InvalidInputError, match="weigh_by"):
        ModelAverage(gaussians((1.0,), 2).models, weigh_by="luck")
