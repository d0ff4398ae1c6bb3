"""DataFrames of pandas and polars, and Arrow tables, in hand."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from miniamp.arrays import Given
from miniamp.streams.arrays import targets_of
from miniamp.streams.pieces import Cells, Piece, Table, refuse_doubles, rows_a_piece, too_short


def is_frame(source: object) -> bool:
    """Whether this is a pandas or polars DataFrame or an Arrow table, without importing any."""
    return _library(source) in ("pandas", "polars", "pyarrow") and type(source).__name__ in (
        "DataFrame",
        "Table",
        "RecordBatch",
    )


class Frame:
    """The rows of a frame.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame, pyarrow.Table or pyarrow.RecordBatch
        The rows.
    y : array, optional
        Targets, where they are no column of the frame.
    """

    again = True

    def __init__(self, frame: Any, y: Given = None) -> None:
        self.name = f"{_library(frame)} {type(frame).__name__}"
        self._frame = frame
        self._names = [
            str(n) for n in (frame.schema.names if _library(frame) == "pyarrow" else frame.columns)
        ]
        refuse_doubles(self._names, self.name)
        self._rows = int(frame.num_rows if _library(frame) == "pyarrow" else frame.shape[0])
        self._y = None if y is None else targets_of(y, self._rows)

    def count(self) -> int:
        """The number of rows."""
        return self._rows

    def pieces(self, start: int, only: Collection[str] | None) -> Iterator[Piece]:
        """The rows from number `start` on."""
        if start > self._rows:
            raise too_short(self.name, self._rows, start)
        chosen = [j for j, name in enumerate(self._names) if only is None or name in only]
        step = rows_a_piece(len(chosen))
        for begin in range(start, self._rows, step):
            end = min(begin + step, self._rows)
            columns = {self._names[j]: self._cells(j, begin, end) for j in chosen}
            y = None if self._y is None else self._y[begin:end]
            yield Table(self.name, begin, end - begin, columns, y)

    def _cells(self, j: int, begin: int, end: int) -> Cells:
        library = _library(self._frame)
        if library == "pyarrow":
            cells = self._frame.column(j).slice(begin, end - begin)
            return cells.combine_chunks() if hasattr(cells, "combine_chunks") else cells
        if library == "polars":
            return _polars_cells(self._frame.to_series(j).slice(begin, end - begin))
        return _pandas_cells(self._frame.iloc[begin:end, j])


def _library(source: object) -> str:
    return type(source).__module__.split(".")[0]


def _pandas_cells(series: Any) -> Cells:
    kind = series.dtype
    if isinstance(kind, np.dtype) and kind.kind in "fiubMm":
        return series.to_numpy()
    if getattr(kind, "kind", "O") in "fiub" and not hasattr(kind, "categories"):
        return series.to_numpy(dtype=np.float64, na_value=np.nan)  # nullable numbers
    if getattr(kind, "kind", "O") in "Mm":
        return series.to_numpy(dtype="datetime64[ns]")  # with a zone; refused later, by name
    cells = np.empty(len(series), dtype=object)
    cells[:] = [
        None if missing else cell for cell, missing in zip(series, series.isna(), strict=True)
    ]
    return cells


def _polars_cells(series: Any) -> Cells:
    if series.dtype.is_numeric() or str(series.dtype) == "Boolean":
        return np.asarray(series.cast(_float64(series)).to_numpy())
    if series.dtype.is_temporal():
        return np.asarray(series.to_numpy())
    cells = np.empty(len(series), dtype=object)
    cells[:] = series.to_list()
    return cells


def _float64(series: Any) -> Any:
    import importlib

    return importlib.import_module(type(series).__module__.split(".")[0]).Float64
