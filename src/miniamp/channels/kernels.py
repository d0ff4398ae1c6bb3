"""Compiled outputs of the commonest channels: the formulas of their own files, row by row.

Each mirrors the method `output` of the class that uses it; tests/channels/test_kernels.py holds
them together.

The logistic channel averages over z ~ N(omega, V). `numerics.averages` has the plain form, for any
smooth likelihood: 112 nodes per row, between ends that are searched for. Here the likelihood is
known, so the trapezoidal rule can start at the peak with a step that is proven small enough and
walk both ways until nothing more comes: 30 to 100 nodes of two exponentials each.
"""

from __future__ import annotations

import math

from miniamp.arrays import Array
from miniamp.compiled import compiled, inlined, output_kernel

_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
_1_OVER_SQRT_2 = math.sqrt(0.5)
#: Beyond, h + u is a small difference of large numbers, and the fraction has converged.
_FAR_WRONG = -4.0
#: V that stands for none, as in `numerics.averages`.
_V_FLOOR = 1e-30
#: Where the integrand has fallen to this part of its peak, and the slope's share of it to this part
#: of its sum, the walk ends.
_NEGLIGIBLE = 1e-17
#: Steps in z where V is at most _NARROW: in standard deviations, and in the likelihood's own unit.
#: Its poles at +-i pi and the Gaussian's growth off the real line leave an error of
#: exp(-2 pi a/h + a^2/2V) for any a < pi, uniformly in omega: 1e-14 at worst (V = 0.4).
_STEP, _STEP_OF_UNIT = 0.65, 0.44
_NARROW = 4.0
#: Beyond, z = _WIDTH sinh t, where a boundary of unit width and a wide Gaussian are both moderate.
#: In t the Gaussian limits the strip to pi/4, and to less where the peak is far from the boundary.
_WIDTH = 3.0
_WIDE_STEP, _NEAR = 0.57, 3.2
#: So many deviations, and units of the likelihood, from the boundary nothing is seen of it: the
#: likelihood is one, or exp(z), to rounding.
_FAR, _OUT_OF_SIGHT = 12.0, 50.0
#: Newton stops this close to the peak, in standard deviations or in the likelihood's unit: it is
#: only where the walk begins.
_NEAR_PEAK = 1e-2
_NEWTON_STEPS = 60
#: No walk is so long: 250 nodes at V = 1e16.
_MOST_NODES = 10_000
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@inlined
def hazard(margin: float) -> tuple[float, float]:
    """h = phi(u)/Phi(u) and h (h + u); far on the wrong side by Laplace's continued fraction."""
    if margin >= _FAR_WRONG:
        density = _SQRT_2_OVER_PI * math.exp(-0.5 * margin * margin)
        ratio = density / math.erfc(-margin * _1_OVER_SQRT_2)
        return ratio, ratio * (ratio + margin)
    tail = -margin
    for level in range(40, 1, -1):
        tail = level / tail - margin
    excess = 1.0 / tail
    return excess - margin, (excess - margin) * excess


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
        pull, bend = hazard(margin)
        g[m] = y[m] * pull / scale
        curvature[m] = bend / (scale * scale)


@inlined
def peak_of(margin: float, V: float) -> float:
    """How far above `margin` the product N(z; margin, V)/(1 + exp(-z)) is largest, 0 to V."""
    # At z > 0 the slope is below exp(-z): log V beyond the boundary it is less than 1/V.
    low, high = 0.0, min(V, max(-margin, 0.0) + math.log1p(V) + 1.0)
    peak = 0.0
    for _ in range(_NEWTON_STEPS):
        small = math.exp(-abs(margin + peak))
        rest = small / (1.0 + small)  # the smaller of the two probabilities
        wrong = rest if margin + peak >= 0.0 else 1.0 - rest
        slope, stiffness = V * wrong - peak, 1.0 + V * rest * (1.0 - rest)
        if slope > 0.0:
            low = peak
        else:
            high = peak
        new = peak + slope / stiffness
        if not low < new < high:
            new = 0.5 * (low + high)
        done = abs(new - peak) <= _NEAR_PEAK * min(math.sqrt(V / stiffness), 1.0)
        peak = new
        if done:
            break
    return peak


