"""Rows absorbed one by one: what a design needs for assumed density filtering."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from miniamp.arrays import Array
from miniamp.channels.base import Channel
from miniamp.posterior import Moments, Prior
from miniamp.tilt import Tilt


class Running(NamedTuple):
    """A belief in the course of being updated in place: private copies, (N,) each."""

    A: Array
    B: Array
    mean: Array
    var: Array


def private(tilt: Tilt, moments: Moments) -> Running:
    """A belief as `Running`: a copy, one number a coordinate even where it shares one A."""
    size = len(tilt.B)
    parts = (tilt.A, tilt.B, moments.mean, moments.var)
    return Running(*(np.array(np.broadcast_to(part, size)) for part in parts))


class Answers(NamedTuple):
    """What the channel said to each row, (M,) each, filled as the rows go by."""

    g: Array
    curvature: Array


def one_by_one(
    rows: Iterable[tuple[Any, Array]],
    running: Running,
    y: Array,
    channel: Channel,
    prior: Prior,
    answers: Answers,
) -> None:
    """Each row (places, entries) in turn, by NumPy: the plain reference of the compiled loops.

    Algorithm 2: only the coordinates at `places` are touched.
    """
    A, B, mean, var = running
    for m, (places, entries) in enumerate(rows):
        squares, here = np.square(entries), slice(m, m + 1)
        omega, V = entries @ mean[places], squares @ var[places]
        g, curvature = channel.at(here).output(y[here], np.atleast_1d(omega), np.atleast_1d(V))
        A[places] += curvature * squares
        B[places] += g * entries + curvature * squares * mean[places]
        own = prior.at(places) if hasattr(prior, "at") else prior
        mean[places], var[places] = own.moments(A[places], B[places])
        answers.g[m], answers.curvature[m] = g[0], curvature[0]
