"""Scores of samples that live on the workers of a cluster, a sample a row."""

from __future__ import annotations

import functools
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.designs import Design, Distributed
from miniamp.evidence.factor_scores import Scores


class FarScores(Scores):
    """What `Scores` is to a matrix at hand, for the rows of a distributed design.

    J' U goes out and comes back as N and M numbers a component, J V as M and N; the entries and
    their scores stay where they are. Every product is the sum, or the stack, of the blocks' own.

    Parameters
    ----------
    rows : designs.Distributed
        Samples by features, (M, N): the transpose of Y.
    channel, scale
        As for `Scores`.
    """

    def __init__(self, rows: Distributed, channel: Channel, scale: float) -> None:
        self.shape = (rows.shape[1], rows.shape[0])
        self.scale = scale
        self._made = rows.derive(functools.partial(_scores_here, channel=channel, scale=scale))
        self.beta = float(self._made.each("beta")[0])
        self.square = float(sum(self._made.each("square")))

    def times(self, V: Array) -> Array:
        """J V, (N, R)."""
        return np.asarray(self._made.sum("times", V))

    def transposed_times(self, U: Array) -> Array:
        """J' U, (M, R)."""
        return np.concatenate(self._made.each("transposed_times", U))

    def column_squares(self) -> Array:
        """Sum of squares of each column of J, (M,)."""
        return np.concatenate(self._made.each("column_squares"))

    def columns(self, where: Array) -> Array:
        """Some columns of J, dense, (len(where), N)."""
        return np.stack([self._made.one(int(m), "column") for m in where])


class _BlockScores(Scores):
    """The scores of one block."""

    def column(self, place: int) -> Array:
        """One column of J, (N,)."""
        return np.asarray(self.columns(np.array([place]))[0])


def _scores_here(design: Design, channel: Channel, scale: float) -> Scores:
    """On the worker: the scores of one block of rows."""
    held: Any = getattr(design, "Phi", None)
    return _BlockScores((design.toarray() if held is None else held).T, channel, scale)


def scores_of(Y: Given, channel: Channel, scale: float) -> Scores:
    """The scores of Y (N, M), or of the rows of a distributed design."""
    if isinstance(Y, Distributed):
        return FarScores(Y, channel, scale)
    return Scores(Y, channel, scale)


def features_of(Y: Given) -> int:
    """How many features (rows of Y) there are; 1 where that cannot be said."""
    if isinstance(Y, Distributed):
        return Y.shape[1]
    shape = np.shape(cast(ArrayLike, Y))
    return int(shape[0]) if len(shape) == 2 else 1
