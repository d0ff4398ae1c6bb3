"""Pieces: what a source hands over, as many rows at a time as suits it.

A `Table` has named columns (CSV, Parquet, frames, records), a `Matrix` has one block of numbers
(NPY, LIBSVM, arrays). Later stages turn both into batches of exactly k rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp

from miniamp.errors import InvalidInputError

#: A column as it came: a NumPy array or a pyarrow Array; `cells` reads both.
Cells: TypeAlias = Any

#: A block of numbers: a dense (k, N) array or a scipy CSR array of that shape.
Numbers: TypeAlias = Any

#: About this many numbers are read at a time: 1 MB of float64. Larger pieces are hardly faster, and
#: a Parquet reader needs several times their size beside the pages that it holds anyway.
PIECE = 1 << 17
#: Every column has its cost a piece, so that pieces of many columns are larger: up to these rows
#: and numbers.
WIDE_ROWS, WIDE_PIECE = 64, 1 << 20


def is_sparse(X: Any) -> bool:
    """Whether X is a scipy sparse array."""
    return bool(sp.issparse(X))


def rows_a_piece(columns: int) -> int:
    """How many rows of `columns` numbers make a piece of bounded size."""
    columns = max(columns, 1)
    wide = min(WIDE_ROWS, WIDE_PIECE // columns)
    return max(1, min(65536, max(PIECE // columns, wide)))


@dataclass(frozen=True, slots=True)
class Table:
    """Some rows of named columns.

    Attributes
    ----------
    origin : str
        Where they come from, for messages: a file's path, "standard input", "DataFrame".
    row : int
        Number of the first row within its origin, counted from 0.
    rows : int
        How many rows.
    columns : dict
        The cells by column name, in the source's order.
    y : cells, optional
        Targets that were given apart from the table.
    """

    origin: str
    row: int
    rows: int
    columns: dict[str, Cells]
    y: Cells = None

    def cut(self, begin: int, end: int) -> Table:
        """Rows begin to end - 1."""
        end = min(end, self.rows)
        return Table(
            self.origin,
            self.row + begin,
            end - begin,
            {name: cells[begin:end] for name, cells in self.columns.items()},
            None if self.y is None else self.y[begin:end],
        )


@dataclass(frozen=True, slots=True)
class Matrix:
    """Some rows of numbers without names of their own, and their targets where known."""

    origin: str
    row: int
    X: Numbers
    y: Cells = None

    @property
    def rows(self) -> int:
        """How many rows."""
        return int(self.X.shape[0])

    def cut(self, begin: int, end: int) -> Matrix:
        """Rows begin to end - 1."""
        y = None if self.y is None else self.y[begin:end]
        return replace(self, row=self.row + begin, X=self.X[begin:end], y=y)


Piece: TypeAlias = Table | Matrix


class Source(Protocol):
    """Where rows come from; one kind a file."""

    @property
    def name(self) -> str:
        """What to call it in messages."""

    @property
    def again(self) -> bool:
        """Whether it can be read more than once."""

    def pieces(self, start: int, only: Collection[str] | None) -> Iterator[Piece]:
        """The rows from number `start` on; of a table, at least the columns `only`."""


def row_count(source: Source) -> int | None:
    """How many rows a source has, where it can tell without reading them."""
    count = getattr(source, "count", None)
    return None if count is None else count()


def skipping(pieces: Iterable[Piece], start: int, name: str) -> Iterator[Piece]:
    """The pieces without their first `start` rows."""
    left = start
    for piece in pieces:
        if left >= piece.rows:
            left -= piece.rows
        else:
            yield piece.cut(left, piece.rows) if left else piece
            left = 0
    if left:
        raise too_short(name, start - left, start)


def too_short(name: str, rows: int, start: int) -> InvalidInputError:
    """The error for a source that ends before the row that reading was to go on from."""
    return InvalidInputError(
        f"{name}: has {rows} rows, but reading was to go on after row {start}; the source is "
        "shorter than it was, so give the same one or start anew"
    )


def refuse_doubles(names: list[str], source: str) -> None:
    """Refuse column names that occur more than once."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInputError(
            f"{source}: the column name {twice!r} is there twice; expected different names"
        )


class Places:
    """Which row of which origin a row of the stream is, so that errors can name it."""

    def __init__(self) -> None:
        self._marks: list[tuple[int, str, int]] = []

    def numbered(self, pieces: Iterable[Piece], start: int) -> Iterator[tuple[int, Piece]]:
        """Each piece with the stream's number of its first row."""
        for piece in pieces:
            if not self._marks or self._marks[-1][1] != piece.origin:
                self._marks.append((start, piece.origin, piece.row))
            yield start, piece
            start += piece.rows

    def of(self, row: int) -> str:
        """In words, where row number `row` (from 0) of the stream is; rows are told from 1."""
        begins = [mark[0] for mark in self._marks]
        begin, origin, first = self._marks[int(np.searchsorted(begins, row, side="right")) - 1]
        return f"{origin}, row {row - begin + first + 1}"
