"""The options of `fit`, and those that commands share, with their help and defaults.

An option is declared once, in the group it belongs to; `command` gives a function whole groups.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from miniamp import priors
from miniamp.cli.app import decimal_sign, number, option, separator
from miniamp.priors import ScalarPrior
from miniamp.streams.sources import formats

#: Priors by name.
PRIORS: dict[str, type[ScalarPrior]] = priors.by_name()
#: What an option may be in the place of a number.
AUTO = ("auto",)
MODEL, ROWS, FILES = "The model", "The rows", "Files and output"

MissingRule = StrEnum("MissingRule", "error mean drop")
UnknownRule = StrEnum("UnknownRule", "error warn ignore")
TaskName = StrEnum("TaskName", "auto regression classification")
SolverName = StrEnum("SolverName", "auto amp robust")
ConflictRule = StrEnum("ConflictRule", "adapt skip raise")
FormatName = StrEnum("FormatName", sorted(formats()))  # type: ignore[misc]  # found by export

Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help=f"A file ({', '.join(FormatName)}); a folder or pattern of such files; - for standard "
        f"input ({', '.join(sorted(n for n, kind in formats().items() if kind.piped))}); or an "
        "address: 'sql:SELECT ...', redis://host:port/stream, kafka://broker:port/topic.",
        show_default=False,
    ),
]
ModelFile = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="What fit wrote to --output, cluster to --model, or either to --checkpoint.",
        show_default=False,
    ),
]


class SourceArgument:
    """What rows to learn from."""

    source: Source


class JSON:
    """For commands that print a result."""

    as_json: bool = option(False, FILES, None, "Print JSON, and no progress.", "--json")


class Reading:
    """How a source is read; what `predict` takes too."""

    missing: MissingRule = option(
        MissingRule.error, ROWS, "RULE",
        "For a missing value: error stops, mean inserts the column's mean, drop skips the row.",
    )  # fmt: skip
    unknown: UnknownRule | None = option(
        None, ROWS, "RULE",
        "For a category that was not in the first rows: error stops; warn and ignore count it as "
        "none. By default fit warns, and predict stops, except from a pipe.",
    )  # fmt: skip
    format_: FormatName | None = option(
        None, ROWS, "FORMAT", f"{', '.join(FormatName)}, if not clear from its name.", "--format"
    )
    delimiter: str | None = option(
        None, ROWS, "SEPARATOR", "The separator of a CSV, if it is not detected.",
        callback=separator,
    )  # fmt: skip
    header: bool = option(
        True, ROWS, None, "Whether a CSV begins with the names of its columns (else x0, x1, ...).",
        "--header/--no-header",
    )  # fmt: skip
    decimal: str = option(
        "point", ROWS, "SIGN", "point or comma: the decimal separator of numbers in a CSV.",
        callback=decimal_sign,
    )  # fmt: skip
    encoding: str | None = option(
        None, ROWS, "NAME", "The encoding of a CSV, such as latin-1; else UTF-8."
    )
    n_features: int | None = option(
        None, ROWS, "N", "The number of features of a LIBSVM file; else its largest index.", min=1
    )
    keep: str | None = option(
        None, ROWS, "LIST",
        "Columns that are not features, a,b,c, such as identifiers. With predict and cluster they "
        "are copied to the output.",
    )  # fmt: skip
    database: str | None = option(
        None, ROWS, "FILE", "The DuckDB database of sql:; else it reads files by name."
    )
    key: str | None = option(
        None, ROWS, "COLUMN",
        "A column of unique values that orders the rows of sql:, needed to resume.",
    )  # fmt: skip
    idle_seconds: float | None = option(
        None, ROWS, "SECONDS", "Stop a live source (Redis, Kafka) after this long without a row."
    )
    rows: int | None = option(
        None, ROWS, "ROWS", "Stop a live source after this number of rows in all.", "--rows", min=1
    )


class Features:
    """Which columns become features, and how; `predict` has that from the model."""

    batch_size: str = option(
        "auto", ROWS, "ROWS",
        "Rows per batch; auto chooses what suits the solver (1000 from a pipe).",
        callback=number(1, whole=True, words=AUTO),
    )  # fmt: skip
    columns: str | None = option(
        None, ROWS, "LIST", "Feature columns, a,b,c; all but the target by default."
    )
    categorical: str | None = option(
        None, ROWS, "LIST", "Columns to read as categories, a,b,c, in addition to text columns."
    )
    hashed: str | None = option(
        None, ROWS, "LIST",
        "Text columns to hash, with a number of bits, name=8: each word counts in one of "
        "2^8 features.",
    )  # fmt: skip
    reference: str | None = option(
        None, ROWS, "LIST",
        "Reference levels of categories, which get no feature: city=Rome, or first.",
    )  # fmt: skip
    shuffle: int | None = option(
        None, ROWS, "ROWS", "Shuffle the rows, this many at a time: for sorted files.", min=2
    )


class Files(JSON):
    """Where `fit` and `cluster` keep what they learn."""

    checkpoint: Path | None = option(
        None, FILES, "FILE", "Save the state here; the same command resumes from it, bit for bit."
    )
    every: int = option(10, FILES, "BATCHES", "Batches between two checkpoints.", min=1)
    new_rows: bool = option(
        False, FILES, None, "Resume from the checkpoint with another source: all its rows are new.",
        "--new-rows",
    )  # fmt: skip
    report: Path | None = option(None, FILES, "FILE", "Write an HTML report here at the end.")


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
        callback=number(0, whole=True, words=AUTO),
    )  # fmt: skip
    solver: SolverName = option(
        SolverName.auto, MODEL, "SOLVER",
        "amp for independent features, robust for any; auto examines the rows.",
    )  # fmt: skip
    forget: str | None = option(
        None, MODEL, "FACTOR",
        "For drifting streams: the weight of earlier batches is multiplied by this with every "
        "batch, such as 0.95; or auto: learned from the stream.",
        callback=number(0, 1, closed=True, words=AUTO),
    )  # fmt: skip
    half_life: float | None = option(
        None, MODEL, "ROWS", "The same as a number of rows after which earlier ones count half.",
        callback=number(0),
    )  # fmt: skip
    on_conflict: ConflictRule = option(
        ConflictRule.adapt, MODEL, "RULE",
        "For a batch that contradicts what was learned: adapt uses what it can, skip leaves it "
        "out, raise stops.",
    )  # fmt: skip
    intercept: bool = option(
        True, MODEL, None, "Whether to add an intercept.", "--intercept/--no-intercept"
    )
    classes: str | None = option(
        None, MODEL, "LIST", "All classes, a,b,c; by default those of the first rows."
    )
    seed: int | None = option(None, ROWS, None, "Seed of the random order.", min=0)
    output: Path | None = option(
        None, FILES, "FILE", "Write the model here at the end.", "--output", "-o"
    )
    watch: bool = option(
        False, FILES, None, "Show the fit in the browser; needs --checkpoint.", "--watch"
    )
