"""Cells to numbers or texts, whatever array type the column came in."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miniamp.arrays import Array
from miniamp.streams.extras import needed
from miniamp.streams.pieces import Cells

#: Texts that mean "no value", in any case; as pandas, R and databases write them.
MISSING_TEXTS = frozenset(
    ["", "na", "n/a", "#n/a", "nan", "-nan", "null", "none", "nil", "<na>", "?"]
)

Texts = NDArray[np.object_]


class BadCell(Exception):
    """A cell that cannot be read as asked: its place within the piece, and what it holds."""

    def __init__(self, index: int, value: object) -> None:
        super().__init__(index, value)
        self.index = index
        self.value = value


class BadKind(Exception):
    """A whole column of a type that is neither number nor text, such as dates or lists."""


def is_text(cells: Cells) -> bool:
    """Whether the column came as text (or as objects), so that its cells decide what it is."""
    if isinstance(cells, np.ndarray):
        return cells.dtype.kind in "OUST"
    types = needed("pyarrow", "reading Arrow data").types
    kind = cells.type.value_type if types.is_dictionary(cells.type) else cells.type
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
        or types.is_null(kind)
    )


def first_texts(cells: Cells) -> Iterator[str | bool]:
    """Cell by cell of a column that came as text or objects: True for a number, else its text.

    Missing ones are left out. Lazy: the first cell of a wide table often settles the matter.
    """
    for begin in range(0, len(cells), 16):
        part = cells[begin : begin + 16]
        raw = part.tolist() if isinstance(part, np.ndarray) else part.to_pylist()
        for cell, text in zip(raw, as_texts(part), strict=True):
            if text is not None:
                yield True if _is_number(cell) else text


def _is_number(cell: Any) -> bool:
    try:
        parsed(cell)
    except BadCell:
        return False
    return True


def as_numbers(cells: Cells) -> Array:
    """The column as float64, NaN where a value is missing.

    Examples
    --------
    >>> as_numbers(np.array(["1.5", " 2 ", "NA", None], dtype=object))
    array([1.5, 2. , nan, nan])
    """
    if isinstance(cells, np.ndarray):
        if cells.dtype.kind in "fiub":
            return np.asarray(cells, dtype=np.float64)
        if cells.dtype.kind not in "OUST":
            raise BadKind(f"{cells.dtype}")
        return _parsed(cells)
    return _arrow_numbers(cells)


def side_by_side(columns: list[Cells], dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """All columns as one matrix of numbers, or None if they must be read one by one.

    Only for Arrow columns of one type, which are converted in a single call: with thousands of
    columns the calls would cost more than the numbers.
    """
    if not columns or any(isinstance(c, np.ndarray) or c.type != columns[0].type for c in columns):
        return None
    pa = needed("pyarrow", "reading Arrow data")
    types = pa.types
    if not (types.is_floating(columns[0].type) or types.is_string(columns[0].type)):
        return None
    try:
        flat = pa.chunked_array(columns)
        flat = flat if types.is_float64(flat.type) else flat.cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    X = np.empty((len(columns[0]), len(columns)), dtype=dtype)
    values = [_values(chunk) for chunk in flat.chunks]  # casting may have joined them
    ends = values if len(values) == len(columns) else np.split(np.concatenate(values), len(columns))
    for j, column in enumerate(ends):
        X[:, j] = column
    return X


def as_texts(cells: Cells) -> Texts:
    """The column as str objects, None where a value is missing.

    Whole numbers lose their ".0", so that a class is called "3" in a CSV, a Parquet file and
    a frame.

    Examples
    --------
    >>> as_texts(np.array([1.0, 2.5, np.nan]))
    array(['1', '2.5', None], dtype=object)
    """
    if not isinstance(cells, np.ndarray):
        _arrow_kind(cells)
        cells = np.array(cells.to_pylist(), dtype=object)
    elif cells.dtype.kind in "MmVc":
        raise BadKind(f"{cells.dtype}")
    texts = np.empty(len(cells), dtype=object)
    texts[:] = [_text(cell) for cell in cells.tolist()]
    return texts


def _text(cell: Any) -> str | None:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return None
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    text = str(cell).strip()
    return None if text.lower() in MISSING_TEXTS else text


def _parsed(cells: NDArray[Any]) -> Array:
    numbers = np.empty(len(cells))
    for i, cell in enumerate(cells.tolist()):
        numbers[i] = parsed(cell, i)
    return numbers


def parsed(cell: Any, index: int = 0) -> float:
    """One cell as a float, NaN if missing, BadCell if it is neither."""
    if isinstance(cell, (float, int, np.number, np.bool_)):
        return float(cell)
    if cell is None:
        return math.nan
    text = cell.decode(errors="replace") if isinstance(cell, bytes) else str(cell)
    if "_" not in text:  # Python reads 1_000 as a number; no other program does
        try:
            return float(text)
        except ValueError:
            pass
    if text.strip().lower() in MISSING_TEXTS:
        return math.nan
    raise BadCell(index, cell)


def _arrow_kind(cells: Cells) -> None:
    types = needed("pyarrow", "reading Arrow data").types
    kind = cells.type
    good = (
        is_text(cells)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
        or types.is_dictionary(kind)
    )
    if not good:
        raise BadKind(str(kind))


def _arrow_numbers(cells: Cells) -> Array:
    pa = needed("pyarrow", "reading Arrow data")
    _arrow_kind(cells)
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if pa.types.is_boolean(cells.type):
        cells = cells.cast(pa.int8())
    try:
        numbers = cells.cast(pa.float64(), safe=False)
    except pa.ArrowInvalid:  # a blank around a number, a rare word for missing, or no number at all
        return _parsed(np.array(cells.to_pylist(), dtype=object))
    return _values(numbers)


def _values(cells: Cells) -> Array:
    """The float64 of an Arrow array as a view, NaN where null; its own way imports pandas."""
    if cells.null_count:
        cells = cells.fill_null(math.nan)
    if not len(cells):
        return np.empty(0)
    return np.frombuffer(cells.buffers()[1], np.float64, len(cells), offset=8 * cells.offset)
