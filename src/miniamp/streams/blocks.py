"""What options do to blocks: `shuffle` puts rows in random order, `missing="mean"` fills gaps."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from miniamp.arrays import Array
from miniamp.streams.cells import leave_out
from miniamp.streams.encode import Block, rebatch
from miniamp.streams.schema import warn


class Shuffle:
    """Rows in a random order within windows of some rows, one window after the other.

    The order follows from the seed and the place of the window, so that a window which is read
    again has the same order: a state needs no rows, only where the window begins.

    Parameters
    ----------
    size : int
        Rows per window.
    seed : int
        Of the order.
    start : int
        Number of the first row.
    begun : pair of int
        Rows of the first window that were given out before, and how many it had then; 0 if new.

    Examples
    --------
    >>> block = Block(np.arange(6), np.zeros((6, 1)), {}, None)
    >>> shuffle = Shuffle(4, seed=0, start=0)
    >>> [sorted(b.numbers.tolist()) for b in shuffle.blocks([block])], shuffle.place(5)
    ([[0, 1, 2, 3], [4, 5]], (4, (1, 2)))
    """

    def __init__(self, size: int, seed: int, start: int, begun: tuple[int, int] = (0, 0)) -> None:
        self.size, self._seed, self._start, self._begun = size, seed, start, begun
        self._windows: deque[tuple[int, int, int, int]] = deque()
        self._given = 0

    def blocks(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """The rows of the blocks, a window at a time."""
        skip, first = self._begun
        for window in rebatch(blocks, self.size, first or self.size):
            begin, end = self._start, int(window.numbers[-1]) + 1
            order = np.random.default_rng([self._seed, begin]).permutation(window.rows)
            self._windows.append((begin, end, window.rows, skip))
            yield window.at(order[skip:])
            self._start, skip = end, 0

    def place(self, rows: int) -> tuple[int, tuple[int, int]]:
        """Where to start, and with which `begun`, after so many more rows were given out."""
        begin, end, size, skip = self._windows[0]
        self._given += rows
        while self._given > size - skip:
            self._given -= size - skip
            self._windows.popleft()
            begin, end, size, skip = self._windows[0]
        if self._given == size - skip:
            return end, (0, 0)
        return begin, (skip + self._given, size)


class RunningMean:
    """Fills NaN by the mean of the values seen so far, this batch included; by 0 without any.

    Batches, not rows, are the unit: the means do not depend on how the source was cut into pieces,
    so a resumed run fills exactly as the run that was never stopped.

    Parameters
    ----------
    state : dict, optional
        "count" and "total" of an earlier run, to continue from.

    Examples
    --------
    >>> mean = RunningMean()
    >>> mean.filled(np.array([[1.0], [3.0], [np.nan]]), ("a",)).ravel()
    array([1., 3., 2.])
    >>> mean.filled(np.array([[5.0], [np.nan]]), ("a",)).ravel()
    array([5., 3.])
    """

    def __init__(self, state: Mapping[str, Array] | None = None) -> None:
        self.count: Array = np.zeros(1) if state is None else np.asarray(state["count"])
        self.total: Array = np.zeros(1) if state is None else np.asarray(state["total"])
        self._warned = False

    def filled(
        self, X: Array, names: Sequence[str], indicators: NDArray[np.bool_] | bool = False
    ) -> Array:
        """A copy of X without NaN; gaps of indicators are 0, as of a category that is unknown."""
        gaps = np.isnan(X)
        N = X.shape[1]  # without features of hashed columns, for which a model may have means
        self.count = self.count[:N] + np.sum(~gaps, axis=0, dtype=np.float64)
        self.total = self.total[:N] + np.sum(np.where(gaps, 0.0, X), axis=0, dtype=np.float64)
        if not gaps.any():
            return X
        empty = np.flatnonzero(gaps.any(axis=0) & (self.count == 0) & ~np.asarray(indicators))
        if len(empty) and not self._warned:
            name, others = names[empty[0]], f" and {len(empty) - 1} more" * (len(empty) > 1)
            about = f"column {name!r}{others}: no value so far, read as 0 until there is one"
            warn(f"{about}; {leave_out(name)}")
            self._warned = True
        means = np.where(indicators, 0.0, self.total / np.maximum(self.count, 1.0))
        return np.where(gaps, means, X).astype(X.dtype)
