"""The non-negative Gaussian prior: a normal cut to x >= 0."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from scipy.optimize import brentq
from scipy.special import log_ndtr

from miniamp.arrays import Array, ArrayOrFloat, Shape
from miniamp.numerics.normal import half_line_moments, log_scaled_mass, sample_half_line
from miniamp.numerics.scales import lowest
from miniamp.priors.base import MeanAndVariance
from miniamp.priors.gaussian import gaussian_log_partition

#: The fit does not go further than this (in mean / standard deviation) towards an exponential
#: distribution, which is the limit -inf and from which it then differs by 1 % in the variance:
#: beyond, mean and var run away together to no effect.
_NEAREST_EXPONENTIAL = -20.0
#: How far one step may move a single hyper-parameter, in factors of var and in widths for the mean.
_REACH = 1e3


class NonNegativeGaussian(MeanAndVariance):
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

    name = "nonnegative"

    def log_partition(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        before, (after, _) = self.mean / np.sqrt(self.var), self._tilted(A, B)
        # Where the normal lies inside before and after, its own log-partition has no large terms
        # that cancel; elsewhere masses relative to the density at 0 have none.
        inside = (before >= 0.0) & (after >= 0.0)
        uncut = gaussian_log_partition(self.mean, self.var, A, B)
        uncut = uncut + log_ndtr(after) - log_ndtr(before)
        scaled = log_scaled_mass(after) - log_scaled_mass(before) - 0.5 * np.log1p(A * self.var)
        return np.asarray(np.where(inside, uncut, scaled))

    def moments(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        after, width = self._tilted(A, B)
        unit_mean, unit_var = half_line_moments(after)
        return np.asarray(width * unit_mean), np.asarray(np.square(width) * unit_var)

    def drawn(self, rng: Generator, shape: Shape, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        after, width = self._tilted(A, B)
        return np.asarray(width * sample_half_line(rng, np.broadcast_to(after, shape)))

    def refitted(
        self, mean: Array, var: Array, weight: Array, free: frozenset[str]
    ) -> tuple[Array, Array]:
        """The cut normal with the posterior's first two moments.

        Where the posterior is spread more widely than any cut normal can be, mean -> -inf and
        var -> inf, towards an exponential distribution; the step stops on the way.
        """
        total, first, second = float(np.sum(weight)), mean, var + np.square(mean)
        if not (total > 0.0 and free & {"mean", "var"}):
            return self.mean, self.var
        start, variance = float(self.mean.flat[0]), float(self.var.flat[0])
        if {"mean", "var"} <= free:
            average = float(np.sum(weight * first)) / total, float(np.sum(weight * second)) / total
            return _match(start / np.sqrt(variance), *average)

        def loss(mean: Array, var: Array) -> float:
            square = second - 2.0 * mean * first + np.square(mean)
            each = 0.5 * square / var + 0.5 * np.log(var) + log_ndtr(mean / np.sqrt(var))
            return float(np.sum(weight * each)) / total

        if "var" in free:
            of_width = lambda log_var: loss(self.mean, np.exp(log_var))  # noqa: E731
            return self.mean, np.exp(_lowest(of_width, np.log(variance), np.log(_REACH)))
        reach = _REACH * float(np.sqrt(np.max(self.var)))
        return _lowest(lambda x: loss(np.asarray(x), self.var), start, reach), self.var

    def _tilted(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        """Mean of the uncut normal over its width after the tilt, and that width."""
        A, B = np.asarray(A, dtype=np.float64), np.asarray(B, dtype=np.float64)
        width = np.sqrt(self.var / (1.0 + A * self.var))
        return np.asarray((self.mean / self.var + B) * width), np.asarray(width)


def _match(present: float, first: float, second: float) -> tuple[Array, Array]:
    """Mean and variance of the cut normal with these two moments, or the nearest one allowed."""
    least = min(_NEAREST_EXPONENTIAL, present)
    spread = second / first**2 - 1.0

    def excess(u: float) -> float:
        unit_mean, unit_var = half_line_moments(np.asarray(u))
        return float(unit_var / unit_mean**2) - spread

    most = 2.0 / np.sqrt(max(spread, 1e-300)) + 2.0
    u = least
    if excess(least) > 0.0:
        u = float(brentq(excess, least, most, xtol=1e-12, rtol=1e-14))
    # The best width at this place: a root of width^2 + u first width = second, all terms positive
    # for u < 0.
    root = np.sqrt((u * first) ** 2 + 4.0 * second)
    width = 0.5 * (root - u * first) if u < 0.0 else 2.0 * second / (root + u * first)
    return np.asarray(u * width), np.asarray(width**2)


def _lowest(loss: Callable[[float], float], start: float, reach: float) -> Array:
    """Where `loss` is lowest within `reach` of `start`; `start` itself where nothing is lower."""
    x, least = lowest(loss, start - reach, start + reach, to=1e-10)
    return np.asarray(x if least < loss(start) else start, dtype=np.float64)
