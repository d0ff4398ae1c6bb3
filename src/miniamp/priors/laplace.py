"""The Laplace prior: the Bayesian lasso."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.random import Generator
from scipy.special import expit

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given, Shape
from miniamp.numerics.normal import half_line_moments, log_scaled_mass, sample_half_line
from miniamp.priors.base import ScalarPrior

#: Beyond this many standard deviations a cut normal is an exponential to all digits.
_EXPONENTIAL = 1e9
_LOG_SQRT_2_PI = 0.5 * np.log(2.0 * np.pi)


class Laplace(ScalarPrior):
    """Density `exp(-|x|/scale) / (2 scale)`: the prior whose mode under data is the lasso.

    Without A (A = 0) it can be tilted by `|B| < 1/scale` only; beyond that the log-partition and
    the variance are infinite.

    Parameters
    ----------
    scale : float or (N,) array
        Mean of `|x|`, scale > 0.

    Examples
    --------
    >>> mean, var = Laplace(scale=0.5).moments(A=100.0, B=[0.0, 10.0, 100.0])
    >>> [round(float(m), 3) for m in mean]
    [0.0, 0.087, 0.98]
    """

    names = ("scale",)
    name = "laplace"
    candidate = True
    widths: ClassVar[dict[str, int]] = {"scale": 1}

    def __init__(self, scale: Given = 1.0) -> None:
        self.scale = checks.parameter("scale", scale, above=0.0)

    def log_partition(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        right, left = self._sides(A, B)
        both = np.logaddexp(right.log_mass, left.log_mass)
        return np.asarray(both - np.log(2.0 * self.scale))

    def moments(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        right, left = self._sides(A, B)
        plus, minus = _chances(right, left)
        mean = plus * right.mean - minus * left.mean
        with np.errstate(invalid="ignore"):
            within = plus * right.var + minus * left.var
            var = within + plus * minus * np.square(right.mean + left.mean)
        return mean, np.where(np.isinf(mean), np.inf, var)

    def drawn(self, rng: Generator, shape: Shape, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        right, left = self._sides(A, B)
        positive = rng.random(shape) < _chances(right, left)[0]
        u, width = np.where(positive, right.u, left.u), np.where(positive, right.width, left.width)
        rate = np.where(positive, right.rate, left.rate)
        tail = u < -_EXPONENTIAL
        cut = width * sample_half_line(rng, np.where(tail, 0.0, u))
        exponential = rng.exponential(size=shape) / np.where(tail, rate, 1.0)
        return np.asarray(np.where(positive, 1.0, -1.0) * np.where(tail, exponential, cut))

    def fitted(self, A: ArrayOrFloat, B: ArrayOrFloat, fixed: Collection[str] = ()) -> Self:
        """The prior with scale the posterior mean of `|x|`, averaged: the exact EM step."""
        right, left = self._sides(A, B)
        plus, minus = _chances(right, left)
        return self._learned(
            self._free(fixed), scale=float(np.mean(plus * right.mean + minus * left.mean))
        )

    def _sides(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[_Side, _Side]:
        A, B = np.asarray(A, dtype=np.float64), np.asarray(B, dtype=np.float64)
        return _side(A, 1.0 / self.scale - B), _side(A, 1.0 / self.scale + B)


class _Side(NamedTuple):
    """exp(-A t^2/2 - rate t) on t = |x| >= 0."""

    log_mass: Array
    mean: Array
    var: Array
    u: Array
    width: Array
    rate: Array


def _side(A: Array, rate: Array) -> _Side:
    A, rate = np.broadcast_arrays(A, rate)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        width = 1.0 / np.sqrt(A)
        u = np.where(A > 0.0, -rate * width, np.where(rate > 0.0, -np.inf, np.inf))
        tail = u < -_EXPONENTIAL
        flat = np.where(tail, 0.0, np.minimum(u, 1e150))
        mean, var = half_line_moments(flat)
        safe = np.where(tail, rate, 1.0)
        cut_mass = log_scaled_mass(flat) + _LOG_SQRT_2_PI + np.log(width)
        divergent = np.isposinf(u)
        return _Side(
            np.where(divergent, np.inf, np.where(tail, -np.log(safe), cut_mass)),
            np.where(divergent, np.inf, np.where(tail, 1.0 / safe, width * mean)),
            np.where(divergent, np.inf, np.where(tail, 1.0 / np.square(safe), width**2 * var)),
            u,
            np.where(A > 0.0, width, 1.0),
            rate,
        )


def _chances(right: _Side, left: _Side) -> tuple[Array, Array]:
    """Probabilities of either side, each to full relative precision."""
    with np.errstate(invalid="ignore"):
        log_odds = right.log_mass - left.log_mass
    return expit(log_odds), expit(-log_odds)
