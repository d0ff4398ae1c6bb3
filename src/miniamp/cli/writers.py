"""Outputs: tried before any work, and tables written batch by batch, which appear when whole."""

from __future__ import annotations

import csv
import json
import os
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from miniamp import checks
from miniamp.streams.checkpoint import beside, real_path
from miniamp.streams.connections import connection_of
from miniamp.streams.pieces import needed

#: One batch of a table: columns of equal length by name.
Table = Mapping[str, Sequence[object] | NDArray[np.generic]]

#: How text begins that a spreadsheet would compute.
FORMULA = ("=", "+", "-", "@", "\t", "\r")

_KINDS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


class Writer(ABC):
    """Takes one batch of rows after the other."""

    @abstractmethod
    def write(self, table: Table) -> None:
        """Write a batch."""

    def close(self) -> None:  # noqa: B027
        """Write what is left, if anything is."""


def kind_of(path: Path) -> str:
    """What to write, by the ending of the name; CSV to standard output."""
    if str(path) == "-":
        return "csv"
    kind = _KINDS.get(path.suffix.lower())
    if kind is None:
        raise checks.refuse(
            "--output",
            f"{path}",
            "a name ending in .csv, .jsonl or .parquet, or - for CSV on standard output",
            "rename it",
        )
    return kind


@contextmanager
def writing(path: Path) -> Iterator[Writer]:
    r"""A writer to a file that appears under its name at the end, if all went well.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = Path(folder) / "p.csv"
    ...     with writing(place) as writer:
    ...         writer.write({"prediction": [1.5, 2.0], "std": [0.5, 0.25]})
    ...     place.read_text()
    'prediction,std\n1.5,0.5\n2.0,0.25\n'
    """
    kind = kind_of(path)
    if str(path) == "-":
        yield CSVWriter(sys.stdout)
        sys.stdout.flush()
        return
    place = real_path(path)
    fresh = beside(place, "new")
    try:
        # Text has the same line ends on every system.
        text = kind != "parquet"
        with fresh.open(
            "x" if text else "xb",
            encoding="utf-8" if text else None,
            newline="\n" if text else None,
        ) as file:
            writer = WRITERS[kind](file)
            yield writer
            writer.close()
        fresh.replace(place)
    except OSError as error:
        raise checks.refuse(
            f"{path}", f"{error.strerror}", "a place to write to", "check the folder and the disk"
        ) from None
    finally:
        fresh.unlink(missing_ok=True)


class CSVWriter(Writer):
    """Comma-separated values, with the names first."""

    def __init__(self, file: IO[str]) -> None:
        self._csv = csv.writer(file, lineterminator="\n")
        self._begun = False

    def write(self, table: Table) -> None:
        if not self._begun:
            self._csv.writerow(map(_inert, table))
            self._begun = True
        columns = (map(_inert, _list(column)) for column in table.values())
        self._csv.writerows(zip(*columns, strict=True))


def _inert(cell: object) -> object:
    """A cell that no spreadsheet takes as a formula: text that begins like one gets an apostrophe.

    Examples
    --------
    >>> _inert("=cmd|' /C calc'!A0"), _inert("-1"), _inert(-1.5)
    ("'=cmd|' /C calc'!A0", '-1', -1.5)
    """
    if not isinstance(cell, str) or not cell.startswith(FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


class JSONLinesWriter(Writer):
    """One JSON object per line."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, table: Table) -> None:
        names = list(table)
        for row in zip(*map(_list, table.values()), strict=True):
            self._file.write(json.dumps(dict(zip(names, row, strict=True))) + "\n")


class ParquetWriter(Writer):
    """Parquet, one row group per batch."""

    def __init__(self, file: IO[bytes]) -> None:
        self._arrow = needed("pyarrow", "writing Parquet")
        self._parquet = needed("pyarrow.parquet", "writing Parquet")
        self._file = file
        self._writer: Any = None

    def write(self, table: Table) -> None:
        rows = self._arrow.table({name: _list(column) for name, column in table.items()})
        if self._writer is None:
            self._writer = self._parquet.ParquetWriter(self._file, rows.schema)
        self._writer.write_table(rows)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def _list(column: Sequence[object] | NDArray[np.generic]) -> list[object]:
    return list(column.tolist() if isinstance(column, np.ndarray) else column)


WRITERS: dict[str, Callable[[IO[Any]], Writer]] = {
    "csv": CSVWriter,
    "jsonl": JSONLinesWriter,
    "parquet": ParquetWriter,
}


def require_outputs(outputs: Mapping[str, Path | None], source: str | None = None) -> None:
    """Refuse, before any work, outputs that cannot be written or would overwrite each other.

    Parameters
    ----------
    outputs : dict
        The path of each option that names a file; - is standard output.
    source : str, optional
        Where the rows come from, which no output may replace.
    """
    taken: dict[Path, str] = {}
    if source is not None and connection_of(source) is None and Path(source).exists():
        taken[Path(source).resolve()] = "the source itself"
    for name, path in outputs.items():
        if path is None or str(path) == "-":
            continue
        _require_place(name, path)
        for place in (path.resolve(), path.with_name(f"{path.name}.previous").resolve()):
            if place in taken:
                raise checks.refuse(name, path, f"another file than {taken[place]}", "rename it")
            taken[place] = f"that of {name}"


def _require_place(name: str, path: Path) -> None:
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "a pipe or device"
        raise checks.refuse(name, f"{path}, which is {what}", "a file", "name a file")
    if not path.parent.is_dir():
        raise checks.refuse(
            name,
            path,
            "a folder that exists",
            f"the folder {path.parent} does not exist: create it",
        )
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
        writable = not path.exists() or os.access(path, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        raise checks.refuse(name, path, "a place that can be written", "check its permissions")