@inlined
def averages(margin: float, V: float) -> tuple[float, float, float]:
    """log E P, its derivative and minus its second one, for P = 1/(1 + exp(-z)), z ~ N(margin, V).

    With q the smaller of P and 1 - P at the peak, -dg = m(1 - m) - 2 Var q (m the tilted mean of q)
    where the likelihood is flat on the scale of V, and |Cov(z, q)|/V where it is sharp: the two
    forms in `numerics.averages.derivatives`, each without cancellation where it is taken.
    """
    if not (math.isfinite(margin) and math.isfinite(V)):
        return math.nan, math.nan, math.nan
    V = max(V, _V_FLOOR)
    deviation = math.sqrt(V)
    peak = peak_of(margin, V)
    centre = margin + peak
    far = abs(centre) > _FAR * deviation + _OUT_OF_SIGHT
    wide = V > _NARROW and not far
    right = centre >= 0.0  # q = 1 - P, else P
    small = math.exp(-abs(centre))
    start = small / (1.0 + small)
    if wide:
        step = _WIDE_STEP / (_NEAR + abs(centre) / deviation)
        turn = math.exp(math.asinh(centre / _WIDTH))
        jacobian = 0.5 * _WIDTH * (turn + 1.0 / turn)
    else:
        step = _STEP * deviation if far else min(_STEP * deviation, _STEP_OF_UNIT)
        turn = jacobian = 1.0
    # The log of the integrand at the peak, without log(1 + exp(-|z|)), which every node divides by.
    top = min(centre, 0.0) - 0.5 * peak * peak / V
    mass = jacobian / (1.0 + small)
    highest = mass
    slope_mass = mass * start  # of q itself, for the end of the walk
    first = second = along = cross = 0.0  # of q - start, its square, z - centre, and their product
    for side in range(2):
        growth = math.exp(step if side == 0 else -step) if wide else 1.0
        here = turn
        for k in range(1, _MOST_NODES):
            if wide:
                here *= growth
                offset = 0.5 * _WIDTH * (here - 1.0 / here) - centre
                jacobian = 0.5 * _WIDTH * (here + 1.0 / here)
            else:
                offset = k * step if side == 0 else -k * step
            z = centre + offset
            distance = peak + offset
            small = math.exp(-abs(z))
            rest = small / (1.0 + small)
            q = rest if (z >= 0.0) == right else 1.0 - rest
            height = min(z, 0.0) - 0.5 * distance * distance / V - top
            weight = jacobian * math.exp(height) / (1.0 + small)
            highest = max(highest, weight)
            change = q - start
            mass += weight
            slope_mass += weight * q
            first += weight * change
            second += weight * change * change
            along += weight * offset
            cross += weight * change * offset
            if weight < _NEGLIGIBLE * highest and weight * q <= _NEGLIGIBLE * slope_mass:
                break
    first /= mass
    mean = slope_mass / mass
    variance = second / mass - first * first
    flat = mean * (1.0 - mean) - variance  # E q (1 - q)
    covariance = cross / mass - first * (along / mass)
    curvature = flat - variance if variance < 0.25 * flat else abs(covariance) / V
    log_mass = top + math.log(mass * step / deviation) - _HALF_LOG_2PI
    return log_mass, (mean if right else 1.0 - mean), curvature


@output_kernel
def logistic(
    y: Array,
    omega: Array,
    V: Array,
    parameters: Array,  # noqa: ARG001  # this channel has none
    g: Array,
    curvature: Array,
) -> None:
    """The channel's output, row by row."""
    for m in range(len(y)):
        _, slope, bend = averages(y[m] * omega[m], V[m])
        g[m] = y[m] * slope
        curvature[m] = bend


@compiled
def each(margin: Array, V: Array, log_mass: Array, slope: Array, curvature: Array) -> None:
    """`averages` of every row; fills the last three."""
    for m in range(len(margin)):
        log_mass[m], slope[m], curvature[m] = averages(margin[m], V[m])
