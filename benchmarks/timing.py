"""Ratios in one run: the minimum of many, the two sides taken in turns."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

#: Where tables and plots go unless another folder is named.
RESULTS = Path(__file__).parent / "results"

#: OpenBLAS keeps its threads spinning for 105 ms after a product, as measured: a rest lets them go
#: to sleep.
REST = 0.15


@dataclass(frozen=True)
class Row:
    """One line of the table: a figure, what it is measured against, and the target.

    `met` is None where there is no target: the figure is only reported.
    """

    case: str
    ours: float
    theirs: float
    unit: str
    figure: float
    target: str
    met: bool | None
    accuracy: str = ""  #: what the speed is worth

    def record(self) -> dict[str, object]:
        """The line as it goes to the CSV file, in so many digits as mean something."""
        made = asdict(self)
        numbers = {name: f"{made[name]:.4g}" for name in ("ours", "theirs", "figure")}
        met = "" if self.met is None else "yes" if self.met else "no"
        return made | numbers | {"met": met}

    def __str__(self) -> str:
        mark = "" if self.met is not False else "  missed"
        sides = f"{self.ours:10.4g} {self.theirs:10.4g} {self.unit:9s}"
        accuracy = f"; {self.accuracy}" if self.accuracy else ""
        return f"{self.case:76s} {sides} {self.figure:8.3g}  {self.target}{mark}{accuracy}"


def best(
    *works: Callable[[], object],
    repeats: int,
    turns: int = 8,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Least seconds of each work, in `turns` rounds of `repeats`, after one call to warm up.

    Where both sides run in one thread, `time.process_time` is the clock that others on the machine
    do not disturb.
    """
    for work in works:
        work()
    least = [float("inf")] * len(works)
    for _ in range(turns):
        for k, work in enumerate(works):
            time.sleep(REST)
            for _ in range(repeats):
                begin = clock()
                work()
                least[k] = min(least[k], clock() - begin)
    return least


def slower(case: str, ours: float, theirs: float, most: float) -> Row:
    """Ours must take at most `most` times as long as theirs."""
    ratio = ours / theirs
    return Row(case, 1e3 * ours, 1e3 * theirs, "ms", ratio, f"<= {most:g} x", ratio <= most)


def faster(case: str, ours: float, theirs: float, least: float | None) -> Row:
    """Ours must be at least `least` times as fast as theirs; None has it only reported."""
    ratio = theirs / ours
    target = "x faster" if least is None else f">= {least:g} x faster"
    met = None if least is None else ratio >= least
    return Row(case, 1e3 * ours, 1e3 * theirs, "ms", ratio, target, met)


def below(case: str, ours: float, limit: float, unit: str) -> Row:
    """Ours must be at most `limit`."""
    return Row(case, ours, limit, unit, ours / limit, f"<= {limit:g} {unit}", ours <= limit)


def write_csv(path: Path, table: Sequence[Mapping[str, object]]) -> None:
    """A table as CSV, numbers in four digits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
        writer.writeheader()
        for row in table:
            shown = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()}
            writer.writerow(shown)
