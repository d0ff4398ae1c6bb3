"""The options of a source and its columns, and how their values are read."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import typer

from miniamp.cli.options import ROWS, auto_or_count, listed, option, optional
from miniamp.streams.connections import connections
from miniamp.streams.formats import formats

MissingRule = StrEnum("MissingRule", "error mean drop")
UnknownRule = StrEnum("UnknownRule", "error ignore")
FormatName = StrEnum("FormatName", sorted(formats()))  # type: ignore[misc]  # found by export
#: Formats that can be read from standard input.
PIPED = sorted(name for name, cls in formats().items() if cls.piped)
DecimalSign = StrEnum("DecimalSign", "point comma")

#: Options by name.
Options: TypeAlias = dict[str, Any]
#: Options that are lists, a,b,c.
LISTS = ("classes", "columns", "categorical", "keep")
#: Options of formats and connections.
READING = (
    "format",
    *dict.fromkeys(
        name for kind in (*formats().values(), *connections().values()) for name in kind.options
    ),
)

Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help=f"A file ({', '.join(FormatName)}); a folder or pattern of such files; - for standard "
        f"input ({', '.join(PIPED)}); or an address: 'sql:SELECT ...', "
        "redis://host:port/stream, kafka://broker:port/topic.",
        show_default=False,
    ),
]
BatchSize = Annotated[
    str,
    option(
        ROWS,
        "ROWS",
        "Rows per batch; auto takes what the solver can afford (1000 from a pipe).",
        callback=auto_or_count(1),
    ),
]
Columns = Annotated[
    str | None, optional(ROWS, "LIST", "Feature columns, a,b,c; all but the target by default.")
]
Categorical = Annotated[
    str | None,
    optional(ROWS, "LIST", "Columns to read as categories, a,b,c; those of text by default."),
]
Missing = Annotated[
    MissingRule,
    option(
        ROWS,
        "RULE",
        "For a missing value: error stops, mean inserts the column's mean, drop skips the row.",
    ),
]
Unknown = Annotated[
    UnknownRule,
    option(
        ROWS,
        "RULE",
        "For a category that was not in the first rows: error stops, ignore counts it as none.",
    ),
]
Format = Annotated[
    FormatName | None,
    optional(ROWS, "FORMAT", f"{', '.join(FormatName)}, if the name does not tell.", "--format"),
]
Delimiter = Annotated[
    str | None, optional(ROWS, "SEPARATOR", "The separator of a CSV, if it is not detected.")
]
Header = Annotated[
    bool,
    option(
        ROWS,
        None,
        "Whether a CSV begins with the names of its columns (else x0, x1, ...).",
        "--header/--no-header",
    ),
]

Decimal = Annotated[
    DecimalSign,
    option(ROWS, "SIGN", "point or comma: the sign before the decimals of numbers in a CSV."),
]
Encoding = Annotated[
    str | None, optional(ROWS, "NAME", "The encoding of a CSV, such as latin-1; else UTF-8.")
]
Keep = Annotated[
    str | None,
    optional(
        ROWS,
        "LIST",
        "Columns that are no features, a,b,c, such as an identifier. With predict and cluster they "
        "are copied to the output.",
    ),
]

Hashed = Annotated[
    str | None,
    optional(
        ROWS,
        "LIST",
        "Columns of an open vocabulary with a number of bits, name=8: each word counts in one of "
        "2^8 features.",
    ),
]
Reference = Annotated[
    str | None,
    optional(
        ROWS,
        "LIST",
        "Categories without a feature, with which others are compared: city=Rome, or first.",
    ),
]
Shuffle = Annotated[
    int | None,
    optional(ROWS, "ROWS", "Put so many rows at a time in random order: for sorted files.", min=2),
]
ShuffleSeed = Annotated[int | None, optional(ROWS, None, "Of the random order.", min=0)]
Database = Annotated[
    str | None, optional(ROWS, "FILE", "The DuckDB database of sql:; else it reads files by name.")
]
Key = Annotated[
    str | None,
    optional(
        ROWS, "COLUMN", "A column that orders the rows of sql:, all different: needed to resume."
    ),
]
IdleSeconds = Annotated[
    float | None,
    optional(ROWS, "SECONDS", "Stop a live source (Redis, Kafka) when no row came for so long."),
]
MostRows = Annotated[
    int | None,
    optional(ROWS, "ROWS", "Stop a live source after so many rows in all.", "--rows", min=1),
]


def pairs(value: str, name: str) -> dict[str, str]:
    """`a=x,b=y` as a dict.

    Examples
    --------
    >>> pairs("city=Rome, color=red", "--reference")
    {'city': 'Rome', 'color': 'red'}
    """
    found = dict(part.partition("=")[::2] for part in listed(value))
    if not all(found.values()):
        raise typer.BadParameter(f"got {value!r}, expected column=value", param_hint=name)
    return found


def column(value: str) -> str | int:
    """A column's name, or its number where it was written as `#3` or `#-1`.

    Examples
    --------
    >>> column("price"), column("#-1")
    ('price', -1)
    """
    if value.startswith("#") and value[1:].removeprefix("-").isdecimal():
        return int(value[1:])
    return value


def hashed_of(given: str) -> dict[str, int]:
    """`name=8` as bits by column."""
    found = pairs(given, "--hashed")
    if not all(bits.isdecimal() for bits in found.values()):
        raise typer.BadParameter(f"got {given!r}, expected name=8", param_hint="--hashed")
    return {name: int(bits) for name, bits in found.items()}


def reference_of(given: str | None) -> dict[str, str] | str | None:
    """`city=Rome` as categories by column, or "first"."""
    return given if given in (None, "first") else pairs(given, "--reference")


def reading_options(options: Options) -> Options:
    """Those options that tell how a file is written, as `open_stream` takes them."""
    given = {name: options[name] for name in READING if name in options}
    return given | ({"decimal": ","} if "decimal" in given else {})
