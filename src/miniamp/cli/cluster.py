"""`miniamp cluster`: clusters of a stream, and the cluster of every row."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from miniamp.cli import choices, options
from miniamp.errors import InvalidInput


def cluster(
    source: options.Source,
    clusters: Annotated[
        int, typer.Option(metavar="K", help="The number of clusters.", min=1, show_default=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the cluster of every row, by a second pass: .csv, .jsonl or .parquet, or - "
            "for CSV on standard output.",
            show_default=False,
        ),
    ] = None,
    noise: Annotated[
        str,
        typer.Option(
            metavar="NOISE",
            help="Around a centre: learn, per-feature, or a variance.",
        ),
    ] = "learn",
    seed: Annotated[int, typer.Option(help="For the starts.", min=0)] = 0,
    batch_size: Annotated[int, typer.Option(metavar="ROWS", help="Rows a batch.", min=1)] = 1000,
    columns: options.Columns = None,
    categorical: options.Categorical = None,
    missing: options.Missing = choices.Missing.error,
    unknown: options.Unknown = choices.Unknown.error,
    format_: options.Format = None,
    delimiter: options.Delimiter = None,
    header: options.Header = True,
    as_json: options.AsJSON = False,
) -> None:
    """Find clusters in a stream of rows, with the uncertainty of every centre.

    The rows are read once, batch by batch; with --output once more, to write for each of them its
    cluster and how probable that is. Columns count as they are: bring them to one scale before, or
    take --noise per-feature.

    Example: miniamp cluster flowers.csv --clusters 3 --output labels.csv
    """  # fmt: skip
    choices.require_place("--output", output, source)
    if output is not None:
        from miniamp.cli.writers import kind_of

        kind_of(output)
        if source == "-":
            raise InvalidInput(
                "--output: standard input cannot be read a second time for the labels; write the "
                "rows to a file first"
            )
        if missing is choices.Missing.drop:
            raise typer.BadParameter("drop would put rows and labels out of step; say mean")
        if as_json and str(output) == "-":
            raise typer.BadParameter("--json and --output - would both write to standard output")

    from miniamp.estimators import MiniAMPClusterer
    from miniamp.streams import open_stream

    estimator = MiniAMPClusterer(clusters, noise=_noise(noise), random_state=seed)
    stream = open_stream(
        source,
        None,
        max(batch_size, clusters),
        columns=choices.listed(columns),
        categorical="auto" if categorical is None else choices.listed(categorical) or [],
        missing=missing.value,
        unknown=unknown.value,
        **options.reading(format_, delimiter, header),
    )
    _learn(estimator, stream, quiet=as_json)
    if output is not None:
        _label(estimator, stream, output)
    to_stdout = output is not None and str(output) == "-"
    _conclude(estimator, stream.feature_names, as_json, Console(stderr=to_stdout))
    if output is not None and not to_stdout and not as_json:
        sys.stderr.write(f"miniamp: labels in {output}\n")


def _noise(given: str) -> str | float:
    if given in ("learn", "per-feature"):
        return given
    try:
        return float(given)
    except ValueError:
        raise typer.BadParameter(
            f"got {given!r}, expected learn, per-feature or a variance", param_hint="--noise"
        ) from None


def _learn(estimator: Any, stream: Any, quiet: bool) -> None:
    from miniamp.cli.progress import Watch

    with Watch(stream.rows, 0, quiet) as watch:
        for batch in stream:
            estimator.partial_fit(batch.X)
            watch.clustered(batch.rows, estimator.history_[-1])


def _label(estimator: Any, stream: Any, output: Path) -> None:
    from miniamp.cli.predict import forecasts
    from miniamp.cli.writers import writing

    with writing(output) as writer:
        for batch in stream:
            writer.write(forecasts(estimator, batch.X, 0.9))


def _conclude(estimator: Any, names: tuple[str, ...], as_json: bool, console: Console) -> None:
    weights, centres = estimator.cluster_weights_, estimator.cluster_centers_
    about = {
        "model": type(estimator).__name__,
        "rows": int(estimator.n_samples_seen_),
        "features": len(names),
        "batches": len(estimator.history_),
        "feature_names": list(names),
        "weights": weights.tolist(),
        "centres": centres.tolist(),
        "centres_std": estimator.cluster_std_.tolist(),
        "history": estimator.history_,
    }
    if as_json:
        from miniamp.cli.summary import write_json

        write_json(about)
        return
    console.print(
        f"[bold]{len(weights)} clusters[/bold]: {about['rows']:,} rows, {len(names)} features, "
        f"{about['batches']} batches"
    )
    shown = names[:4]  # what fits the width of a terminal
    table = Table(title="centres, give or take one standard deviation", title_justify="left")
    for name in ("cluster", "share", *shown):
        table.add_column(name, justify="right", no_wrap=name in ("cluster", "share"))
    for k, share in enumerate(weights):
        cells = [
            f"{mean:.3g} ± {std:.1g}"
            for mean, std in zip(centres[k], estimator.cluster_std_[k], strict=True)
        ]
        table.add_row(str(k), f"{100.0 * share:.3g} %", *cells[: len(shown)])
    console.print(table)
    if len(names) > len(shown):
        console.print(f"and {len(names) - len(shown)} features more; --json has all")
