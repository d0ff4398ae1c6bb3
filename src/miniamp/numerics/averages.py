"""Averages over z ~ N(omega, V) weighted by a likelihood, accurate at every scale of either.

A rule that is fixed in advance fails here: V runs from 0 to 1e4 and more, the likelihood may be
much sharper than N(omega, V), much flatter, an edge, or a peak far out in the tail. So each element
gets its own nodes. The likelihood has a *feature*, a place and a width within which it is not
simple (the boundary of a class, the point where a rate becomes large). In t, with

    z = centre + width sinh t,

a feature of unit size and a Gaussian a thousand times wider are both of moderate size, the
integrand is analytic in a strip around the real line, and the trapezoidal rule between the two
points where it has fallen by exp(-DROP) converges geometrically. That is `tilted`, for log-concave
likelihoods; `moments` takes any, by panels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from miniamp.arrays import Array
from miniamp.numerics.panels import Index, halved, integrate

#: What lies below exp(-DROP) of the largest value is left out: 3e-20.
DROP = 45.0
#: Nodes of the trapezoidal rule. At the hardest point tried (a logistic edge three deviations off,
#: V = 1e4) the relative error is 1e-4 with 64, 4e-9 with 96, 9e-12 with 112.
NODES = 112
#: V that stands for none. An average over so narrow a Gaussian is the value at its centre to
#: rounding, and the formulas below have no 1/V left in them there.
V_FLOOR = 1e-30
#: Halvings of the (logarithmic) bracket of an end point; it is then 10 % too wide at most.
#: It starts this many e-folds wide: a likelihood 1e9 times sharper than N(omega, V) is still found.
_SHARPEST = 21.0
_HALVINGS = 8
#: Newton stops this close to the mode, in units of the peak's width: it only has to be found.
_NEAR_MODE = 1e-2
_NEWTON_STEPS = 100

#: Where any likelihood is allowed, the peak is searched for over omega +- sqrt(V) sinh(12), about
#: 8e4 standard deviations, and what lies below exp(-40) of it is left out.
_SEARCH = np.linspace(-12.0, 12.0, 193)
_ANY_DROP = 40.0
_ZOOM = np.linspace(-1.0, 1.0, 17)
_ZOOMS = 7
#: A hard end of the likelihood is found to rounding: no node would see a sliver beyond it.
_END_HALVINGS = 50
_FIRST_PANELS = 8
#: -dg is a small difference, 1 - var/V, where V is small. On 2,000 logistic rows (V from 1e-3 to
#: 1e3) it has relative errors of 8e-11 with 1e-10, 2e-11 with this and with less.
_TOLERANCE = 1e-11
#: f is taken for a polynomial of this degree over +- a tenth of its scale, where it proves to be
#: one.
_DEGREE = 10
_NEIGHBOURHOOD = 0.1
_ROUGH = 1e-10

_hermite = np.polynomial.hermite_e.hermegauss(40)
#: Nodes and weights of an average over N(0, 1), exact for polynomials up to degree 79.
HERMITE_NODES: Array = _hermite[0]
HERMITE_WEIGHTS: Array = _hermite[1] / np.sqrt(2.0 * np.pi)

Function = Callable[[Array], Array]
Slopes = Callable[[Array], tuple[Array, Array]]
#: z, and which elements its last axis belongs to, to log-likelihoods.
RowFunction: TypeAlias = Callable[[Array, Index], Array]


class Tilted(NamedTuple):
    """The law proportional to N(z; omega, V) P(y | z), as weighted nodes along a first axis."""

    log_mass: Array  #: log of its integral
    z: Array
    weights: Array  #: sum to one
    offset: Array  #: z minus its own mean, free of the cancellation in a subtraction


def tilted(
    log_likelihood: Function, peak: Array, omega: Array, V: Array, centre: Array, width: Array
) -> Tilted:
    """Nodes for a log-concave likelihood, given how far the product peaks from omega.

    All arrays have one shape S (V >= V_FLOOR) and the result (NODES,) + S: hyper-parameters that
    belong to rows broadcast against nodes that way. Positions are counted from the peak, because
    for tiny V the difference of two of them would not survive the rounding of z itself.
    """
    t0 = np.arcsinh((omega + peak - centre) / width)

    def log_integrand(s: Array) -> tuple[Array, Array]:
        # sinh(t0 + s) - sinh(t0), as a product.
        step = 2.0 * width * np.sinh(0.5 * s) * np.cosh(t0 + 0.5 * s)
        distance = peak + step
        fall = log_likelihood(omega + distance) - np.square(distance) / (2.0 * V)
        return fall + np.log(np.cosh(t0 + s)), step

    top = log_integrand(np.zeros_like(t0))[0]
    # Beyond this a log-concave integrand cannot reach; the Jacobian needs a little more.
    reach = np.sqrt(2.0 * (DROP + 10.0) * V) / width
    ends = []
    for sign in (-1.0, 1.0):
        far = np.log(np.abs(_shifted_arcsinh(t0, sign * reach)))
        above = lambda s, sign=sign: log_integrand(sign * np.exp(s))[0] >= top - DROP  # noqa: E731
        ends.append(sign * np.exp(halved(above, far - _SHARPEST, far, _HALVINGS)[1]))
    low, high = ends
    spacing = (high - low) / (NODES - 1)
    values, step = log_integrand(low + spacing * np.arange(NODES).reshape(-1, *([1] * t0.ndim)))
    largest = values.max(axis=0)
    weights = np.exp(values - largest)
    mass = weights.sum(axis=0)
    weights /= mass
    log_mass = largest + np.log(mass * spacing * width) - 0.5 * np.log(2.0 * np.pi * V)
    return Tilted(log_mass, omega + (peak + step), weights, step - (weights * step).sum(axis=0))


def _shifted_arcsinh(t0: Array, shift: Array) -> Array:
    """s such that sinh(t0 + s) = sinh(t0) + shift, also where s is far below the rounding of t0."""
    local = shift / np.cosh(t0)
    return np.asarray(np.where(np.abs(local) < 1e-6, local, np.arcsinh(np.sinh(t0) + shift) - t0))


def derivatives(law: Tilted, slopes: Slopes, V: Array) -> tuple[Array, Array]:
    """g and -dg of a log-concave likelihood with derivatives (f', f'') = slopes(z).

    g = E f'. For -dg there are two forms, each without cancellation where the other has it:
    E(-f'') - Var f' where the likelihood is flat on the scale of V, and -Cov(z, f')/V, a mean of
    terms that are all positive, where it is sharp.
    """
    first, second = slopes(law.z)
    g = (law.weights * first).sum(axis=0)
    with np.errstate(over="ignore"):
        # Slopes beyond 1e154 have no square; inf is then the right side of the comparison below.
        variance = np.square(np.sqrt(law.weights) * (first - g)).sum(axis=0)
    flat = -(law.weights * second).sum(axis=0)
    at_mean = slopes(law.z[0] - law.offset[0])[0]
    sharp = (law.weights * law.offset * (at_mean - first)).sum(axis=0) / V
    return g, np.where(variance < 0.25 * flat, flat - variance, sharp)


def peak_of(slopes: Slopes, omega: Array, V: Array, low: Array, high: Array) -> Array:
    """How far from omega the function f(z) - (z - omega)^2/2V of a concave f is largest.

    Newton, kept inside a bracket low <= z <= high that shrinks at every step.
    """
    low, high = low - omega, high - omega
    peak = np.clip(np.zeros_like(omega), low, high)
    for _ in range(_NEWTON_STEPS):
        first, second = slopes(omega + peak)
        slope, stiffness = V * first - peak, 1.0 - V * second
        rising = slope > 0.0
        low, high = np.where(rising, peak, low), np.where(rising, high, peak)
        new = peak + slope / stiffness
        new = np.where((new > low) & (new < high), new, 0.5 * (low + high))
        done = np.abs(new - peak) <= _NEAR_MODE * np.sqrt(V / stiffness)
        peak = new
        if done.all():
            break
    return peak


def moments(f: RowFunction, omega: Array, V: Array) -> tuple[Array, Array, Array]:
    """log of the mass, mean minus omega, and variance of N(z; omega, V) exp(f(z)), V > 0, any f.

    A peak that is narrower than everything around it is found if the landscape leads there; two
    needles far apart may not both be.
    """
    deviation = np.sqrt(V)
    rows = np.arange(omega.size)

    def log_density(t: Array, row: Index) -> Array:
        """Log-density of t, with z = omega + deviation sinh t."""
        x = np.sinh(t)
        value = f(omega[row] + deviation[row] * x, row) - 0.5 * np.square(x)
        return np.where(np.isnan(value), -np.inf, value) + np.log(np.cosh(t))

    t = _SEARCH[:, None] + np.zeros(omega.size)
    values = log_density(t, rows)
    gap = first_gap = _SEARCH[1] - _SEARCH[0]
    peak, top = t[values.argmax(axis=0), rows], values.max(axis=0)
    for _ in range(_ZOOMS):
        around = peak + gap * _ZOOM[:, None]
        zoomed = log_density(around, rows)
        better = zoomed.max(axis=0) > top
        peak = np.where(better, around[zoomed.argmax(axis=0), rows], peak)
        top, gap = np.maximum(top, zoomed.max(axis=0)), gap * 0.25
    alive = values > top - _ANY_DROP
    ends = []
    for sign, seen in ((-1.0, np.where(alive, t, np.inf)), (1.0, np.where(alive, t, -np.inf))):
        inside = (
            np.minimum(seen.min(axis=0), peak) if sign < 0.0 else np.maximum(seen.max(axis=0), peak)
        )
        outside = inside + sign * first_gap
        above = lambda t: log_density(t, rows) > top - _ANY_DROP  # noqa: E731
        ends.append(halved(above, inside, outside, _END_HALVINGS)[1])
    return _summed(f, omega, V, peak, *ends)


def _summed(
    f: RowFunction, omega: Array, V: Array, peak: Array, low: Array, high: Array
) -> tuple[Array, Array, Array]:
    """The three moments between low and high (in t, as the peak), positions counted from the peak.

    So far from it a Gaussian factor falls by distance (peak + distance/2)/V: nothing cancels.
    """
    deviation = np.sqrt(V)
    start = deviation * np.sinh(peak)
    at_peak = f(omega + start, np.arange(omega.size))

    def height(i: Index, distance: Array) -> Array:
        # Functions of rows have the rows along their last axis, panels along their first.
        row = np.broadcast_to(i, distance.shape).ravel()
        z = (omega + start)[i] + distance
        change = f(z.ravel(), row).reshape(distance.shape) - at_peak[i]
        change = change - distance * (start[i] + 0.5 * distance) / V[i]
        return np.where(np.isnan(change), -np.inf, change)

    cuts = low + (high - low) * np.linspace(0.0, 1.0, _FIRST_PANELS + 1)[:, None]
    cuts = 2.0 * deviation * np.sinh(0.5 * (cuts - peak)) * np.cosh(0.5 * (cuts + peak))
    owner = np.tile(np.arange(omega.size), _FIRST_PANELS)
    noise = np.finfo(np.float64).eps * (1.0 + np.abs(at_peak))
    law = integrate(height, owner, cuts[:-1].ravel(), cuts[1:].ravel(), noise, tolerance=_TOLERANCE)
    mass, mean, var = law.moments()
    log_mass = at_peak - 0.5 * np.square(start) / V + np.log(mass) - 0.5 * np.log(2.0 * np.pi * V)
    return log_mass, start + mean, var


def local(
    f: RowFunction, omega: Array, V: Array, scale: float
) -> tuple[Array, Array, Array, Array]:
    """log-partition, g and -dg where V is tiny, from a polynomial through f around omega.

    Differences of f would drown in its rounding over +- sqrt(V); a polynomial over a tenth of the
    scale has derivatives good to 1e-10. The last array is true where f is smooth enough for this.
    """
    rows = np.arange(omega.size)
    reach = _NEIGHBOURHOOD * scale
    x = np.cos(np.pi * (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1))
    values = f(omega + reach * x[:, None], rows)
    finite = np.isfinite(values).all(axis=0)
    values = np.where(finite, values, 0.0)
    fit = np.polynomial.chebyshev.chebfit(x, values, _DEGREE)
    between = np.array([-0.97, -0.31, 0.07, 0.55, 0.93])
    there = f(omega + reach * between[:, None], rows)
    with np.errstate(invalid="ignore"):
        miss = np.abs(np.polynomial.chebyshev.chebval(between, fit).T - there).max(axis=0)
        smooth = finite & (miss <= _ROUGH * (1.0 + np.abs(values).max(axis=0)))
    slope = np.polynomial.chebyshev.chebder(fit) / reach
    bend = np.polynomial.chebyshev.chebder(fit, 2) / reach**2
    position = np.sqrt(V) * HERMITE_NODES[:, None] / reach
    height, first, second = (
        np.polynomial.chebyshev.chebval(position, c[:, None, :], tensor=False)
        for c in (fit, slope, bend)
    )
    largest = height.max(axis=0)
    weights = HERMITE_WEIGHTS[:, None] * np.exp(height - largest)
    mass = weights.sum(axis=0)
    weights = weights / mass
    g = (weights * first).sum(axis=0)
    curvature = -(weights * second).sum(axis=0) - (weights * np.square(first - g)).sum(axis=0)
    gentle = np.abs(g) * np.sqrt(V) < 1.0
    return largest + np.log(mass), g, curvature, smooth & gentle
