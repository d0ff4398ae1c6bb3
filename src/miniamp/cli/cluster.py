"""`miniamp cluster`: find clusters, and the cluster of every row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import typer

import miniamp
from miniamp import checks
from miniamp.cli.app import learner, number, option
from miniamp.cli.learn import Run
from miniamp.cli.options import (
    FILES,
    MODEL,
    ROWS,
    Features,
    Files,
    MissingRule,
    Reading,
    SourceArgument,
)
from miniamp.cli.outputs import kind_of, require_outputs, writing
from miniamp.cli.predict import predictions
from miniamp.cli.saved import name_of
from miniamp.streams import StreamBatch
from miniamp.streams.sources import is_read_once

if TYPE_CHECKING:
    from miniamp.estimators import MiniAMPClusterer


#: Noise that is learned: one for all features, or one for each.
LEARNED = ("learn", "per-feature")


class ClusterOptions:
    """Options of `cluster` alone."""

    clusters: int = option(..., None, "K", "The number of clusters.", min=1)
    noise: str = option(
        "learn", MODEL, "NOISE", "Noise around a centre: learn, per-feature, or a variance.",
        callback=number(0, words=LEARNED),
    )  # fmt: skip
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


@learner(SourceArgument, Features, Reading, Files, ClusterOptions)
class Clustering(Run["MiniAMPClusterer"]):
    """Cluster a stream of rows, with the uncertainty of every centre.

    The rows are read once, batch by batch; with --output once more, to write for each of them its
    cluster and how probable that is. Columns are used as they are: rescale them before,
    or use --noise per-feature. Ctrl-C saves to the checkpoint, and the same command resumes from
    there, as with fit.

    Example: miniamp cluster flowers.csv --clusters 3 --output labels.csv --model flowers.amp
    """

    command = "cluster"
    outputs: ClassVar = {
        "checkpoint": "checkpoint",
        "model": "model",
        "report": "report",
        "labels": "output",
    }

    def prepare(self) -> None:
        if self.given["output"] is not None:
            _require_second_pass(self.given["output"], self.source, self.given["as_json"])
        # The first batch must have a row for every cluster.
        self.asked_rows = max(self.options["batch_size"], self.options["clusters"])

    def new_estimator(self, first: StreamBatch) -> MiniAMPClusterer:
        noise = self.options["noise"]
        return miniamp.MiniAMPClusterer(
            self.options["clusters"],
            noise=noise if noise in LEARNED else float(noise),
            batch_size=self.batch_rows,
            random_state=self.options["seed"],
        )

    def absorb(self, estimator: MiniAMPClusterer, batch: StreamBatch) -> None:
        estimator.partial_fit(batch.X)

    def progress(self, estimator: MiniAMPClusterer) -> str:
        return f"noise {np.mean(estimator.noise_):.3g}"

    def shown(self, estimator: MiniAMPClusterer, names: Sequence[str]) -> list[str]:
        return about(estimator, names)

    def finish(self) -> None:
        if self.given["output"] is None:
            return
        numbered = self.options["missing"] == MissingRule.drop
        with writing(self.given["output"]) as write:
            for batch in self.stream(again=True):
                write(predictions(self.estimator, batch, 0.9, numbered=numbered))


def about(estimator: MiniAMPClusterer, names: Sequence[str]) -> list[str]:
    """Lines about a clustering: its summary."""
    return estimator._summary(0.9, names).text().split("\n")
