"""The options of the commands, with their help; those with the same name mean the same."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from miniamp.cli import choices

MODEL, ROWS, FILES = "The model", "The rows", "Files and output"


def _option(panel: str | None, metavar: str | None, text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel, **more)


Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="A file of CSV, Parquet, Arrow, NPY, NPZ, LIBSVM or JSON lines; a folder or pattern "
        "of such files; or - for standard input (CSV or JSON lines).",
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
AsJSON = Annotated[bool, _option(FILES, None, "Print JSON, and no progress.", "--json")]

# What is learned.
Target = Annotated[
    str, _option(None, "COLUMN", "The column to predict: its name, or #3 for its number (from 0).")
]
Task = Annotated[
    choices.Task,
    _option(
        None, "TASK", "regression, classification, or auto: text or two whole numbers are classes."
    ),
]
Prior = Annotated[
    str,
    _option(
        MODEL,
        "PRIOR",
        "gaussian, sparse, laplace or nonnegative, learned from the rows; or held fixed, such as "
        "sparse:rho=0.1,var=2.",
    ),
]
Noise = Annotated[
    str,
    _option(
        MODEL,
        "NOISE",
        "learn, a variance, or a channel: student-t:df=4 (outliers), poisson (counts), logistic.",
    ),
]
Memory = Annotated[
    str,
    _option(
        MODEL,
        "ROWS",
        "Pseudo-rows that keep correlations from batch to batch: auto, or 0 for none.",
        callback=choices.auto_or_count(0),
    ),
]
Solver = Annotated[
    choices.Solver,
    _option(
        MODEL, "SOLVER", "amp for independent features, robust for any; auto looks at the rows."
    ),
]
Forget = Annotated[
    float | None,
    _option(
        MODEL,
        "FACTOR",
        "For drifting streams: what is known counts this many times as much when a batch comes, "
        "such as 0.95.",
        callback=choices.fraction,
        show_default=False,
    ),
]
HalfLife = Annotated[
    float | None,
    _option(
        MODEL,
        "ROWS",
        "The same in other words: rows after which what is known counts half.",
        callback=choices.positive,
        show_default=False,
    ),
]
Intercept = Annotated[
    bool, _option(MODEL, None, "Whether to add an intercept.", "--intercept/--no-intercept")
]
Classes = Annotated[
    str | None,
    _option(
        MODEL,
        "LIST",
        "All classes there will be, a,b,c; by default those of the first batch.",
        show_default=False,
    ),
]

# The rows.
BatchSize = Annotated[
    str,
    _option(
        ROWS,
        "ROWS",
        "Rows a batch; auto takes what the solver can afford (1000 from a pipe).",
        callback=choices.auto_or_count(1),
    ),
]
Columns = Annotated[
    str | None,
    _option(
        ROWS, "LIST", "Feature columns, a,b,c; all but the target by default.", show_default=False
    ),
]
Categorical = Annotated[
    str | None,
    _option(
        ROWS, "LIST", "Columns to read as categories, a,b,c; those of text by default.",
        show_default=False,
    ),
]  # fmt: skip
Missing = Annotated[
    choices.Missing,
    _option(
        ROWS,
        "RULE",
        "Where a value is missing: error stops, mean fills in the column's, drop leaves the row "
        "out.",
    ),
]
Unknown = Annotated[
    choices.Unknown,
    _option(
        ROWS,
        "RULE",
        "At a category that the first batch did not have: error stops, ignore takes it as none.",
    ),
]
Format = Annotated[
    choices.Format | None,
    _option(
        ROWS,
        "FORMAT",
        "csv, parquet, arrow, npy, npz, libsvm or jsonl, where the name does not tell.",
        "--format",
        show_default=False,
    ),
]
Delimiter = Annotated[
    str | None,
    _option(
        ROWS,
        "SIGN",
        "The sign between the cells of a CSV, where it is not found by itself.",
        show_default=False,
    ),
]
Header = Annotated[
    bool,
    _option(
        ROWS,
        None,
        "Whether a CSV begins with the names of its columns (else x0, x1, ...).",
        "--header/--no-header",
    ),
]

# Files.
Checkpoint = Annotated[
    Path | None,
    _option(
        FILES,
        "FILE",
        "Keep the state here; the same command goes on from it, bit for bit.",
        show_default=False,
    ),
]
Every = Annotated[int, _option(FILES, "BATCHES", "Batches between two checkpoints.", min=1)]
NewRows = Annotated[
    bool,
    _option(
        FILES,
        None,
        "Go on from the checkpoint with another source: all its rows are new.",
        "--new-rows",
    ),
]
ModelOutput = Annotated[
    Path | None,
    _option(
        FILES, "FILE", "Write the model here at the end.", "--output", "-o", show_default=False
    ),
]
Report = Annotated[
    Path | None,
    _option(FILES, "FILE", "Write an HTML report here at the end.", show_default=False),
]


def reading(format_: choices.Format | None, delimiter: str | None, header: bool) -> dict[str, Any]:
    """Options of `open_stream` for the format, only those that were given."""
    given: dict[str, Any] = {}
    if format_ is not None:
        given["format"] = str(format_)
    if delimiter is not None:
        given["delimiter"] = delimiter.replace("\\t", "\t")
    if not header:
        given["header"] = False
    return given
