"""Pieces to blocks of numbers, missing values in them, and categories to indicators."""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from miniamp import checks
from miniamp.errors import MiniampWarning
from miniamp.streams.cells import (
    DECIMAL_COMMA,
    CellError,
    ColumnTypeError,
    as_days,
    as_numbers,
    as_texts,
    expanded,
    side_by_side,
)
from miniamp.streams.pieces import CSR, Cells, MatrixPiece, Numbers, Piece, TablePiece, leave_out
from miniamp.streams.schema import CATEGORY, HASHED, NUMBER, Column, Reference, Schema, absent

#: Rows at the head that make these guesses safe: in 32 of them 50 equally frequent categories look
#: like an identifier once in 100 files. The share of different
#: texts from which a column is an identifier, and the categories from which it takes many features.
LEAST_ROWS, MOSTLY, MANY = 30, 0.9, 100
#: More different texts than this in one column are rather identifiers or prose than categories, and
#: each would cost a feature.
MOST_CATEGORIES = 1000
#: Features up to which rows with hashed words are dense: 32 MB per 1000 rows.
DENSE_FEATURES = 4096

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Rows on their way to a batch: numbers read, categories still as text."""

    numbers: NDArray[np.int64]  #: (k,) the stream's number of each row, counted from 0
    X: Numbers  #: (k, n), or CSR: the columns that are numbers
    texts: dict[str, NDArray[np.object_]]  #: the columns that are categories, (k,) objects each
    y: NDArray[np.generic] | None  #: (k,) targets: float64, or objects for labels
    #: Columns that are carried along as text, (k,) objects each.
    kept: dict[str, NDArray[np.object_]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows."""
        return len(self.numbers)

    def at(self, where: slice | NDArray[np.generic]) -> Block:
        """Some of the rows."""
        return Block(
            self.numbers[where],
            self.X[where],
            {name: cells[where] for name, cells in self.texts.items()},
            None if self.y is None else self.y[where],
            {name: cells[where] for name, cells in self.kept.items()},
        )


class RowLocator:
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
        """The origin of row number `row` (from 0) of the stream and its number there, from 1."""
        begin, origin, first = self._marks[bisect_right(self._marks, row, key=lambda m: m[0]) - 1]
        return f"{origin}, row {row - begin + first + 1}"


