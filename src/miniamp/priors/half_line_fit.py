"""The M-step of a normal cut to x >= 0, from the moments of what is believed of x."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import log_ndtr

from miniamp.arrays import Array
from miniamp.numerics.normal import half_line_moments

#: The fit does not go further than this (in mean / standard deviation) towards an exponential
#: distribution, which is the limit -inf and from which it then differs by 1 % in the variance:
#: beyond, mean and var run away together and say nothing new.
_NEAREST_EXPONENTIAL = -20.0
#: How far one step may move a single hyper-parameter, in factors of var and in widths for the mean.
_REACH = 1e3


def fit_half_line(
    mean: Array, var: Array, first: Array, second: Array, weight: Array, free: frozenset[str]
) -> tuple[Array, Array]:
    """The (mean, var) that maximise the expected log-density of a cut normal.

    Parameters
    ----------
    mean, var : scalar or (N,) array
        The present values; what is not in `free` is returned as it is.
    first, second : (N,) arrays
        What is believed of E x and E x^2 of each coordinate.
    weight : (N,) array
        How much each coordinate counts, >= 0.
    free : frozenset of str
        Which of "mean" and "var" may change.
    """
    total = float(np.sum(weight))
    if not (total > 0.0 and free & {"mean", "var"}):
        return mean, var

    if {"mean", "var"} <= free:
        average = float(np.sum(weight * first)) / total, float(np.sum(weight * second)) / total
        return _match(float(mean.flat[0] / np.sqrt(var.flat[0])), *average)

    def loss(mean: Array, var: Array) -> float:
        square = second - 2.0 * mean * first + np.square(mean)
        each = 0.5 * square / var + 0.5 * np.log(var) + log_ndtr(mean / np.sqrt(var))
        return float(np.sum(weight * each)) / total

    if "var" in free:
        start, reach = float(np.log(var.flat[0])), float(np.log(_REACH))
        return mean, np.exp(_lowest(lambda log_var: loss(mean, np.exp(log_var)), start, reach))
    start = float(mean.flat[0])
    reach = _REACH * float(np.sqrt(np.max(var)))
    return _lowest(lambda centre: loss(np.asarray(centre), var), start, reach), var


def _match(present: float, first: float, second: float) -> tuple[Array, Array]:
    """Both at once: the cut normal with these two moments, or the nearest one allowed."""
    from scipy.optimize import brentq  # heavy, and only learning needs it

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
    from scipy.optimize import minimize_scalar  # heavy, and only learning needs it

    found = minimize_scalar(
        loss, bounds=(start - reach, start + reach), method="bounded", options={"xatol": 1e-10}
    )
    return np.asarray(found.x if found.fun < loss(start) else start, dtype=np.float64)
