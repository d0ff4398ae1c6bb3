"""Moments of N(z; omega, V) exp(f(z)) for any f, by panels that are halved until they agree."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from miniamp.arrays import Array
from miniamp.numerics.quadrature import HERMITE_NODES, HERMITE_WEIGHTS

#: What lies below exp(-DROP) of the largest value is left out.
_DROP = 40.0
#: The search covers omega +- sqrt(V) sinh(12), about 8e4 standard deviations.
_SEARCH = np.linspace(-12.0, 12.0, 193)
_ZOOM = np.linspace(-1.0, 1.0, 17)
_ZOOMS = 7
#: A hard end of the likelihood is found to rounding: no node would see a sliver beyond it.
_HALVINGS = 50
_FIRST_PANELS = 8
#: A jump is halved down to the rounding of z.
_LEVELS = 48
_TOLERANCE = 1e-13
_points, _weights = np.polynomial.legendre.leggauss(12)
#: f is taken for a polynomial of this degree over +- a tenth of its scale, where it proves to be
#: one.
_DEGREE = 10
_NEIGHBOURHOOD = 0.1
_ROUGH = 1e-10

#: z, and which elements its last axis belongs to, to log-likelihoods.
_Rows = NDArray[np.intp]
RowFunction = Callable[[Array, _Rows], Array]
_Integrand = Callable[[Array, _Rows], tuple[Array, Array]]


def moments(f: RowFunction, omega: Array, V: Array) -> tuple[Array, Array, Array]:
    """log of the mass, mean minus omega, and variance, for vectors omega and V > 0.

    A peak that is narrower than everything around it is found if the landscape leads there; two
    needles far apart may not both be.
    """
    s = np.sqrt(V)
    rows = np.arange(omega.size)

    def log_integrand(t: Array, row: _Rows) -> tuple[Array, Array]:
        x = np.sinh(t)
        value = f(omega[row] + s[row] * x, row) - 0.5 * np.square(x)
        return np.where(np.isnan(value), -np.inf, value) + np.log(np.cosh(t)), x

    t = _SEARCH[:, None] + np.zeros(omega.size)
    values = log_integrand(t, rows)[0]
    peak, top, gap = t[values.argmax(axis=0), rows], values.max(axis=0), _SEARCH[1] - _SEARCH[0]
    for _ in range(_ZOOMS):
        around = peak + gap * _ZOOM[:, None]
        zoomed = log_integrand(around, rows)[0]
        better = zoomed.max(axis=0) > top
        peak = np.where(better, around[zoomed.argmax(axis=0), rows], peak)
        top, gap = np.maximum(top, zoomed.max(axis=0)), gap * 0.25
    alive = values > top - _DROP
    low = np.minimum(np.where(alive, t, np.inf).min(axis=0), peak)
    high = np.maximum(np.where(alive, t, -np.inf).max(axis=0), peak)
    low, high = (
        _edge(log_integrand, rows, inside, inside + sign * (_SEARCH[1] - _SEARCH[0]), top)
        for inside, sign in ((low, -1.0), (high, 1.0))
    )
    return _summed(log_integrand, rows, low, high, peak, top, s)


def _edge(
    log_integrand: _Integrand, rows: _Rows, inside: Array, outside: Array, top: Array
) -> Array:
    """Where the integrand becomes negligible, between two points on either side of that."""
    for _ in range(_HALVINGS):
        middle = 0.5 * (inside + outside)
        above = log_integrand(middle, rows)[0] > top - _DROP
        inside, outside = np.where(above, middle, inside), np.where(above, outside, middle)
    return outside


def _summed(
    log_integrand: _Integrand,
    rows: _Rows,
    low: Array,
    high: Array,
    peak: Array,
    top: Array,
    s: Array,
) -> tuple[Array, Array, Array]:
    """The three moments between low and high; panels of all elements are halved side by side."""
    total = np.zeros((3, rows.size))

    def panel(start: Array, length: Array, row: _Rows) -> Array:
        t = start + length * (0.5 * (_points[:, None] + 1.0))
        value, x = log_integrand(t, row)
        mass = 0.5 * _weights[:, None] * length * np.exp(value - top[row])
        x = x - np.sinh(peak[row])
        return np.stack([mass.sum(axis=0), (mass * x).sum(axis=0), (mass * x * x).sum(axis=0)])

    length = np.tile((high - low) / _FIRST_PANELS, _FIRST_PANELS)
    row = np.tile(rows, _FIRST_PANELS)
    start = np.tile(low, _FIRST_PANELS) + length * np.repeat(np.arange(_FIRST_PANELS), rows.size)
    whole = panel(start, length, row)
    size = np.bincount(row, whole[0], minlength=rows.size)
    for level in range(_LEVELS):
        length = 0.5 * length
        left, right = panel(start, length, row), panel(start + length, length, row)
        # A panel that was wrongly seen as empty shows in its halves: the size grows with them.
        size = np.maximum(size, np.bincount(row, left[0] + right[0], minlength=rows.size))
        fine = np.abs(left[0] + right[0] - whole[0]) <= _TOLERANCE * size[row]
        fine |= level == _LEVELS - 1
        for k in range(3):
            total[k] += np.bincount(row[fine], (left + right)[k, fine], minlength=rows.size)
        if fine.all():
            break
        rough = ~fine
        start = np.concatenate([start[rough], (start + length)[rough]])
        whole = np.concatenate([left[:, rough], right[:, rough]], axis=1)
        length, row = np.tile(length[rough], 2), np.tile(row[rough], 2)
    mass, first, second = total
    mean = first / mass
    log_mass = top + np.log(mass) - 0.5 * np.log(2.0 * np.pi)
    return log_mass, s * (np.sinh(peak) + mean), s * s * (second / mass - mean * mean)


def local(
    f: RowFunction, omega: Array, V: Array, scale: float
) -> tuple[Array, Array, Array, Array]:
    """log-partition, g and -dg where V is tiny, from a polynomial through f around omega.

    Differences of f would drown in its rounding over +- sqrt(V); a polynomial over a tenth of the
    scale has derivatives good to 1e-10. The last array says where f is smooth enough for this.
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
