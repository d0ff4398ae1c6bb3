"""Tables of numbers on disk, and the claims that they decide."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from miniamp.arrays import Array
from miniamp.streams.checkpoint import write_whole

#: A row of a table: numbers and words by the name of their column.
Row = dict[str, Any]

#: Digits that are written: more than any figure shows, fewer than change with the machine.
DIGITS = 10
#: Medians follow state evolution within this many decades, on average over the batches.
CLOSE = 0.06
#: The same for the small problems of a quick run: fluctuations fall like 1/sqrt(N).
CLOSE_QUICK = 0.15


def write_table(path: Path, rows: Sequence[Row]) -> None:
    """Rows as CSV, columns in the order in which they first appear; what is missing stays empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, *([_text(row.get(name, "")) for name in names] for row in rows)]
    buffer = StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(lines)
    write_whole(path, buffer.getvalue())


def rows_of(**columns: ArrayLike) -> list[Row]:
    """The rows of a table from its columns; a single value stands in every row.

    Examples
    --------
    >>> rows_of(kind="a", x=[1.0, 2.0])
    [{'kind': 'a', 'x': 1.0}, {'kind': 'a', 'x': 2.0}]
    """
    lists = (array.ravel().tolist() for array in np.broadcast_arrays(*columns.values()))
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


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

    def where(self, **wanted: str | float) -> Table:
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
        elif cell in ("", None) or not math.isclose(float(cell), value, rel_tol=1e-9):
            return False
    return True


def _text(value: object) -> str:
    if isinstance(value, (float, np.floating)):
        return "" if np.isnan(value) else f"{float(value):.{DIGITS}g}"
    return str(value)


@dataclass(frozen=True)
class Claim:
    """A line of the summary.

    Examples
    --------
    >>> Claim("3 right", "against K-means", "not in the paper", ".40 to .47", False).verdict
    'no'
    >>> lost = Claim("3", "K-means", "", ".40 to .47", agrees=False, aside="not claimed")
    >>> lost.verdict, lost.failed
    ('not claimed: loses', False)
    """

    panel: str
    what: str  #: what it is about
    paper: str  #: as printed
    ours: str  #: as computed here
    #: Whether ours is what is expected: the paper's, or the corrected one where that differs. None
    #: where nothing was run.
    agrees: bool | None
    corrected: str = ""  #: the value after the errata, where the print is wrong
    note: str = ""  #: why, where that is not plain
    #: Why a contest is shown but not held against the paper or us, such as "not claimed"; whether
    #: it is won or lost is shown all the same.
    aside: str = ""

    @property
    def verdict(self) -> str:
        """The word in the summary: yes, no, not run, or how a contest aside ended."""
        if self.agrees is None:
            return "not run"
        if self.aside:
            return f"{self.aside}: {'wins' if self.agrees else 'loses'}"
        return "yes" if self.agrees else "no"

    @property
    def failed(self) -> bool:
        """Whether the claim is not confirmed."""
        return self.verdict == "no"

    def row(self) -> Row:
        """As a row of the summary table."""
        row = asdict(self) | {"agrees": self.verdict}
        del row["aside"]
        return row


def beyond(letter: str, what: str, ours: str, agrees: object, note: str = "") -> Claim:
    """The claim of a figure that is not in the paper."""
    return Claim(f"beyond {letter}", what, "not in the paper", ours, bool(agrees), note=note)


def outcome(claims: Sequence[Claim]) -> str:
    """All verdicts in a line; what is lost aside, or was not run, is counted too.

    Examples
    --------
    >>> outcome([Claim("1", "", "", "", agrees=True), Claim("3", "", "", "", agrees=None)])
    'all agree; 1 not run'
    """
    failed = sum(claim.failed for claim in claims)
    lost = sum(claim.agrees is False and not claim.failed for claim in claims)
    missing = sum(claim.agrees is None for claim in claims)
    parts = [f"{failed} {'does' if failed == 1 else 'do'} not agree" if failed else "all agree"]
    if lost:
        them = "contest that was" if lost == 1 else "contests that were"
        parts.append(f"{lost} {them} not claimed {'is' if lost == 1 else 'are'} lost")
    if missing:
        parts.append(f"{missing} not run")
    return "; ".join(parts)


class Deviation(NamedTuple):
    """How far medians are from state evolution, in decades; nan where nothing can be compared."""

    mean: float
    points: int

    def __str__(self) -> str:
        batches = f"{self.points} batch{'es' * (self.points != 1)}"
        return f"{self.mean:.3f} decades on average over {batches}"


def medians(table: Table, by: str, value: str) -> tuple[Array, Array, Array, Array]:
    """The different values of `by`, and of `value` there: median, lower and upper quartile."""
    places = np.array(table.values(by))
    groups = [table.where(**{by: float(place)})[value] for place in places]
    quartiles = np.array([np.quantile(group, [0.5, 0.25, 0.75]) for group in groups])
    return (places, *(quartiles.T if groups else np.empty((3, 0))))


def deviation(
    table: Table, theory: Table, least: float = 0.0, leave_out: Array | None = None
) -> Deviation:
    """Mean absolute log10 of medians over theory, batch by batch.

    Only where both are above `least`, and not at the batches to `leave_out`.
    """
    k, median, _, _ = medians(table, "batch", "mse")
    expected = dict(zip(theory["batch"], theory["mse"], strict=True))
    predicted = np.array([expected[batch] for batch in k])
    used = (predicted > least) & (median > least)
    if leave_out is not None:
        used &= ~np.isin(k, leave_out)
    if not used.any():  # nan is close to nothing: without a point no claim holds
        return Deviation(np.nan, 0)
    off = np.abs(np.log10(median[used] / predicted[used]))
    return Deviation(float(off.mean()), int(used.sum()))
