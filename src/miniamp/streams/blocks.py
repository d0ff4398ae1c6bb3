"""Blocks, rows as numbers on their way to a batch: cut to k rows, shuffled, gaps filled."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from miniamp import checks
from miniamp.arrays import Array
from miniamp.errors import InvalidInputError, MiniampWarning
from miniamp.streams.encode import Block, Encoder, RowLocator
from miniamp.streams.pieces import Mark, Numbers, Piece, leave_out
from miniamp.streams.schema import Schema

#: What to do about missing values.
RULES = ("error", "mean", "drop")


def read_blocks(
    pieces: Iterable[Piece], start: int, encoder: Encoder, missing: str
) -> Iterator[Block]:
    """The pieces as blocks, the first row being number `start`; missing values are dealt with."""
    for first, piece in encoder.locator.numbered(pieces, start):
        yield handle_missing(encoder.block(first, piece), missing, encoder.schema, encoder.locator)


def rebatch(blocks: Iterable[Block], k: int, first: int | None = None) -> Iterator[Block]:
    """The same rows, k at a time, the last block shorter; holds one batch and one block at most.

    The first block may have another size.

    Examples
    --------
    >>> def block(begin, end):
    ...     return Block(np.arange(begin, end), np.zeros((end - begin, 2)), {}, None)
    >>> [b.rows for b in rebatch([block(0, 3), block(3, 10), block(10, 11)], 4)]
    [4, 4, 3]
    """
    held: list[Block] = []
    rows, size = 0, first or k
    for block in blocks:
        begin = 0
        while rows + block.rows - begin >= size:
            end = begin + size - rows
            yield _joined([*held, block.at(slice(begin, end))])
            held, rows, begin, size = [], 0, end, k
        if begin < block.rows:
            held.append(block.at(slice(begin, None)) if begin else block)
            rows += block.rows - begin
    if held:
        yield _joined(held)


def _joined(blocks: list[Block]) -> Block:
    """One block of all their rows, in order."""
    first = blocks[0]
    if len(blocks) == 1:
        return first
    dense = [block.X for block in blocks if isinstance(block.X, np.ndarray)]
    targets = [block.y for block in blocks if block.y is not None]
    return Block(
        np.concatenate([block.numbers for block in blocks]),
        np.concatenate(dense) if dense else sp.vstack([b.X for b in blocks], format="csr"),
        {name: np.concatenate([block.texts[name] for block in blocks]) for name in first.texts},
        np.concatenate(targets) if targets else None,
        {name: np.concatenate([block.kept[name] for block in blocks]) for name in first.kept},
    )


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


def handle_missing(block: Block, rule: str, schema: Schema, locator: RowLocator) -> Block:
    """The block with its missing values refused, dropped, or left as NaN for the mean to fill.

    Rows without a target are dropped with those of the rule "drop", and with the rule "mean".
    Infinite values are no missing values: they are refused under every rule.
    """
    no_target = np.zeros(block.rows, dtype=bool) if block.y is None else _missing(block.y)
    lacking = {name: _missing(cells) for name, cells in block.texts.items()}
    if _is_finite(block) and not any(gaps.any() for gaps in (no_target, *lacking.values())):
        return block
    names: Sequence[str] = schema.feature_names
    if schema.columns:
        names = [column.name for column in schema.columns if not column.is_text]
    rows, columns, values = _not_finite(block.X)
    for i in np.flatnonzero(np.isinf(values))[:1]:
        raise _infinite(locator.of(int(block.numbers[rows[i]])), names[int(columns[i])], values[i])
    if block.y is not None and block.y.dtype.kind == "f":
        for i in np.flatnonzero(np.isinf(block.y))[:1]:
            raise _infinite(locator.of(int(block.numbers[i])), str(schema.target), block.y[i])
    gaps = np.zeros(block.rows, dtype=bool)
    gaps[rows] = True
    for cells in lacking.values():
        gaps |= cells
    if rule == "drop":
        return block.at(~(gaps | no_target))
    dense = isinstance(block.X, np.ndarray)
    if rule == "mean" and dense:  # there is nothing to learn from a row without a target
        return block.at(~no_target)
    row = int(np.argmax(gaps | no_target))
    if not (gaps | no_target)[row]:  # all are finite, and only their sum is not
        return block
    empty = [names[int(j)] for j in columns[rows == row]]
    empty += [name for name, cells in lacking.items() if cells[row]]
    place, expected = locator.of(int(block.numbers[row])), "a number or category"
    remedy = "drop such rows with {missing=drop}"
    if no_target[row] and not empty:
        place += ", target" if schema.target is None else f", target {schema.target!r}"
        expected = "a value"
    else:
        place += f", column {empty[0]!r}"
        if rule == "error" and dense:
            remedy = "fill it with {missing=mean} or " + remedy
    raise checks.refuse(place, "a missing value", expected, remedy)


def _is_finite(block: Block) -> bool:
    """Whether all numbers are, found fast; a sum that overflows only makes us look closer."""
    values = block.X if isinstance(block.X, np.ndarray) else block.X.data
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum(dtype=np.float64)  # one pass without a temporary
    y = block.y
    return bool(np.isfinite(total) and (y is None or y.dtype.kind != "f" or np.isfinite(y).all()))


def _not_finite(X: Numbers) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Rows, columns and values of the numbers that are not finite, row by row."""
    if isinstance(X, np.ndarray):
        rows, columns = np.nonzero(~np.isfinite(X))
        return rows, columns, X[rows, columns]
    entries = sp.coo_array(X)
    hit = ~np.isfinite(entries.data)
    return entries.row[hit], entries.col[hit], entries.data[hit]


