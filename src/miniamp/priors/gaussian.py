"""The Gaussian prior, and the Gaussian log-partition that other priors are built from."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, Self

import numpy as np
from numpy.random import Generator

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given, Size
from miniamp.kernel import Kernel, packed
from miniamp.priors.base import Components, ScalarPrior


class Gaussian(ScalarPrior):
    """Coefficients drawn from N(mean, var): ridge regression as a belief.

    Parameters
    ----------
    mean, var : float or (N,) array
        Mean and variance, var > 0.

    Examples
    --------
    >>> mean, var = Gaussian(mean=0.0, var=1.0).moments(A=1.0, B=2.0)
    >>> float(mean), float(var)
    (1.0, 0.5)
    """

    names = ("mean", "var")
    name = "gaussian"
    widths: ClassVar[dict[str, int]] = {"var": 2}
    centres = ("mean",)

    def __init__(self, mean: Given = 0.0, var: Given = 1.0) -> None:
        self.mean = checks.parameter("mean", mean)
        self.var = checks.parameter("var", var, above=0.0)

    @property
    def is_gaussian(self) -> bool:
        return True

    def components(self) -> Components:
        return Components(np.ones(1), self.mean.reshape(1), self.var.reshape(1))

    def log_partition(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        return gaussian_log_partition(self.mean, self.var, A, B)

    def moments(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        mean, var = gaussian_moments(self.mean, self.var, A, B)
        return mean, np.broadcast_to(var, np.shape(mean))

    def kernel(self, size: int) -> Kernel:
        from miniamp.priors import kernels  # only now: the compiler is slow to import

        return Kernel(kernels.gaussian, packed(self.mean, self.var))

    def sample(
        self, rng: Generator, size: Size = None, A: ArrayOrFloat = 0.0, B: ArrayOrFloat = 0.0
    ) -> Array:
        mean, var = self.moments(A, B)
        return np.asarray(mean + np.sqrt(var) * rng.normal(size=self._shape_of(size, A, B)))

    def fitted(self, A: ArrayOrFloat, B: ArrayOrFloat, fixed: Collection[str] = ()) -> Self:
        """The prior after one EM step: the posterior's mean and spread over the coordinates."""
        free = self._free(fixed)
        mean, var = fit_gaussian(self.mean, self.var, *self.moments(A, B), 1.0, "mean" in free)
        return self._learned(free, mean=mean, var=var)


def gaussian_log_partition(
    mean: ArrayOrFloat, var: ArrayOrFloat, A: ArrayOrFloat, B: ArrayOrFloat
) -> Array:
    """log of E exp(-A x^2/2 + B x) for x ~ N(mean, var).

    Written without 1/var, so that var = 0 is a point mass, and without differences of large terms.
    """
    A, B = np.asarray(A), np.asarray(B)
    shrink = 1.0 + A * var
    return np.asarray(
        (var * np.square(B) + 2.0 * mean * B - A * np.square(mean)) / (2.0 * shrink)
        - 0.5 * np.log1p(A * var)
    )


def gaussian_moments(
    mean: ArrayOrFloat, var: ArrayOrFloat, A: ArrayOrFloat, B: ArrayOrFloat
) -> tuple[Array, Array]:
    """Mean and variance of N(mean, var) under the tilt (A, B)."""
    A, B = np.asarray(A), np.asarray(B)
    shrink = 1.0 + A * var
    return np.asarray((mean + var * B) / shrink), np.asarray(var / shrink)


def fit_gaussian(
    mean: Array,
    var: Array,
    posterior_mean: Array,
    posterior_var: Array,
    weight: ArrayOrFloat,
    learn_mean: bool,
) -> tuple[Array, Array]:
    """Shared mean and variance that maximise the expected log-density of N(mean, var).

    Each coordinate counts by its weight; without any weight the present values are returned. With
    `learn_mean` false the present mean stays, and the variance is taken about it.
    """
    weight, posterior_mean, posterior_var, old_mean, old_var = np.broadcast_arrays(
        weight, posterior_mean, posterior_var, mean, var
    )
    total = np.sum(weight)
    if not total > 0.0:
        return mean, var
    if learn_mean:
        # The change is averaged, not the value: what does not move keeps its every bit.
        change = np.sum(weight * (posterior_mean - old_mean) / old_var) / np.sum(weight / old_var)
        mean = np.asarray(old_mean.flat[0] + change)
    spread = weight * (posterior_var + np.square(posterior_mean - mean))
    return mean, np.asarray(np.sum(spread) / total)
