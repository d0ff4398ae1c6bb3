"""`miniamp fit`: learn from a stream of rows, and stop and go on at will."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from miniamp.cli import choices, options

if TYPE_CHECKING:
    from miniamp.cli.run import Run


def fit(
    source: options.Source,
    target: options.Target,
    task: options.Task = choices.Task.auto,
    prior: options.Prior = "gaussian",
    noise: options.Noise = "learn",
    memory: options.Memory = "auto",
    solver: options.Solver = choices.Solver.auto,
    forget: options.Forget = None,
    half_life: options.HalfLife = None,
    intercept: options.Intercept = True,
    classes: options.Classes = None,
    batch_size: options.BatchSize = "auto",
    columns: options.Columns = None,
    categorical: options.Categorical = None,
    missing: options.Missing = choices.Missing.error,
    unknown: options.Unknown = choices.Unknown.error,
    format_: options.Format = None,
    delimiter: options.Delimiter = None,
    header: options.Header = True,
    checkpoint: options.Checkpoint = None,
    every: options.Every = 10,
    new_rows: options.NewRows = False,
    output: options.ModelOutput = None,
    report: options.Report = None,
    as_json: options.AsJSON = False,
) -> None:
    """Learn to predict a column from the others, in one pass and bounded memory.

    Every row is forecast before it is learned from, so the error shown is that on rows not seen.
    Ctrl-C saves to the checkpoint; the same command goes on from there. Killed at any moment and
    started again, it ends with the same model bit for bit. From standard input, rows that were
    learned already are skipped: pipe in the same rows again, or give --new-rows.

    Example: miniamp fit houses.csv --target price --prior sparse --checkpoint houses.amp
    """
    if forget is not None and half_life is not None:
        raise typer.BadParameter("say --forget or --half-life, not both")
    if new_rows and checkpoint is None:
        raise typer.BadParameter("--new-rows goes on from a --checkpoint; name it")
    chosen = {
        "target": target,
        "task": task.value,
        "prior": prior,
        "noise": noise,
        "memory": memory,
        "solver": solver.value,
        "forget": forget,
        "half_life": half_life,
        "intercept": intercept,
        "classes": choices.listed(classes),
        "batch_size": batch_size,
        "columns": choices.listed(columns),
        "categorical": choices.listed(categorical),
        "missing": missing.value,
        "unknown": unknown.value,
        **options.reading(format_, delimiter, header),
    }
    for name, path in (("--checkpoint", checkpoint), ("--output", output), ("--report", report)):
        choices.require_place(name, path, source)
    if report is not None:
        import miniamp.report  # what it lacks is said before the work

    from miniamp.cli.fit_run import FitRun
    from miniamp.cli.learning import learned, run_of

    run = run_of(FitRun, checkpoint, source, chosen, new_rows, quiet=as_json)
    outcome = learned(run, checkpoint, every, quiet=as_json)
    if output is not None:
        run.save(output)
    if report is not None:
        with run.named() as estimator:
            miniamp.report.write_report(estimator, report)
    _conclude(run, outcome, {"checkpoint": checkpoint, "model": output, "report": report}, as_json)


def _conclude(
    run: Run, outcome: dict[str, Any], files: dict[str, Path | None], as_json: bool
) -> None:
    from miniamp.cli.learning import files_written
    from miniamp.cli.run import feature_names
    from miniamp.cli.summary import described, show, write_json

    assert run.reading is not None
    about = described(run.estimator, feature_names(run.reading))
    written = files_written(files)
    if as_json:
        write_json(
            {
                **about,
                "source": run.source,
                "batch_rows": run.batch_rows,
                "rows_resumed": run.resumed,
                **outcome,
                "files": written,
                "history": run.estimator.history_,
            }
        )
        return
    console = Console()
    show(about, console)
    console.print(
        f"{outcome['rows_this_time']:,} rows in {outcome['seconds']:.1f} s, "
        f"{outcome['rows_per_second']:,.0f} rows a second, {run.batch_rows:,} a batch",
        highlight=False,
    )
    for name, path in written.items():
        if path is not None:
            console.print(f"{name}: {path}", soft_wrap=True, highlight=False, markup=False)
    if not any(written.values()):
        console.print("the model was not kept; write it with --output m.amp")
