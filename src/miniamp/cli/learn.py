"""A run of `fit` or `cluster`: outputs tried, batches learned, checkpoints, Ctrl-C, results."""

from __future__ import annotations

import copy
import shlex
import signal
import sys
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import ClassVar, Generic, Self, TypeVar, cast

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import miniamp
from miniamp.cli import outputs
from miniamp.cli.app import Options
from miniamp.cli.saved import E, State, fingerprint, from_start, named, resumed, save
from miniamp.errors import printable
from miniamp.streams import Schema, Stream, StreamBatch, lock, open_stream
from miniamp.streams.sources import estimated_rows, files_of, is_read_once

T = TypeVar("T")

#: Seconds between the lines of a log, and between changes of the line on a terminal; and at least
#: so many times as long as such a line takes: of rows that wait, it may take seconds.
PAUSE, BLINK, RARELY = 10.0, 0.25, 20.0
#: Exit codes are this plus the number of the signal.
SIGNALLED = 128
#: Rows that are looked at to choose the size of a batch, and rows per batch from a pipe.
SAMPLE, PIPE_ROWS = 1024, 1000


class Run(ABC, Generic[E]):
    """An estimator, a stream and the position in it; a subclass has what is to be learned.

    Parameters
    ----------
    given : dict
        The source and all options, by name.
    options : dict
        Those that decide about the result.
    arguments : dict
        Those of `open_stream`.
    """

    #: The name of the command.
    command: ClassVar[str]
    #: The options that name its outputs: checkpoint, model, report, and others.
    outputs: ClassVar[Mapping[str, str]]
    #: Rows per batch, where the options decide; None where the first rows do.
    asked_rows: int | None
    #: Whether the target is text, as `open_stream` takes it.
    labels: bool | str = "auto"

    def __init__(self, given: Options, options: Options, arguments: Options) -> None:
        self.given, self.options, self.source = given, options, str(given["source"])
        self._arguments = {"unknown": "warn", **arguments}
        #: The estimator, and the position in the stream that it has reached: replaced together.
        self.learned: tuple[E, State] | None = None
        self._written: tuple[E, State] | None = None
        #: What the source was when the run began; see `fingerprint`.
        self.files: list[dict[str, str | int]] = []
        self.resumed = 0  #: rows that were learned before this process began
        self.batch_rows = SAMPLE  #: rows per batch
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Refuse options that no run could use, and set `asked_rows`."""

    def suited_rows(self, first: StreamBatch, total: int) -> int:
        """Rows per batch that suit the first of `total` rows."""
        return first.rows  # where the options do not decide, the task does

    @abstractmethod
    def new_estimator(self, first: StreamBatch) -> E:
        """The estimator that the options and the first batch ask for, not fitted."""

    @abstractmethod
    def absorb(self, estimator: E, batch: StreamBatch) -> None:
        """Let the estimator learn a batch, all or nothing."""

    @abstractmethod
    def progress(self, estimator: E) -> str:
        """What the progress shows of the latest batch."""

    @abstractmethod
    def shown(self, estimator: E, names: Sequence[str]) -> list[str]:
        """Lines about what was learned."""

    def meanwhile(self) -> AbstractContextManager[None]:
        """What goes on beside the run."""
        return nullcontext()

    def finish(self) -> None:
        """Write what is made of the estimator in the end, beside the model and the report."""
        return  # of most nothing

    def execute(self) -> None:
        """Learn from the source, as the options ask, and write what was asked for."""
        as_json, new_rows = self.given["as_json"], self.given["new_rows"]
        paths: dict[str, Path | None] = {n: self.given[o] for n, o in self.outputs.items()}
        checkpoint, model, report = (paths[name] for name in ("checkpoint", "model", "report"))
        if new_rows and checkpoint is None:
            raise typer.BadParameter("--new-rows resumes from a --checkpoint; name it")
        if any(paths.values()):
            places = {f"--{name}": self.given[name] for name in self.outputs.values()}
            outputs.require_outputs(places, self.source)
        if report is not None:
            _ = miniamp.report  # what it lacks is reported before the work
        # From loading to the last save: two runs on one checkpoint would lose each other's rows.
        with nullcontext() if checkpoint is None else lock(checkpoint):
            if checkpoint is None or not checkpoint.exists():
                self.begin()
            else:
                self.resume(checkpoint, new_rows)
                if not as_json:
                    say(f"resumes from {checkpoint}, {self.resumed:,} rows learned")
            if any(paths.values()):  # what is saved names the source as it was at the start
                self.files = self.files or fingerprint(self.source)
            outcome = self._learned(checkpoint)
        if self.resumed and not outcome["rows_this_time"] and not as_json:
            again = "; to learn from the same rows twice, pipe them in with -" if new_rows else ""
            say(f"nothing new: all rows of {self.source} were learned before{again}")
        if model is not None:
            save(self, model)
        if report is not None:
            miniamp.report.write_report(named(self), report)
        self.finish()
        written = {name: None if path is None else str(path) for name, path in paths.items()}
        self._conclude(outcome, written)

    def _learned(self, checkpoint: Path | None) -> dict[str, float]:
        """Learn all rows that are left, saving every few batches; returns times and counts.

        Interrupted, it saves what was learned, prints how to resume, and ends the program.
        """
        with Interruption() as interruption:
            stream = self.stream()
            with Watch(stream.rows, self.resumed, self.given["as_json"]) as watch:
                try:
                    for k, batch in enumerate(interruption.until(stream), start=1):
                        self.learn(batch)
                        watch.advance(batch.rows, lambda: self.progress(self.estimator))
                        if k % self.given["every"] == 0:
                            self.keep(checkpoint)
                except KeyboardInterrupt:  # the second one: this batch is not learned
                    pass
                interruption.over = True
            if interruption.signal is not None:
                self._stopped(checkpoint, interruption.signal)
                raise typer.Exit(SIGNALLED + interruption.signal)
            self.keep(checkpoint)
        # Learns from rows that wait, as those of a file sorted by class.
        _ = self.estimator.history_
        seconds, speed = watch.seconds, watch.speed
        return {"seconds": seconds, "rows_per_second": speed, "rows_this_time": watch.fresh}

    def _stopped(self, checkpoint: Path | None, number: int) -> None:
        """Save what was learned, and print how to resume."""
        ended = "interrupted" if number == signal.SIGINT else "terminated"
        what = f"{ended} after {self.rows:,} rows"
        if checkpoint is None:
            say(f"{what}, nothing was kept; with --checkpoint m.amp it could resume")
            return
        self.keep(checkpoint)
        how = "pipe in the same rows again" if self.source == "-" else "run the same command again"
        say(f"{what}, saved in {shlex.quote(str(checkpoint))}; {how} to resume")

    def _conclude(self, outcome: dict[str, float], written: dict[str, str | None]) -> None:
        if self.given["as_json"]:
            outputs.write_json(
                {
                    **outputs.described(self.estimator, self.feature_names),
                    "source": self.source,
                    "batch_rows": self.batch_rows,
                    "rows_resumed": self.resumed,
                    **outcome,
                    "files": written,
                    "history": self.estimator.history_,
                }
            )
            return
        rows, seconds = outcome["rows_this_time"], outcome["seconds"]
        lines = self.shown(self.estimator, self.feature_names)
        lines.append(
            f"{rows:,} {'row' if rows == 1 else 'rows'} in {seconds:.1f} s, "
            f"{outcome['rows_per_second']:,.0f} rows per second, {self.batch_rows:,} per batch"
        )
        lines += [f"{name}: {path}" for name, path in written.items() if path not in (None, "-")]
        if not any(written.values()):
            lines.append(f"the model was not saved; write it with --{self.outputs['model']} m.amp")
        # Labels on standard output are for programs: what is for people goes to stderr.
        typer.echo("\n".join(map(printable, lines)), err="-" in written.values())

    def begin(self) -> None:
        """Choose the rows per batch of a new run: as the options ask, or as suits its rows."""
        if self.asked_rows is not None or is_read_once(self.source):
            self.batch_rows = self.asked_rows or PIPE_ROWS
            return
        # Warnings about the rows are shown when they are read again to be learned.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stream = self.stream()
            first = next(iter(stream))
            total = first.rows
            if first.rows >= SAMPLE:
                total = stream.rows or estimated_rows(files_of(self.source))
            self.batch_rows = self.suited_rows(first, total)

    def resume(self, path: Path, new_rows: bool) -> None:
        """Take up the run that this checkpoint holds; refused if it is another one."""
        estimator, saved = resumed(path, self.command, self.source, self.options, new_rows)
        self.learned = self._written = (cast(E, estimator), saved["reading"])
        self.files, self.batch_rows, self.resumed = saved["files"], saved["batch_rows"], self.rows

    @property
    def estimator(self) -> E:
        """The estimator that has learned all batches so far."""
        assert self.learned is not None
        return self.learned[0]

    @property
    def rows(self) -> int:
        """Rows learned so far."""
        return 0 if self.learned is None else int(self.estimator.n_samples_seen_)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features."""
        assert self.learned is not None
        return tuple(Schema.from_dict(self.learned[1]["schema"]).feature_names)

    def learn(self, batch: StreamBatch) -> None:
        """Learn one batch: estimator and position move on together, or not at all."""
        # A copy learns, so that an interrupt at any moment leaves estimator and position in step.
        successor = self.new_estimator(batch) if self.learned is None else copy.copy(self.estimator)
        successor._features = batch.feature_names  # for warnings
        self.absorb(successor, batch)
        self.learned = (successor, batch.state())

    def keep(self, checkpoint: Path | None) -> None:
        """Write the checkpoint, if there is one and something new for it."""
        if checkpoint is not None and self.learned is not self._written:
            save(self, checkpoint)
            self._written = self.learned

    def stream(self, again: bool = False) -> Stream:
        """The rows that are left, or all of them `again`, read as they were learned."""
        reading, given = None, self._arguments | ({"shuffle": 0} if again else {})
        if self.learned is not None:
            reading = from_start(self.learned[1]) if again else self.learned[1]
        labels, rows = self.labels, self.batch_rows
        return open_stream(self.source, batch_size=rows, labels=labels, resume=reading, **given)


