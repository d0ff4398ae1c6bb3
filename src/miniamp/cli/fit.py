"""`miniamp fit`: learn to predict a column from the others."""

from __future__ import annotations

from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer

from miniamp.cli import learn
from miniamp.cli.options import (
    FILES,
    MODEL,
    PRIORS,
    ROWS,
    Features,
    Files,
    Reading,
    Source,
    auto_or_count,
    option,
    takes,
    within,
)
from miniamp.cli.tasks import Prediction

TaskName = StrEnum("TaskName", "auto regression classification")
SolverName = StrEnum("SolverName", "auto amp robust")
ConflictRule = StrEnum("ConflictRule", "adapt skip raise")


def _auto_or_share(value: str | None) -> str | None:
    """A check of an option that takes "auto" or a number above 0 and at most 1."""
    if value is not None and value != "auto":
        try:
            within(0, 1, closed=True)(float(value))
        except ValueError:
            raise typer.BadParameter(f"got {value!r}, expected auto or a number") from None
    return value


class FitOptions:
    """Options of `fit` alone."""

    target: str = option(
        ..., None, "COLUMN", "The column to predict: its name, or #3 for its number (from 0)."
    )
    task: TaskName = option(
        TaskName.auto, None, "TASK",
        "regression, classification, or auto: text or two whole numbers are classes.",
    )  # fmt: skip
    prior: str = option(
        "gaussian", MODEL, "PRIOR",
        f"{', '.join(PRIORS)}: learned from the rows; or fixed with numbers, such as "
        "sparse:rho=0.1,var=2; or auto: gaussian, laplace or sparse, whichever suits the rows.",
    )  # fmt: skip
    noise: str = option(
        "learn", MODEL, "NOISE",
        "learn, a variance, or a channel: student-t:df=4 (outliers), poisson (counts), logistic.",
    )  # fmt: skip
    memory: str = option(
        "auto", MODEL, "ROWS",
        "Remembered rows, which keep correlations between batches: auto, or 0 for none.",
        callback=auto_or_count(0),
    )  # fmt: skip
    solver: SolverName = option(
        SolverName.auto, MODEL, "SOLVER",
        "amp for independent features, robust for any; auto looks at the rows.",
    )  # fmt: skip
    forget: str | None = option(
        None, MODEL, "FACTOR",
        "For drifting streams: the weight of earlier batches is multiplied by this with every "
        "batch, such as 0.95; or auto: learned from the stream.",
        callback=_auto_or_share,
    )  # fmt: skip
    half_life: float | None = option(
        None, MODEL, "ROWS", "The same as a number of rows after which earlier ones count half.",
        callback=within(0, float("inf")),
    )  # fmt: skip
    on_conflict: ConflictRule = option(
        ConflictRule.adapt, MODEL, "RULE",
        "For a batch that contradicts what was learned: adapt learns what it can, skip leaves it "
        "out, raise stops.",
    )  # fmt: skip
    intercept: bool = option(
        True, MODEL, None, "Whether to add an intercept.", "--intercept/--no-intercept"
    )
    classes: str | None = option(
        None, MODEL, "LIST", "All classes, a,b,c; by default those of the first rows."
    )
    seed: int | None = option(None, ROWS, None, "Of the random order.", min=0)
    output: Path | None = option(
        None, FILES, "FILE", "Write the model here at the end.", "--output", "-o"
    )
    watch: bool = option(
        False, FILES, None, "Show in the browser how it goes; needs --checkpoint.", "--watch"
    )


@takes(FitOptions, Features, Reading, Files)
def fit(source: Source, **given: Any) -> None:
    """Learn to predict a column from the others, in one pass and bounded memory.

    Every row is predicted before it is learned from, so the error shown is that on unseen rows.
    Ctrl-C saves to the checkpoint; the same command resumes from there. Killed at any moment and
    started again, it ends with the same model bit for bit. From standard input, rows that were
    learned already are skipped: pipe in the same rows again, or use --new-rows.

    Example: miniamp fit houses.csv --target price --prior sparse --checkpoint houses.amp
    """
    if None not in (given["forget"], given["half_life"]):
        raise typer.BadParameter("use --forget or --half-life, not both")
    files = {"checkpoint": "checkpoint", "model": "output", "report": "report"}
    with learn.watched(given["checkpoint"]) if given["watch"] else nullcontext():
        learn.execute(Prediction, {"source": source, **given}, files)
