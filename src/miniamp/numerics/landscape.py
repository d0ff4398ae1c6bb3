"""Where the mass of a density is once it is tilted: its highest point, and how far it reaches.

`survey` takes a first look at a density of which only the formula is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from miniamp import checks
from miniamp.arrays import Array
from miniamp.numerics.panels import Index, Panels, halved, integrate

Flags: TypeAlias = NDArray[np.bool_]

#: A place counts while its log-density, plus three times the log of its distance (the second moment
#: of what lies around it), is within this of the peak: exp(-42) is 6e-19.
_DEPTH = 42.0
#: At the outermost place looked at, 1e18 widths away, anything within this of the peak never ends.
_ENDLESS = 35.0
#: Steps of a golden section that take a bracket from 1e18 widths to a millionth of one.
_GOLDEN_STEPS = 115
_GOLDEN = 0.5 * (3.0 - np.sqrt(5.0))
#: A bracket is narrow enough once the integrand changes by less than this (in the log) across it.
_FLAT = 0.5
#: A reach is found by bisection of its logarithm over 30 decades, to 7 %.
_REACH_DECADES = 30.0
_REACH_STEPS = 10
#: Halvings of 7 % down to rounding.
_END_STEPS = 50
#: Distances from the anchors (0, finite ends, break points) at which a density is first looked at.
_FIRST_LOOK = np.geomspace(1e-9, 1e9, 18 * 12 + 1)
#: Distances from its mode, in widths, at which it is looked at for every tilt.
_LOOK = np.concatenate([np.linspace(0.0, 8.0, 17), np.geomspace(9.0, 1e18, 17 * 4 + 1)])
_MOST_PEAKS = 64


@dataclass(frozen=True)
class TiltedDensity:
    """log-density under tilts, seen from a centre of each coordinate: height(i, 0) = 0.

    Everything is counted from the centre, so that nothing large cancels however sharp the tilt.
    """

    log_density: Callable[[Array], Array]
    A: Array
    B: Array
    centre: Array
    peak: Array
    slope: Array

    @classmethod
    def at(
        cls, log_density: Callable[[Array], Array], A: Array, B: Array, centre: Array
    ) -> TiltedDensity:
        """The view from `centre`."""
        return cls(log_density, A, B, centre, log_density(centre), B - A * centre)

    def height(self, i: Index, t: Array) -> Array:
        """log of the tilted density at centre + t, relative to the centre."""
        change = self.log_density(self.centre[i] + t) - self.peak[i]
        return np.asarray(change + t * (self.slope[i] - 0.5 * self.A[i] * t))

    def noise(self) -> Array:
        """Rounding error of height: of the log-density, and of the place where it is taken."""
        size = np.abs(self.peak) + np.abs(self.centre * self.slope)
        return np.asarray(np.finfo(np.float64).eps * (1.0 + size))

    def log_peak(self) -> Array:
        """log of the tilted density at the centre, as the user scaled it."""
        return np.asarray(self.peak + self.centre * (self.B - 0.5 * self.A * self.centre))


@dataclass(frozen=True)
class Landscape:
    """Places to look for a peak, sorted, with their log-densities; edges of smooth pieces."""

    log_density: Callable[[Array], Array]
    places: Array  #: (J,) where the density was looked at
    values: Array  #: (J,) its logarithm there
    low: float  #: an end of the support, infinite where there is none
    high: float
    edges: Array  #: (E,) where panels must end: kinks, and pieces on which it is resolved

    def integrated(self, A: Array, B: Array) -> tuple[TiltedDensity, Panels, Flags, Flags]:
        """The tilted density and its panels, and where its mass and its variance are infinite."""
        tilted, width, heights = self._peak(A, B)
        left, right, endless, heavy = self._reach(tilted, width, heights)
        inner = np.clip(self.edges - tilted.centre[:, None], -left[:, None], right[:, None])
        ends = np.stack([-left, -0.5 * left, 0.0 * left, 0.5 * right, right], axis=1)
        cuts = np.sort(np.concatenate([inner, ends], axis=1), axis=1)
        owner, k = np.nonzero(np.diff(cuts, axis=1) > 0.0)
        panels = integrate(tilted.height, owner, cuts[owner, k], cuts[owner, k + 1], tilted.noise())
        return tilted, panels, endless, heavy

    def _heights(self, A: Array, B: Array) -> Array:
        """log of the tilted density at all places, (n, J)."""
        return self.values + self.places * (B[:, None] - 0.5 * A[:, None] * self.places)

    def _peak(self, A: Array, B: Array) -> tuple[TiltedDensity, Array, Array]:
        """The view from the highest point, and the width of a nearly flat bracket about it.

        Also how high all places are, seen from there.
        """
        heights = self._heights(A, B)
        best = np.argmax(heights, axis=1)
        start = self.places[best]
        safe = np.where(A > 0.0, A, 1.0)
        summit = np.clip(np.where(A > 0.0, B / safe, start), self.places[0], self.places[-1])
        there = self.log_density(summit) + summit * (B - 0.5 * A * summit)
        start = np.where(there > heights[np.arange(A.size), best], summit, start)
        around = np.concatenate([[self._end_low], self.places, [self._end_high]])
        below = around[np.maximum(np.searchsorted(around, start, side="left") - 1, 0)]
        above = around[np.minimum(np.searchsorted(around, start, side="right"), around.size - 1)]
        tilted = TiltedDensity.at(self.log_density, A, B, start)
        t, width = _golden(tilted, below - start, above - start)
        tilted = TiltedDensity.at(self.log_density, A, B, start + t)
        return tilted, width, heights - tilted.log_peak()[:, None]

    @property
    def _end_low(self) -> float:
        return self.low if np.isfinite(self.low) else float(self.places[0])

    @property
    def _end_high(self) -> float:
        return self.high if np.isfinite(self.high) else float(self.places[-1])

    def _reach(
        self, tilted: TiltedDensity, width: Array, heights: Array
    ) -> tuple[Array, Array, Flags, Flags]:
        """How far the mass goes to the left and right; whether it, or its variance, is infinite."""
        away = self.places - tilted.centre[:, None]
        log_away = np.log(np.maximum(np.abs(away), np.finfo(np.float64).tiny))
        # Mass over height of the peak: not the bracket's width where the peak is a narrow pole.
        width = np.maximum(width, np.exp(np.max(heights + log_away, axis=1)))
        far = np.maximum(log_away - np.log(width)[:, None], 0.0)
        counts = heights + 3.0 * far > -_DEPTH
        left, right = (self._side(tilted, side, counts, width) for side in (-1, 1))
        endless = heavy = np.zeros(heights.shape[0], dtype=bool)
        for end, bound in ((0, self.low), (-1, self.high)):
            if not np.isfinite(bound):
                endless = endless | (heights[:, end] + far[:, end] > -_ENDLESS)
                heavy = heavy | (heights[:, end] + 3.0 * far[:, end] > -_ENDLESS)
        return left, right, endless, heavy

    def _side(self, tilted: TiltedDensity, side: int, counts: Flags, width: Array) -> Array:
        """How far the mass goes to one side, given which places count: the axis mirrored to it."""
        places, centre, counts = side * self.places[::side], side * tilted.centre, counts[:, ::side]
        bound, end = (self.high, self._end_high) if side > 0 else (-self.low, -self._end_low)
        outer = counts & (places >= centre[:, None])
        # The outermost place that counts, else the last one before the centre; then the next one.
        last = np.where(
            outer.any(axis=1),
            places.size - 1 - np.argmax(outer[:, ::-1], axis=1),
            np.searchsorted(places, centre, side="right") - 1,
        )
        inner = np.maximum(places[np.maximum(last, 0)] - centre, 0.0)
        return _reach(
            tilted, side, bound - centre, inner, np.append(places, end)[last + 1] - centre, width
        )


def _golden(tilted: TiltedDensity, low: Array, high: Array) -> tuple[Array, Array]:
    """The highest point between low and high, which enclose 0, and the last bracket's width."""
    i = np.arange(low.size)
    middle, at_middle = np.zeros_like(low), np.zeros_like(low)
    at_low, at_high = tilted.height(i, low), tilted.height(i, high)
    for _ in range(_GOLDEN_STEPS):
        if not (_drop(at_middle, at_low, at_high) > _FLAT).any():
            break
        upper = high - middle > middle - low
        trial = np.where(
            upper, middle + _GOLDEN * (high - middle), middle - _GOLDEN * (middle - low)
        )
        at_trial = tilted.height(i, trial)
        better = at_trial > at_middle
        # The end that moves: behind the trial point if it is better, at the trial point if not.
        low_moves = better == upper
        new_end = np.where(better, middle, trial)
        at_new_end = np.where(better, at_middle, at_trial)
        low, at_low = np.where(low_moves, new_end, low), np.where(low_moves, at_new_end, at_low)
        high = np.where(low_moves, high, new_end)
        at_high = np.where(low_moves, at_high, at_new_end)
        middle, at_middle = np.where(better, trial, middle), np.maximum(at_trial, at_middle)
    tiny = np.finfo(np.float64).tiny
    return middle, np.maximum(high - low, tiny)


