"""A function known on logarithmic scales, tabulated lazily, and its integral."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.polynomial import chebyshev

from miniamp.arrays import Array, ArrayOrFloat

#: Chebyshev points a panel. Functions analytic within |Im log x| < pi gain a factor 5.6 a point on a
#: panel of one decade, so that 20 reach 1e-15.
POINTS = 20
DECADE = np.log(10.0)
#: Where the last coefficients are larger than this (absolutely, in log f: relatively, in f), the
#: panel is halved, at most DEPTH times.
TAIL = 3e-13
DEPTH = 3
#: exp of less than this is 0 in floating point, so its shape does not matter.
VANISHED = -740.0


class LogTable:
    """A positive function f on (0, top], as piecewise polynomials of log f in log x.

    Panels are a decade wide and made when first asked for. Below the last panel f is continued by
    `low`, which gives f and its integral from 0.

    Parameters
    ----------
    log_f : callable
        Takes an array of log x, gives log f.
    start : float
        log x at which panels start, upwards.
    low : callable
        Takes x below exp(start), gives (f, integral of f from 0 to x).

    Examples
    --------
    >>> import numpy as np
    >>> table = LogTable(lambda s: -np.log1p(np.exp(s)), -20.0, lambda x: (1.0 - x, x))
    >>> bool(abs(table.value(3.0) - 0.25) < 1e-13), bool(abs(table.integral(3.0) - np.log(4)) < 1e-12)
    (True, True)
    """

    def __init__(
        self,
        log_f: Callable[[Array], Array],
        start: float,
        low: Callable[[Array], tuple[Array, Array]],
    ) -> None:
        self._log_f = log_f
        self._start = start
        self._low = low
        self._panels: dict[int, tuple[Array, Array]] = {}
        self._below: list[float] = []

    def log_value(self, x: ArrayOrFloat) -> Array:
        """log f(x), elementwise."""
        return self._each(x, 0)

    def value(self, x: ArrayOrFloat) -> Array:
        """f(x), elementwise; 0 where it underflows."""
        return np.asarray(np.exp(self.log_value(x)))

    def integral(self, x: ArrayOrFloat) -> Array:
        """Integral of f from 0 to x, elementwise."""
        return self._each(x, 1)

    def _each(self, x: ArrayOrFloat, what: int) -> Array:
        x = np.asarray(x, dtype=np.float64)
        flat = x.ravel()
        out = np.empty(flat.shape)
        with np.errstate(divide="ignore"):
            place = (np.log(flat) - self._start) / DECADE
        low = place < 0.0
        if low.any():
            value, integral = self._low(flat[low])
            with np.errstate(divide="ignore"):
                out[low] = integral if what else np.log(value)
        if not low.all():
            keys = np.floor(np.where(low, -1.0, place)).astype(np.int64)
            for key in np.unique(keys[~low]):
                here = keys == key
                coefficients, integrals = self._panel(int(key))
                parts = coefficients.shape[0]
                inside = (place[here] - key) * parts
                part = np.minimum(inside.astype(np.int64), parts - 1)
                t = 2.0 * (inside - part) - 1.0
                chosen = integrals if what else coefficients
                # chebval over the last axis of one row of coefficients a point.
                result = chebyshev.chebval(t, chosen[part].T, tensor=False)
                out[here] = result + (self._base(int(key)) if what else 0.0)
        return out.reshape(x.shape)

    def _panel(self, key: int) -> tuple[Array, Array]:
        """Coefficients of log f, and of the integral from the panel's bottom, (parts, points)."""
        if key not in self._panels:
            for depth in range(DEPTH + 1):
                parts = 2**depth
                coefficients, integrals, tail = self._fit(key, parts)
                if tail < TAIL:
                    break
            self._panels[key] = coefficients, integrals
        return self._panels[key]

    def _fit(self, key: int, parts: int) -> tuple[Array, Array, float]:
        width = DECADE / parts
        points = chebyshev.chebpts1(POINTS)
        bottoms = self._start + key * DECADE + width * np.arange(parts)
        s = bottoms[:, None] + width * (points + 1.0) / 2.0
        logs = self._log_f(s.ravel()).reshape(s.shape)
        to_coefficients = _transform(POINTS)
        coefficients = logs @ to_coefficients
        integrands = np.exp(logs + s) @ to_coefficients
        integrals = np.stack([chebyshev.chebint(c, lbnd=-1.0, scl=width / 2.0) for c in integrands])
        totals = integrals.sum(axis=1)  # every Chebyshev polynomial is 1 at the right end
        integrals[:, 0] += np.concatenate([[0.0], np.cumsum(totals)[:-1]])
        visible = logs.max(axis=1) > VANISHED
        tails = np.abs(coefficients[:, -2:]).max(axis=1)
        scale = np.maximum(1.0, np.abs(logs).max(axis=1))
        return coefficients, integrals, float(np.max(tails / scale * visible))

    def _base(self, key: int) -> float:
        """Integral up to the bottom of a panel."""
        if not self._below:
            edge = np.exp(np.array([self._start]))
            self._below.append(float(self._low(edge)[1][0]))
        while len(self._below) <= key:
            last = len(self._below) - 1
            self._below.append(self._below[last] + float(self._panel(last)[1][-1].sum()))
        return self._below[key]


def _transform(points: int) -> Array:
    """Matrix from values at Chebyshev points (along the last axis) to coefficients."""
    grid = chebyshev.chebpts1(points)
    matrix = chebyshev.chebvander(grid, points - 1) * (2.0 / points)
    matrix[:, 0] /= 2.0
    return np.asarray(matrix)
