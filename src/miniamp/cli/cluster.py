"""`miniamp cluster`: find clusters, and the cluster of every row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

import miniamp
from miniamp import checks
from miniamp.cli import learn, options, reading
from miniamp.cli.options import FILES, MODEL, ROWS, option, optional
from miniamp.cli.predict import predictions
from miniamp.cli.reading import DecimalSign, MissingRule, UnknownRule
from miniamp.cli.run import Run, name_of
from miniamp.cli.writers import kind_of, require_outputs, writing
from miniamp.streams import StreamBatch
from miniamp.streams.sources import is_read_once

if TYPE_CHECKING:
    from miniamp.cli.run import Estimator
    from miniamp.estimators import MiniAMPClusterer

Clusters = Annotated[int, optional(None, "K", "The number of clusters.", min=1)]
ClusterNoise = Annotated[
    str, option(MODEL, "NOISE", "Around a centre: learn, per-feature, or a variance.")
]
Seed = Annotated[int, option(MODEL, None, "For the random starts.", min=0)]
BatchSize = Annotated[int, option(ROWS, "ROWS", "Rows per batch.", min=1)]
Labels = Annotated[
    Path | None,
    optional(
        FILES,
        "FILE",
        "Write the cluster of every row, in a second pass: .csv, .jsonl or .parquet, or - for CSV "
        "on standard output.",
        "--output",
        "-o",
    ),
]
Model = Annotated[
    Path | None,
    optional(FILES, "FILE", "Write the model here at the end, for predict and inspect."),
]


def cluster(
    ctx: typer.Context,
    source: reading.Source,
    clusters: Clusters,
    noise: ClusterNoise = "learn",
    seed: Seed = 0,
    batch_size: BatchSize = 1000,
    columns: reading.Columns = None,
    categorical: reading.Categorical = None,
    missing: reading.Missing = MissingRule.error,
    unknown: reading.Unknown = UnknownRule.error,
    format_: reading.Format = None,
    delimiter: reading.Delimiter = None,
    header: reading.Header = True,
    decimal: reading.Decimal = DecimalSign.point,
    encoding: reading.Encoding = None,
    keep: reading.Keep = None,
    hashed: reading.Hashed = None,
    reference: reading.Reference = None,
    shuffle: reading.Shuffle = None,
    database: reading.Database = None,
    key: reading.Key = None,
    idle_seconds: reading.IdleSeconds = None,
    rows: reading.MostRows = None,
    output: Labels = None,
    checkpoint: options.Checkpoint = None,
    every: options.Every = 10,
    new_rows: options.NewRows = False,
    model: Model = None,
    report: options.Report = None,
    as_json: options.AsJSON = False,
) -> None:
    """Find clusters in a stream of rows, with the uncertainty of every centre.

    The rows are read once, batch by batch; with --output once more, to write for each of them its
    cluster and how probable that is. Columns are used as they are: bring them to one scale before,
    or use --noise per-feature. Ctrl-C saves to the checkpoint, and the same command resumes from
    there, as with fit.

    Example: miniamp cluster flowers.csv --clusters 3 --output labels.csv --model flowers.amp
    """
    if output is not None:
        _require_second_pass(output, source, as_json)
    files = {
        "checkpoint": ("--checkpoint", checkpoint),
        "model": ("--model", model),
        "report": ("--report", report),
        "labels": ("--output", output),
    }
    learn.execute(ClusterRun, ctx.params, files, _label)


def _require_second_pass(output: Path, source: str, as_json: bool) -> None:
    """Refuse, before any work, labels that could not be written in the end."""
    require_outputs({"--output": output}, source)
    kind_of(output)
    if is_read_once(source):
        raise checks.refuse(
            "--output",
            f"rows from {name_of(source)}, which cannot be read a second time for the labels",
            "a file",
            "write the rows to a file first",
        )
    if as_json and str(output) == "-":
        raise typer.BadParameter("--json and --output - would both write to standard output")


def _label(run: Run[Estimator], output: Path) -> None:
    with writing(output) as writer:
        for batch in run.stream(again=True):
            numbered = run.options["missing"] == MissingRule.drop
            writer.write(predictions(run.estimator, batch, 0.9, numbered=numbered))


class ClusterRun(Run["MiniAMPClusterer"]):
    """A clustering."""

    command = "cluster"

    def chosen_rows(self) -> int:
        noise_of(self.options["noise"])
        # The first batch must have a row for every cluster.
        return max(int(self.options["batch_size"]), int(self.options["clusters"]))

    def new_estimator(self, first: StreamBatch) -> MiniAMPClusterer:
        return miniamp.MiniAMPClusterer(
            self.options["clusters"],
            noise=noise_of(self.options["noise"]),
            batch_size=self.batch_rows,
            random_state=self.options["seed"],
        )

    def absorb(self, estimator: MiniAMPClusterer, batch: StreamBatch) -> None:
        estimator.partial_fit(batch.X)

    def progress(self) -> str:
        return f"noise {np.mean(self.estimator.noise_):.3g}"


def noise_of(given: str) -> str | float:
    """The noise around a centre: learned, one for all features or one each, or a variance."""
    if given in ("learn", "per-feature"):
        return given
    try:
        variance = float(given)
    except ValueError:
        variance = np.nan
    if not 0.0 < variance < float("inf"):
        raise typer.BadParameter(
            f"got {given!r}, expected learn, per-feature or a variance above 0",
            param_hint="--noise",
        )
    return variance
