"""The options that commands share, with their help and defaults, and how their values are read.

An option is declared once, in the group it belongs to; `command` gives a function whole groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar, get_type_hints

import typer

from miniamp import channels, priors
from miniamp.channels.base import Channel
from miniamp.errors import InvalidInputError
from miniamp.parametric import Parametric
from miniamp.priors import ScalarPrior
from miniamp.streams.sources import connections, formats

C = TypeVar("C", bound=Callable[..., None])
P = TypeVar("P", bound=Parametric)
MODEL, ROWS, FILES = "The model", "The rows", "Files and output"

MissingRule = StrEnum("MissingRule", "error mean drop")
UnknownRule = StrEnum("UnknownRule", "error warn ignore")
FormatName = StrEnum("FormatName", sorted(formats()))  # type: ignore[misc]  # found by export
#: Formats that can be read from standard input.
PIPED = sorted(name for name, cls in formats().items() if cls.piped)

#: Options by name.
Options: TypeAlias = dict[str, Any]
#: Options that are lists, a,b,c.
LISTS = ("classes", "columns", "categorical", "keep")
#: Options that do not change the result.
OUTPUTS = frozenset(
    ["source", "checkpoint", "every", "new_rows", "output", "model", "report", "as_json", "watch"]
)
#: Options that are as good as left out: those of older checkpoints.
DEFAULTS = {"header": True, "on_conflict": "adapt", "decimal": "point"}
#: Options of formats and connections.
READING = (
    "format",
    *dict.fromkeys(
        name for kind in (*formats().values(), *connections().values()) for name in kind.options
    ),
)
#: Priors and channels by name.
PRIORS: dict[str, type[ScalarPrior]] = priors.by_name()
CHANNELS = channels.by_name()


#: Every command, by its name.
COMMANDS: dict[str, Callable[..., None]] = {}


def command(*groups: type) -> Callable[[C], C]:
    """Make a function a command: its docstring is the help, its arguments are the options.

    It takes the options of these groups beside its own, and its `**given` gets them. An option of
    its own replaces that of a group.
    """

    def decorated(function: C) -> C:
        found = {
            name: Parameter(
                name, Parameter.KEYWORD_ONLY, default=getattr(group, name), annotation=kind
            )
            for group in groups
            for name, kind in get_type_hints(group).items()
        }
        own = signature(function, eval_str=True).parameters.values()
        found |= {p.name: p for p in own if p.kind is not p.VAR_KEYWORD}
        parameters = sorted(found.values(), key=lambda parameter: parameter.kind)
        function.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        function.__annotations__ = {p.name: p.annotation for p in parameters}
        COMMANDS[function.__name__] = function
        return function

    return decorated


def auto_or_count(least: int) -> Callable[[str], str]:
    """A check of options that take "auto" or a whole number of at least `least`."""

    def checked(value: str) -> str:
        if value == "auto" or (value.isdecimal() and int(value) >= least):
            return value
        raise typer.BadParameter(f"got {value!r}, expected auto or a whole number >= {least}")

    return checked


def within(low: float, high: float, closed: bool = False) -> Callable[[float | None], float | None]:
    """A check of numbers above `low` and below `high`, or at most `high` where `closed`."""
    bounds = f"above {low:g} and {'at most' if closed else 'below'} {high:g}"

    def checked(value: float | None) -> float | None:
        if value is not None and not (low < value < high or (closed and value == high)):
            raise typer.BadParameter(f"got {value:g}, expected a number {bounds}")
        return value

    return checked


def _decimal_sign(given: str) -> str:
    """Point or comma, by its name or as it is."""
    sign = {".": "point", ",": "comma"}.get(given, given)
    if sign not in ("point", "comma"):
        raise typer.BadParameter(f"got {given!r}, expected point or comma")
    return sign


def option(
    default: object, panel: str | None, metavar: str | None, text: str, *names: str, **more: Any
) -> Any:
    """An option; the help shows its default where it has one."""
    shown = default is not None and default is not ...
    return typer.Option(
        default, *names, metavar=metavar, help=text, rich_help_panel=panel,
        show_default=shown, **more,
    )  # fmt: skip


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
ModelFile = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="What fit wrote to --output, cluster to --model, or either to --checkpoint.",
        show_default=False,
    ),
]


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
        "none. By default rows are learned with a warning; predict stops, but for a pipe.",
    )  # fmt: skip
    format_: FormatName | None = option(
        None, ROWS, "FORMAT", f"{', '.join(FormatName)}, where the name is no help.", "--format"
    )
    delimiter: str | None = option(
        None, ROWS, "SEPARATOR", "The separator of a CSV, if it is not detected.",
        callback=lambda typed: "\t" if typed == r"\t" else typed,
    )  # fmt: skip
    header: bool = option(
        True, ROWS, None, "Whether a CSV begins with the names of its columns (else x0, x1, ...).",
        "--header/--no-header",
    )  # fmt: skip
    decimal: str = option(
        "point", ROWS, "SIGN", "point or comma: the sign before the decimals of numbers in a CSV.",
        callback=_decimal_sign,
    )  # fmt: skip
    encoding: str | None = option(
        None, ROWS, "NAME", "The encoding of a CSV, such as latin-1; else UTF-8."
    )
    n_features: int | None = option(
        None, ROWS, "N", "The number of features of a LIBSVM file; else its largest index.", min=1
    )
    keep: str | None = option(
        None, ROWS, "LIST",
        "Columns that are no features, a,b,c, such as an identifier. With predict and cluster they "
        "are copied to the output.",
    )  # fmt: skip
    database: str | None = option(
        None, ROWS, "FILE", "The DuckDB database of sql:; else it reads files by name."
    )
    key: str | None = option(
        None, ROWS, "COLUMN",
        "A column that orders the rows of sql:, all different: needed to resume.",
    )  # fmt: skip
    idle_seconds: float | None = option(
        None,
        ROWS,
        "SECONDS",
        "Stop a live source (Redis, Kafka) after this long without a row.",
    )
    rows: int | None = option(
        None, ROWS, "ROWS", "Stop a live source after this number of rows in all.", "--rows", min=1
    )


class Features:
    """Which columns become features, and how; `predict` has that from the model."""

    batch_size: str = option(
        "auto", ROWS, "ROWS",
        "Rows per batch; auto takes what the solver can afford (1000 from a pipe).",
        callback=auto_or_count(1),
    )  # fmt: skip
    columns: str | None = option(
        None, ROWS, "LIST", "Feature columns, a,b,c; all but the target by default."
    )
    categorical: str | None = option(
        None, ROWS, "LIST", "Columns to read as categories, a,b,c, besides those of text."
    )
    hashed: str | None = option(
        None, ROWS, "LIST",
        "Columns of an open vocabulary with a number of bits, name=8: each word counts in one of "
        "2^8 features.",
    )  # fmt: skip
    reference: str | None = option(
        None, ROWS, "LIST",
        "Categories without a feature, with which others are compared: city=Rome, or first.",
    )  # fmt: skip
    shuffle: int | None = option(
        None, ROWS, "ROWS", "Shuffle the rows, this many at a time: for sorted files.", min=2
    )


class Files(JSON):
    """Where `fit` and `cluster` keep what they learn."""

    checkpoint: Path | None = option(
        None, FILES, "FILE", "Keep the state here; the same command resumes from it, bit for bit."
    )
    every: int = option(10, FILES, "BATCHES", "Batches between two checkpoints.", min=1)
    new_rows: bool = option(
        False, FILES, None, "Resume from the checkpoint with another source: all its rows are new.",
        "--new-rows",
    )  # fmt: skip
    report: Path | None = option(None, FILES, "FILE", "Write an HTML report here at the end.")


def listed(value: str) -> list[str]:
    """`a,b,c` as a list of names.

    Examples
    --------
    >>> listed("age, city")
    ['age', 'city']
    """
    return [name.strip() for name in value.split(",") if name.strip()]


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


def options_of(given: Mapping[str, object]) -> Options:
    """The options of a command line that decide about its result; those left out are not there.

    Examples
    --------
    >>> options_of({"source": "a.csv", "columns": "a,b", "header": True, "format_": None})
    {'columns': ['a', 'b']}
    """
    chosen: Options = {}
    for name, value in given.items():
        if value is None or name in OUTPUTS or DEFAULTS.get(name) == value:
            continue
        if isinstance(value, str):
            value = listed(value) if name in LISTS else str(value)
        chosen[name.rstrip("_")] = value
    return chosen


def reading_options(options: Options) -> Options:
    """The options that describe how a file is written, as `open_stream` takes them."""
    chosen = options_of(options)
    given = {name: chosen[name] for name in READING if name in chosen}
    return given | ({"decimal": ","} if "decimal" in given else {})


def prior_of(given: str) -> str | ScalarPrior:
    """A prior by its name, to be learned, or with numbers, `sparse:rho=0.1`, to be held fixed.

    Examples
    --------
    >>> prior_of("sparse"), prior_of("laplace:scale=2")
    ('sparse', Laplace(scale=2))
    """
    name, _, numbers = given.partition(":")
    if given == "auto":
        return given
    if name not in PRIORS:
        known = f"one of auto, {', '.join(PRIORS)}, or with numbers like sparse:rho=0.1"
        raise typer.BadParameter(f"got {given!r}, expected {known}", param_hint="--prior")
    return _made(PRIORS[name], numbers, "--prior") if numbers else name


def noise_of(given: str) -> str | float | Channel:
    """The noise: `learn`, a variance, or a channel such as `student-t:df=4,scale=1`.

    Examples
    --------
    >>> noise_of("learn"), noise_of("0.5"), noise_of("logistic")
    ('learn', 0.5, Logistic())
    """
    if given == "learn":
        return given
    try:
        variance = float(given)
    except ValueError:
        return channel_of(given, "--noise")
    if not 0.0 <= variance < float("inf"):
        raise typer.BadParameter(f"got {given}, expected a variance >= 0", param_hint="--noise")
    return variance


def channel_of(given: str, name_of_option: str) -> Channel:
    """A channel by its name, with numbers where it has some: `gaussian:var=0.1`."""
    name, _, numbers = given.partition(":")
    if name not in CHANNELS:
        known = (
            f"learn, a variance, or one of {', '.join(CHANNELS)} with numbers like student-t:df=4"
        )
        raise typer.BadParameter(f"got {given!r}, expected {known}", param_hint=name_of_option)
    return _made(CHANNELS[name], numbers, name_of_option)


def _made(cls: type[P], numbers: str, name: str) -> P:
    """An object of the class from `name=number,name=number`."""
    values: dict[str, float] = {}
    for pair in listed(numbers):
        key, _, number = pair.partition("=")
        try:
            values[key.strip()] = float(number)
        except ValueError:
            message = f"got {pair!r}, expected name=number"
            raise typer.BadParameter(message, param_hint=name) from None
    if values.keys() - set(cls.names):
        names = ", ".join(cls.names) or "nothing: it has none"
        raise typer.BadParameter(f"got {numbers!r}, expected numbers for {names}", param_hint=name)
    try:
        return cls(**values)
    except InvalidInputError as error:
        raise typer.BadParameter(str(error), param_hint=name) from None
