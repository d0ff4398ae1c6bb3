"""What every scalar prior has, and what it gets for nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from miniamp.arrays import Array, ArrayOrFloat
from miniamp.parametric import Parametric
from miniamp.tilt import Tilt


class ScalarPrior(Parametric, ABC):
    """A distribution of one coefficient, given by its log-partition under a tilt.

    All methods are elementwise and broadcast A, B and the hyper-parameters against each other.
    """

    def no_tilt(self, size: int) -> Tilt:
        """The tilt that says nothing, for `size` coordinates."""
        return Tilt.none(size)

    @abstractmethod
    def log_partition(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        """log of E exp(-A x^2/2 + B x) over the prior (log Z_x of `eq:post-AMP`)."""

    @abstractmethod
    def moments(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        """Mean and variance under the tilt: eta and eta' of `eq:amp3`."""

    @abstractmethod
    def sample(
        self,
        rng: np.random.Generator,
        size: int | tuple[int, ...] | None = None,
        A: ArrayOrFloat = 0.0,
        B: ArrayOrFloat = 0.0,
    ) -> Array:
        """Draws under the tilt (A, B), of shape `size`; without a tilt, from the prior itself."""

    def _shape_of(
        self, size: int | tuple[int, ...] | None, A: ArrayOrFloat, B: ArrayOrFloat
    ) -> tuple[int, ...]:
        """The shape of a sample: what was asked for, or what the arguments broadcast to."""
        if size is None:
            return np.broadcast_shapes(self.shape, np.shape(A), np.shape(B))
        return (size,) if isinstance(size, int) else tuple(size)
