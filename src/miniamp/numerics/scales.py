"""Functions whose features lie at very different scales: quadrature rules, and tables in log x."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.polynomial import Chebyshev, chebyshev
from scipy.optimize import minimize_scalar

from miniamp.arrays import Array, ArrayOrFloat

#: Panels beside a landmark are this wide, in units of its finest scale ...
STEP = 0.5
#: ... for this many of those units on either side, which holds whatever happens on that scale ...
NEAR = 11.0
#: ... and then grow in proportion to the distance.
GROWTH = 1.35
_LEGENDRE = np.polynomial.legendre.leggauss(14)
#: Chebyshev points per panel of a table. Functions analytic within |Im log x| < pi gain a factor
#: 5.6 per point on a panel of one decade, so that 20 reach 1e-15.
POINTS = 20
DECADE = np.log(10.0)
#: Where the last coefficients are larger than this (absolutely, in log f: relatively, in f), the
#: panel is halved, at most DEPTH times.
TAIL = 3e-13
DEPTH = 3
#: Points of a series below a table, more of them where its last coefficients are not small.
SERIES_POINTS = (20, 36)
SERIES_TAIL = 1e-9
#: How unevenly these lie, x ~ expm1(SPREAD t): any from 1 to 9 gives a logistic delta to 2e-13.
SPREAD = 6.0
#: exp of less than this is 0 in floating point, so its shape does not matter.
VANISHED = -740.0


def graded_rule(
    landmarks: Array, finest: float, lower: float, upper: float, *, between: bool = True
) -> tuple[Array, Array]:
    """Nodes and weights for an integral over [lower, upper], dense beside the landmarks.

    Composite Gauss-Legendre: panels of half the finest scale next to every landmark and midway
    between two of them, growing geometrically away from there. A range of 1e15 finest scales takes
    a few thousand nodes. The integrand may change within `finest`, the smallest scale, at the
    landmarks and with `between` also midway between two of them.

    Examples
    --------
    >>> import numpy as np
    >>> x, w = graded_rule(np.array([0.0]), 1.0, -1e8, 1e8)
    >>> bool(abs(w @ np.exp(-x * x / 2) - np.sqrt(2 * np.pi)) < 1e-13)
    True
    """
    places = np.unique(np.clip(landmarks, lower, upper))
    if between:
        places = np.unique(np.concatenate([places, (places[1:] + places[:-1]) / 2.0]))
    ends = np.concatenate([[lower], (places[1:] + places[:-1]) / 2.0, [upper]])
    edges = [ends]
    for place, left, right in zip(places, ends[:-1], ends[1:], strict=True):
        offsets = finest * _offsets(max(right - place, place - left) / finest)
        edges += [place + offsets[offsets < right - place], place - offsets[offsets < place - left]]
    breaks = np.unique(np.concatenate(edges))
    # Landmarks closer than the finest scale would leave slivers; nothing is lost without them.
    keep = np.concatenate([[True], np.diff(breaks) > 1e-3 * finest])
    breaks = breaks[keep]
    nodes, weights = _LEGENDRE
    half = np.diff(breaks)[:, None] / 2.0
    return ((breaks[:-1, None] + half) + half * nodes).ravel(), (half * weights).ravel()


def gaussian_rule(spread: float, landmarks: Array, finest: float) -> tuple[Array, Array]:
    """Nodes and weights of an average over N(0, spread) of a function with abrupt places.

    The weights sum to one; see `graded_rule` for landmarks and finest.
    """
    deviation = np.sqrt(spread)
    reach = 9.5 * deviation
    nodes, weights = graded_rule(
        landmarks, 2.0 * float(min(finest, deviation)), -reach, reach, between=False
    )
    weights = weights * np.exp(-0.5 * np.square(nodes / deviation))
    return nodes, weights / weights.sum()


def lowest(f: Callable[[float], float], low: float, high: float, to: float) -> tuple[float, float]:
    """Where f, which has one minimum between low and high, is lowest; and its value there.

    Examples
    --------
    >>> round(lowest(lambda x: (x - 2.0) ** 2, 0.0, 5.0, to=1e-9)[0], 6)
    2.0
    """
    found = minimize_scalar(f, bounds=(low, high), method="bounded", options={"xatol": to})
    return float(found.x), float(found.fun)


def _offsets(reach: float) -> Array:
    """Distances of the breaks from a landmark, in finest scales, up to `reach`."""
    near = np.arange(0.0, min(NEAR, reach + STEP), STEP)
    if reach <= NEAR:
        return near
    far = NEAR * GROWTH ** np.arange(np.ceil(np.log(reach / NEAR) / np.log(GROWTH)) + 1)
    return np.concatenate([near, far])


class LogTable:
    """A positive function f on (0, top], as piecewise polynomials of log f in log x.

    `log_f` takes an array of log x. Panels are a decade wide, start at log x = `start` and are made
    when first used. Below them f is continued by `low`, which takes x and gives f and its integral
    from 0.

    Examples
    --------
    >>> import numpy as np
    >>> table = LogTable(lambda s: -np.log1p(np.exp(s)), -20.0, lambda x: (1.0 - x, x))
    >>> round(float(table.value(3.0)), 12), round(float(table.integral(3.0)), 12)
    (0.25, 1.38629436112)
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
        self._plain: dict[tuple[int, int, int], list[float]] = {}

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
        if x.ndim == 0:
            return np.asarray(self._one(float(x), what))
        flat = x.ravel()
        out = np.empty(flat.shape)
        with np.errstate(divide="ignore"):
            place = (np.log(flat) - self._start) / DECADE
        low = place < 0.0
        if low.any():
            out[low] = self._below_panels(flat[low], what)
        keys = np.floor(np.where(low, -1.0, place)).astype(np.int64)
        for key in np.unique(keys[~low]):
            here = keys == key
            chosen = self._panel(int(key))[what]
            inside = (place[here] - key) * len(chosen)
            part = np.minimum(inside.astype(np.int64), len(chosen) - 1)
            angle = np.arccos(np.clip(2.0 * (inside - part) - 1.0, -1.0, 1.0))
            basis = np.cos(angle[:, None] * np.arange(chosen.shape[1]))
            out[here] = np.einsum("ij,ij->i", basis, chosen[part])
            if what:
                out[here] += self._base(int(key))
        return out.reshape(x.shape)

    def _one(self, x: float, what: int) -> float:
        """The same for one number, in plain floats: root searches ask for many, one at a time."""
        place = (math.log(x) - self._start) / DECADE if x > 0.0 else -1.0
        if place < 0.0:
            return float(self._below_panels(np.array([x]), what)[0])
        key = int(place)
        chosen = self._panel(key)[what]
        inside = (place - key) * len(chosen)
        part = min(int(inside), len(chosen) - 1)
        if (key, part, what) not in self._plain:
            self._plain[key, part, what] = chosen[part].tolist()[::-1]
        t = 2.0 * (inside - part) - 1.0
        last, before = 0.0, 0.0  # Clenshaw's recurrence
        coefficients = self._plain[key, part, what]
        for coefficient in coefficients[:-1]:
            last, before = coefficient + 2.0 * t * last - before, last
        value = float(coefficients[-1] + t * last - before)
        return value + self._base(key) if what else value

    def _below_panels(self, x: Array, what: int) -> Array:
        value, integral = self._low(x)
        with np.errstate(divide="ignore"):
            return integral if what else np.log(value)

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
        points = _grid(POINTS)
        bottoms = self._start + key * DECADE + width * np.arange(parts)
        s = bottoms[:, None] + width * (points + 1.0) / 2.0
        logs = self._log_f(s.ravel()).reshape(s.shape)
        to_coefficients = _transform(POINTS)
        coefficients = logs @ to_coefficients
        integrands = np.exp(logs + s) @ to_coefficients
        integrals = chebyshev.chebint(integrands, lbnd=-1.0, scl=width / 2.0, axis=1)
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


