"""Ratios in one run: the minimum of many, the two sides taken in turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

#: OpenBLAS keeps its threads spinning for a while after a product; a rest lets them go to sleep.
REST = 0.05


@dataclass(frozen=True)
class Row:
    """One line of the table: a figure, what it is measured against, and the target."""

    case: str
    ours: float
    theirs: float
    unit: str
    figure: float
    target: str
    met: bool

    def record(self) -> dict[str, object]:
        """The line as it goes to the CSV file."""
        return asdict(self)


def best(*works: Callable[[], object], repeats: int, turns: int = 5) -> list[float]:
    """Least seconds of each work, in `turns` rounds of `repeats`, after one call to warm up."""
    for work in works:
        work()
    least = [float("inf")] * len(works)
    for _ in range(turns):
        for k, work in enumerate(works):
            time.sleep(REST)
            for _ in range(repeats):
                begin = time.perf_counter()
                work()
                least[k] = min(least[k], time.perf_counter() - begin)
    return least


def slower(case: str, ours: float, theirs: float, most: float) -> Row:
    """Ours must take at most `most` times as long as theirs."""
    ratio = ours / theirs
    return Row(case, 1e3 * ours, 1e3 * theirs, "ms", ratio, f"<= {most:g} x", ratio <= most)


def faster(case: str, ours: float, theirs: float, least: float) -> Row:
    """Ours must be at least `least` times as fast as theirs."""
    ratio = theirs / ours
    return Row(
        case, 1e3 * ours, 1e3 * theirs, "ms", ratio, f">= {least:g} x faster", ratio >= least
    )
