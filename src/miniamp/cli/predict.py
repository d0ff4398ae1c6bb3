"""`miniamp predict`: what a model says of new rows, batch by batch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from miniamp.cli import choices, options


def predict(
    model: options.ModelFile,
    source: options.Source,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where to write: .csv, .jsonl or .parquet; - is CSV on standard output.",
        ),
    ] = Path("-"),
    level: Annotated[
        float,
        typer.Option(
            metavar="P",
            help="Probability of the interval from lower to upper, for a regression.",
            callback=choices.level,
        ),
    ] = 0.9,
    batch_size: Annotated[
        int, typer.Option(metavar="ROWS", help="Rows that are held in memory.", min=1)
    ] = 1000,
    missing: Annotated[
        choices.Missing,
        typer.Option(metavar="RULE", help="Where a value is missing: error stops, mean fills in."),
    ] = choices.Missing.error,
    unknown: Annotated[
        choices.Unknown,
        typer.Option(
            metavar="RULE", help="At an unseen category: error stops, ignore takes it as none."
        ),
    ] = choices.Unknown.error,
    format_: options.Format = None,
    delimiter: options.Delimiter = None,
    header: options.Header = True,
) -> None:
    """Predict for every row of a source, with error bars.

    A regression gives prediction, std, lower and upper; a classification the likeliest class and
    the probability of each; a clustering the cluster, its probability, and that of each. One row
    is written for each row read, in the same order. Columns are found by name, others are ignored.
    The output file appears when all of it is written.

    Example: miniamp predict houses.amp new.csv -o prices.parquet
    """  # fmt: skip
    if missing is choices.Missing.drop:
        raise typer.BadParameter("drop would put rows out of step; say error or mean")
    choices.require_place("--output", output, source)

    from miniamp.cli.run import opened
    from miniamp.cli.writers import kind_of, writing
    from miniamp.streams import open_stream

    kind_of(output)
    estimator, saved = opened(model)
    rows = open_stream(
        source,
        None,
        batch_size,
        missing=missing.value,
        unknown=unknown.value,
        **options.reading(format_, delimiter, header),
        **_as_learned(estimator, saved, missing),
    )
    count = 0
    with writing(output) as writer:
        for batch in rows:
            writer.write(forecasts(estimator, batch.X, level))
            count += batch.rows
    if str(output) != "-":
        sys.stderr.write(f"miniamp: {count:,} predictions in {output}\n")


def _as_learned(
    estimator: Any, saved: dict[str, Any] | None, missing: choices.Missing
) -> dict[str, Any]:
    """How the rows were read when the model was made, from the first row on."""
    if saved is not None:
        reading = {**saved["reading"], "position": 0}
        if missing is choices.Missing.mean and reading["means"] is None:
            # No gap was filled when the model was made: its own centre of each feature will do.
            centre = _centre(estimator)
            reading["means"] = {"count": np.ones_like(centre), "total": centre}
        return {"resume": reading}
    names = estimator.__dict__.pop("feature_names_in_", None)  # the stream sees to the names
    return {} if names is None else {"columns": [str(name) for name in names]}


def _centre(estimator: Any) -> Any:
    """A value of each feature that says nothing."""
    if hasattr(estimator, "cluster_centers_"):
        return estimator.cluster_weights_ @ estimator.cluster_centers_
    return estimator._state.units.centre


def forecasts(estimator: Any, X: Any, level: float) -> dict[str, Any]:
    """The columns of the output for one batch."""
    if hasattr(estimator, "cluster_centers_"):
        chances = estimator.predict_proba(X)
        each = {f"p({k})": column for k, column in enumerate(chances.T)}
        return {"cluster": chances.argmax(axis=1), "probability": chances.max(axis=1), **each}
    if hasattr(estimator, "classes_"):
        chances = estimator.predict_proba(X)
        likeliest = estimator.classes_[chances.argmax(axis=1)]
        names = [f"p({name})" for name in estimator.classes_]
        return {"prediction": likeliest, **dict(zip(names, chances.T, strict=True))}
    mean, std = estimator.predict(X, return_std=True)
    lower, upper = estimator.predict_interval(X, level)
    return {"prediction": mean, "std": std, "lower": lower, "upper": upper}
