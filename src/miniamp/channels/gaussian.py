"""The Gaussian channel: linear regression."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.channels.base import Channel, NoisyChannel
from miniamp.kernel import Kernel, packed
from miniamp.numerics.averages import HERMITE_NODES, HERMITE_WEIGHTS

#: Noise variance that stands for none. The noise is floored and never V: a floored V would spoil
#: the Onsager coefficient V g (errata E3).
NOISE_FLOOR = 1e-30


class Gaussian(NoisyChannel):
    """y = z + noise of variance var; var = 0 is compressed sensing without noise.

    Parameters
    ----------
    var : float or (M,) array
        Variance Delta of the noise, var >= 0, one for all rows or one per row.

    Examples
    --------
    >>> import numpy as np
    >>> g, curvature = Gaussian(var=1.0).output(np.array([2.0]), omega=1.0, V=1.0)
    >>> g, curvature
    (array([0.5]), array([0.5]))
    """

    name: ClassVar[str | None] = "gaussian"
    names = ("var",)
    shift_invariant = True
    #: Residuals of relative size 1e-14 are still above the rounding of Phi x.
    noiseless_resolution = 1e-28

    def __init__(self, var: Given = 1.0) -> None:
        super().__init__(var)
        self.error_floor = NOISE_FLOOR if self.resolution else 0.0
        self._floored = np.asarray(np.maximum(self.var, NOISE_FLOOR))

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self._noise())

    def _total(self, V: ArrayOrFloat) -> Array:
        return self._noise() + V

    def _noise(self) -> Array:
        return self._floored

    def gaussian_noise(self) -> Array | None:
        return self._noise()

    def log_partition(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> Array:
        total = self._total(V)
        return np.asarray(-0.5 * (np.log(2.0 * np.pi * total) + np.square(y - omega) / total))

    def output(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        curvature = 1.0 / self._total(V)
        g = np.asarray((y - omega) * curvature)
        return g, np.broadcast_to(curvature, g.shape)

    def kernel(self) -> Kernel:
        from miniamp.channels import kernels  # only now: the compiler is slow to import

        return Kernel(kernels.gaussian, packed(self._noise()))

    def predict(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        mean, var = np.asarray(omega, dtype=np.float64), np.asarray(V + self.var)
        if mean.shape != var.shape:
            mean, var = np.broadcast_arrays(mean, var)
        return mean, var

    def sample(self, rng: np.random.Generator, z: ArrayOrFloat) -> Array:
        return np.asarray(z + np.sqrt(self.var) * rng.normal(size=self._shape_of(z)))

    def outcomes(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        shape = self._shape_of(omega, V)
        centre = np.broadcast_to(omega, shape)[..., None]
        scale = np.sqrt(np.broadcast_to(self._total(V), shape))[..., None]
        # Gauss-Hermite weights contain the density, which the caller multiplies in again.
        density = np.exp(-0.5 * np.square(HERMITE_NODES)) / np.sqrt(2.0 * np.pi)
        return centre + scale * HERMITE_NODES, scale * (HERMITE_WEIGHTS / density)

    def with_noise(self, var: float) -> Self:
        return type(self)(var)

    def in_units(self, unit: float) -> Self:
        return self if unit == 1.0 else self.with_noise(float(self.var) * unit**2)

    def weighted(self, weight: Array) -> Channel:
        return WeightedGaussian(self.var, weight)

    def score(self, y: Array) -> Array:
        return np.asarray(y / np.maximum(self.var, NOISE_FLOOR))

    def fisher(self) -> Array:
        return 1.0 / np.maximum(self.var, NOISE_FLOOR)

    def row_fisher(self, mse: Array, power: float) -> Array:
        return np.asarray(1.0 / np.maximum(self.var + mse, NOISE_FLOOR))

    def row_information(self, mse: Array, power: float) -> Array:
        return np.asarray(0.5 * np.log1p(mse / np.maximum(self.var, NOISE_FLOOR)))

    def responses(
        self, true: Channel, mse: float, variance: float, power: float, excess: float
    ) -> tuple[float, float, float] | None:
        noise = true.gaussian_noise()
        if noise is None:
            return None
        curvature = float(1.0 / self._total(variance))
        return curvature, float(noise + mse) * curvature**2, curvature


class WeightedGaussian(Gaussian):
    """Gaussian noise, each row seen `weight` times with the same y: noise of variance var/weight.

    Parameters
    ----------
    var : float
        Variance of the noise of a row of weight 1.
    weight : (M,) array
        Positive weights.

    Examples
    --------
    >>> import numpy as np
    >>> WeightedGaussian(var=1.0, weight=np.array([2.0])).output(np.array([1.0]), 0.0, 0.5)
    (array([1.]), array([1.]))
    """

    name = None
    names = ("var", "weight")  # type: ignore[assignment]  # one more than the base class has

    def __init__(self, var: Given = 1.0, weight: Given = 1.0) -> None:
        super().__init__(var)
        self.weight = checks.parameter("weight", weight, above=0.0)

    def _noise(self) -> Array:
        return np.asarray(np.maximum(self.var / self.weight, NOISE_FLOOR))

    def fitted(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> Self:
        """The channel after one EM step: what rows repeated `weight` times would show."""
        g, curvature = self.output(y, omega, V)
        residual = np.square(y - omega - V * g) + V - np.square(V) * curvature
        return self.replaced(var=np.sum(self.weight * residual) / np.sum(self.weight))

    def with_noise(self, var: float) -> Self:
        return type(self)(var, self.weight)

    def weighted(self, weight: Array) -> Channel:
        return self.replaced(weight=self.weight * weight)

    def unweighted(self) -> Gaussian:
        return Gaussian(self.var)
