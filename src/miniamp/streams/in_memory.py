"""Rows in memory: arrays, data frames of any library, and iterables."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from miniamp import checks
from miniamp.arrays import Given
from miniamp.errors import InvalidTypeError
from miniamp.streams.pieces import (
    CSR,
    ArrowArray,
    Cells,
    MatrixPiece,
    Numbers,
    Piece,
    Source,
    TablePiece,
    rows_per_piece,
    skip_rows,
    too_short,
)

if TYPE_CHECKING:
    import narwhals as nw
    from narwhals.typing import IntoDataFrame, IntoSeries

#: Rows are gathered into pieces of at most this many.
GATHER = 1024

Item = TypeVar("Item")
#: One item of an iterable, and its target where it has one.
Pair: TypeAlias = tuple[Given, Given]


class ArraySource(Source):
    """The rows of a matrix, and where given a target for each.

    Parameters
    ----------
    X : (M, N) array or scipy sparse
        The rows.
    y : (M,) array, optional
        Their targets.
    """

    name = "array"

    def __init__(self, X: Given, y: Given = None) -> None:
        self._X = matrix_of(X, "source")
        self._y = None if y is None else targets_of(y, self.count())

    def count(self) -> int:
        return int(self._X.shape[0])

    def pieces(self, start: int, columns: Collection[str] | None) -> Iterator[Piece]:
        if start > self.count():
            raise too_short(self.name, self.count(), start)
        step = rows_per_piece(self._X.shape[1] if isinstance(self._X, np.ndarray) else 1)
        for begin in range(start, self.count(), step):
            y = None if self._y is None else self._y[begin : begin + step]
            yield MatrixPiece(self.name, begin, self._X[begin : begin + step], y)


def matrix_of(X: Given, name: str) -> Numbers:
    """X as a two-dimensional block of real numbers: dense, or CSR; masked values become NaN."""
    if sp.issparse(X):
        sparse: CSR = sp.csr_array(X)
        if sparse.dtype.kind not in "fiub":
            raise _not_real(name, sparse.dtype)
        return sparse
    matrix = np.asarray(X) if not np.ma.isMaskedArray(X) else _unmasked(X)
    if matrix.dtype.kind == "O" and not any(isinstance(v, checks.NO_NUMBERS) for v in matrix.flat):
        # Objects that are numbers; dates and text would be converted in silence.
        try:
            matrix = matrix.astype(np.float64)
        except (TypeError, ValueError):
            raise _not_real(name, matrix.dtype) from None
    if matrix.dtype.kind not in "fiub":
        raise _not_real(name, matrix.dtype)
    if matrix.ndim != 2:
        raise checks.refuse(
            name,
            f"an array of shape {matrix.shape}",
            "a two-dimensional array, one row per observation",
            "reshape it",
        )
    return matrix


def _unmasked(X: Given) -> NDArray[np.float64]:
    """A masked array with NaN where a value is masked, which is a missing value."""
    return np.asarray(np.ma.asarray(X, dtype=np.float64).filled(np.nan))


def _not_real(name: str, dtype: object) -> InvalidTypeError:
    return InvalidTypeError(
        name,
        f"an array of dtype {dtype}",
        "real numbers",
        "convert text and dates to numbers, or give a DataFrame whose text columns are categories",
    )


def targets_of(y: Given, rows: int) -> NDArray[np.generic]:
    """y as one cell for each of `rows` rows, numbers or labels; masked ones become NaN."""
    targets: NDArray[np.generic] = np.asarray(y) if not np.ma.isMaskedArray(y) else _unmasked(y)
    if targets.ndim == 2 and targets.shape[1] == 1:
        targets = targets[:, 0]
    if targets.ndim != 1 or targets.shape[0] != rows:
        raise checks.refuse(
            "target", f"shape {targets.shape}", f"({rows},)", "give one value for each row"
        )
    return targets


def is_frame(source: object) -> bool:
    """Whether this is a frame or table of pandas, polars, pyarrow or the like, importing none."""
    library = type(source).__module__.split(".", maxsplit=1)[0]
    if library in ("builtins", "numpy", "scipy"):
        return False
    if library in ("pandas", "polars", "pyarrow"):
        checks.needed("narwhals", f"reading frames of {library}")
    try:
        dependencies = checks.needed("narwhals.dependencies", "reading frames")
    except ImportError:
        return False
    return bool(dependencies.is_into_dataframe(source)) or hasattr(source, "__arrow_c_stream__")


class FrameSource(Source):
    """The rows of a frame: of pandas, polars, pyarrow, or what else narwhals reads.

    Parameters
    ----------
    frame : DataFrame, Table or RecordBatch
        The rows.
    y : array, optional
        Targets, where they are no column of the frame.
    """

    def __init__(self, frame: Given, y: Given = None) -> None:
        narwhals = checks.needed("narwhals", "reading frames")
        library = type(frame).__module__.split(".", maxsplit=1)[0]
        self.name = f"{library} {type(frame).__name__}"
        # Before narwhals, which refuses duplicates in words of its own.
        names = getattr(
            getattr(frame, "schema", frame) if library == "pyarrow" else frame,
            "names" if library == "pyarrow" else "columns",
            (),
        )
        checks.refuse_duplicates([str(name) for name in names], self.name)
        if checks.needed("narwhals.dependencies", "reading frames").is_into_dataframe(frame):
            self._frame: nw.DataFrame[IntoDataFrame] = narwhals.from_native(frame, eager_only=True)
        else:
            self._frame = narwhals.from_arrow(frame, backend="pyarrow")
        self._y = None if y is None else targets_of(y, self.count())

    def count(self) -> int:
        return int(self._frame.shape[0])

    def pieces(self, start: int, columns: Collection[str] | None) -> Iterator[Piece]:
        rows = self.count()
        if start > rows:
            raise too_short(self.name, rows, start)
        chosen = [n for n in self._frame.columns if columns is None or str(n) in columns]
        step = rows_per_piece(len(chosen))
        for begin in range(start, rows, step):
            end = min(begin + step, rows)
            part = self._frame[begin:end]
            cells = {str(name): _series_cells(part.get_column(name)) for name in chosen}
            y = None if self._y is None else self._y[begin:end]
            yield TablePiece(self.name, begin, end - begin, dict(cells), y)


def _series_cells(series: nw.Series[IntoSeries]) -> Cells:
    """A column of a frame as an Arrow array, or as objects where they are of several types."""
    if series.dtype == checks.needed("narwhals", "reading frames").Object:
        cells = np.empty(len(series), dtype=object)
        cells[:] = series.to_list()
        return cells
    arrow: ArrowArray = series.to_arrow()
    return arrow


def record_pieces(
    groups: Iterable[list[dict[str, object]]],
    name: str,
    columns: Collection[str] | None,
    row: int = 0,
) -> Iterator[TablePiece]:
    """A table for each group of records; the first record decides which columns there are.

    If that is not the first row of all, the columns that are needed are there as well.

    Examples
    --------
    >>> (table,) = record_pieces([[{"a": 1, "b": "x"}, {"a": 2}]], "data", None)
    >>> {name: cells.tolist() for name, cells in table.columns.items()}
    {'a': [1, 2], 'b': ['x', None]}
    """
    names: list[str] = []
    for group in groups:
        if group and not names:
            known = sorted(columns or ()) if row else ()
            names = list(dict.fromkeys([*map(str, group[0]), *known]))
        cells = {
            key: _record_cells([record.get(key) for record in group], key, name, row)
            for key in names
            if columns is None or key in columns
        }
        yield TablePiece(name, row, len(group), dict(cells))
        row += len(group)


def _record_cells(values: list[object], key: str, name: str, row: int) -> NDArray[np.object_]:
    for i, value in enumerate(values):
        if isinstance(value, (Mapping, list, tuple, set)):
            raise checks.refuse(
                f"{name}, row {row + i + 1}, column {key!r}",
                f"a {type(value).__name__}",
                "a number or text",
                "give it a column for each of its values",
            )
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    return cells


class IterableSource(Source):
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

    def __init__(
        self, items: Iterable[Given] | Callable[[], Iterable[Given]], batch_size: int
    ) -> None:
        self._items = items
        self._gather = min(batch_size, GATHER)
        self.rereadable = callable(items) or not isinstance(items, Iterator)

    def pieces(self, start: int, columns: Collection[str] | None) -> Iterator[Piece]:
        made = self._items() if callable(self._items) else self._items
        if not isinstance(made, Iterable):
            raise InvalidTypeError(
                "source", f"a function that returned {type(made).__name__}", "an iterable", ""
            )
        items = iter(made)
        pieces: Iterator[Piece] = iter(())
        for first in itertools.islice(items, 1):
            pieces = self._of_kind(first, itertools.chain([first], items), columns)
        yield from skip_rows(pieces, start, self.name)

    def _of_kind(
        self, first: Given, items: Iterator[Given], columns: Collection[str] | None
    ) -> Iterator[Piece]:
        """Read all items the way that suits the first."""
        if isinstance(first, Mapping):
            records = (_as_dict(item, i) for i, item in enumerate(items))
            return record_pieces(_grouped(records, self._gather), self.name, columns)
        if isinstance(first, tuple) and len(first) == 2 and not np.isscalar(first[0]):
            inner = first[0]
            pairs = (_as_pair(item, i) for i, item in enumerate(items))
            if isinstance(inner, Mapping):
                return _records_with_targets(pairs, self._gather, self.name)
        else:
            inner, pairs = first, ((item, None) for item in items)
        if is_frame(inner):
            return _framed(pairs, self.name)
        if sp.issparse(inner) or (_is_array(inner) and np.ndim(inner) == 2):
            return _blocks(pairs, self.name)
        if _is_array(inner) and np.ndim(inner) == 1:
            return _rows(pairs, self._gather, self.name)
        raise InvalidTypeError(
            "source",
            f"an iterator of {first!r:.60} of type {type(first).__name__}",
            "(X, y), a row of numbers, a dict or a frame",
            "make it give one of these",
        )


def _is_array(item: object) -> bool:
    return isinstance(item, (Sequence, np.ndarray)) and not isinstance(item, (str, bytes))


def _grouped(items: Iterator[Item], size: int) -> Iterator[list[Item]]:
    while group := list(itertools.islice(items, size)):
        yield group


def _as_dict(item: Given, i: int) -> dict[str, object]:
    if not isinstance(item, Mapping):
        raise _other_form(item, i, "a dict")
    return dict(item)


def _as_pair(item: Given, i: int) -> Pair:
    if not (isinstance(item, tuple) and len(item) == 2):
        raise _other_form(item, i, "a pair (X, y)")
    return item


def _other_form(item: object, i: int, form: str) -> InvalidTypeError:
    return InvalidTypeError(
        f"source, item {i + 1}",
        f"a {type(item).__name__}",
        f"{form} as before",
        "give all items in the same form",
    )


def _blocks(pairs: Iterable[Pair], name: str) -> Iterator[Piece]:
    row = 0
    for X, y in pairs:
        matrix = matrix_of(X, f"source, row {row + 1}")
        rows = int(matrix.shape[0])
        yield MatrixPiece(name, row, matrix, None if y is None else targets_of(y, rows))
        row += rows


def _framed(pairs: Iterable[Pair], name: str) -> Iterator[Piece]:
    row = 0
    for frame, y in pairs:
        for table in FrameSource(frame, y).pieces(0, None):
            if isinstance(table, TablePiece):
                yield TablePiece(name, row, table.rows, table.columns, table.y)
                row += table.rows


def _rows(pairs: Iterable[Pair], size: int, name: str) -> Iterator[Piece]:
    row = 0
    for group in _grouped(iter(pairs), size):
        lengths = [len(x) if isinstance(x, Sized) else 1 for x, _ in group]
        width = lengths[0]
        for i, length in enumerate(lengths):
            if length != width:
                raise checks.refuse(
                    f"source, row {row + i + 1}",
                    f"{length} values",
                    f"{width} as before",
                    "give every row the same number of values",
                )
        X = matrix_of([x for x, _ in group], f"source, rows from {row + 1} on")
        targets = [y for _, y in group]
        y = None if all(t is None for t in targets) else targets_of(targets, len(group))
        yield MatrixPiece(name, row, X, y)
        row += len(group)


def _records_with_targets(pairs: Iterator[Pair], size: int, name: str) -> Iterator[Piece]:
    row = 0
    names: list[str] = []
    for group in _grouped(pairs, size):
        for table in record_pieces([[_as_dict(x, row) for x, _ in group]], name, None):
            names = names or list(table.columns)
            empty = np.full(table.rows, None, dtype=object)
            y = np.empty(len(group), dtype=object)
            y[:] = [target for _, target in group]
            columns = {key: table.columns.get(key, empty) for key in names}
            yield TablePiece(name, row, table.rows, columns, y)
            row += table.rows