class Encoder:
    """Reads pieces by a schema, naming row, column and value where one cannot be read."""

    def __init__(
        self, schema: Schema, dtype: np.dtype[np.float64], locator: RowLocator, keep: Sequence[str]
    ) -> None:
        self.schema, self.dtype, self.locator, self.keep = schema, dtype, locator, keep

    def block(self, first: int, piece: Piece) -> Block:
        """The piece, whose first row is number `first` of the stream, as a block."""
        numbers = np.arange(first, first + piece.rows, dtype=np.int64)
        if isinstance(piece, MatrixPiece):
            for name in self.keep:
                raise checks.refuse("keep", repr(name), "columns with names", "leave it out")
            X, y = self._of_matrix(piece)
            return Block(numbers, X, {}, None if y is None else self._target(first, y))
        return self._of_table(first, numbers, piece)

    def _of_table(self, first: int, numbers: NDArray[np.int64], table: TablePiece) -> Block:
        target = self.schema.target
        if not self.schema.columns:
            raise checks.refuse(
                table.origin,
                "named columns",
                f"a plain array of {self.schema.width} columns as in the schema",
                "give the rows as an array",
            )
        for kept_name in self.keep:
            if kept_name not in table.columns:
                raise absent("keep", kept_name, list(table.columns), table.origin)
        for name in (*(c.name for c in self.schema.columns), *([] if target is None else [target])):
            if name not in table.columns:
                raise checks.refuse(
                    table.origin,
                    f"no column {name!r}",
                    "the same columns as before",
                    "add it, or leave it out from the start with {columns=[...]|a,b}",
                )
        numeric = [c for c in self.schema.columns if not c.is_text]
        X = None
        if all(c.kind == NUMBER for c in numeric):
            X = side_by_side([table.columns[c.name] for c in numeric], self.dtype)
        if X is None:
            X = np.empty((table.rows, len(numeric)), dtype=self.dtype)
            for j, c in enumerate(numeric):
                reader = as_numbers if c.kind == NUMBER else as_days
                X[:, j] = self._read(reader, first, table.columns[c.name], c.name)
        texts = {
            c.name: self._read(as_texts, first, table.columns[c.name], c.name)
            for c in self.schema.columns
            if c.is_text
        }
        y = table.y if target is None else table.columns[str(target)]
        kept = {name: self._read(as_texts, first, table.columns[name], name) for name in self.keep}
        return Block(numbers, X, texts, None if y is None else self._target(first, y), kept)

    def _of_matrix(self, piece: MatrixPiece) -> tuple[Numbers, Cells | None]:
        schema, X, y = self.schema, piece.X, piece.y
        if schema.width == 0:
            raise checks.refuse(
                piece.origin,
                "rows without column names",
                f"the columns {', '.join(schema.feature_names[:5])}",
                "give a table with named columns",
            )
        if X.shape[1] != schema.width:
            raise checks.refuse(
                f"{piece.origin}, row {piece.row + 1}",
                f"{X.shape[1]} columns",
                f"{schema.width} as before",
                "give every row the same number of values",
            )
        if schema.target is not None:
            column = X[:, [int(str(schema.target)[1:])]]
            y = (column if isinstance(column, np.ndarray) else column.toarray())[:, 0]
        if schema.columns:
            X = X[:, [int(column.name[1:]) for column in schema.columns]]
        return X.astype(self.dtype, copy=False), y

    def _target(self, first: int, cells: Cells) -> NDArray[np.generic]:
        name = "target" if self.schema.target is None else str(self.schema.target)
        if self.schema.labels:
            return self._read(as_texts, first, cells, name)
        remedy = "correct it; classes are text with --classes a,b,c, or labels=True in Python"
        return self._read(as_numbers, first, cells, name, remedy)

    def _read(
        self,
        reader: Callable[[Cells], NDArray[Scalar]],
        first: int,
        cells: Cells,
        name: str,
        remedy: str = "",
    ) -> NDArray[Scalar]:
        try:
            return reader(cells)
        except CellError as bad:
            if DECIMAL_COMMA.fullmatch(str(bad.value)):
                remedy = "read commas before decimals with {decimal=','|comma}"
            remedy = remedy or (
                f"correct it, or use {{categorical=['{name}']|{name}}} if it holds categories"
            )
            raise checks.refuse(
                f"{self.locator.of(first + bad.index)}, column {name!r}",
                f"{bad.value!r:.60}",
                "a number" if reader is not as_days else "a date such as 2024-12-31",
                remedy,
            ) from None
        except ColumnTypeError as bad:
            raise checks.refuse(
                f"{self.locator.of(first)}, column {name!r}",
                f"values of type {bad}",
                "numbers or text",
                "convert the column, or leave it out with {columns=[...]|a,b}",
            ) from None


def with_vocabulary(schema: Schema, head: Sequence[Piece], reference: Reference) -> Schema:
    """The schema with its open vocabularies fixed by the first rows, sorted."""
    found: dict[str, list[str]] = {}
    tables = [piece for piece in head if isinstance(piece, TablePiece)]
    for column in schema.columns:
        if column.kind == CATEGORY and column.categories is None:
            cells = [as_texts(t.columns[column.name]) for t in tables if column.name in t.columns]
            words = sorted({word for part in cells for word in part.tolist() if word is not None})
            if len(words) > MOST_CATEGORIES:
                raise checks.refuse(
                    f"column {column.name!r}",
                    f"{len(words)} different texts in {sum(t.rows for t in tables)} rows",
                    f"at most {MOST_CATEGORIES} categories",
                    leave_out(column.name, words=True),
                )
            found[column.name] = words
    return schema.with_categories(found, reference)


def known_targets(head: Sequence[Piece], schema: Schema) -> NDArray[np.generic] | None:
    """The targets of the first rows; None where there are none, or one cannot be read."""
    found = []
    for piece in head:
        cells = piece.y
        if cells is None and isinstance(piece, TablePiece):
            cells = piece.columns.get(str(schema.target))
        if cells is None:
            return None
        try:
            found.append(as_texts(cells) if schema.labels else as_numbers(cells))
        except (CellError, ColumnTypeError):
            return None
    y = np.concatenate(found) if found else np.zeros(0)
    y = y[y != None].astype(str) if schema.labels else y[np.isfinite(y)]  # noqa: E711
    return y if len(y) else None


