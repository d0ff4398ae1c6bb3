"""Rows in memory: arrays, data frames of any library, and iterables."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from miniamp import checks
from miniamp.arrays import Given
from miniamp.errors import InvalidTypeError
from miniamp.streams.base import (
    Cells,
    Numbers,
    Piece,
    Source,
    rows_per_piece,
    skip_rows,
    too_short,
)

if TYPE_CHECKING:
    import narwhals as nw
    from narwhals.typing import IntoDataFrame, IntoSeries

#: One item of an iterable, and its target where it has one.
Pair: TypeAlias = tuple[Given, Given]
Record: TypeAlias = Mapping[str, object]
#: Rows are gathered into pieces of at most this many.
GATHER = 1024


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
        whole = matrix_piece(self.name, 0, X, y)
        assert whole.X is not None
        self._whole, self._width = whole, whole.X.shape[1] if isinstance(whole.X, np.ndarray) else 1

    def count(self) -> int:
        return self._whole.rows

    def pieces(self, start: int, columns: Collection[str] | None) -> Iterator[Piece]:
        if start > self.count():
            raise too_short(self.name, self.count(), start)
        step = rows_per_piece(self._width)
        for begin in range(start, self.count(), step):
            yield self._whole.cut(begin, begin + step)


def matrix_piece(origin: str, row: int, X: Given, y: Given = None, name: str = "source") -> Piece:
    """Rows of real numbers, dense or CSR, and their targets; masked values become NaN."""
    matrix = _matrix_of(X, name)
    rows = int(matrix.shape[0])
    return Piece(origin, row, rows, y=None if y is None else targets_of(y, rows), X=matrix)


def _matrix_of(X: Given, name: str) -> Numbers:
    if sp.issparse(X):
        matrix = sp.csr_array(X)
    else:
        matrix = np.asarray(X) if not np.ma.isMaskedArray(X) else _unmasked(X)
    if matrix.dtype.kind == "O" and not any(isinstance(v, checks.NO_NUMBERS) for v in matrix.flat):
        # Objects that are numbers; dates and text would be converted in silence.
        with suppress(TypeError, ValueError):
            matrix = matrix.astype(np.float64)
    if matrix.dtype.kind not in "fiub":
        raise InvalidTypeError(
            name,
            f"an array of dtype {matrix.dtype}",
            "real numbers",
            "convert text and dates to numbers, or give a DataFrame whose text columns are "
            "categories",
        )
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
        schema = getattr(frame, "schema", None) if library == "pyarrow" else None
        names = getattr(frame, "columns", ()) if schema is None else schema.names
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
            yield Piece(self.name, begin, end - begin, cells, y)


def _series_cells(series: nw.Series[IntoSeries]) -> Cells:
    """A column of a frame as an Arrow array, or as objects where they are of several types."""
    if series.dtype == checks.needed("narwhals", "reading frames").Object:
        return _objects(series.to_list())
    return series.to_arrow()


def _objects(values: Sequence[object]) -> NDArray[np.object_]:
    """Values as they are, even where NumPy would make a matrix of them."""
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    return cells


def record_pieces(
    groups: Iterable[Sequence[Record]],
    name: str,
    columns: Collection[str] | None,
    row: int = 0,
) -> Iterator[Piece]:
    """A piece for each group of records; the first record decides which columns there are.

    If that is not the first row of all, the columns that are needed are there as well.

    Examples
    --------
    >>> (piece,) = record_pieces([[{"a": 1, "b": "x"}, {"a": 2}]], "data", None)
    >>> {name: cells.tolist() for name, cells in piece.columns.items()}
    {'a': [1, 2], 'b': ['x', None]}
    """
    names: list[str] = []
    for group in groups:
        if group and not names:
            known = sorted(columns or ()) if row else ()
            names = list(dict.fromkeys([*map(str, group[0]), *known]))
        cells: dict[str, Cells] = {}
        for key in names if columns is None else [key for key in names if key in columns]:
            values = [record.get(key) for record in group]
            for i, value in enumerate(values, row + 1):
                if isinstance(value, (Mapping, list, tuple, set)):
                    raise checks.refuse(
                        f"{name}, row {i}, column {key!r}",
                        f"a {type(value).__name__}",
                        "a number or text",
                        "give it a column for each of its values",
                    )
            cells[key] = _objects(values)
        yield Piece(name, row, len(group), cells)
        row += len(group)


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
        return skip_rows(self._pieces(iter(made), columns), start, self.name)

    def _pieces(self, items: Iterator[Given], columns: Collection[str] | None) -> Iterator[Piece]:
        """All items, read the way that suits the first."""
        first = next(items, items)
        if first is items:
            return
        paired = isinstance(first, tuple) and len(first) == 2 and not np.isscalar(first[0])
        inner: Any = first[0] if isinstance(first, tuple) and paired else first
        pairs = self._pairs(itertools.chain([first], items), paired, isinstance(inner, Mapping))
        rows = isinstance(inner, (Sequence, np.ndarray)) and not isinstance(inner, (str, bytes))
        if isinstance(inner, Mapping):
            yield from self._records(pairs, paired, columns)
        elif is_frame(inner):
            row = 0
            for frame, y in pairs:
                for piece in FrameSource(frame, y).pieces(0, None):
                    yield replace(piece, origin=self.name, row=row)
                    row += piece.rows
        elif sp.issparse(inner) or (rows and np.ndim(inner) == 2):
            row = 0
            for X, y in pairs:
                piece = matrix_piece(self.name, row, X, y, f"source, row {row + 1}")
                yield piece
                row += piece.rows
        elif rows and np.ndim(inner) == 1:
            yield from self._rows(pairs)
        else:
            raise InvalidTypeError(
                "source",
                f"an iterator of {first!r:.60} of type {type(first).__name__}",
                "(X, y), a row of numbers, a dict or a frame",
                "make it give one of these",
            )

    def _pairs(self, items: Iterable[Given], paired: bool, records: bool) -> Iterator[Pair]:
        """Each item and its target, None without one; refused where the form changes."""
        for i, item in enumerate(items, 1):
            good = not paired or (isinstance(item, tuple) and len(item) == 2)
            x, y = cast("Pair", item) if paired and good else (item, None)
            if not good or (records and not isinstance(x, Mapping)):
                raise InvalidTypeError(
                    f"source, item {i}",
                    f"a {type(item if not good else x).__name__}",
                    f"{'a dict' if good else 'a pair (X, y)'} as before",
                    "give all items in the same form",
                )
            yield x, y

    def _grouped(self, pairs: Iterator[Pair]) -> Iterator[tuple[list[Given], list[Given]]]:
        while group := list(itertools.islice(pairs, self._gather)):
            yield [x for x, _ in group], [y for _, y in group]

    def _records(
        self, pairs: Iterator[Pair], paired: bool, columns: Collection[str] | None
    ) -> Iterator[Piece]:
        records, targets = itertools.tee(self._grouped(pairs))
        for piece in record_pieces(
            (cast("list[Record]", x) for x, _ in records), self.name, columns
        ):
            _, y = next(targets)
            yield replace(piece, y=_objects(y)) if paired else piece

    def _rows(self, pairs: Iterator[Pair]) -> Iterator[Piece]:
        row = 0
        for group, targets in self._grouped(pairs):
            lengths = [len(x) if isinstance(x, Sized) else 1 for x in group]
            for i, length in enumerate(lengths, row + 1):
                if length != lengths[0]:
                    raise checks.refuse(
                        f"source, row {i}",
                        f"{length} values",
                        f"{lengths[0]} as before",
                        "give every row the same number of values",
                    )
            y = None if all(t is None for t in targets) else targets
            yield matrix_piece(self.name, row, group, y, f"source, rows from {row + 1} on")
            row += len(group)
