"""A first look at a density that only its formula is known of: scale, peaks and smooth pieces."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from miniamp import checks
from miniamp.arrays import Array
from miniamp.numerics.landscape import Landscape

#: Distances from the anchors (0, finite ends, break points) at which a density is first looked at.
_FIRST_LOOK = np.geomspace(1e-9, 1e9, 18 * 12 + 1)
#: Distances from its mode, in widths, at which it is looked at for every tilt.
_LOOK = np.concatenate([np.linspace(0.0, 8.0, 17), np.geomspace(9.0, 1e18, 17 * 4 + 1)])
_MOST_PEAKS = 64


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
