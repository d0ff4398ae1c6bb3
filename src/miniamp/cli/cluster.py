"""`miniamp cluster`: clusters of a stream, and the cluster of every row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from miniamp.cli import choices, options
from miniamp.errors import InvalidInputError

if TYPE_CHECKING:
    from miniamp.cli.run import Run


def cluster(
    source: options.Source,
    clusters: Annotated[
        int, typer.Option(metavar="K", help="The number of clusters.", min=1, show_default=False)
    ],
    noise: Annotated[
        str,
        typer.Option(
            metavar="NOISE",
            help="Around a centre: learn, per-feature, or a variance.",
            rich_help_panel=options.MODEL,
        ),
    ] = "learn",
    seed: Annotated[
        int, typer.Option(help="For the starts.", min=0, rich_help_panel=options.MODEL)
    ] = 0,
    batch_size: Annotated[
        int,
        typer.Option(metavar="ROWS", help="Rows a batch.", min=1, rich_help_panel=options.ROWS),
    ] = 1000,
    columns: options.Columns = None,
    categorical: options.Categorical = None,
    missing: options.Missing = choices.Missing.error,
    unknown: options.Unknown = choices.Unknown.error,
    format_: options.Format = None,
    delimiter: options.Delimiter = None,
    header: options.Header = True,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the cluster of every row, by a second pass: .csv, .jsonl or .parquet, or - "
            "for CSV on standard output.",
            rich_help_panel=options.FILES,
            show_default=False,
        ),
    ] = None,
    checkpoint: options.Checkpoint = None,
    every: options.Every = 10,
    new_rows: options.NewRows = False,
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the model here at the end, for predict and inspect.",
            rich_help_panel=options.FILES,
            show_default=False,
        ),
    ] = None,
    report: options.Report = None,
    as_json: options.AsJSON = False,
) -> None:
    """Find clusters in a stream of rows, with the uncertainty of every centre.

    The rows are read once, batch by batch; with --output once more, to write for each of them its
    cluster and how probable that is. Columns count as they are: bring them to one scale before, or
    take --noise per-feature. Ctrl-C saves to the checkpoint, and the same command goes on from
    there, as with fit.

    Example: miniamp cluster flowers.csv --clusters 3 --output labels.csv --model flowers.amp
    """
    if new_rows and checkpoint is None:
        raise typer.BadParameter("--new-rows goes on from a --checkpoint; name it")
    files = {"checkpoint": checkpoint, "model": model, "report": report, "labels": output}
    for name, path in files.items():
        choices.require_place("--output" if name == "labels" else f"--{name}", path, source)
    _require_second_pass(output, source, missing, as_json)
    if report is not None:
        import miniamp.report  # what it lacks is said before the work
    chosen = {
        "clusters": clusters,
        "noise": noise,
        "seed": seed,
        "batch_size": batch_size,
        "columns": choices.listed(columns),
        "categorical": choices.listed(categorical),
        "missing": missing.value,
        "unknown": unknown.value,
        **options.reading(format_, delimiter, header),
    }
    from miniamp.cli.cluster_run import ClusterRun
    from miniamp.cli.learning import learned, run_of

    run = run_of(ClusterRun, checkpoint, source, chosen, new_rows, quiet=as_json)
    outcome = learned(run, checkpoint, every, quiet=as_json)
    if model is not None:
        run.save(model)
    if report is not None:
        with run.named() as estimator:
            miniamp.report.write_report(estimator, report)
    if output is not None:
        _label(run, output)
    _conclude(run, outcome, files, as_json)


def _require_second_pass(
    output: Path | None, source: str, missing: choices.Missing, as_json: bool
) -> None:
    """Refuse, before any work, labels that could not be written in the end."""
    if output is None:
        return
    from miniamp.cli.writers import kind_of

    kind_of(output)
    if source == "-":
        raise InvalidInputError(
            "--output: standard input cannot be read a second time for the labels; write the "
            "rows to a file first"
        )
    if missing is choices.Missing.drop:
        raise typer.BadParameter("drop would put rows and labels out of step; say mean")
    if as_json and str(output) == "-":
        raise typer.BadParameter("--json and --output - would both write to standard output")


def _label(run: Run, output: Path) -> None:
    from miniamp.cli.predict import forecasts
    from miniamp.cli.writers import writing

    with writing(output) as writer:
        for batch in run.again():
            writer.write(forecasts(run.estimator, batch.X, 0.9))


def _conclude(
    run: Run, outcome: dict[str, Any], files: dict[str, Path | None], as_json: bool
) -> None:
    from miniamp.cli.centres import described, show
    from miniamp.cli.learning import files_written
    from miniamp.cli.run import feature_names
    from miniamp.cli.summary import write_json

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
    # Labels on standard output are for programs: what is for people goes beside them.
    console = Console(stderr=written["labels"] == "-")
    show(about, console)
    console.print(
        f"{outcome['rows_this_time']:,} rows in {outcome['seconds']:.1f} s, "
        f"{outcome['rows_per_second']:,.0f} rows a second, {run.batch_rows:,} a batch",
        highlight=False,
    )
    for name, path in written.items():
        if path not in (None, "-"):
            console.print(f"{name}: {path}", soft_wrap=True, highlight=False, markup=False)
    if not any(written.values()):
        console.print("the model was not kept; write it with --model m.amp")
