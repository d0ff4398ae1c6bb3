"""A stream: batches of exactly k rows, each with the state to resume from."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from miniamp import checks
from miniamp.arrays import Array
from miniamp.errors import InvalidInputError
from miniamp.streams.encode import (
    Block,
    Encoder,
    RowLocator,
    advise,
    features,
    known_targets,
    with_hashed,
    with_vocabulary,
)
from miniamp.streams.missing import RunningMean, handle_missing
from miniamp.streams.pieces import Mark, Numbers, Piece, Source, rows_per_piece
from miniamp.streams.schema import (
    ReadOptions,
    Schema,
    first_rows,
    infer_schema,
    with_target,
)

#: Rows that the schema and its vocabularies are made from, where they can be read again: files are
#: often sorted by a column, and of 8 that were tried, 4 had a category or class after the first
#: batch that was not in it. Fewer of wide tables, to be read in one piece.
HEAD_ROWS = 10_000


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
    numbers : (k,) array of int
        The rows of the source that these are, counted from 0.
    kept : dict
        Columns that are carried along as text, (k,) objects each.
    mark : dict, optional
        What a source with an address resumes from: the last key, or the offsets.
    begun : pair of int
        Of rows in random order, those of the last window that were given out, and its rows; 0 if it
        is at its end. The position is then the beginning of that window.
    head : (m,) array or None
        Of the first batch, the targets of all rows that the schema was made from: classes that come
        later in a sorted file are among them.
    """

    X: Numbers
    y: NDArray[np.generic] | None
    position: int
    schema: Schema
    means: tuple[Array, Array] | None = None
    numbers: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    kept: Mapping[str, NDArray[np.object_]] = field(default_factory=dict)
    mark: Mark | None = None
    begun: tuple[int, int] = (0, 0)
    head: NDArray[np.generic] | None = None

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
        more |= {"shuffle": list(self.begun)} if any(self.begun) else {}
        return {"position": self.position, "schema": self.schema.to_dict(), "means": means, **more}

    def __repr__(self) -> str:
        return (
            f"StreamBatch({self.rows} rows x {self.X.shape[1]} features, position={self.position})"
        )