def _drop(at_middle: Array, at_low: Array, at_high: Array) -> Array:
    """How far the integrand falls to the ends of a bracket; an end without mass does not count."""
    ends = np.stack([at_low, at_high])
    seen = np.where(np.isfinite(ends), ends, np.inf).min(axis=0)
    return np.where(np.isfinite(seen), at_middle - seen, np.inf)


def _reach(
    tilted: TiltedDensity, side: int, end: Array, inner: Array, outer: Array, width: Array
) -> Array:
    """The distance, between inner and outer, beyond which nothing counts any more."""
    i = np.arange(inner.size)
    outer = np.maximum(outer, 0.0)
    low = np.maximum(inner, outer * 10.0**-_REACH_DECADES)
    high = np.maximum(outer, low)
    for _ in range(_REACH_STEPS):
        middle = np.sqrt(low) * np.sqrt(high)
        far = np.log(np.maximum(middle / width, 1.0))
        counts = tilted.height(i, side * middle) + 3.0 * far > -_DEPTH
        low, high = np.where(counts, middle, low), np.where(counts, high, middle)
    # Where the density itself ends without having been said to, the panels must end there too:
    # nodes do not see an end that lies just beyond the last of them.
    past = np.isneginf(tilted.height(i, side * high)) & (high < end)
    ends = i[past & np.isfinite(tilted.height(i, side * low))]
    if ends.size:
        exists = lambda t: np.isfinite(tilted.height(ends, side * t))  # noqa: E731
        high[ends] = halved(exists, low[ends], high[ends], _END_STEPS)[1]
    return np.asarray(high)


