"""`miniamp cluster`: find clusters, and the cluster of every row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

import miniamp
from miniamp import checks
from miniamp.cli import learn
from miniamp.cli.options import (
    FILES,
    MODEL,
    ROWS,
    Features,
    Files,
    MissingRule,
    Reading,
    Source,
    command,
    option,
)
from miniamp.cli.outputs import kind_of, writing
from miniamp.cli.predict import predictions
from miniamp.cli.run import Run, name_of
from miniamp.streams import StreamBatch
from miniamp.streams.sources import is_read_once

if TYPE_CHECKING:
    from miniamp.estimators import MiniAMPClusterer


class ClusterOptions:
    """Options of `cluster` alone."""

    clusters: int = option(..., None, "K", "The number of clusters.", min=1)
    noise: str = option(
        "learn", MODEL, "NOISE", "Around a centre: learn, per-feature, or a variance."
    )
    seed: int = option(0, MODEL, None, "For the random starts.", min=0)
    batch_size: int = option(1000, ROWS, "ROWS", "Rows per batch.", min=1)
    output: Path | None = option(
        None, FILES, "FILE",
        "Write the cluster of every row, in a second pass: .csv, .jsonl or .parquet, or - for CSV "
        "on standard output.",
        "--output", "-o",
    )  # fmt: skip
    model: Path | None = option(
        None, FILES, "FILE", "Write the model here at the end, for predict and inspect."
    )


@command(Features, Reading, Files, ClusterOptions)
def cluster(source: Source, **given: Any) -> None:
    """Find clusters in a stream of rows, with the uncertainty of every centre.

    The rows are read once, batch by batch; with --output once more, to write for each of them its
    cluster and how probable that is. Columns are used as they are: bring them to one scale before,
    or use --noise per-feature. Ctrl-C saves to the checkpoint, and the same command resumes from
    there, as with fit.

    Example: miniamp cluster flowers.csv --clusters 3 --output labels.csv --model flowers.amp
    """
    if given["output"] is not None:
        _require_second_pass(given["output"], source, given["as_json"])
    files = {
        "checkpoint": "checkpoint", "model": "model", "report": "report", "labels": "output"
    }  # fmt: skip
    learn.execute(Clustering, source, given, files, _label)


def _require_second_pass(output: Path, source: str, as_json: bool) -> None:
    """Refuse, before any work, labels that could not be written in the end."""
    learn.require_outputs({"--output": output}, source)
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


def _label(run: Run[MiniAMPClusterer], output: Path) -> None:
    numbered = run.options["missing"] == MissingRule.drop
    with writing(output) as write:
        for batch in run.stream(again=True):
            write(predictions(run.estimator, batch, 0.9, numbered=numbered))


class Clustering(Run["MiniAMPClusterer"]):
    """A clustering."""

    command = "cluster"

    def prepare(self) -> None:
        self._noise = _noise_of(self.options["noise"])
        # The first batch must have a row for every cluster.
        self.asked_rows = max(self.options["batch_size"], self.options["clusters"])

    def new_estimator(self, first: StreamBatch) -> MiniAMPClusterer:
        return miniamp.MiniAMPClusterer(
            self.options["clusters"],
            noise=self._noise,
            batch_size=self.batch_rows,
            random_state=self.options["seed"],
        )

    def absorb(self, estimator: MiniAMPClusterer, batch: StreamBatch) -> None:
        estimator.partial_fit(batch.X)

    def progress_of(self, estimator: MiniAMPClusterer) -> str:
        return f"noise {np.mean(estimator.noise_):.3g}"


def _noise_of(given: str) -> str | float:
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
