"""`miniamp predict`: predictions for new rows, batch by batch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import miniamp
from miniamp.arrays import Array
from miniamp.cli.app import command, number, option, reading_options
from miniamp.cli.options import MissingRule, ModelFile, Reading, Source
from miniamp.cli.outputs import kind_of, require_outputs, writing
from miniamp.cli.saved import State, from_start, opened
from miniamp.streams import StreamBatch, open_stream
from miniamp.streams.sources import is_read_once

if TYPE_CHECKING:
    from miniamp.cli.saved import Estimator


class PredictOptions:
    """Options of `predict` alone."""

    output: Path = option(
        Path("-"), None, "FILE",
        "Where to write: .csv, .jsonl or .parquet; - is CSV on standard output.",
        "--output", "-o",
    )  # fmt: skip
    level: float = option(
        0.9, None, "P", "Probability of the interval from lower to upper, for a regression.",
        callback=number(0, 1),
    )  # fmt: skip
    batch_size: int = option(1000, None, "ROWS", "Rows that are held in memory.", min=1)
    missing: MissingRule | None = option(
        None, None, "RULE",
        "For a missing value: error stops, mean inserts the column's mean (the default after a fit "
        "with mean), drop leaves the row out and adds the column row, its number in the source.",
    )  # fmt: skip


@command(Reading, PredictOptions)
def predict(model: ModelFile, source: Source, **given: Any) -> None:
    """Predict every row of a source, with error bars.

    A regression gives prediction, std, lower and upper; a classification the most probable class
    and the probability of each; a clustering the cluster, its probability, and that of each. One
    row is written for each row read, in the same order. Columns are found by name, others are
    ignored. The output file appears when all of it is written.

    Example: miniamp predict houses.amp new.csv -o prices.parquet
    """
    output = given["output"]
    require_outputs({"--output": output}, source, model)
    kind_of(output)
    estimator, saved = opened(model)
    filled = saved is not None and saved["reading"]["means"] is not None
    missing = given["missing"] or (MissingRule.mean if filled else MissingRule.error)
    estimator, as_learned = _as_learned(estimator, saved, missing)
    unknown = "warn" if is_read_once(source) else "error"
    reading = {"unknown": unknown, **reading_options(given), "missing": missing.value}
    batches = open_stream(source, None, given["batch_size"], **reading, **as_learned)
    count = 0
    with writing(output) as write:
        for batch in batches:
            numbered = missing is MissingRule.drop
            write(predictions(estimator, batch, given["level"], numbered=numbered))
            count += batch.rows
    if str(output) != "-":
        sys.stderr.write(f"miniamp: {count:,} predictions in {output}\n")


def _as_learned(
    estimator: Estimator, saved: State | None, missing: MissingRule
) -> tuple[Estimator, dict[str, Any]]:
    """How the rows were read when the model was made, from the first row on."""
    if saved is not None:
        resume = from_start(saved["reading"])
        if missing is MissingRule.mean and resume["means"] is None:
            # No gap was filled when the model was made: its own centre of each feature will do.
            centre = _centre(estimator)
            resume["means"] = {"count": np.ones_like(centre), "total": centre}
        return estimator, {"resume": resume}
    names = getattr(estimator, "feature_names_in_", None)
    columns = {} if names is None else {"columns": [str(name) for name in names]}
    return miniamp.estimators.describe.nameless(estimator), columns


def _centre(estimator: Any) -> Array:
    """A typical value of each feature."""
    if hasattr(estimator, "cluster_centers_"):
        return np.asarray(estimator.cluster_weights_ @ estimator.cluster_centers_)
    centre: Array = estimator._state.units.centre
    return centre


def predictions(
    estimator: Any, batch: StreamBatch, level: float, *, numbered: bool
) -> dict[str, NDArray[np.generic]]:
    """The columns of the output for one batch; `numbered` ones begin with the rows' numbers."""
    columns: dict[str, NDArray[np.generic]] = {"row": batch.row_numbers + 1} if numbered else {}
    columns |= batch.kept
    if not hasattr(estimator, "predict_proba"):
        mean, std = estimator.predict(batch.X, return_std=True)
        lower, upper = estimator.predict_interval(batch.X, level)
        return columns | {"prediction": mean, "std": std, "lower": lower, "upper": upper}
    chances = estimator.predict_proba(batch.X)
    best = chances.argmax(axis=1)
    if hasattr(estimator, "classes_"):
        names = estimator.classes_
        columns["prediction"] = names[best]
    else:
        names = range(chances.shape[1])
        columns |= {"cluster": best, "probability": chances.max(axis=1)}
    return columns | {f"p({name})": column for name, column in zip(names, chances.T, strict=True)}
