"""Channels given by a smooth log-concave likelihood, and those of labels -1 and +1."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.channels.base import Channel, FiniteChannel, checked_values
from miniamp.numerics.averages import V_FLOOR, Tilted, derivatives, peak_of, tilted
from miniamp.parametric import Places


class Differentiable(Channel):
    """A channel given by log P(y | z) and its first two derivatives in z."""

    @abstractmethod
    def log_likelihood(self, y: ArrayOrFloat, z: Array) -> Array:
        """log P(y | z)."""

    @abstractmethod
    def slopes(self, y: ArrayOrFloat, z: Array) -> tuple[Array, Array]:
        """First and second derivative of log_likelihood in z."""


class Smooth(Differentiable):
    """A channel whose log P(y | z) is concave in z.

    log_partition and output follow by quadrature, and -dg is never negative. V below 1e-30 counts
    as 1e-30, where an average over z is already its value at omega.
    """

    #: Likelihoods of this kind vary with z on a scale of one.
    blur = 1.0

    def feature(self, y: Array) -> tuple[ArrayOrFloat, ArrayOrFloat]:
        """Where in z the likelihood is not simple, and the width of that place."""
        return 0.0, 1.0

    def bracket(self, y: Array, omega: Array, V: Array) -> tuple[Array, Array]:
        """Two points between which P(y | z) N(z; omega, V) has its mode."""
        # The slope falls from omega on: the mode is at most V times the slope there away.
        end = omega + V * self.slopes(y, omega)[0]
        return np.minimum(omega, end), np.maximum(omega, end)

    def log_partition(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> Array:
        return self._tilted(*self._broadcast(y, omega, V)).log_mass

    def output(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        y, omega, V = self._broadcast(y, omega, V)
        return derivatives(self._tilted(y, omega, V), lambda z: self.slopes(y, z), V)

    def score(self, y: Array) -> Array:
        return self.slopes(y, np.zeros(self._shape_of(y)))[0]

    def _tilted(self, y: Array, omega: Array, V: Array) -> Tilted:
        low, high = self.bracket(y, omega, V)
        peak = peak_of(lambda z: self.slopes(y, z), omega, V, low, high)
        centre, width = (np.broadcast_to(a, omega.shape) for a in self.feature(y))
        return tilted(lambda z: self.log_likelihood(y, z), peak, omega, V, centre, width)

    def _broadcast(
        self, y: ArrayOrFloat, omega: ArrayOrFloat, V: ArrayOrFloat
    ) -> tuple[Array, Array, Array]:
        shape = self._shape_of(y, omega, V)
        y, omega, V = (np.broadcast_to(a, shape).astype(np.float64) for a in (y, omega, V))
        return y, omega, np.maximum(V, V_FLOOR)


class Binary(FiniteChannel, Differentiable):
    """A channel whose observations are the labels -1 and +1."""

    labels = np.array([-1.0, 1.0])

    def weighted(self, weight: Array) -> Channel:
        return WeightedLabels(self, weight)

    def predict(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        minus, plus = np.moveaxis(self.predict_proba(omega, V), -1, 0)
        return plus - minus, 4.0 * plus * minus

    def checked(self, y: Given) -> Array:
        known = lambda labels: np.abs(labels) == 1.0  # noqa: E731
        return checked_values(
            y, known, "label", "only -1 and +1", "encode the classes as -1 and +1"
        )


class WeightedLabels(Binary, Smooth):
    """Labels -1 and +1, each seen `weight` times: P(y | z) to the power of the weight.

    Parameters
    ----------
    plain : Binary
        The channel of a row of weight 1.
    weight : (M,) array
        Positive weights.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp.channels import Probit
    >>> y, plain = np.array([1.0]), Probit(var=1.0)
    >>> g, curvature = plain.weighted(np.array([1.0])).output(y, 0.3, 2.0)
    >>> bool(np.allclose((g, curvature), plain.output(y, 0.3, 2.0)))
    True
    """

    names = ("plain", "weight")

    def __init__(self, plain: Binary, weight: Given) -> None:
        self.plain = plain
        self.weight = checks.parameter("weight", weight, above=0.0)

    def at(self, where: Places) -> WeightedLabels:
        weight = self.weight[where] if self.weight.ndim else self.weight
        return WeightedLabels(self.plain.at(where), weight)

    def log_likelihood(self, y: ArrayOrFloat, z: Array) -> Array:
        return np.asarray(self.weight * self.plain.log_likelihood(y, z))

    def slopes(self, y: ArrayOrFloat, z: Array) -> tuple[Array, Array]:
        first, second = self.plain.slopes(y, z)
        return self.weight * first, self.weight * second

    def predict_proba(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> Array:
        return self.plain.predict_proba(omega, V)

    def sample(self, rng: np.random.Generator, z: ArrayOrFloat) -> Array:
        return self.plain.sample(rng, z)

    def weighted(self, weight: Array) -> Channel:
        return WeightedLabels(self.plain, self.weight * weight)

    def unweighted(self) -> Channel:
        return self.plain

    def _outer(self, name: str) -> tuple[int, ...]:
        return self.plain.shape if name == "plain" else super()._outer(name)