def survey(
    log_density: Callable[[Array], Array], low: float, high: float, breakpoints: Array
) -> Landscape:
    """The landscape of `log_density` on (low, high), break points included."""
    places = _first_places(low, high, breakpoints)
    landscape = _looked_at(log_density, places, low, high, breakpoints)
    if not np.isfinite(landscape.values).any():
        raise checks.refuse(
            "log_density",
            "no finite value anywhere",
            "a finite log-density where coefficients may lie",
            "pass support=(low, high), or breakpoints near the mass",
        )
    none = np.zeros(1)
    tilted, width, _ = landscape._peak(none, none)
    scale = max(float(width[0]), _middle_half(landscape))
    spread = tilted.centre[0] + scale * np.concatenate([-_LOOK, _LOOK])
    turns = _turns(landscape)
    # Fractions of the way from a finite end: a density may rise steeply there.
    ends = [
        end + side * np.geomspace(1e-12, 1.0, 25) * scale
        for end, side in ((low, 1.0), (high, -1.0))
        if np.isfinite(end)
    ]
    places = np.concatenate([spread, turns, breakpoints, *ends])
    landscape = _looked_at(log_density, places, low, high, np.concatenate([breakpoints, turns]))
    tilted, panels, endless, _ = landscape.integrated(none, none)
    if endless[0] or not np.isfinite(panels.mass).all():
        raise checks.refuse(
            "log_density",
            "a density whose integral is infinite",
            "one that falls off at infinity faster than 1/|x|",
            "bound it by support=(low, high)",
        )
    pieces = tilted.centre[0] + np.concatenate([panels.low, panels.high])
    edges = np.unique(np.concatenate([breakpoints, pieces]))
    return Landscape(log_density, landscape.places, landscape.values, low, high, edges)


def _first_places(low: float, high: float, breakpoints: Array) -> Array:
    anchors = np.concatenate([breakpoints, [end for end in (low, high) if np.isfinite(end)]])
    if np.isfinite(low) and np.isfinite(high):
        steps = _FIRST_LOOK[_FIRST_LOOK <= 1.0] * (high - low)
        even = np.linspace(low, high, 402)[1:-1]
    else:
        steps, even = _FIRST_LOOK, np.zeros(1)
        anchors = np.append(anchors, 0.0)
    around = (anchors[:, None] + np.concatenate([-steps, [0.0], steps])).ravel()
    return np.concatenate([around, even])


def _looked_at(
    log_density: Callable[[Array], Array], places: Array, low: float, high: float, edges: Array
) -> Landscape:
    places = np.unique(places)
    places = places[(places > low) & (places < high)]
    return Landscape(log_density, places, log_density(places), low, high, np.unique(edges))


def _middle_half(landscape: Landscape) -> float:
    """Roughly how wide the middle half of the mass is; 0 where one place seems to hold it all."""
    relative = np.exp(landscape.values - landscape.values.max())
    mass = np.cumsum(relative * np.gradient(landscape.places))
    first, last = np.searchsorted(mass, np.array([0.25, 0.75]) * mass[-1])
    return float(landscape.places[last] - landscape.places[first])


def _turns(landscape: Landscape) -> Array:
    """Where the density turns from rising to falling or back: the highest such places."""
    seen = np.isfinite(landscape.values)
    places, values = landscape.places[seen], landscape.values[seen]
    rises = np.sign(np.diff(values))
    at = 1 + np.flatnonzero(rises[1:] * rises[:-1] < 0.0)
    highest = at[np.argsort(-values[at], kind="stable")][:_MOST_PEAKS]
    return np.asarray(places[highest])