class Stream:
    """Batches of a source, made one at a time; see `open_stream`.

    Iterating twice reads the source twice, where it allows that. The schema, once known, stays.
    """

    def __init__(
        self,
        source: Source,
        options: ReadOptions,
        batch_size: int,
        missing: str,
        unknown: str,
        schema: Schema | None,
        start: int,
        means: Mapping[str, Array] | None,
        dtype: np.dtype[np.float64],
        order: Callable[[], Shuffle] | None = None,
    ) -> None:
        self._order = order
        self.source = source
        self.batch_size = batch_size
        self.start = start
        self._options = options
        self._missing = missing
        self._unknown, self._told = unknown, set[str]()
        self._schema = schema
        self._means = means
        self._dtype = dtype
        self._begun: Iterator[StreamBatch] | None = None
        self._used = False
        if source.rereadable:
            self._begin()  # what is wrong with a file is reported at once

    @property
    def schema(self) -> Schema:
        """How columns become features; asking waits for the first batch, if it was not read yet."""
        if self._schema is None or not self._schema.complete:
            self._begin()
        if self._schema is None:
            raise checks.refuse(
                self.source.name, "no rows after those to skip", "rows", "give the schema"
            )
        return self._schema

    @property
    def feature_names(self) -> Sequence[str]:
        """The names of the columns of X."""
        return self.schema.feature_names

    @property
    def target(self) -> str | int | None:
        """The name of the column to predict, None where there is none or it was given apart."""
        return self.schema.target

    @property
    def rows(self) -> int | None:
        """How many rows the source has, dropped ones included; None if it cannot tell."""
        return self.source.count()

    def __iter__(self) -> Iterator[StreamBatch]:
        if self._begun is None:
            self._begin()
        batches, self._begun = self._begun, None
        return batches if batches is not None else iter(())

    def _begin(self) -> None:
        """Read the first batch and keep it for whoever iterates first."""
        if self._begun is not None:
            return
        if self._used and not self.source.rereadable:
            raise checks.refuse(
                "source",
                f"{self.source.name}, which has been read and cannot be read again",
                "a source that can",
                "pass a list, a file, or a function that makes a new iterator",
            )
        self._used = True
        batches = self._batches()
        first = list(itertools.islice(batches, 1))
        if not first and self.start == 0:
            raise checks.refuse(self.source.name, "no rows", "at least one", "check the source")
        self._begun = itertools.chain(first, batches)

    def _batches(self) -> Iterator[StreamBatch]:
        locator = RowLocator()
        needed = self._needed()
        pieces = self.source.pieces(self.start, needed)
        try:
            schema, head, known = self._recognised(pieces)
        except InvalidInputError:
            if needed is not None and self.source.rereadable:
                # Once more with all columns, so that the message can list those that there are.
                self._recognised(self.source.pieces(self.start, None))
            raise
        if schema is None:
            return
        encoder = Encoder(schema, self._dtype, locator, self._options.keep)
        blocks = (
            handle_missing(encoder.block(first, piece), self._missing, schema, locator)
            for first, piece in locator.numbered(itertools.chain(head, pieces), self.start)
        )
        mean = RunningMean(self._means) if self._missing == "mean" else None
        order = None if self._order is None else self._order()
        unread, targets = self._schema is None, known_targets(known, schema)
        if not schema.complete:
            schema = with_vocabulary(schema, known, self._options.reference)
        self._schema = schema
        for block in rebatch(blocks if order is None else order.blocks(blocks), self.batch_size):
            if unread:
                advise(block, schema, sum(piece.rows for piece in known))
                unread = False
            X = features(block, schema, self._unknown, self._told, locator)
            if mean is not None and isinstance(X, np.ndarray):
                X = mean.filled(X, schema.feature_names)
            X = with_hashed(X, block, schema)
            y = block.y.astype(str) if block.y is not None and schema.labels else block.y
            means = None if mean is None else (mean.count, mean.total)
            position, begun = int(block.numbers[-1]) + 1, (0, 0)
            if order is not None:
                position, begun = order.place(block.rows)
            mark = self.source.mark(position)
            yield StreamBatch(
                X, y, position, schema, means, block.numbers, block.kept, mark, begun, targets
            )
            targets = None

    def _needed(self) -> Collection[str] | None:
        """The columns to read, where that is known before the source is opened."""
        target = self._options.target
        names = self._options.columns
        if self._schema is not None and self._schema.columns:
            names = tuple(column.name for column in self._schema.columns)
        if names is None or isinstance(target, int) or any(isinstance(n, int) for n in names):
            return None
        wanted = [str(name) for name in names] + ([] if target is None else [target])
        return frozenset([*wanted, *self._options.keep])

    def _recognised(
        self, pieces: Iterator[Piece]
    ) -> tuple[Schema | None, list[Piece], list[Piece]]:
        """The schema, the pieces that were read to find it, and the rows that it is from.

        What a pipe delivers is not waited for: its first batch counts.
        """
        read: list[Piece] = []
        rows, enough = 0, max(self.batch_size, 0 if self._order is None else self._order().size)
        for piece in pieces:
            if piece.rows:
                read.append(piece)
                rows += piece.rows
            if self.source.rereadable:
                enough = max(enough, min(HEAD_ROWS, rows_per_piece(len(piece.names))))
            if rows >= enough:
                break
        if not read:
            return None, [], []
        head = first_rows(read, enough)
        if self._schema is None:
            return infer_schema(head, self._options, head[0].origin), read, head
        return with_target(self._schema, self._options, head), read, head

    def __repr__(self) -> str:
        return f"Stream({self.source.name}, batch_size={self.batch_size})"


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
