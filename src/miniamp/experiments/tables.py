"""Tables of numbers on disk: CSV files that are whole or not there."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from miniamp.arrays import Array

#: A row of a table: numbers and words by the name of their column.
Row = dict[str, Any]

#: Digits that are written: more than any figure shows, fewer than change with the machine.
DIGITS = 10


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader, or a run that is killed, never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_table(path: Path, rows: Sequence[Row]) -> None:
    """Rows as CSV, columns in the order in which they first appear; what is missing stays empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, *([_text(row.get(name, "")) for name in names] for row in rows)]
    from io import StringIO

    buffer = StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(lines)
    write_whole(path, buffer.getvalue())


class Table:
    """Columns of a CSV file, and the rows of it that fit a description.

    Examples
    --------
    >>> table = Table([{"kind": "a", "x": "1"}, {"kind": "b", "x": "2.5"}])
    >>> table.where(kind="b")["x"], len(table)
    (array([2.5]), 2)
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = list(rows)

    @classmethod
    def read(cls, path: Path) -> Table:
        """The table in a CSV file."""
        with path.open(newline="", encoding="utf-8") as file:
            return cls(csv.DictReader(file))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> Array:
        """A column as numbers; empty cells are nan."""
        values = [row.get(name, "") for row in self.rows]
        return np.array([float(v) if v not in ("", None) else np.nan for v in values])

    def words(self, name: str) -> list[str]:
        """A column as text."""
        return [str(row.get(name, "")) for row in self.rows]

    def where(self, **wanted: Any) -> Table:
        """The rows whose columns have these values; numbers are compared as numbers."""
        return Table(row for row in self.rows if _fits(row, wanted))

    def values(self, name: str) -> list[float]:
        """The different numbers in a column, ascending."""
        found = self[name]
        return sorted({float(v) for v in found[~np.isnan(found)]})


def _fits(row: Row, wanted: Row) -> bool:
    for name, value in wanted.items():
        cell = row.get(name, "")
        if isinstance(value, str):
            if cell != value:
                return False
        elif cell in ("", None) or not np.isclose(float(cell), value, rtol=1e-9, atol=0.0):
            return False
    return True


def _text(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return "" if np.isnan(value) else f"{float(value):.{DIGITS}g}"
    return str(value)
