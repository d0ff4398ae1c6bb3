"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

import typer

from miniamp.errors import InvalidInputError

#: Names of priors on the command line, with the class each stands for.
PRIORS = {
    "gaussian": "Gaussian",
    "sparse": "GaussBernoulli",
    "laplace": "Laplace",
    "nonnegative": "NonNegativeGaussian",
}
#: Names of channels, likewise.
CHANNELS = {
    "gaussian": "Gaussian",
    "student-t": "StudentT",
    "poisson": "Poisson",
    "probit": "Probit",
    "logistic": "Logistic",
}


class Task(StrEnum):
    """What is to be predicted."""

    auto = "auto"
    regression = "regression"
    classification = "classification"


class Missing(StrEnum):
    """What to do where a value is missing."""

    error = "error"
    mean = "mean"
    drop = "drop"


class Unknown(StrEnum):
    """What to do with a category that was not there when the model began."""

    error = "error"
    ignore = "ignore"


class Format(StrEnum):
    """What a source is written in, where its name and first bytes do not tell."""

    csv = "csv"
    parquet = "parquet"
    arrow = "arrow"
    npy = "npy"
    npz = "npz"
    libsvm = "libsvm"
    jsonl = "jsonl"


class Solver(StrEnum):
    """How a batch is absorbed."""

    auto = "auto"
    amp = "amp"
    robust = "robust"


def auto_or_count(least: int) -> Any:
    """A callback for options that take "auto" or a whole number of at least `least`."""

    def checked(value: str) -> str:
        if value == "auto" or (value.isdecimal() and int(value) >= least):
            return value
        raise typer.BadParameter(f"got {value!r}, expected auto or a whole number >= {least}")

    return checked


def fraction(value: float | None) -> float | None:
    """A callback for a number in (0, 1]."""
    if value is not None and not 0.0 < value <= 1.0:
        raise typer.BadParameter(f"got {value:g}, expected a number above 0 and at most 1")
    return value


def positive(value: float | None) -> float | None:
    """A callback for a number above zero."""
    if value is not None and not 0.0 < value < float("inf"):
        raise typer.BadParameter(f"got {value:g}, expected a finite number above 0")
    return value


def level(value: float) -> float:
    """A callback for the probability of an interval."""
    if not 0.0 < value < 1.0:
        raise typer.BadParameter(f"got {value:g}, expected a number between 0 and 1")
    return value


def listed(value: str | None) -> list[str] | None:
    """`a,b,c` as a list of names.

    Examples
    --------
    >>> listed("age, city")
    ['age', 'city']
    """
    if value is None:
        return None
    return [name.strip() for name in value.split(",") if name.strip()]


def column(value: str | None) -> str | int | None:
    """A column's name, or its number where that is what was written as `#3` or `#-1`.

    Examples
    --------
    >>> column("price"), column("#-1")
    ('price', -1)
    """
    if value is not None and value.startswith("#") and value[1:].removeprefix("-").isdecimal():
        return int(value[1:])
    return value


def prior_of(given: str) -> Any:
    """A prior by its name, to be learned, or with numbers, `sparse:rho=0.1`, to be held fixed.

    Examples
    --------
    >>> prior_of("sparse"), prior_of("laplace:scale=2")
    ('sparse', Laplace(scale=2))
    """
    name, _, numbers = given.partition(":")
    if name not in PRIORS:
        raise typer.BadParameter(
            f"got {given!r}, expected one of {', '.join(PRIORS)}, or with numbers like "
            "sparse:rho=0.1",
            param_hint="--prior",
        )
    if not numbers:
        return name
    from miniamp import priors

    return _made(getattr(priors, PRIORS[name]), numbers, "--prior")


def noise_of(given: str) -> Any:
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
        raise typer.BadParameter(
            f"got {given}, expected a variance >= 0", param_hint="--noise"
        ) from None
    return variance


def channel_of(given: str, option: str) -> Any:
    """A channel by its name, with numbers where it has some: `gaussian:var=0.1`."""
    from miniamp import channels

    name, _, numbers = given.partition(":")
    if name not in CHANNELS:
        raise typer.BadParameter(
            f"got {given!r}, expected learn, a variance, or one of {', '.join(CHANNELS)} with "
            "numbers like student-t:df=4",
            param_hint=option,
        )
    return _made(getattr(channels, CHANNELS[name]), numbers, option)


def _made(cls: Any, numbers: str, option: str) -> Any:
    """An object of the class from `name=number,name=number`."""
    values: dict[str, float] = {}
    for pair in listed(numbers) or ():
        name, _, number = pair.partition("=")
        try:
            values[name.strip()] = float(number)
        except ValueError:
            raise typer.BadParameter(
                f"got {pair!r}, expected name=number", param_hint=option
            ) from None
    try:
        return cls(**values)
    except TypeError:
        names = ", ".join(cls().names)
        raise typer.BadParameter(
            f"got {numbers!r}, expected numbers for {names or 'nothing: it has none'}",
            param_hint=option,
        ) from None
    except InvalidInputError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def require_place(option: str, path: Path | None, source: str | None = None) -> None:
    """Refuse, before any work, a path that cannot be written, or that is the data itself."""
    if path is None or str(path) == "-":
        return
    if path.is_dir():
        raise InvalidInputError(f"{option}: {path} is a folder, expected a file; add a name to it")
    if not path.parent.is_dir():
        raise InvalidInputError(
            f"{option}: the folder {path.parent} does not exist, expected one; make it first"
        )
    if source is not None and Path(source).exists() and path.resolve() == Path(source).resolve():
        raise InvalidInputError(f"{option}: {path} is the source itself; write somewhere else")
