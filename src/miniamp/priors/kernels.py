"""Compiled moments of the commonest priors: the formulas of their own files, one coordinate a turn.

Each mirrors the method `moments` of the class that uses it; tests/priors/test_kernels.py holds them
together. Shared hyper-parameters have a loop of their own, which keeps them in registers.
"""

from __future__ import annotations

import math

from miniamp.arrays import Array
from miniamp.compiled import inlined, moments_kernel


@inlined
def expit_both(log_odds: float) -> tuple[float, float]:
    """expit(l) and expit(-l), both to full relative precision and without overflow."""
    small = math.exp(-abs(log_odds))
    likely = 1.0 / (1.0 + small)
    unlikely = small * likely
    return (likely, unlikely) if log_odds >= 0.0 else (unlikely, likely)


@inlined
def gaussian_one(a: float, b: float, m: float, s: float) -> tuple[float, float]:
    """Mean and variance of N(m, s) under the tilt (a, b)."""
    shrink = 1.0 / (1.0 + a * s)
    return (m + s * b) * shrink, s * shrink


@inlined
def gauss_bernoulli_one(
    a: float, b: float, logit_rho: float, m: float, s: float
) -> tuple[float, float]:
    """The same of the spike and slab."""
    slab_mean, slab_var = gaussian_one(a, b, m, s)
    # The exponent is needed to absolute precision only, so log does what log1p would, faster.
    wide = 1.0 + a * s
    exponent = 0.5 * (b * slab_mean + m * (b - a * m) / wide - math.log(wide))
    included, excluded = expit_both(logit_rho + exponent)
    return included * slab_mean, included * (slab_var + excluded * slab_mean * slab_mean)


@inlined
def rademacher_one(b: float, logit_p: float) -> tuple[float, float]:
    """The same of a sign."""
    plus, minus = expit_both(logit_p + 2.0 * b)
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