def _missing(cells: NDArray[np.generic]) -> NDArray[np.bool_]:
    if cells.dtype.kind == "f":
        return np.asarray(np.isnan(cells))
    return np.array([cell is None for cell in cells.tolist()], dtype=bool)


def _infinite(place: str, name: str, value: object) -> InvalidInputError:
    remedy = "correct the value, or leave the row or column out"
    return checks.refuse(f"{place}, column {name!r}", value, "a finite number", remedy)


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

    def filled(self, X: Array, names: Sequence[str]) -> Array:
        """A copy of X without NaN."""
        gaps = np.isnan(X)
        N = X.shape[1]  # without features of hashed columns, for which a model may have means
        self.count = self.count[:N] + np.sum(~gaps, axis=0, dtype=np.float64)
        self.total = self.total[:N] + np.sum(np.where(gaps, 0.0, X), axis=0, dtype=np.float64)
        if not gaps.any():
            return X
        empty = np.flatnonzero(gaps.any(axis=0) & (self.count == 0))
        if len(empty) and not self._warned:
            name, others = names[empty[0]], f" and {len(empty) - 1} more" * (len(empty) > 1)
            about = f"column {name!r}{others}: no value so far, read as 0 until there is one"
            warnings.warn(MiniampWarning(f"{about}; {leave_out(name)}"), stacklevel=2)
            self._warned = True
        return np.where(gaps, self.total / np.maximum(self.count, 1.0), X).astype(X.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class StreamBatch:
    """Exactly k rows of a stream; only the last batch may be shorter.

    Attributes
    ----------
    X : (k, N) array or scipy CSR array
        The features.
    y : (k,) array or None
        The targets: float64, or text for a target of labels; None without a target.
    position : int
        Rows of the source consumed so far, dropped ones included: resume from here.
    schema : Schema
        How the columns became features.
    means : tuple of two (N,) arrays, or None
        Counts and totals behind the running means, where missing values are filled by those.
    row_numbers : (k,) array of int
        The number of each row in the source, counted from 0.
    kept : dict
        Columns that are carried along as text, (k,) objects each.
    mark : dict, optional
        What a source with an address resumes from: the last key, or the offsets.
    window : pair of int
        With `shuffle`, how many rows of the latest window the batches have had so far, and how many
        it has; (0, 0) at its end. The position is then the beginning of that window.
    first_targets : (m,) array or None
        Of the first batch, the targets of all rows that the schema was made from: classes that come
        later in a sorted file are among them.
    """

    X: Numbers
    y: NDArray[np.generic] | None
    position: int
    schema: Schema
    means: tuple[Array, Array] | None = None
    row_numbers: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    kept: Mapping[str, NDArray[np.object_]] = field(default_factory=dict)
    mark: Mark | None = None
    window: tuple[int, int] = (0, 0)
    first_targets: NDArray[np.generic] | None = None

    @property
    def rows(self) -> int:
        """The number k of rows."""
        return int(self.X.shape[0])

    @property
    def feature_names(self) -> Sequence[str]:
        """The names of the columns of X."""
        return self.schema.feature_names

    def state(self) -> dict[str, object]:
        """All that `open_stream(..., resume=state)` needs to continue after this batch, exactly."""
        means = None if self.means is None else {"count": self.means[0], "total": self.means[1]}
        more: dict[str, object] = {} if self.mark is None else {"mark": self.mark}
        more |= {"shuffle": list(self.window)} if any(self.window) else {}
        return {"position": self.position, "schema": self.schema.to_dict(), "means": means, **more}

    def __repr__(self) -> str:
        return (
            f"StreamBatch({self.rows} rows x {self.X.shape[1]} features, position={self.position})"
        )
