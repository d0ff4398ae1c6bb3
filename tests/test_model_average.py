"""Models of one stream, weighted by their forecasts."""

from __future__ import annotations

import numpy as np
import pytest

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
