"""Channels whose likelihood is smooth and log-concave in z, averaged by adaptive quadrature."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from miniamp.arrays import Array, ArrayOrFloat
from miniamp.channels.base import Channel
from miniamp.numerics.quadrature import V_FLOOR, Tilted, derivatives, peak_of, tilted


class Smooth(Channel):
    """A channel given by log P(y | z), concave in z, and its first two derivatives.

    log_partition and output follow by quadrature, and -dg is never negative. V below 1e-30 counts
    as 1e-30, where an average over z is already its value at omega.
    """

    #: Likelihoods of this kind vary with z on a scale of one.
    blur = 1.0

    @abstractmethod
    def log_likelihood(self, y: ArrayOrFloat, z: Array) -> Array:
        """log P(y | z)."""

    @abstractmethod
    def slopes(self, y: ArrayOrFloat, z: Array) -> tuple[Array, Array]:
        """First and second derivative of log_likelihood in z."""

    @abstractmethod
    def feature(self, y: Array) -> tuple[ArrayOrFloat, ArrayOrFloat]:
        """Where in z the likelihood is not simple, and the width of that place."""

    @abstractmethod
    def bracket(self, y: Array, omega: Array, V: Array) -> tuple[Array, Array]:
        """Two points between which P(y | z) N(z; omega, V) has its mode."""

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
