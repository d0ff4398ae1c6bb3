"""Quadrature rules for functions whose features lie at very different scales."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from miniamp.arrays import Array

#: Panels beside a landmark are this wide, in units of its finest scale ...
STEP = 0.5
#: ... for this many of those units on either side, which holds whatever happens on that scale ...
NEAR = 11.0
#: ... and then grow in proportion to the distance.
GROWTH = 1.35
ORDER = 14


def graded_rule(
    landmarks: Array, finest: float, lower: float, upper: float, *, between: bool = True
) -> tuple[Array, Array]:
    """Nodes and weights for an integral over [lower, upper], dense beside the landmarks.

    Composite Gauss-Legendre: panels of half the finest scale next to every landmark and midway
    between two of them, growing geometrically away from there. A range of 1e15 finest scales takes
    a few thousand nodes.

    Parameters
    ----------
    landmarks : (J,) array
        Where the integrand may change within `finest`.
    finest : float
        The smallest scale on which it changes.
    lower, upper : float
        The range.
    between : bool
        Whether it may also do so midway between two landmarks.

    Returns
    -------
    nodes, weights : (n,) arrays

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
    nodes, weights = _legendre(ORDER)
    half = np.diff(breaks)[:, None] / 2.0
    return ((breaks[:-1, None] + half) + half * nodes).ravel(), (half * weights).ravel()


def gaussian_rule(spread: float, landmarks: Array, finest: float) -> tuple[Array, Array]:
    """Nodes and weights of an average over N(0, spread) of a function with abrupt places.

    The weights sum to one; see `graded_rule` for landmarks and finest.
    """
    if spread <= 0.0:
        return np.zeros(1), np.ones(1)
    deviation = np.sqrt(spread)
    reach = 9.5 * deviation
    nodes, weights = graded_rule(
        landmarks, 2.0 * float(min(finest, deviation)), -reach, reach, between=False
    )
    weights = weights * np.exp(-0.5 * np.square(nodes / deviation))
    return nodes, weights / weights.sum()


def _offsets(reach: float) -> Array:
    """Distances of the breaks from a landmark, in finest scales, up to `reach`."""
    near = np.arange(0.0, min(NEAR, reach + STEP), STEP)
    if reach <= NEAR:
        return near
    far = NEAR * GROWTH ** np.arange(np.ceil(np.log(reach / NEAR) / np.log(GROWTH)) + 1)
    return np.concatenate([near, far])


@lru_cache(maxsize=4)
def _legendre(order: int) -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(order)
    return nodes, weights