def features(
    block: Block, schema: Schema, unknown: str, reported: set[str], locator: RowLocator
) -> Numbers:
    """Numbers, indicators and parts of dates side by side, in the schema's order; none hashed.

    Columns that had an unknown category, where that is no error, are added to `reported`.
    A missing category is NaN in all its indicators, so that filling by the mean puts the
    frequencies seen so far there.
    """
    if all(column.kind == NUMBER for column in schema.columns):
        return block.X
    numbers = np.asarray(block.X)
    shown = [column for column in schema.columns if column.kind != HASHED]
    X = np.zeros((block.rows, sum(len(c.parts) for c in shown)), dtype=numbers.dtype)
    at = number = 0
    for column in shown:
        end = at + len(column.parts)
        if not column.is_text:
            own = numbers[:, number]
            X[:, at:end] = own[:, None] if column.kind == NUMBER else expanded(own, column.parts)
            number += 1
        else:
            _set_indicators(X[:, at:end], column, block, unknown, reported, locator)
        at = end
    return X


def _set_indicators(
    X: NDArray[np.float64],
    column: Column,
    block: Block,
    unknown: str,
    reported: set[str],
    locator: RowLocator,
) -> None:
    words = column.categories or ()
    index = {part[1:]: j for j, part in enumerate(column.parts)}
    for i, cell in enumerate(block.texts[column.name].tolist()):
        j = index.get(cell)
        if j is not None:
            X[i, j] = 1.0
        elif cell is None:
            X[i] = np.nan
        elif cell != column.reference and column.name not in reported:
            more = f" and {len(words) - 5} more" if len(words) > 5 else ""
            error = checks.refuse(
                f"{locator.of(int(block.numbers[i]))}, column {column.name!r}",
                f"the category {cell!r}",
                f"one of {', '.join(map(repr, words[:5]))}{more}",
                "read unknown ones as none: {unknown=ignore}; fit sorted rows with {shuffle=10000}",
            )
            if unknown == "error":
                raise error
            reported.add(column.name)
            if unknown == "warn":
                about = f"{error.argument}: {error.received} is not {error.expected}"
                done = (
                    "such rows have none of them from here on; {shuffle=10000} sees more at first"
                )
                warnings.warn(MiniampWarning(f"{about}; {done}"), stacklevel=2)


def with_hashed(X: Numbers, block: Block, schema: Schema) -> Numbers:
    """The features with those of hashed columns after them; sparse where these are many.

    A missing text has no word, and adds nothing.
    """
    columns = [column for column in schema.columns if column.kind == HASHED]
    if not columns:
        return X
    extraction = checks.needed("sklearn.feature_extraction", "hashing words")
    parts = [X]
    for column in columns:
        hasher = extraction.FeatureHasher(1 << column.bits, input_type="string", dtype=X.dtype)
        parts.append(hasher.transform([(c or "").split() for c in block.texts[column.name]]))
    joined: CSR = sp.csr_array(sp.hstack(parts, format="csr"))
    return joined if joined.shape[1] > DENSE_FEATURES else joined.toarray()


def advise(first: Block, schema: Schema, rows: int) -> None:
    """Warn of identifiers and of categories that are many, by the rows that the schema is from."""
    number = 0
    if rows < LEAST_ROWS or not isinstance(first.X, np.ndarray):
        return
    for column in schema.columns:
        if column.is_text:
            found = len(column.categories or ()) if column.kind == CATEGORY else 0
            if found > MOSTLY * rows:
                _warn(column.name, "is different in nearly every row, like an identifier")
            elif found > MANY:
                _warn(column.name, f"has {found} categories, one feature each")
            continue
        if (
            column.kind == NUMBER
            and first.rows >= LEAST_ROWS
            and np.all(np.diff(first.X[:, number]) == 1.0)
        ):
            _warn(column.name, "counts the rows, like an identifier")
        number += 1


def _warn(name: str, what: str) -> None:
    remedy = leave_out(name, words="counts" not in what)
    warnings.warn(MiniampWarning(f"column {name!r} {what}; {remedy}"), stacklevel=2)
