"""The flow that `fit` and `cluster` share: outputs tried, batches learned, results shown."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import miniamp
from miniamp import checks
from miniamp.cli import outputs
from miniamp.cli.options import Options, options_of
from miniamp.cli.run import E, Run
from miniamp.errors import printable
from miniamp.streams import lock
from miniamp.streams.sources import files_of

if TYPE_CHECKING:
    from miniamp.cli.run import Estimator

T = TypeVar("T")

#: Seconds between the lines of a log, and between changes of the line on a terminal.
PAUSE, BLINK = 10.0, 0.25
#: Exit codes are this plus the number of the signal.
SIGNALLED = 128


def execute(
    kind: type[Run[E]],
    source: str,
    given: Options,
    files: Mapping[str, str],
    label: Callable[[Run[E], Path], None] | None = None,
) -> None:
    """Learn from a source, as the options ask, and write what was asked for.

    Parameters
    ----------
    kind : subclass of Run
        What to learn: that of `fit` or of `cluster`.
    source : str
        The rows, as given.
    given : dict
        All options, by name.
    files : dict
        The options that name the outputs: checkpoint, model, report, and labels.
    label : function of a run and a path, optional
        Writes the labels.
    """
    run = kind(source, options_of(given))
    as_json, new_rows = given["as_json"], given["new_rows"]
    paths: dict[str, Path | None] = {name: given[option] for name, option in files.items()}
    checkpoint, model, report = (paths[name] for name in ("checkpoint", "model", "report"))
    if new_rows and checkpoint is None:
        raise typer.BadParameter("--new-rows resumes from a --checkpoint; name it")
    require_outputs({f"--{option}": given[option] for option in files.values()}, source)
    if report is not None:
        _ = miniamp.report  # what it lacks is reported before the work
    # From loading to the last save: two runs on one checkpoint would lose each other's rows.
    with nullcontext() if checkpoint is None else lock(checkpoint):
        if checkpoint is None or not checkpoint.exists():
            run.begin()
        else:
            run.resume(checkpoint, new_rows)
            if not as_json:
                say(f"resumes from {checkpoint}, {run.resumed:,} rows learned")
        if any(paths.values()):
            _ = run.files  # what is saved names the source as it was at the start
        outcome = learned(run, checkpoint, given["every"], quiet=as_json)
    if run.resumed and not outcome["rows_this_time"] and not as_json:
        again = "; to learn from the same rows twice, pipe them in with -" if new_rows else ""
        say(f"nothing new: all rows of {source} were learned before{again}")
    if model is not None:
        run.save(model)
    if report is not None:
        miniamp.report.write_report(run.named(), report)
    if label is not None and (labels := paths["labels"]) is not None:
        label(run, labels)
    written = {name: None if path is None else str(path) for name, path in paths.items()}
    _conclude(run, outcome, written, files["model"], as_json)


def say(text: str) -> None:
    """A line on standard error."""
    sys.stderr.write(f"miniamp: {text}\n")


def learned(run: Run[E], checkpoint: Path | None, every: int, quiet: bool) -> dict[str, float]:
    """Learn all rows that are left, saving every few batches; returns times and counts.

    Interrupted, it saves what was learned, prints how to resume, and ends the program.
    """
    with Interruption() as interruption:
        stream = run.stream()
        with Watch(stream.rows, run.resumed, quiet) as watch:
            try:
                for k, batch in enumerate(interruption.until(stream), start=1):
                    run.learn(batch)
                    watch.advance(batch.rows, run.progress)
                    if k % every == 0:
                        run.keep(checkpoint)
            except KeyboardInterrupt:  # the second one: this batch is not learned
                pass
            interruption.over = True
        if interruption.signal is not None:
            _stopped(run, checkpoint, interruption.signal)
            raise typer.Exit(SIGNALLED + interruption.signal)
        run.keep(checkpoint)
    _ = run.estimator.history_  # learns from rows that wait, as those of a file sorted by class
    return {"seconds": watch.seconds, "rows_per_second": watch.speed, "rows_this_time": watch.fresh}


def _stopped(run: Run[E], checkpoint: Path | None, number: int) -> None:
    """Save what was learned, and print how to resume."""
    what = f"{'interrupted' if number == signal.SIGINT else 'terminated'} after {run.rows:,} rows"
    if checkpoint is None:
        say(f"{what}, nothing was kept; with --checkpoint m.amp it could resume")
        return
    run.keep(checkpoint)
    how = "pipe in the same rows again" if run.source == "-" else "run the same command again"
    say(f"{what}, saved in {shlex.quote(str(checkpoint))}; {how} to resume")


def _conclude(
    run: Run[E],
    outcome: dict[str, float],
    written: dict[str, str | None],
    model_option: str,
    as_json: bool,
) -> None:
    if as_json:
        outputs.write_json(
            {
                **outputs.described(run.estimator, run.feature_names),
                "source": run.source,
                "batch_rows": run.batch_rows,
                "rows_resumed": run.resumed,
                **outcome,
                "files": written,
                "history": run.estimator.history_,
            }
        )
        return
    # Labels on standard output are for programs: what is for people goes to stderr.
    console = Console(stderr="-" in written.values())
    show(run.estimator, run.feature_names, console)
    rows = outcome["rows_this_time"]
    console.print(
        f"{rows:,} {'row' if rows == 1 else 'rows'} in {outcome['seconds']:.1f} s, "
        f"{outcome['rows_per_second']:,.0f} rows per second, {run.batch_rows:,} per batch",
        highlight=False,
    )
    for name, path in written.items():
        if path not in (None, "-"):
            console.print(f"{name}: {shown(path)}", soft_wrap=True, highlight=False)
    if not any(written.values()):
        console.print(f"the model was not saved; write it with --{model_option} m.amp")


def errors_line(history: Sequence[outputs.Entry], classes: bool) -> str:
    """The prediction error, over all rows and over the latest, beside the expected one.

    The model's own prediction is always there; that of state evolution for independent features
    only.

    Examples
    --------
    >>> errors_line([{"rows": 5}, {"rows": 5, "error": 0.04, "expected_error": 0.09}], False)
    'error so far 0.2, latest 5 rows 0.2 (predicted 0.3)'
    """
    describe = miniamp.estimators.describe
    recent: Sequence[outputs.Entry] = describe.latest(history)
    if not recent:
        return "no predictions yet"
    rows, mean = sum(entry["rows"] for entry in recent), describe.mean_over_rows
    theory = mean(recent, "theory_error")
    predicted = shown_error(mean(recent, "expected_error"), classes)
    predicted += "" if theory is None else f", theory {shown_error(theory, classes)}"
    return (
        f"error so far {shown_error(mean(history, 'error'), classes)}, latest {rows:,} rows "
        f"{shown_error(mean(recent, 'error'), classes)} (predicted {predicted})"
    )


def shown(text: object) -> str:
    """Text as it is: neither rich nor the terminal takes anything in it as a command."""
    return escape(printable(str(text)))


def shown_error(error: float | None, classes: bool) -> str:
    """A share of errors, or the root of a mean square, in the units of the target."""
    if error is None:
        return "unknown"
    return f"{100.0 * error:.3g} %" if classes else f"{error**0.5:.3g}"


def show(
    estimator: Estimator, names: Sequence[str], console: Console, top: int = outputs.STRONGEST
) -> None:
    """Print the summary of a model, its errors and its health."""
    found = estimator._summary(0.9, names)
    if hasattr(estimator, "cluster_centers_"):
        lines = [found.text()]
    else:
        intercepts = int(np.sum(np.isinf(found.strength)))
        lines = [found.text(top + intercepts), *_about_fit(estimator)]
    for line in lines:
        console.print(escape(line), soft_wrap=True, highlight=False)


def _about_fit(estimator: Any) -> list[str]:
    history = estimator.history_
    last = history[-1]
    lines = [f"solver: {printable(last['solver'])} ({printable(last['reason'])})"]
    health = estimator.health_
    findings = [f"health: {printable(f.as_typed('shell'))}" for f in health.findings]
    if any(entry.get("error") is not None for entry in history):
        lines.append(errors_line(history, hasattr(estimator, "classes_")))
        return lines + (findings or [f"health: {health}"])
    unknown = "health: unknown, as no row was predicted before it was learned from; use more rows"
    return lines + (findings or [f"{unknown}, a smaller --batch-size, or --shuffle if sorted"])


def require_outputs(files: Mapping[str, Path | None], source: str | None = None) -> None:
    """Refuse, before any work, outputs that cannot be written or would overwrite each other.

    Parameters
    ----------
    files : dict
        The path of each option that names a file; - is standard output.
    source : str, optional
        Where the rows come from, which no output may replace.
    """
    taken: dict[Path, str] = {}
    for file in () if source is None else files_of(source):
        taken[file.resolve()] = "the source itself"
    for name, path in files.items():
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


class Interruption:
    """While entered, Ctrl-C and SIGTERM end the wait for rows, but a batch is finished first.

    A second one ends that batch too; what it would have taught is not learned.

    Attributes
    ----------
    signal : int or None
        The signal that came.
    over : bool
        Whether there is nothing left to interrupt: what was learned is only saved.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self.over = False
        self._waiting = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        # Signals can be caught in the main thread only; elsewhere nobody sends them.
        if threading.current_thread() is threading.main_thread():
            if find_spec("pyarrow") is not None:
                import pyarrow as pa  # noqa: PLC0415 (optional)

                # It would put a handler of its own in the place of ours while it reads, and a
                # signal at the wrong moment was lost: 2 of 122.
                pa.enable_signal_handlers(False)
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._caught)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, cast("signal.Handlers", handler))

    def until(self, batches: Iterable[T]) -> Iterator[T]:
        """The batches, until a signal comes."""
        source = iter(batches)
        while self.signal is None:
            try:
                self._waiting = True
                batch = next(source)
            except (StopIteration, KeyboardInterrupt):
                return
            finally:
                self._waiting = False
            yield batch

    def _caught(self, number: int, frame: FrameType | None) -> None:
        again, self.signal = self.signal is not None, number
        if self._waiting or (again and not self.over):
            raise KeyboardInterrupt