def say(text: str) -> None:
    """A line on standard error."""
    sys.stderr.write(f"miniamp: {text}\n")


class Interruption:
    """While entered, Ctrl-C and SIGTERM end the wait for rows, but a batch is finished first.

    A second one ends that batch too; what it would have taught is not learned.
    """

    def __init__(self) -> None:
        self.signal: int | None = None  #: the signal that came
        #: Whether there is nothing left to interrupt: what was learned is only saved.
        self.over = False
        self._waiting = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        # Signals can be caught in the main thread only; elsewhere nobody sends them.
        if threading.current_thread() is threading.main_thread():
            if find_spec("pyarrow") is not None:
                import pyarrow as pa  # noqa: PLC0415 (optional)

                # It would put a handler of its own instead of ours while it reads, and a
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
        self._cost = 0.0
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
        """Seconds since this process began to learn."""
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
        pause, now = max(BLINK if self._live else PAUSE, RARELY * self._cost), time.perf_counter()
        if self._quiet or now - self._shown < pause:
            return
        line = f"{self._resumed + self.fresh:,} rows, {self.speed:,.0f} rows/s, {text()}"
        self._shown = time.perf_counter()
        self._cost = self._shown - now
        self._bar.update(self._task, description=line, completed=self._resumed + self.fresh)
        if not self._live:
            say(line)