def low_series(
    log_f: Callable[[Array], Array], end: float, factor: Callable[[Array], Array] = np.ones_like
) -> Callable[[Array], tuple[Array, Array]]:
    """The `low` of a `LogTable` by polynomials, for f that is smooth from 0 to `end`.

    They are in t, x = end expm1(SPREAD t)/expm1(SPREAD): even where f changes at every scale.
    `log_f` takes log x, and leaves out what f has beside a smooth logarithm, `factor`.
    """

    @cache  # when first used
    def fitted() -> tuple[Chebyshev, Chebyshev]:
        for points in SERIES_POINTS:
            t = 0.5 * (_grid(points) + 1.0)
            x = end * np.expm1(SPREAD * t) / np.expm1(SPREAD)
            logs = log_f(np.log(x))
            log_value = Chebyshev.fit(t, logs, points - 1, domain=[0.0, 1.0])
            if np.abs(log_value.coef[-2:]).max() < SERIES_TAIL:
                break
        density = np.exp(logs) * factor(x) * SPREAD * (x + end / np.expm1(SPREAD))
        integral = Chebyshev.fit(t, density, points - 1, domain=[0.0, 1.0])
        return log_value, integral.integ(lbnd=0.0)

    def low(x: Array) -> tuple[Array, Array]:
        (log_value, integral), t = fitted(), np.log1p(x / end * np.expm1(SPREAD)) / SPREAD
        return np.exp(log_value(t)) * factor(x), np.asarray(integral(t))

    return low


@cache
def _grid(points: int) -> Array:
    """Chebyshev points of the first kind."""
    return np.asarray(chebyshev.chebpts1(points))


@cache
def _transform(points: int) -> Array:
    """Matrix from values at Chebyshev points (along the last axis) to coefficients."""
    matrix = chebyshev.chebvander(_grid(points), points - 1) * (2.0 / points)
    matrix[:, 0] /= 2.0
    return np.asarray(matrix)
