"""Anything that can be iterated: pairs (X, y), rows, dicts, or frames."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from miniamp.errors import InvalidInputError, InvalidTypeError
from miniamp.streams.arrays import matrix_of, targets_of
from miniamp.streams.frames import Frame, is_frame
from miniamp.streams.pieces import Matrix, Piece, Table, is_sparse, skipping
from miniamp.streams.records import tables_of

#: Rows are gathered into pieces of at most this many.
GATHER = 1024


class Items:
    """The rows of an iterable.

    Parameters
    ----------
    items : iterable, or function without arguments that returns one
        (X, y) with X of shape (k, N); (row, y) with a row of N numbers or a dict; rows; dicts; or
        frames.
    batch_size : int
        Rows are never gathered beyond a batch, so that a slow iterator's rows are used at once.
    """

    name = "iterator"

    def __init__(self, items: Iterable[Any] | Callable[[], Iterable[Any]], batch_size: int) -> None:
        self._items = items
        self._gather = min(batch_size, GATHER)
        self.again = callable(items) or not isinstance(items, Iterator)

    def pieces(self, start: int, only: Collection[str] | None) -> Iterator[Piece]:
        """The rows from number `start` on."""
        return skipping(self._read(only), start, self.name)

    def _read(self, only: Collection[str] | None) -> Iterator[Piece]:
        made = self._items() if callable(self._items) else self._items
        if not isinstance(made, Iterable):
            raise InvalidTypeError(
                f"source: the function returned {type(made).__name__}, expected an iterable"
            )
        items = iter(made)
        for first in itertools.islice(items, 1):
            yield from self._of_kind(first, itertools.chain([first], items), only)

    def _of_kind(
        self, first: Any, items: Iterator[Any], only: Collection[str] | None
    ) -> Iterator[Piece]:
        """Read all items the way that suits the first."""
        if isinstance(first, Mapping):
            groups = _grouped((_as_dict(item, i) for i, item in enumerate(items)), self._gather)
            return tables_of(groups, self.name, only)
        if is_frame(first):
            return _framed(((item, None) for item in items), self.name)
        if isinstance(first, tuple) and len(first) == 2:
            inner = first[0]
            pairs = (_as_pair(item, i) for i, item in enumerate(items))
            if isinstance(inner, Mapping):
                return _records_with_targets(pairs, self._gather, self.name)
            if is_frame(inner):
                return _framed(pairs, self.name)
            if is_sparse(inner) or np.ndim(inner) == 2:
                return _blocks(pairs, self.name)
            if np.ndim(inner) == 1:
                return _rows(pairs, self._gather, self.name)
        if isinstance(first, (Sequence, np.ndarray)) and not isinstance(first, (str, bytes)):
            if np.ndim(first) == 2:
                return _blocks(((item, None) for item in items), self.name)
            return _rows(((item, None) for item in items), self._gather, self.name)
        raise InvalidTypeError(
            f"source: the iterator gave {first!r:.60} of type {type(first).__name__}, expected "
            "(X, y), a row of numbers, a dict or a frame; make it give one of these"
        )


def _grouped(items: Iterator[Any], size: int) -> Iterator[list[Any]]:
    while group := list(itertools.islice(items, size)):
        yield group


def _as_dict(item: Any, i: int) -> Any:
    if not isinstance(item, Mapping):
        raise InvalidTypeError(
            f"source: item {i + 1} is a {type(item).__name__}, expected a dict as before; "
            "give all rows in the same form"
        )
    return item


def _as_pair(item: Any, i: int) -> tuple[Any, Any]:
    if not (isinstance(item, tuple) and len(item) == 2):
        raise InvalidTypeError(
            f"source: item {i + 1} is a {type(item).__name__}, expected a pair (X, y) as before; "
            "give all items in the same form"
        )
    return item


def _blocks(pairs: Iterable[tuple[Any, Any]], name: str) -> Iterator[Piece]:
    row = 0
    for X, y in pairs:
        matrix = matrix_of(X, f"source, row {row + 1}")
        yield Matrix(name, row, matrix, None if y is None else targets_of(y, matrix.shape[0]))
        row += matrix.shape[0]


def _framed(pairs: Iterable[tuple[Any, Any]], name: str) -> Iterator[Piece]:
    row = 0
    for frame, y in pairs:
        for table in Frame(frame, y).pieces(0, None):
            if not isinstance(table, Table):
                continue
            yield Table(name, row, table.rows, table.columns, table.y)
            row += table.rows


def _rows(pairs: Iterable[tuple[Any, Any]], size: int, name: str) -> Iterator[Piece]:
    row = 0
    for group in _grouped(iter(pairs), size):
        width = len(group[0][0])
        for i, (x, _) in enumerate(group):
            if len(x) != width:
                raise InvalidInputError(
                    f"source: row {row + i + 1} has {len(x)} values, expected {width} as before; "
                    "give every row the same number of values"
                )
        X = matrix_of([x for x, _ in group], f"source, rows from {row + 1} on")
        targets = [y for _, y in group]
        y = None if all(t is None for t in targets) else targets_of(targets, len(group))
        yield Matrix(name, row, X, y)
        row += len(group)


def _records_with_targets(
    pairs: Iterator[tuple[Any, Any]], size: int, name: str
) -> Iterator[Piece]:
    row = 0
    names: list[str] = []
    for group in _grouped(pairs, size):
        for table in tables_of([[dict(x) for x, _ in group]], name, None):
            if not isinstance(table, Table):
                continue
            names = names or list(table.columns)
            empty = np.full(table.rows, None, dtype=object)
            columns = {key: table.columns.get(key, empty) for key in names}
            y = np.empty(len(group), dtype=object)
            y[:] = [target for _, target in group]
            yield Table(name, row, table.rows, columns, y)
            row += table.rows
