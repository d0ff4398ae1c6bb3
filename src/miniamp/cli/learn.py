"""The flow that `fit` and `cluster` share: outputs tried, batches learned, results written."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Self, TypeVar, cast

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import miniamp
from miniamp.cli import outputs
from miniamp.cli.options import Options, options_of
from miniamp.cli.outputs import require_outputs
from miniamp.cli.run import Run
from miniamp.cli.tasks import E, LearningTask
from miniamp.streams import lock

T = TypeVar("T")

#: Seconds between the lines of a log, and between changes of the line on a terminal.
PAUSE, BLINK = 10.0, 0.25
#: Exit codes are this plus the number of the signal.
SIGNALLED = 128


def execute(
    kind: Callable[[Options], LearningTask[E]],
    given: Options,
    files: Mapping[str, str],
    label: Callable[[Run[E], Path], None] | None = None,
) -> None:
    """Learn from a source, as the options ask, and write what was asked for.

    Parameters
    ----------
    kind : class
        Which task: that of `fit` or of `cluster`.
    given : dict
        All options, by name.
    files : dict
        The options that name the outputs: checkpoint, model, report, and labels.
    label : function of a run and a path, optional
        Writes the labels.
    """
    source, as_json, new_rows = str(given["source"]), given["as_json"], given["new_rows"]
    paths: dict[str, Path | None] = {name: given[option] for name, option in files.items()}
    checkpoint, model, report = (paths[name] for name in ("checkpoint", "model", "report"))
    if new_rows and checkpoint is None:
        raise typer.BadParameter("--new-rows resumes from a --checkpoint; name it")
    require_outputs({f"--{option}": given[option] for option in files.values()}, source)
    if report is not None:
        _ = miniamp.report  # what it lacks is reported before the work
    # From loading to the last save: two runs on one checkpoint would lose each other's rows.
    with nullcontext() if checkpoint is None else lock(checkpoint):
        task = kind(options_of(given))
        if checkpoint is None or not checkpoint.exists():
            run = Run(task, source)
        else:
            run = Run.resume(checkpoint, task, source, new_rows)
            if not as_json:
                _say(f"resumes from {checkpoint}, {run.resumed:,} rows learned")
        if any(paths.values()):
            _ = run.files  # what is saved names the source as it was at the start
        outcome = learned(run, checkpoint, given["every"], quiet=as_json)
    if run.resumed and not outcome["rows_this_time"] and not as_json:
        again = "; to learn from the same rows twice, pipe them in with -" if new_rows else ""
        _say(f"nothing new: all rows of {source} were learned before{again}")
    if model is not None:
        run.save(model)
    if report is not None:
        miniamp.report.write_report(run.named(), report)
    labels = paths.get("labels")
    if labels is not None and label is not None:
        label(run, labels)
    written = {name: None if path is None else str(path) for name, path in paths.items()}
    _conclude(run, outcome, written, files["model"], as_json)


def _say(text: str) -> None:
    sys.stderr.write(f"miniamp: {text}\n")


@contextmanager
def watched(checkpoint: Path | None) -> Iterator[None]:
    """While entered, `miniamp watch` shows the checkpoint; afterwards it stays until Ctrl-C."""
    if checkpoint is None:
        raise typer.BadParameter("--watch shows the --checkpoint; name it")
    words = [sys.executable, "-m", "miniamp", "watch", str(checkpoint), "--port", "0"]
    # Out of reach of Ctrl-C, which is for the learner first.
    with subprocess.Popen(words, start_new_session=True) as page:
        try:
            yield
            _say("the page stays until Ctrl-C")
            page.wait()
        except KeyboardInterrupt:
            pass
        finally:
            page.terminate()


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
                    watch.advance(batch.rows, partial(run.task.progress, run.estimator))
                    if k % every == 0:
                        run.keep(checkpoint)
            except KeyboardInterrupt:  # the second one: this batch is not learned
                pass
            interruption.over = True
        if interruption.signal is not None:
            _stopped(run, checkpoint, interruption.signal)
            raise typer.Exit(SIGNALLED + interruption.signal)
        run.keep(checkpoint)
    return {"seconds": watch.seconds, "rows_per_second": watch.speed, "rows_this_time": watch.fresh}


def _stopped(run: Run[E], checkpoint: Path | None, number: int) -> None:
    """Save what was learned, and print how to resume."""
    what = "interrupted" if number == signal.SIGINT else "terminated"
    what = f"{what} after {run.rows:,} rows"
    if checkpoint is None:
        _say(f"{what}, nothing was kept; with --checkpoint m.amp it could resume")
        return
    run.keep(checkpoint)
    how = "pipe in the same rows again" if run.source == "-" else "run the same command again"
    _say(f"{what}, saved in {shlex.quote(str(checkpoint))}; {how} to resume")


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
    outputs.show(run.estimator, run.feature_names, console)
    rows = outcome["rows_this_time"]
    console.print(
        f"{rows:,} {'row' if rows == 1 else 'rows'} in {outcome['seconds']:.1f} s, "
        f"{outcome['rows_per_second']:,.0f} rows per second, {run.batch_rows:,} per batch",
        highlight=False,
    )
    for name, path in written.items():
        if path not in (None, "-"):
            console.print(f"{name}: {outputs.shown(path)}", soft_wrap=True, highlight=False)
    if not any(written.values()):
        console.print(f"the model was not saved; write it with --{model_option} m.amp")


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
                try:
                    batch = next(source)
                finally:
                    self._waiting = False
            except (StopIteration, KeyboardInterrupt):
                return
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
        self._bar: Progress | None = None
        if sys.stderr.isatty() and not quiet:
            self._bar = Progress(
                BarColumn(bar_width=20) if total else SpinnerColumn(),
                TextColumn("{task.description}"),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
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
        """Rows per second."""
        return self.fresh / max(self.seconds, 1e-9)

    def advance(self, rows: int, text: Callable[[], str]) -> None:
        """Count one more batch, and show it with `text` from time to time.

        Asking a model for its errors makes it learn from rows that wait: at every batch of a file
        that is sorted by class that was most of the time.
        """
        self.fresh += rows
        pause = PAUSE if self._bar is None else BLINK
        if self._quiet or time.perf_counter() - self._shown < pause:
            return
        line = f"{self._resumed + self.fresh:,} rows, {self.speed:,.0f} rows/s, {text()}"
        self._shown = time.perf_counter()
        if self._bar is not None:
            self._bar.update(self._task, description=line, completed=self._resumed + self.fresh)
        else:
            _say(line)
