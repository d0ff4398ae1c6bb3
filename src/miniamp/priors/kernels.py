"""Compiled moments of the commonest priors: the formulas of their own files, in one loop.

Each mirrors the method `moments` of the class that uses it; tests/priors/test_kernels.py holds them
together. Shared hyper-parameters have a loop of their own, which keeps them in registers.
"""

from __future__ import annotations

import math

import numpy as np

from miniamp.arrays import Array
from miniamp.compiled import bits_of, fill_moments, float_of, inlined, moments_kernel

#: Added to a number and taken off again, it leaves the nearest integer, whose bits are its last.
_ROUNDING = 1.5 * 2.0**52
_LOG2_E = 1.4426950408889634
#: log 2 in two parts: the first has so few bits that a multiple of it is exact.
_LOG_2_HIGH, _LOG_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
#: Taylor's coefficients of exp, the last and those before it, 1/12! .. 1/0!.
_LAST, _SERIES = 1.0 / math.factorial(13), tuple(1.0 / math.factorial(k) for k in range(12, -1, -1))
#: Where exp(-t) is no longer a normal number; zero from there on.
_VANISHED = 708.0


@inlined
def exp_minus(t: float) -> float:
    """exp(-t) for t >= 0, to an ulp, in operations that the compiler can do for many at once.

    The library's exp is a call, coordinate by coordinate: with it eta takes five times as long.
    Halvings out, then Taylor's series for what is left, |r| <= log(2)/2.
    """
    shifted = _ROUNDING - t * _LOG2_E
    halvings = shifted - _ROUNDING
    r = (-t - halvings * _LOG_2_HIGH) - halvings * _LOG_2_LOW
    series = _LAST
    for coefficient in _SERIES:
        series = series * r + coefficient
    scaled = series * float_of((bits_of(shifted) << 52) + (1023 << 52))
    return 0.0 if t > _VANISHED else scaled


@inlined
def shares(log_odds: float, weight: float) -> tuple[float, float]:
    """p and 1 - p where p/(1 - p) = exp(log_odds)/weight, both to full relative precision."""
    small = exp_minus(abs(log_odds))
    one = small if log_odds < 0.0 else 1.0
    other = weight if log_odds < 0.0 else weight * small
    whole = 1.0 / (one + other)
    return one * whole, other * whole


@inlined
def gaussian_one(a: float, b: float, m: float, s: float) -> tuple[float, float]:
    """Mean and variance of N(m, s) under the tilt (a, b)."""
    shrink = 1.0 / (1.0 + a * s)
    return (m + s * b) * shrink, s * shrink


@inlined
def gauss_bernoulli_one(
    a: float, b: float, logit_rho: float, m: float, s: float
) -> tuple[float, float]:
    """The same of the spike and slab.

    The root of 1 + a s weighs the spike, where the plain form has its logarithm in the exponent: a
    root is an instruction, a logarithm a call.
    """
    wide = 1.0 + a * s
    shrink = 1.0 / wide
    slab_mean, slab_var = (m + s * b) * shrink, s * shrink
    log_odds = logit_rho + 0.5 * (b * slab_mean + m * (b - a * m) * shrink)
    included, excluded = shares(log_odds, math.sqrt(wide))
    return included * slab_mean, included * (slab_var + excluded * slab_mean * slab_mean)


@inlined
def rademacher_one(b: float, logit_p: float) -> tuple[float, float]:
    """Mean and variance of a sign under the tilt."""
    plus, minus = shares(logit_p + 2.0 * b, 1.0)
    return plus - minus, 4.0 * plus * minus


@moments_kernel
def gaussian(A: Array, B: Array, parameters: Array, mean: Array, var: Array) -> None:
    """Parameters: mean, var."""
    if len(parameters) == 1:
        m, s = parameters[0, 0], parameters[0, 1]
        for i in range(len(B)):
            mean[i], var[i] = gaussian_one(A[i], B[i], m, s)
    else:
        for i in range(len(B)):
            mean[i], var[i] = gaussian_one(A[i], B[i], parameters[i, 0], parameters[i, 1])


@moments_kernel
def gauss_bernoulli(A: Array, B: Array, parameters: Array, mean: Array, var: Array) -> None:
    """Parameters: logit(rho), mean, var."""
    if len(parameters) == 1:
        o, m, s = parameters[0, 0], parameters[0, 1], parameters[0, 2]
        for i in range(len(B)):
            mean[i], var[i] = gauss_bernoulli_one(A[i], B[i], o, m, s)
    else:
        for i in range(len(B)):
            p = parameters[i]
            mean[i], var[i] = gauss_bernoulli_one(A[i], B[i], p[0], p[1], p[2])


@moments_kernel
def rademacher(A: Array, B: Array, parameters: Array, mean: Array, var: Array) -> None:  # noqa: ARG001
    """Parameters: logit(p). The precision A shifts both signs alike."""
    step = 1 if len(parameters) > 1 else 0
    for i in range(len(B)):
        mean[i], var[i] = rademacher_one(B[i], parameters[i * step, 0])


@moments_kernel
def with_intercept(A: Array, B: Array, parameters: Array, mean: Array, var: Array) -> None:
    """Another prior's kernel, and a Gaussian of mean 0 wherever there is an intercept.

    Parameters: the variance of the intercept, 0 for other coefficients; the address of the other
    prior's kernel, negative where each coefficient has numbers of its own; those numbers.
    """
    n, columns = len(B), parameters.shape[1] - 2
    start = 0
    while start < n:
        if parameters[start, 0] > 0.0:
            mean[start], var[start] = gaussian_one(A[start], B[start], 0.0, parameters[start, 0])
            start += 1
            continue
        end = start + 1
        while end < n and parameters[end, 0] == 0.0:
            end += 1
        address = int(parameters[start, 1])
        own = np.empty((1 if address > 0 else end - start, columns))
        for k in range(len(own)):
            for c in range(columns):
                own[k, c] = parameters[start + k, 2 + c]
        here = slice(start, end)
        fill_moments(abs(address), A[here], B[here], own, mean[here], var[here])
        start = end
