"""Pieces to blocks: numbers read, categories as text, targets as numbers or labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from miniamp import checks
from miniamp.errors import InvalidInputError
from miniamp.streams.batch import Block
from miniamp.streams.cells import BadCell, BadKind, as_numbers, as_texts, side_by_side
from miniamp.streams.pieces import Cells, Matrix, Numbers, Piece, Places, Table, is_sparse
from miniamp.streams.schema import NUMBER, Schema


class Encoder:
    """Reads pieces by a schema, naming row, column and value where one cannot be read."""

    def __init__(self, schema: Schema, dtype: np.dtype[Any], places: Places) -> None:
        self.schema = schema
        self.dtype = dtype
        self.places = places

    def block(self, first: int, piece: Piece) -> Block:
        """The piece, whose first row is number `first` of the stream, as a block."""
        numbers = np.arange(first, first + piece.rows, dtype=np.int64)
        if isinstance(piece, Matrix):
            X, y = self._of_matrix(piece)
            return Block(numbers, X, {}, None if y is None else self._target(first, y))
        return self._of_table(first, numbers, piece)

    def _of_table(self, first: int, numbers: NDArray[np.int64], table: Table) -> Block:
        target = self.schema.target
        if not self.schema.columns:
            raise checks.refuse(
                table.origin,
                "named columns",
                f"a plain array of {self.schema.width} columns as in the schema",
                "give the rows as an array",
            )
        for name in (*(c.name for c in self.schema.columns), *([] if target is None else [target])):
            if name not in table.columns:
                raise InvalidInputError(
                    f"{table.origin}: has no column {name!r}, expected the same columns as before; "
                    "add it, or leave it out from the start with columns=[...]"
                )
        numeric = [c.name for c in self.schema.columns if c.kind == NUMBER]
        X = side_by_side([table.columns[name] for name in numeric], self.dtype)
        if X is None:
            X = np.empty((table.rows, len(numeric)), dtype=self.dtype)
            for j, name in enumerate(numeric):
                X[:, j] = self._read(as_numbers, first, table.columns[name], name)
        texts = {
            c.name: self._read(as_texts, first, table.columns[c.name], c.name)
            for c in self.schema.columns
            if c.kind != NUMBER
        }
        y = table.y if target is None else table.columns[str(target)]
        return Block(numbers, X, texts, None if y is None else self._target(first, y))

    def _of_matrix(self, piece: Matrix) -> tuple[Numbers, Cells]:
        schema = self.schema
        if schema.width == 0:
            raise checks.refuse(
                piece.origin,
                "rows without column names",
                f"the columns {', '.join(schema.feature_names[:5])}",
                "give a table with named columns",
            )
        if piece.X.shape[1] != schema.width:
            raise InvalidInputError(
                f"{piece.origin}, row {piece.row + 1}: got {piece.X.shape[1]} columns, expected "
                f"{schema.width} as before; give every row the same number of values"
            )
        X: Any = piece.X
        y = piece.y
        if schema.target is not None:
            column = X[:, [int(str(schema.target)[1:])]]
            y = (column.toarray() if is_sparse(X) else np.asarray(column))[:, 0]
        if schema.columns:
            X = X[:, [int(column.name[1:]) for column in schema.columns]]
        return (X if is_sparse(X) else np.asarray(X)).astype(self.dtype, copy=False), y

    def _target(self, first: int, cells: Cells) -> NDArray[Any]:
        name = "target" if self.schema.target is None else str(self.schema.target)
        if self.schema.labels:
            return self._read(as_texts, first, cells, name)
        return self._read(as_numbers, first, cells, name, "labels=True keeps the target as text")

    def _read(
        self,
        reader: Any,
        first: int,
        cells: Cells,
        name: str,
        remedy: str = "correct it, or pass categorical=[...] if the column holds categories",
    ) -> NDArray[Any]:
        try:
            read: NDArray[Any] = reader(cells)
        except BadCell as bad:
            raise InvalidInputError(
                f"{self.places.of(first + bad.index)}, column {name!r}: got {bad.value!r:.60}, "
                f"expected a number; {remedy}"
            ) from None
        except BadKind as bad:
            raise InvalidInputError(
                f"{self.places.of(first)}, column {name!r}: got values of type {bad}, expected "
                "numbers or text; convert the column, or leave it out with columns=[...]"
            ) from None
        return read
