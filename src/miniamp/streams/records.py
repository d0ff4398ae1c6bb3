"""Rows as dicts, gathered into tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from miniamp.errors import InvalidInputError
from miniamp.streams.pieces import Piece, Table


def tables_of(
    groups: Iterable[list[dict[str, Any]]], name: str, only: Collection[str] | None
) -> Iterator[Piece]:
    """A table for each group of records; the first record says which columns there are.

    Examples
    --------
    >>> (table,) = tables_of([[{"a": 1, "b": "x"}, {"a": 2}]], "data", None)
    >>> {name: cells.tolist() for name, cells in table.columns.items()}
    {'a': [1, 2], 'b': ['x', None]}
    """
    names: list[str] = []
    row = 0
    for group in groups:
        if group and not names:
            names = [str(key) for key in group[0]]
        columns = {
            key: _cells([record.get(key) for record in group], key, name, row)
            for key in names
            if only is None or key in only
        }
        yield Table(name, row, len(group), columns)
        row += len(group)


def _cells(values: list[Any], key: str, name: str, row: int) -> Any:
    for i, value in enumerate(values):
        if isinstance(value, (Mapping, list, tuple, set)):
            raise InvalidInputError(
                f"{name}, row {row + i + 1}, column {key!r}: got a {type(value).__name__}, "
                "expected a number or text; give it a column for each of its values"
            )
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    return cells