class Watch:
    """Progress: on a terminal a live line, in a log a line every `PAUSE` seconds.

    Parameters
    ----------
    total : int or None
        Rows in all, if that is known.
    resumed : int
        Rows that were learned earlier: shown, but not counted for the speed.
    quiet : bool
        Whether to show nothing.
    """

    def __init__(self, total: int | None, resumed: int, quiet: bool) -> None:
        self.fresh = 0
        self._resumed, self._quiet = resumed, quiet
        self._start = self._shown = time.perf_counter()
        self._live = sys.stderr.isatty() and not quiet
        self._bar = Progress(
            BarColumn(bar_width=20) if total else SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("waiting for rows", total=total, completed=resumed)

    def __enter__(self) -> Self:
        if self._live:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live:
            self._bar.stop()

    @property
    def seconds(self) -> float:
        """Since the beginning of this process's part."""
        return time.perf_counter() - self._start

    @property
    def speed(self) -> float:
        """Rows per second."""
        return self.fresh / max(self.seconds, 1e-9)

    def advance(self, rows: int, text: Callable[[], str]) -> None:
        """Count one more batch, and show it with `text` from time to time.

        Asking a model for its errors makes it learn from rows that wait: at every batch of a file
        that is sorted by class that was most of the time.
        """
        self.fresh += rows
        pause = BLINK if self._live else PAUSE
        if self._quiet or time.perf_counter() - self._shown < pause:
            return
        line = f"{self._resumed + self.fresh:,} rows, {self.speed:,.0f} rows/s, {text()}"
        self._shown = time.perf_counter()
        self._bar.update(self._task, description=line, completed=self._resumed + self.fresh)
        if not self._live:
            say(line)
