"""A likelihood written by hand gives what the channel with formulas of its own gives."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gammaln, log_expit

from miniamp import channels
from miniamp.errors import InvalidInputError, InvalidTypeError

TWINS = {
    "logistic": (
        channels.Numerical(lambda y, z: log_expit(y * z), support=[-1, 1]),
        channels.Logistic(),
    ),
    "counts": (
        channels.Numerical(lambda y, z: y * z - np.exp(z) - gammaln(y + 1.0), support="counts"),
        channels.Poisson(),
    ),
    "sharp": (
        channels.Numerical(
            lambda y, z: -0.5 * (np.log(2e-4 * np.pi) + np.square(y - z) / 1e-4), scale=0.01
        ),
        channels.Gaussian(var=1e-4),
    ),
    "jump": (
        channels.Numerical(lambda y, z: np.where(y * z >= 0, 0.0, -np.inf), support=[-1, 1]),
        channels.Probit(var=0.0),
    ),
}


@pytest.mark.parametrize("kind", TWINS)
def test_it_equals_its_twin(kind):
    numerical, closed = TWINS[kind]
    omega = np.array([-2.0, 0.3, 1.0, 2.0])
    for V in (1e-6, 0.1, 1.0, 100.0):
        y = closed.sample(np.random.default_rng(0), omega)
        assert_allclose(
            numerical.log_partition(y, omega, V), closed.log_partition(y, omega, V), atol=1e-9
        )
        for a, b in zip(numerical.output(y, omega, V), closed.output(y, omega, V), strict=True):
            assert_allclose(a, b, rtol=1e-7, atol=1e-8)


def test_continuous_predictions_come_from_the_likelihood():
    channel = channels.Numerical(lambda y, z: -y * np.exp(-z) - z, support="positive")
    mean, var = channel.predict(0.5, 0.0)
    assert_allclose([mean, var], [np.exp(0.5), np.exp(1.0)], rtol=1e-8)


def test_bad_arguments():
    with pytest.raises(InvalidTypeError, match="log_likelihood"):
        channels.Numerical(3)
    with pytest.raises(InvalidInputError, match="support"):
        channels.Numerical(lambda y, z: -z, support="integers")
    with pytest.raises(InvalidInputError, match="scale"):
        channels.Numerical(lambda y, z: -z, scale=0.0)
    with pytest.raises(InvalidInputError, match="the value 2"):
        TWINS["logistic"][0].checked([1, 2])
    with pytest.raises(InvalidInputError, match="use predict"):
        TWINS["counts"][0].predict_proba(0.0, 1.0)
