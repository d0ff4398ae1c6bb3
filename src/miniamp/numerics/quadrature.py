"""Averages over z ~ N(omega, V) weighted by a likelihood, accurate at every scale of either.

A rule that is fixed in advance fails here: V runs from 0 to 1e4 and more, the likelihood may be
much sharper than N(omega, V), much flatter, an edge, or a peak far out in the tail. So each element
gets its own nodes. The likelihood has a *feature*, a place and a width within which it is not
simple (the boundary of a class, the point where a rate becomes large). In t, with

    z = centre + width sinh t,

a feature of unit size and a Gaussian a thousand times wider are both of moderate size, the
integrand is analytic in a strip around the real line, and the trapezoidal rule between the two
points where it has fallen by exp(-DROP) converges geometrically.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from miniamp.arrays import Array

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

_hermite = np.polynomial.hermite_e.hermegauss(40)
#: Nodes and weights of an average over N(0, 1), exact for polynomials up to degree 79.
HERMITE_NODES: Array = _hermite[0]
HERMITE_WEIGHTS: Array = _hermite[1] / np.sqrt(2.0 * np.pi)

Function = Callable[[Array], Array]
Slopes = Callable[[Array], tuple[Array, Array]]


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
        near = far - _SHARPEST
        for _ in range(_HALVINGS):
            middle = 0.5 * (near + far)
            beyond = log_integrand(sign * np.exp(middle))[0] < top - DROP
            near, far = np.where(beyond, near, middle), np.where(beyond, middle, far)
        ends.append(sign * np.exp(far))
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
