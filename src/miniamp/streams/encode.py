"""Rows on their way to a batch: pieces to blocks of numbers, gaps in them, and then features."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from miniamp import checks
from miniamp.arrays import Array
from miniamp.errors import InvalidInputError, verbatim
from miniamp.streams.base import Cells, Numbers, Piece
from miniamp.streams.cells import (
    DECIMAL_COMMA,
    THOUSANDS,
    CellError,
    ColumnTypeError,
    as_days,
    as_numbers,
    as_texts,
    leave_out,
    side_by_side,
)
from miniamp.streams.dates import expanded
from miniamp.streams.schema import HASHED, NUMBER, Column, ReadOptions, Schema, absent, warn

#: Features up to which rows with hashed words are dense: 32 MB per 1000 rows.
DENSE_FEATURES = 4096

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Rows on their way to a batch: numbers read, categories still as text."""

    numbers: NDArray[np.int64]  #: (k,) the stream's number of each row, counted from 0
    X: Numbers  #: (k, n), or CSR: the columns that are numbers
    #: The columns that are text, and those that are carried along as such, (k,) objects each.
    texts: dict[str, NDArray[np.object_]]
    y: NDArray[np.generic] | None  #: (k,) targets: float64, or objects for labels

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
        )

    @classmethod
    def joined(cls, blocks: Sequence[Block]) -> Block:
        """One block of all their rows, in order."""
        if len(blocks) == 1:
            return blocks[0]
        dense = [block.X for block in blocks if isinstance(block.X, np.ndarray)]
        targets = [block.y for block in blocks if block.y is not None]
        names = blocks[0].texts
        return cls(
            np.concatenate([block.numbers for block in blocks]),
            np.concatenate(dense) if dense else sp.vstack([b.X for b in blocks], format="csr"),
            {name: np.concatenate([block.texts[name] for block in blocks]) for name in names},
            np.concatenate(targets) if targets else None,
        )


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
            yield Block.joined([*held, block.at(slice(begin, end))])
            held, rows, begin, size = [], 0, end, k
        if begin < block.rows:
            held.append(block.at(slice(begin, None)) if begin else block)
            rows += block.rows - begin
    if held:
        yield Block.joined(held)


