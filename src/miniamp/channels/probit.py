"""The probit channel and, without noise, the perceptron."""

from __future__ import annotations

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.channels.base import Channel

_SQRT_2_OVER_PI = np.sqrt(2.0 / np.pi)


class Probit(Channel):
    """y = sign(z + noise) in {-1, +1}, noise of variance var; var = 0 is the perceptron.

    Parameters
    ----------
    var : float or (M,) array
        Variance of the noise, var >= 0.

    Examples
    --------
    >>> minus, plus = Probit(var=0.0).predict_proba(omega=0.0, V=1.0)
    >>> float(minus), float(plus)
    (0.5, 0.5)
    """

    names = ("var",)
    #: A recovered sign pattern puts every row infinitely far from its margin, where g = A = B = 0:
    #: the next iteration would un-learn the batch (errata E1).
    _NOISELESS_RESOLUTION = 1e-6

    def __init__(self, var: Given = 0.0) -> None:
        self.var = checks.parameter("var", var, least=0.0)
        self.resolution = self._NOISELESS_RESOLUTION if not self.var.any() else 0.0

    def checked(self, y: Given) -> Array:
        return checked_signs(y)

    def _margin(self, y: ArrayOrFloat, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        """Distance of omega from the boundary, on y's side, in standard deviations; and those."""
        scale = np.sqrt(np.maximum(self.var + V, np.finfo(np.float64).tiny))
        return np.asarray(y * omega / scale), np.asarray(scale)

    def log_partition(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> Array:
        return np.asarray(log_ndtr(self._margin(y, omega, V)[0]))

    def output(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        margin, scale = self._margin(y, omega, V)
        hazard = inverse_mills(margin)
        return np.asarray(y * hazard / scale), np.asarray(
            hazard_curvature(margin, hazard) / np.square(scale)
        )

    def predict(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        plus, minus = np.moveaxis(self.predict_proba(omega, V), -1, 0)[::-1]
        return plus - minus, 4.0 * plus * minus

    def predict_proba(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> Array:
        """Probabilities of -1 and +1, along a last axis of length 2."""
        margin, _ = self._margin(1.0, omega, V)
        return np.stack([ndtr(-margin), ndtr(margin)], axis=-1)

    def sample(self, rng: np.random.Generator, z: ArrayOrFloat) -> Array:
        noisy = z + np.sqrt(self.var) * rng.normal(size=np.shape(z))
        return np.where(noisy >= 0.0, 1.0, -1.0)


def checked_signs(y: Given) -> Array:
    """Labels as -1.0 and +1.0, anything else refused by name."""
    labels = checks.numeric("y", y)
    strange = labels[np.abs(labels) != 1.0]
    if strange.size:
        raise checks.refuse(
            "y",
            f"the label {strange.flat[0]:g}",
            "only -1 and +1",
            "encode the classes as -1 and +1",
        )
    return labels


def inverse_mills(margin: Array) -> Array:
    """phi(u)/Phi(u), by erfcx: right from u = -1e8 (where it is -u) to +40 (where it vanishes)."""
    return np.asarray(_SQRT_2_OVER_PI / erfcx(-margin / np.sqrt(2.0)))


def hazard_curvature(margin: Array, hazard: Array) -> Array:
    """h (h + u), the negative derivative of the inverse Mills ratio h at u.

    Far on the wrong side h + u is a difference of large numbers that is nearly -1/u; there its
    asymptotic series is used.
    """
    far = margin < -1e4
    safe = np.where(far, margin, 1.0)
    series = 1.0 - 1.0 / np.square(safe)
    return np.asarray(np.where(far, series, hazard * (hazard + margin)))
