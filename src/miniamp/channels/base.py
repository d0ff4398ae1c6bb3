"""What every output channel has, and what it gets for nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.parametric import Parametric


class Channel(Parametric, ABC):
    """The distribution P(y | z) of an observation given z = Phi_mu . x.

    All methods are elementwise and broadcast y, omega, V and the hyper-parameters against each
    other. (omega, V) is what is believed of z before y is seen: N(omega, V).
    """

    #: Once the mean posterior variance, relative to the signal's power, is below this, a batch is
    #: taken as solved: a channel without noise has then nothing left that floating point could
    #: learn.
    resolution: float = 0.0

    @abstractmethod
    def log_partition(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> Array:
        """log of E P(y | z) over z ~ N(omega, V): the log-density that was forecast for y."""

    @abstractmethod
    def output(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        """g_out of `eq:gamp`, the derivative of log_partition in omega, and -dg_out/domega."""

    @abstractmethod
    def predict(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        """Mean and variance of a new y under z ~ N(omega, V)."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, z: ArrayOrFloat) -> Array:
        """One draw of y for each z."""

    def checked(self, y: Given) -> Array:
        """Observations as float64, refused where this channel cannot have made them."""
        return checks.numeric("y", y)
