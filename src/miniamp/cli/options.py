"""The options that commands share, with their help, and how their values are read."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from miniamp import channels, priors
from miniamp.channels.base import Channel
from miniamp.errors import InvalidInputError
from miniamp.parametric import Parametric
from miniamp.priors import ScalarPrior

P = TypeVar("P", bound=Parametric)
MODEL, ROWS, FILES = "The model", "The rows", "Files and output"

TaskName = StrEnum("TaskName", "auto regression classification")
SolverName = StrEnum("SolverName", "auto amp robust")
ConflictRule = StrEnum("ConflictRule", "adapt skip raise")

#: Priors and channels by name.
PRIORS: dict[str, type[ScalarPrior]] = priors.by_name()
CHANNELS = channels.by_name()


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


def _auto_or_share(value: str | None) -> str | None:
    """A check of an option that takes "auto" or a number above 0 and at most 1."""
    if value is not None and value != "auto":
        try:
            within(0, 1, closed=True)(float(value))
        except ValueError:
            raise typer.BadParameter(f"got {value!r}, expected auto or a number") from None
    return value


def option(panel: str | None, metavar: str | None, text: str, *names: str, **more: Any) -> Any:
    """An option; without a default in the help where it has none."""
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel, **more)


def optional(panel: str | None, metavar: str, text: str, *names: str, **more: Any) -> Any:
    """An option that may be left out."""
    return option(panel, metavar, text, *names, show_default=False, **more)


ModelFile = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="What fit wrote to --output, cluster to --model, or either to --checkpoint.",
        show_default=False,
    ),
]
Watch = Annotated[
    bool,
    option(FILES, None, "Show in the browser how it goes; needs --checkpoint.", "--watch"),
]
AsJSON = Annotated[bool, option(FILES, None, "Print JSON, and no progress.", "--json")]

# What is learned.
Target = Annotated[
    str, option(None, "COLUMN", "The column to predict: its name, or #3 for its number (from 0).")
]
Task = Annotated[
    TaskName,
    option(
        None, "TASK", "regression, classification, or auto: text or two whole numbers are classes."
    ),
]
Prior = Annotated[
    str,
    option(
        MODEL,
        "PRIOR",
        f"{', '.join(PRIORS)}: learned from the rows; or fixed with numbers, such as "
        "sparse:rho=0.1,var=2; or auto: gaussian, laplace or sparse, whichever suits the rows.",
    ),
]
Noise = Annotated[
    str,
    option(
        MODEL,
        "NOISE",
        "learn, a variance, or a channel: student-t:df=4 (outliers), poisson (counts), logistic.",
    ),
]
Memory = Annotated[
    str,
    option(
        MODEL,
        "ROWS",
        "Remembered rows, which keep correlations between batches: auto, or 0 for none.",
        callback=auto_or_count(0),
    ),
]
Solver = Annotated[
    SolverName,
    option(
        MODEL, "SOLVER", "amp for independent features, robust for any; auto looks at the rows."
    ),
]
Forget = Annotated[
    str | None,
    optional(
        MODEL,
        "FACTOR",
        "For drifting streams: the weight of earlier batches is multiplied by this with every "
        "batch, such as 0.95; or auto: learned from the stream.",
        callback=_auto_or_share,
    ),
]
HalfLife = Annotated[
    float | None,
    optional(
        MODEL,
        "ROWS",
        "The same as a number of rows after which earlier ones count half.",
        callback=within(0, float("inf")),
    ),
]
OnConflict = Annotated[
    ConflictRule,
    option(
        MODEL,
        "RULE",
        "For a batch that contradicts what was learned: adapt learns what it can, skip leaves it "
        "out, raise stops.",
    ),
]
Intercept = Annotated[
    bool, option(MODEL, None, "Whether to add an intercept.", "--intercept/--no-intercept")
]
Classes = Annotated[
    str | None,
    optional(MODEL, "LIST", "All classes, a,b,c; by default those of the first rows."),
]

# Files.
Checkpoint = Annotated[
    Path | None,
    optional(FILES, "FILE", "Keep the state here; the same command resumes from it, bit for bit."),
]
Every = Annotated[int, option(FILES, "BATCHES", "Batches between two checkpoints.", min=1)]
NewRows = Annotated[
    bool,
    option(
        FILES, None, "Resume from the checkpoint with another source: all its rows are new.",
        "--new-rows",
    ),
]  # fmt: skip
ModelOutput = Annotated[
    Path | None, optional(FILES, "FILE", "Write the model here at the end.", "--output", "-o")
]
Report = Annotated[Path | None, optional(FILES, "FILE", "Write an HTML report here at the end.")]


def listed(value: str) -> list[str]:
    """`a,b,c` as a list of names.

    Examples
    --------
    >>> listed("age, city")
    ['age', 'city']
    """
    return [name.strip() for name in value.split(",") if name.strip()]


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
        raise typer.BadParameter(
            f"got {given!r}, expected one of auto, {', '.join(PRIORS)}, or with numbers like "
            "sparse:rho=0.1",
            param_hint="--prior",
        )
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
    strange = sorted(values.keys() - set(cls.names))
    if strange:
        names = ", ".join(cls.names) or "nothing: it has none"
        raise typer.BadParameter(f"got {numbers!r}, expected numbers for {names}", param_hint=name)
    try:
        return cls(**values)
    except InvalidInputError as error:
        raise typer.BadParameter(str(error), param_hint=name) from None
