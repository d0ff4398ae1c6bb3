"""Rows that count more than once, or less: P(y | z) to the power of a weight."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from scipy.special import expit, log_expit, log_ndtr

from miniamp import channels, checks
from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.channels.base import Channel
from miniamp.channels.gaussian import NOISE_FLOOR
from miniamp.channels.labels import Binary
from miniamp.channels.probit import hazard_curvature, inverse_mills
from miniamp.channels.smooth import Smooth
from miniamp.errors import InvalidInputError
from miniamp.kernel import Kernel, packed

#: Whole weights repeat rows until there would be so many times as many.
MOST_COPIES = 8


class WeightedGaussian(channels.Gaussian):
    """Gaussian noise, each row seen `weight` times with the same y: noise of variance var/weight.

    Parameters
    ----------
    var : float
        Variance of the noise of a row of weight 1.
    weight : (M,) array
        Positive weights.

    Examples
    --------
    >>> WeightedGaussian(var=1.0, weight=np.array([2.0])).output(np.array([1.0]), 0.0, 0.5)
    (array([1.]), array([1.]))
    """

    names = ("var", "weight")  # type: ignore[assignment]  # one more than the base class has

    def __init__(self, var: Given = 1.0, weight: Given = 1.0) -> None:
        super().__init__(var)
        self.weight = checks.parameter("weight", weight, above=0.0)

    def _total(self, V: ArrayOrFloat) -> Array:
        return np.asarray(np.maximum(self.var / self.weight, NOISE_FLOOR) + V)

    def kernel(self) -> Kernel:
        from miniamp.channels import kernels

        return Kernel(kernels.gaussian, packed(np.maximum(self.var / self.weight, NOISE_FLOOR)))

    def fitted(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> Self:
        """The channel after one EM step: what rows repeated `weight` times would show."""
        g, curvature = self.output(y, omega, V)
        residual = np.square(y - omega - V * g) + V - np.square(V) * curvature
        return self.replaced(var=np.sum(self.weight * residual) / np.sum(self.weight))


class _WeightedLabels(Binary, Smooth):
    """Labels -1 and +1, each seen `weight` times."""

    weight: Array

    @abstractmethod
    def _log_chance(self, margin: Array) -> Array:
        """log P(y | z) as a function of y z."""

    @abstractmethod
    def _slopes(self, margin: Array) -> tuple[Array, Array]:
        """Its first two derivatives."""

    def log_likelihood(self, y: ArrayOrFloat, z: Array) -> Array:
        return np.asarray(self.weight * self._log_chance(y * z))

    def slopes(self, y: ArrayOrFloat, z: Array) -> tuple[Array, Array]:
        first, second = self._slopes(y * z)
        return self.weight * y * first, self.weight * second

    def feature(self, y: Array) -> tuple[ArrayOrFloat, ArrayOrFloat]:
        return 0.0, 1.0

    def bracket(self, y: Array, omega: Array, V: Array) -> tuple[Array, Array]:
        # The slope falls towards the side of y: from omega at most V times the slope there.
        end = omega + V * self.slopes(y, omega)[0]
        return np.minimum(omega, end), np.maximum(omega, end)

    def predict_proba(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> Array:
        return np.asarray(self.plain().predict_proba(omega, V))

    def sample(self, rng: np.random.Generator, z: ArrayOrFloat) -> Array:
        return np.asarray(self.plain().sample(rng, z))

    @abstractmethod
    def plain(self) -> Any:
        """The channel of a row of weight 1."""


class WeightedLogistic(_WeightedLabels):
    """The logistic channel, each row seen `weight` times."""

    names = ("weight",)

    def __init__(self, weight: Given = 1.0) -> None:
        self.weight = checks.parameter("weight", weight, above=0.0)

    def plain(self) -> channels.Logistic:
        return channels.Logistic()

    def _log_chance(self, margin: Array) -> Array:
        return np.asarray(log_expit(margin))

    def _slopes(self, margin: Array) -> tuple[Array, Array]:
        wrong = expit(-margin)
        return wrong, -wrong * expit(margin)


class WeightedProbit(_WeightedLabels):
    """The probit channel, each row seen `weight` times.

    Examples
    --------
    >>> from miniamp.channels import Probit
    >>> y, one = np.array([1.0]), np.array([1.0])
    >>> g, curvature = WeightedProbit(var=1.0, weight=one).output(y, 0.3, 2.0)
    >>> expected = Probit(var=1.0).output(y, 0.3, 2.0)
    >>> bool(np.allclose(g, expected[0])), bool(np.allclose(curvature, expected[1]))
    (True, True)
    """

    names = ("var", "weight")

    def __init__(self, var: Given = 1.0, weight: Given = 1.0) -> None:
        self.var = checks.parameter("var", var, above=0.0)
        self.weight = checks.parameter("weight", weight, above=0.0)
        self.blur = float(np.sqrt(np.min(self.var)))

    def plain(self) -> channels.Probit:
        return channels.Probit(self.var)

    def _log_chance(self, margin: Array) -> Array:
        return np.asarray(log_ndtr(margin / np.sqrt(self.var)))

    def _slopes(self, margin: Array) -> tuple[Array, Array]:
        u = np.asarray(margin / np.sqrt(self.var))
        hazard = inverse_mills(u)
        return hazard / np.sqrt(self.var), -hazard_curvature(u, hazard) / self.var


def weighted(channel: Channel, weight: Array | None) -> Channel:
    """The channel of rows with these weights; itself where every row counts once."""
    if weight is None:
        return channel
    if type(channel) is channels.Gaussian:
        return WeightedGaussian(channel.var, weight)
    if type(channel) is channels.Probit:
        return WeightedProbit(channel.var, weight)
    if type(channel) is channels.Logistic:
        return WeightedLogistic(weight)
    raise InvalidInputError(
        f"sample_weight: got fractions or very large weights, expected whole numbers for the "
        f"channel {channel!r}; round the weights"
    )


def unweighted(channel: Any) -> Channel:
    """The channel of a row of weight 1, as learned from weighted ones."""
    if isinstance(channel, WeightedGaussian):
        return channels.Gaussian(channel.var)
    found: Channel = channel.plain() if isinstance(channel, _WeightedLabels) else channel
    return found


def copies(weights: Array) -> tuple[Any, Array | None]:
    """Which rows to take, repeated by whole weights, and the weights that then remain."""
    if not weights.any():
        raise checks.refuse(
            "sample_weight", "zeros only", "a weight > 0", "drop the batch, or leave weights out"
        )
    times = np.rint(weights).astype(np.int64)
    few = times.sum() <= MOST_COPIES * len(weights) + 1000
    if few and np.array_equal(times, weights):
        return np.repeat(np.arange(len(weights)), times), None
    taken = np.flatnonzero(weights)
    return taken, weights[taken]
