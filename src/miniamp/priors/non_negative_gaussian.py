"""The non-negative Gaussian prior: a normal cut to x >= 0."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, Self

import numpy as np
from scipy.special import log_ndtr

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.numerics.normal import half_line_moments, log_scaled_mass, sample_half_line
from miniamp.priors.base import ScalarPrior
from miniamp.priors.gaussian import gaussian_log_partition
from miniamp.priors.half_line_fit import fit_half_line


class NonNegativeGaussian(ScalarPrior):
    """N(mean, var) cut to x >= 0 (truncated normal): intensities, concentrations, rates.

    Parameters
    ----------
    mean, var : float or (N,) array
        Mean and variance of the normal before it is cut, var > 0. mean = 0 is the half-normal.

    Examples
    --------
    >>> mean, var = NonNegativeGaussian(mean=0.0, var=1.0).moments(A=3.0, B=[-1e6, 0.0, 8.0])
    >>> [f"{float(m):.3g}" for m in mean]
    ['1e-06', '0.399', '2']
    """

    names = ("mean", "var")
    name = "nonnegative"
    widths: ClassVar[dict[str, int]] = {"var": 2}
    centres = ("mean",)

    def __init__(self, mean: Given = 0.0, var: Given = 1.0) -> None:
        self.mean = checks.parameter("mean", mean)
        self.var = checks.parameter("var", var, above=0.0)

    def log_partition(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        return cut_log_partition(self.mean, self.var, A, B)

    def moments(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        return cut_moments(self.mean, self.var, A, B)

    def sample(
        self,
        rng: np.random.Generator,
        size: int | tuple[int, ...] | None = None,
        A: ArrayOrFloat = 0.0,
        B: ArrayOrFloat = 0.0,
    ) -> Array:
        return cut_sample(rng, self._shape_of(size, A, B), self.mean, self.var, A, B)

    def fitted(self, A: ArrayOrFloat, B: ArrayOrFloat, fixed: Collection[str] = ()) -> Self:
        """The prior after one EM step: the cut normal with the posterior's first two moments.

        Where the posterior is spread more widely than any cut normal can be, mean -> -inf and
        var -> inf, towards an exponential distribution; the step stops on the way
        (`half_line_fit.fit_half_line`).
        """
        first, var = self.moments(A, B)
        free = self._free(fixed)
        mean, var = fit_half_line(
            self.mean, self.var, first, var + np.square(first), np.ones_like(first), free
        )
        return self._learned(free, mean=mean, var=var)


def cut_log_partition(
    mean: ArrayOrFloat, var: ArrayOrFloat, A: ArrayOrFloat, B: ArrayOrFloat
) -> Array:
    """log of E exp(-A x^2/2 + B x) for x ~ N(mean, var) cut to x >= 0."""
    before, after, _ = _places(mean, var, A, B)
    # Where the normal lies inside before and after, its own log-partition has no large terms that
    # cancel; elsewhere masses relative to the density at 0 have none.
    inside = (before >= 0.0) & (after >= 0.0)
    uncut = gaussian_log_partition(mean, var, A, B) + log_ndtr(after) - log_ndtr(before)
    scaled = log_scaled_mass(after) - log_scaled_mass(before) - 0.5 * np.log1p(A * var)
    return np.asarray(np.where(inside, uncut, scaled))


def cut_moments(
    mean: ArrayOrFloat, var: ArrayOrFloat, A: ArrayOrFloat, B: ArrayOrFloat
) -> tuple[Array, Array]:
    """Mean and variance, under the tilt (A, B), of N(mean, var) cut to x >= 0."""
    _, after, width = _places(mean, var, A, B)
    unit_mean, unit_var = half_line_moments(after)
    return np.asarray(width * unit_mean), np.asarray(np.square(width) * unit_var)


def cut_sample(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    mean: ArrayOrFloat,
    var: ArrayOrFloat,
    A: ArrayOrFloat,
    B: ArrayOrFloat,
) -> Array:
    """Draws, under the tilt (A, B), of N(mean, var) cut to x >= 0."""
    _, after, width = _places(mean, var, A, B)
    return np.asarray(width * sample_half_line(rng, np.broadcast_to(after, shape)))


def _places(
    mean: ArrayOrFloat, var: ArrayOrFloat, A: ArrayOrFloat, B: ArrayOrFloat
) -> tuple[Array, Array, Array]:
    """Mean of the uncut normal over its width, before and after the tilt; and the width after."""
    A, B = np.asarray(A, dtype=np.float64), np.asarray(B, dtype=np.float64)
    width = np.sqrt(var / (1.0 + A * var))
    after = (mean / var + B) * width
    return np.asarray(mean / np.sqrt(var)), np.asarray(after), np.asarray(width)