class Reader:
    """Reads pieces by a schema, naming row, column and value where one cannot be read.

    Parameters
    ----------
    schema : Schema
        With all its vocabularies.
    options : ReadOptions
        What the user wants.
    reported : set of str
        Columns of which an unknown category was reported; further ones are added.
    """

    def __init__(self, schema: Schema, options: ReadOptions, reported: set[str]) -> None:
        self._schema, self._options, self._reported = schema, options, reported
        self._origins: list[tuple[int, str, int]] = []

    def blocks(self, pieces: Iterable[Piece], start: int) -> Iterator[Block]:
        """The pieces as blocks, the first row being number `start`; gaps are dealt with."""
        for piece in pieces:
            if not self._origins or self._origins[-1][1] != piece.origin:
                self._origins.append((start, piece.origin, piece.row))
            yield self._without_gaps(self._block(start, piece))
            start += piece.rows

    def _place(self, row: int) -> str:
        """The origin of row number `row` (from 0) of the stream and its number there, from 1."""
        known = bisect_right(self._origins, row, key=lambda origin: origin[0])
        begin, origin, first = self._origins[known - 1]
        return f"{origin}, row {row - begin + first + 1}"

    def _block(self, first: int, piece: Piece) -> Block:
        """The piece, whose first row is number `first` of the stream, as a block."""
        X, y = self._matrix(piece) if piece.X is not None else self._table(first, piece)
        numbers = np.arange(first, first + piece.rows, dtype=np.int64)
        as_read = {c.name: as_texts for c in self._schema.columns if c.is_text}
        as_read |= dict.fromkeys(self._options.keep, partial(as_texts, any_type=True))
        texts = {n: self._read(how, first, piece.columns[n], n) for n, how in as_read.items()}
        return Block(numbers, X, texts, None if y is None else self._target(first, y))

    def _table(self, first: int, table: Piece) -> tuple[Numbers, Cells | None]:
        """The numbers of a table, and its target."""
        schema, dtype = self._schema, self._options.dtype
        if not schema.columns:
            raise checks.refuse(
                table.origin,
                "named columns",
                f"a plain array of {schema.width} columns as in the schema",
                "give the rows as an array",
            )
        for name in self._options.keep:
            if name not in table.columns:
                raise absent("keep", name, list(table.columns), table.origin)
        target = [] if schema.target is None else [str(schema.target)]
        for name in (*(c.name for c in schema.columns), *target):
            if name not in table.columns:
                raise checks.refuse(
                    table.origin,
                    f"no column {name!r}",
                    "the same columns as before",
                    "add it, or leave it out from the start with {columns=[...]|a,b}",
                )
        numeric = [c for c in schema.columns if not c.is_text]
        X = None
        if all(c.kind == NUMBER for c in numeric):
            X = side_by_side([table.columns[c.name] for c in numeric], dtype)
        if X is None:
            X = np.empty((table.rows, len(numeric)), dtype=dtype)
            for j, c in enumerate(numeric):
                days = partial(as_days, order=c.kind.partition(", ")[2])
                reader = as_numbers if c.kind == NUMBER else days
                X[:, j] = self._read(reader, first, table.columns[c.name], c.name)
        return X, table.targets(schema.target)

    def _matrix(self, piece: Piece) -> tuple[Numbers, Cells | None]:
        """The numbers of a piece without names, and its target."""
        schema, X, y = self._schema, piece.X, piece.y
        assert X is not None
        for name in self._options.keep:
            raise checks.refuse("keep", repr(name), "columns with names", "leave it out")
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
        return X.astype(self._options.dtype, copy=False), y

    def _target(self, first: int, cells: Cells) -> NDArray[np.generic]:
        name = "target" if self._schema.target is None else str(self._schema.target)
        if self._schema.labels:
            return self._read(as_texts, first, cells, name)
        remedy = "correct it; if these are classes, use --classes a,b,c (in Python labels=True)"
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
                remedy = "read commas before decimals with {decimal=,|comma}"
                if THOUSANDS.fullmatch(str(bad.value)):
                    remedy = f"remove commas between thousands, or {remedy}"
                if "." in str(bad.value):
                    remedy = f"remove points between thousands, and {remedy}"
            remedy = remedy or (
                f"correct it, or use {{categorical={verbatim(f'[{name!r}]')}|{verbatim(name)}}} "
                "if it holds categories"
            )
            place = f"{self._place(first + bad.index)}, column {name!r}"
            raise checks.refuse(place, f"{bad.value!r:.60}", bad.expected, remedy) from None
        except ColumnTypeError as bad:
            place, received = f"{self._place(first)}, column {name!r}", f"values of type {bad}"
            remedy = f"convert the column, or {leave_out(name)}"
            raise checks.refuse(place, received, "numbers or text", remedy) from None

    def _without_gaps(self, block: Block) -> Block:
        """The block with its missing values refused, dropped, or left as NaN for the mean to fill.

        Rows without a target are dropped with those of the rule "drop", and with the rule "mean".
        Infinite values are no missing values: they are refused under every rule.
        """
        rule, schema = self._options.missing, self._schema
        no_target = np.zeros(block.rows, dtype=bool) if block.y is None else _missing(block.y)
        lacking = {c.name: _missing(block.texts[c.name]) for c in schema.columns if c.is_text}
        if _is_finite(block) and not any(gaps.any() for gaps in (no_target, *lacking.values())):
            return block
        names: Sequence[str] = schema.feature_names
        if schema.columns:
            names = [column.name for column in schema.columns if not column.is_text]
        rows, columns, values = _not_finite(block.X)
        for i in np.flatnonzero(np.isinf(values))[:1]:
            raise self._infinite(block.numbers[rows[i]], names[int(columns[i])], values[i])
        if block.y is not None and block.y.dtype.kind == "f":
            for i in np.flatnonzero(np.isinf(block.y))[:1]:
                raise self._infinite(block.numbers[i], str(schema.target), block.y[i])
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
        place, expected = self._place(int(block.numbers[row])), "a number or category"
        remedy = "drop such rows with {missing=drop}"
        if no_target[row] and not empty:
            place += ", target" if schema.target is None else f", target {schema.target!r}"
            expected = "a value"
        else:
            place += f", column {empty[0]!r}"
            if rule == "error" and dense:
                remedy = "fill it with {missing=mean} or " + remedy
        raise checks.refuse(place, "a missing value", expected, remedy)

    def _infinite(self, row: int, name: str, value: object) -> InvalidInputError:
        remedy = "correct the value, or leave the row or column out"
        place = f"{self._place(int(row))}, column {name!r}"
        return checks.refuse(place, value, "a finite number", remedy)

    def features(self, block: Block, filled: Callable[..., Array] | None) -> Numbers:
        """The features of a batch in the schema's order, hashed words last, gaps `filled`.

        A missing category is none of them, a level of its own, or the mean where a reference has
        that place. With the frequencies so far in its place, a rare level was a far entry of its
        indicator and lost. A missing text has no word, and adds nothing.
        """
        schema = self._schema
        X = block.X if all(c.kind == NUMBER for c in schema.columns) else self._expanded(block)
        if filled is not None and isinstance(X, np.ndarray):
            shown = [c for c in schema.columns if c.kind != HASHED]
            levels = [c.is_text and c.reference is None for c in shown for _ in c.parts]
            X = filled(X, schema.feature_names, np.array(levels or [False]))
        hashed = [column for column in schema.columns if column.kind == HASHED]
        if not hashed:
            return X
        extraction = checks.needed("sklearn.feature_extraction", "hashing words")
        parts = [X]
        for column in hashed:
            hasher = extraction.FeatureHasher(1 << column.bits, input_type="string", dtype=X.dtype)
            parts.append(hasher.transform([(c or "").split() for c in block.texts[column.name]]))
        joined = sp.csr_array(sp.hstack(parts, format="csr"))
        return joined if joined.shape[1] > DENSE_FEATURES else joined.toarray()

    def _expanded(self, block: Block) -> NDArray[np.float64]:
        """Numbers, indicators and parts of dates side by side."""
        numbers = np.asarray(block.X)
        shown = [column for column in self._schema.columns if column.kind != HASHED]
        X = np.zeros((block.rows, sum(len(c.parts) for c in shown)), dtype=numbers.dtype)
        at = number = 0
        for c in shown:
            end = at + len(c.parts)
            if c.is_text:
                self._set_indicators(X[:, at:end], c, block)
            else:
                own = numbers[:, number]
                X[:, at:end] = own[:, None] if c.kind == NUMBER else expanded(own, c.parts)
                number += 1
            at = end
        return X

    def _set_indicators(self, X: NDArray[np.float64], column: Column, block: Block) -> None:
        words = column.categories or ()
        index = {part[1:]: j for j, part in enumerate(column.parts)}
        for i, cell in enumerate(block.texts[column.name].tolist()):
            j = index.get(cell)
            if j is not None:
                X[i, j] = 1.0
            elif cell is None:
                X[i] = np.nan
            elif cell != column.reference and column.name not in self._reported:
                more = f" and {len(words) - 5} more" if len(words) > 5 else ""
                error = checks.refuse(
                    f"{self._place(int(block.numbers[i]))}, column {column.name!r}",
                    f"the category {cell!r}",
                    f"one of {', '.join(map(repr, words[:5]))}{more}",
                    "read unknown ones as none: {unknown=ignore}; fit sorted rows with "
                    "{shuffle=10000}",
                )
                if self._options.unknown == "error":
                    raise error
                self._reported.add(column.name)
                if self._options.unknown == "warn":
                    about = verbatim(f"{error.argument}: {error.received} is not {error.expected}")
                    done = "such rows have none of them from here on"
                    warn(f"{about}; {done}; {{shuffle=10000}} sees more at first")


def known_targets(head: Sequence[Piece], schema: Schema) -> NDArray[np.generic] | None:
    """The targets of the first rows; None where there are none, or one cannot be read."""
    found = []
    for piece in head:
        cells = piece.targets(schema.target)
        if cells is None:
            return None
        try:
            found.append(as_texts(cells) if schema.labels else as_numbers(cells))
        except (CellError, ColumnTypeError):
            return None
    y = np.concatenate(found)
    y = y[y != None].astype(str) if schema.labels else y[np.isfinite(y)]  # noqa: E711
    return y if len(y) else None


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
