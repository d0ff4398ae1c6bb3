"""The probit channel and, without noise, the perceptron."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtr

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.channels.base import Channel, NoisyChannel
from miniamp.channels.gaussian import NOISE_FLOOR
from miniamp.channels.smooth import Binary
from miniamp.kernel import Kernel, packed
from miniamp.numerics.normal import inverse_mills, mills_curvature

_SQRT_2_OVER_PI = np.sqrt(2.0 / np.pi)
_TRAPEZOID = np.linspace(-13.0, 13.0, 261)


class Probit(NoisyChannel, Binary):
    """y = sign(z + noise) in {-1, +1}, noise of variance var; var = 0 is the perceptron.

    Labels say nothing of the scale of z, so learning the noise (`fitted`) means something only
    together with a prior whose variance is fixed.

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

    name = "probit"
    names = ("var",)
    #: A recovered sign pattern puts every row infinitely far from its margin, where g = A = B = 0:
    #: the next iteration would un-learn the batch (errata E1).
    noiseless_resolution = 1e-6

    def __init__(self, var: Given = 0.0) -> None:
        super().__init__(var)

    def _margin(self, y: ArrayOrFloat, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        """Distance of omega from the boundary, on y's side, in standard deviations; and those."""
        # The noise is floored, as in the Gaussian channel: a known z that contradicts its label
        # gives a very large residual, not an infinite one.
        scale = np.sqrt(np.maximum(self.var, NOISE_FLOOR) + V)
        return np.asarray(y * omega / scale), np.asarray(scale)

    def log_likelihood(self, y: ArrayOrFloat, z: Array) -> Array:
        return np.asarray(log_ndtr(self._margin(y, z, 0.0)[0]))

    def slopes(self, y: ArrayOrFloat, z: Array) -> tuple[Array, Array]:
        g, curvature = self.output(np.asarray(y), z, 0.0)
        return g, -curvature

    def log_partition(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> Array:
        return np.asarray(log_ndtr(self._margin(y, omega, V)[0]))

    def output(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        margin, scale = self._margin(y, omega, V)
        hazard, curvature = mills_curvature(margin)
        return np.asarray(y * hazard / scale), np.asarray(curvature / np.square(scale))

    def kernel(self) -> Kernel:
        from miniamp.channels import kernels  # only now: the compiler is slow to import

        return Kernel(kernels.probit, packed(np.maximum(self.var, NOISE_FLOOR)))

    def predict_proba(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> Array:
        margin, _ = self._margin(1.0, omega, V)
        return np.stack([ndtr(-margin), ndtr(margin)], axis=-1)

    def sample(self, rng: np.random.Generator, z: ArrayOrFloat) -> Array:
        noisy = z + np.sqrt(self.var) * rng.normal(size=self._shape_of(z))
        return np.where(noisy >= 0.0, 1.0, -1.0)

    def weighted(self, weight: Array) -> Channel:
        # Without noise P is 0 or 1, and so is any power of it.
        return super().weighted(weight) if self.var.any() else self

    def score(self, y: Array) -> Array:
        return np.asarray(y * np.sqrt(self.fisher()))

    def fisher(self) -> Array:
        if not self.var.all():
            raise checks.refuse(
                "var",
                0.0,
                "var > 0",
                "a perceptron has no finite score at z = 0; give it some noise",
            )
        return np.asarray(2.0 / (np.pi * self.var))

    def row_fisher(self, mse: Array, power: float) -> Array:
        # In t = omega/sqrt(var + mse) the two labels give 2 phi(t)^2/Phi(t), whatever the scale,
        # and N(omega) phi(t) is a Gaussian in t: a trapezoid rule on its width.
        scale = np.sqrt(self.var + mse)
        total = np.sqrt(np.maximum(power - mse, 0.0) + np.square(scale))
        width = np.sqrt(np.maximum(power - mse, 0.0)) / total
        height = np.exp(-0.5 * np.square(_TRAPEZOID)) / np.sqrt(2.0 * np.pi)
        height = height * (_TRAPEZOID[1] - _TRAPEZOID[0])
        hazard = inverse_mills(width[..., None] * _TRAPEZOID) @ height
        return np.asarray(_SQRT_2_OVER_PI * hazard / (scale * total))

    def label_error(self, known: float, V: float) -> float:
        # The angle between the prediction and z + noise, two Gaussian variables.
        return float(np.arctan2(np.sqrt(V + self.var), known) / np.pi)
