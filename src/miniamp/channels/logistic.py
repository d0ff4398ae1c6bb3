"""The logistic channel: logistic regression."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, log_expit

from miniamp.arrays import Array, ArrayOrFloat
from miniamp.channels.labels import Binary
from miniamp.channels.smooth import Smooth


class Logistic(Binary, Smooth):
    """y = +1 with probability 1/(1 + exp(-z)), else -1.

    It has no noise level of its own: the scale of z plays that part.

    Examples
    --------
    >>> import numpy as np
    >>> minus, plus = Logistic().predict_proba(omega=0.0, V=1.0)
    >>> round(float(minus), 12), round(float(plus), 12)
    (0.5, 0.5)
    >>> g, curvature = Logistic().output(np.array([1.0]), omega=0.0, V=0.0)
    >>> g, curvature
    (array([0.5]), array([0.25]))
    """

    def log_likelihood(self, y: ArrayOrFloat, z: Array) -> Array:
        return np.asarray(log_expit(y * z))

    def slopes(self, y: ArrayOrFloat, z: Array) -> tuple[Array, Array]:
        wrong = expit(-y * z)
        return y * wrong, -wrong * expit(y * z)

    def feature(self, y: Array) -> tuple[ArrayOrFloat, ArrayOrFloat]:
        return 0.0, 1.0

    def bracket(self, y: Array, omega: Array, V: Array) -> tuple[Array, Array]:
        # The slope of log P lies between 0 and y.
        return np.minimum(omega, omega + y * V), np.maximum(omega, omega + y * V)

    def predict_proba(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> Array:
        # Each from its own side: 1 - p would lose the small one to rounding.
        return np.exp(
            np.stack([self.log_partition(np.array(y), omega, V) for y in (-1.0, 1.0)], axis=-1)
        )

    def sample(self, rng: np.random.Generator, z: ArrayOrFloat) -> Array:
        return np.where(rng.random(np.shape(z)) < expit(z), 1.0, -1.0)

    def fisher(self) -> Array:
        return np.array(0.25)
