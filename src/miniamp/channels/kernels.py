"""Compiled outputs of the commonest channels: the formulas of their own files, row by row.

Each mirrors the method `output` of the class that uses it; tests/channels/test_kernels.py holds
them together.
"""

from __future__ import annotations

import math

from miniamp.arrays import Array
from miniamp.compiled import inlined, output_kernel

_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
_1_OVER_SQRT_PI = 1.0 / math.sqrt(math.pi)
_1_OVER_SQRT_2 = math.sqrt(0.5)


@inlined
def hazard_curvature(margin: float, hazard: float) -> float:
    """h (h + u); far on the wrong side by Laplace's continued fraction."""
    if margin >= -6.0:
        return hazard * (hazard + margin)
    tail = -margin
    for level in range(40, 1, -1):
        tail = level / tail - margin
    excess = 1.0 / tail
    return (excess - margin) * excess


@inlined
def erfcx(x: float) -> float:
    """exp(x^2) erfc(x), to a few units in the last place, by Cody's rational approximations.

    W. J. Cody, Rational Chebyshev approximations for the error function, Math. Comp. 23 (1969).
    SciPy's own cannot be called from a kernel that is kept on disk: its address changes.
    """
    z = abs(x)
    if z <= 0.46875:
        s = z * z
        top = 1.85777706184603153e-1
        top = top * s + 3.16112374387056560e00
        top = top * s + 1.13864154151050156e02
        top = top * s + 3.77485237685302021e02
        top = top * s + 3.20937758913846947e03
        low = s + 2.36012909523441209e01
        low = low * s + 2.44024637934444173e02
        low = low * s + 1.28261652607737228e03
        low = low * s + 2.84423683343917062e03
        return math.exp(s) * (1.0 - x * top / low)
    if z <= 4.0:
        top = 2.15311535474403846e-8
        top = top * z + 5.64188496988670089e-1
        top = top * z + 8.88314979438837594e0
        top = top * z + 6.61191906371416295e01
        top = top * z + 2.98635138197400131e02
        top = top * z + 8.81952221241769090e02
        top = top * z + 1.71204761263407058e03
        top = top * z + 2.05107837782607147e03
        top = top * z + 1.23033935479799725e03
        low = z + 1.57449261107098347e01
        low = low * z + 1.17693950891312499e02
        low = low * z + 5.37181101862009858e02
        low = low * z + 1.62138957456669019e03
        low = low * z + 3.29079923573345963e03
        low = low * z + 4.36261909014324716e03
        low = low * z + 3.43936767414372164e03
        low = low * z + 1.23033935480374942e03
        right = top / low
    else:
        s = 1.0 / (z * z)
        top = 1.63153871373020978e-2
        top = top * s + 3.05326634961232344e-1
        top = top * s + 3.60344899949804439e-1
        top = top * s + 1.25781726111229246e-1
        top = top * s + 1.60837851487422766e-2
        top = top * s + 6.58749161529837803e-4
        low = s + 2.56852019228982242e00
        low = low * s + 1.87295284992346725e00
        low = low * s + 5.27905102951428412e-1
        low = low * s + 6.05183413124413191e-2
        low = low * s + 2.33520497626869185e-3
        right = (_1_OVER_SQRT_PI - s * top / low) / z
    if x >= 0.0:
        return right
    # exp(z^2) in two factors: rounding z^2 alone would cost z^2 units in the last place.
    coarse = math.floor(z * 16.0) / 16.0
    return 2.0 * math.exp(coarse * coarse) * math.exp((z - coarse) * (z + coarse)) - right


@output_kernel
def gaussian(
    y: Array, omega: Array, V: Array, parameters: Array, g: Array, curvature: Array
) -> None:
    """Parameters: the noise variance, floored."""
    step = 1 if len(parameters) > 1 else 0
    for m in range(len(y)):
        curvature[m] = 1.0 / (parameters[m * step, 0] + V[m])
        g[m] = (y[m] - omega[m]) * curvature[m]


@output_kernel
def probit(y: Array, omega: Array, V: Array, parameters: Array, g: Array, curvature: Array) -> None:
    """Parameters: the noise variance, floored."""
    step = 1 if len(parameters) > 1 else 0
    for m in range(len(y)):
        scale = math.sqrt(parameters[m * step, 0] + V[m])
        margin = y[m] * omega[m] / scale
        hazard = _SQRT_2_OVER_PI / erfcx(-margin * _1_OVER_SQRT_2)
        g[m] = y[m] * hazard / scale
        curvature[m] = hazard_curvature(margin, hazard) / (scale * scale)
