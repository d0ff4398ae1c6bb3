"""The loop of `fit` and `cluster`: batch after batch, saved now and then, until all are learned."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import typer

from miniamp.cli.interrupt import Interruption
from miniamp.cli.progress import Watch
from miniamp.cli.run import Run


def run_of(
    kind: type[Run],
    checkpoint: Path | None,
    source: str,
    options: dict[str, Any],
    new_rows: bool,
    quiet: bool,
) -> Run:
    """The run of the checkpoint, where there is one, or a new run."""
    if checkpoint is None or not checkpoint.exists():
        return kind.begun(source, options)
    run = kind.taken_up(checkpoint, source, options, new_rows)
    if not quiet:
        sys.stderr.write(f"miniamp: goes on from {checkpoint}, {run.resumed:,} rows learned\n")
    return run


def learned(run: Run, checkpoint: Path | None, every: int, quiet: bool) -> dict[str, Any]:
    """Learn all rows that are left, saving now and then; gives what there is to tell.

    Interrupted, it saves what there is, says how to go on, and ends the program.
    """
    stream = run.stream()
    with Interruption() as interruption, Watch(stream.rows, run.resumed, quiet) as watch:
        since = 0
        try:
            for batch in interruption.until(stream):
                run.learn(batch)
                watch.learned(batch.rows, run.told())
                since += 1
                if since % every == 0:
                    run.keep(checkpoint)
        except KeyboardInterrupt:
            interruption.asked = True
    if interruption.asked:
        _stopped(run, checkpoint)
        raise typer.Exit(130)
    run.keep(checkpoint)
    return {
        "seconds": watch.seconds,
        "rows_per_second": watch.speed,
        "rows_this_time": watch.fresh,
    }


def _stopped(run: Run, checkpoint: Path | None) -> None:
    """Save what there is, and say how to go on."""
    rows = 0 if run.estimator is None else run.estimator.n_samples_seen_
    if checkpoint is None:
        sys.stderr.write(
            f"miniamp: interrupted after {rows:,} rows, nothing was kept; with --checkpoint m.amp "
            "it could go on\n"
        )
        return
    run.keep(checkpoint)
    how = "pipe in the same rows again" if run.source == "-" else "run the same command again"
    sys.stderr.write(
        f"miniamp: interrupted after {rows:,} rows, saved in {shlex.quote(str(checkpoint))}; "
        f"{how} to go on\n"
    )


def files_written(files: dict[str, Path | None]) -> dict[str, str | None]:
    """What was written where, as text."""
    return {name: None if path is None else str(path) for name, path in files.items()}
