"""Pieces: some rows as a source reads them, and what all sources share.

A `TablePiece` has named columns (CSV, Parquet, frames, records), a `MatrixPiece` has one block of
numbers (NPY, LIBSVM, arrays). Later stages turn both into batches of exactly k rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from miniamp import checks
from miniamp.errors import InvalidInputError


class ArrowArray(Protocol):
    """What is used of a pyarrow Array; its types, buffers and casts are pyarrow's own objects."""

    @property
    def type(self) -> object: ...
    @property
    def null_count(self) -> int: ...
    @property
    def offset(self) -> int: ...
    def __len__(self) -> int: ...
    def __getitem__(self, where: slice, /) -> Self: ...
    def to_pylist(self) -> list[object]: ...
    def cast(self, kind: object, safe: bool = True) -> Self: ...
    def dictionary_decode(self) -> Self: ...
    def fill_null(self, value: float) -> Self: ...
    def buffers(self) -> list[memoryview]: ...


class CSR(Protocol):
    """What is used of a scipy CSR array."""

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def dtype(self) -> np.dtype[np.generic]: ...
    @property
    def data(self) -> NDArray[np.float64]: ...
    def __getitem__(self, where: object, /) -> Self: ...
    def astype(self, dtype: object, copy: bool = True) -> Self: ...
    def toarray(self) -> NDArray[np.float64]: ...


#: A column as it came.
Cells: TypeAlias = NDArray[np.generic] | ArrowArray
#: A block of numbers of shape (k, N): dense, or a scipy CSR array.
Numbers: TypeAlias = NDArray[np.float64] | CSR

#: How far a source with an address was read, in its own plain values.
Mark: TypeAlias = dict[str, int | str]
#: About this many numbers are read at a time: 1 MB of float64. Larger pieces are hardly faster, and
#: a Parquet reader needs several times their size beside the pages that it holds anyway.
PIECE = 1 << 17
#: Every column has its cost per piece, so that pieces of many columns are larger: up to these rows
#: and numbers.
WIDE_ROWS, WIDE_PIECE = 64, 1 << 20


def rows_per_piece(columns: int) -> int:
    """How many rows of `columns` numbers make a piece of bounded size."""
    columns = max(columns, 1)
    wide = min(WIDE_ROWS, WIDE_PIECE // columns)
    return max(1, min(65536, max(PIECE // columns, wide)))


@dataclass(frozen=True, slots=True)
class TablePiece:
    """Some rows of named columns."""

    #: Where they come from, for messages: a file's path, "standard input", "pandas DataFrame".
    origin: str
    row: int  #: number of the first row within its origin, counted from 0
    rows: int  #: how many rows
    columns: dict[str, Cells]  #: the cells by column name, in the source's order
    y: Cells | None = None  #: targets that were given separately

    @property
    def names(self) -> Sequence[str]:
        """The names of the columns."""
        return list(self.columns)

    def cut(self, begin: int, end: int) -> TablePiece:
        """Rows begin to end - 1."""
        end = min(end, self.rows)
        return TablePiece(
            self.origin,
            self.row + begin,
            end - begin,
            {name: cells[begin:end] for name, cells in self.columns.items()},
            None if self.y is None else self.y[begin:end],
        )


@dataclass(frozen=True, slots=True)
class MatrixPiece:
    """Some rows of numbers without names of their own, and their targets where known."""

    origin: str
    row: int
    X: Numbers
    y: Cells | None = None

    @property
    def rows(self) -> int:
        """How many rows."""
        return int(self.X.shape[0])

    @property
    def names(self) -> Sequence[str]:
        """The names of the columns, x0, x1, ...; made when asked for."""
        return NumberedNames(int(self.X.shape[1]))

    def cut(self, begin: int, end: int) -> MatrixPiece:
        """Rows begin to end - 1."""
        y = None if self.y is None else self.y[begin:end]
        return replace(self, row=self.row + begin, X=self.X[begin:end], y=y)


Piece: TypeAlias = TablePiece | MatrixPiece


class NumberedNames(Sequence[str]):
    """The names x0, x1, ... of a source without names, made when asked for.

    Examples
    --------
    >>> names = NumberedNames(2_000_000_000)
    >>> names[-1], "x7" in names, "x07" in names
    ('x1999999999', True, False)
    """

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, j):  # type: ignore[no-untyped-def]  # int to str, slice to tuple
        numbers = range(self._size)[j]
        return f"x{numbers}" if isinstance(numbers, int) else tuple(f"x{i}" for i in numbers)

    def __contains__(self, name: object) -> bool:
        digits = name[1:] if isinstance(name, str) and name.startswith("x") else ""
        return digits.isdecimal() and str(int(digits)) == digits and int(digits) < self._size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # compared like a list


class Source(ABC):
    """Where rows come from."""

    #: What to call it in messages.
    name: str
    #: What the option `format` calls a format, and what an address begins with.
    format: ClassVar[str]
    #: Options of `open_stream` that it takes.
    options: ClassVar[tuple[str, ...]] = ()
    #: Whether it can be read more than once.
    rereadable: bool = True
    #: A column that orders the rows and is no feature unless the user lists it.
    key: str | None = None

    @abstractmethod
    def pieces(self, start: int, columns: Collection[str] | None) -> Iterator[Piece]:
        """The rows from number `start` on; of a table, at least these columns."""

    def count(self) -> int | None:
        """How many rows it has, if that is known without reading them."""
        return None

    def resume(self, position: int, mark: Mark | None) -> None:
        """Take note of the mark after `position` rows, where the source has marks."""
        return  # others need only the number of rows

    def mark(self, position: int) -> Mark | None:
        """What to resume from after `position` rows, where that number is not enough."""
        return None


def skip_rows(pieces: Iterable[Piece], start: int, name: str) -> Iterator[Piece]:
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
    """The error for a source that ends before the row to resume from."""
    return checks.refuse(
        name, f"{rows} rows", f"more than the {start} to skip", "give the same source or start over"
    )


def leave_out(name: str, *, words: bool = False) -> str:
    """The remedy for a column that should be no feature, or one of words."""
    text = f"leave it out with {{keep=['{name}']|{name}}}"
    return text + (f", or hash its words with {{hashed=dict({name}=8)|{name}=8}}" if words else "")
