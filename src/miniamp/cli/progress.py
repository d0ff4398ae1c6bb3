"""What is seen while a stream is learned: on a terminal alive, in a log now and then a line."""

from __future__ import annotations

import sys
import time
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

#: Seconds between the lines of a log.
PAUSE = 10.0


class Watch:
    """Rows, rows a second, the error of the forecasts so far and what theory expects of it.

    Parameters
    ----------
    total : int or None
        Rows there are, if that is known.
    resumed : int
        Rows that were learned earlier: shown, but not counted for the speed.
    quiet : bool
        Whether to show nothing.
    """

    def __init__(self, total: int | None, resumed: int, quiet: bool) -> None:
        self.rows = resumed
        self.fresh = 0
        self._start = time.perf_counter()
        self._said = self._start
        self._quiet = quiet
        self._total = total
        self._bar: Progress | None = None
        if sys.stderr.isatty() and not quiet:
            bar: Any = BarColumn(bar_width=20) if total else SpinnerColumn()
            self._bar = Progress(
                bar, TextColumn("{task.description}"), TimeElapsedColumn(),
                console=Console(stderr=True), transient=True,
            )  # fmt: skip
            self._task = self._bar.add_task("waiting for rows", total=total, completed=resumed)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    @property
    def seconds(self) -> float:
        """Since the beginning of this process's part."""
        return time.perf_counter() - self._start

    @property
    def speed(self) -> float:
        """Rows a second."""
        return self.fresh / max(self.seconds, 1e-9)

    def learned(self, rows: int, figures: str) -> None:
        """One more batch, with what there is to tell of it."""
        self.rows += rows
        self.fresh += rows
        line = f"{self.rows:,} rows, {self.speed:,.0f} rows/s, {figures}"
        if self._bar is not None:
            self._bar.update(self._task, description=line, completed=self.rows)
        elif not self._quiet and time.perf_counter() - self._said > PAUSE:
            self._said = time.perf_counter()
            sys.stderr.write(f"miniamp: {line}\n")


def errors_line(history: list[dict[str, Any]], classes: bool) -> str:
    """The error of the forecasts, over all rows and for the last batch, beside the expected one.

    The model's own forecast is always there; that of state evolution for independent features only.

    Examples
    --------
    >>> errors_line([{"rows": 5}, {"rows": 5, "error": 0.04, "expected_error": 0.09}], False)
    'error so far 0.2, now 0.2 (forecast 0.3)'
    """
    judged = [entry for entry in history if entry.get("error") is not None]
    if not judged:
        return "no forecast yet"
    last = judged[-1]
    theory = last.get("theory_error")
    also = "" if theory is None else f", theory {shown_error(theory, classes)}"
    return (
        f"{'mistakes' if classes else 'error'} so far {shown_error(mean_error(judged), classes)}, "
        f"now {shown_error(last['error'], classes)} "
        f"(forecast {shown_error(last['expected_error'], classes)}{also})"
    )


def mean_error(history: list[dict[str, Any]]) -> float | None:
    """The mean over all rows that were forecast before they were learned."""
    judged = [entry for entry in history if entry.get("error") is not None]
    rows = sum(entry["rows"] for entry in judged)
    return sum(entry["error"] * entry["rows"] for entry in judged) / rows if rows else None


def shown_error(error: float | None, classes: bool) -> str:
    """A share of mistakes, or the root of a mean square, in the units of the target."""
    if error is None:
        return "unknown"
    return f"{100.0 * error:.3g} %" if classes else f"{error**0.5:.3g}"
