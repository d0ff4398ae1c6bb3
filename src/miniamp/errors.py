"""Errors and warnings: the facts are fields, from which one place makes the message."""

from __future__ import annotations

import copy
import math
import re
import unicodedata
from shlex import quote
from typing import Self

#: A setting within a remedy: {noise=learn} is noise='learn' in Python, --noise learn in a shell;
#: {noise=StudentT()|student-t} has a value for each.
_SETTING = re.compile(r"\{(\w+)(?:=([^{}]*))?\}")
#: What stands for its signs in names, which may have any: code points for private use.
_SIGNS = str.maketrans("{}|", "\ue000\ue001\ue002")


class MiniampError(Exception):
    """Base class of all errors that miniamp raises.

    Parameters
    ----------
    argument : str
        What cannot be used: a parameter, a file, a row of a file.
    received : str
        What it was.
    expected : str
        What it must be.
    remedy : str
        One action. A setting is written `{name=value}` and shown as the reader would type it.
    **facts
        Further attributes, those that a subclass lists.

    Examples
    --------
    >>> error = InvalidInputError("noise", "-1", "a variance > 0", "or let {noise=learn} find it")
    >>> str(error)
    "noise: got -1, expected a variance > 0; or let noise='learn' find it"
    >>> print(error.relabelled("--noise").as_typed("shell"))
    --noise: got -1, expected a variance > 0; or let --noise learn find it
    """

    def __init__(
        self,
        argument: str,
        received: object = "",
        expected: str = "",
        remedy: str = "",
        **facts: object,
    ) -> None:
        super().__init__(argument, received, expected, remedy)
        self.argument = argument
        self.received = str(received)
        self.expected = expected
        self.remedy = remedy
        for name, value in facts.items():
            setattr(self, name, value)

    def __str__(self) -> str:
        return self.as_typed("python")

    def as_typed(self, where: str) -> str:
        """The message, with settings as they are typed in "python" or in a "shell"."""
        message = self.argument
        if self.received:
            message += f": got {self.received}"
        if self.expected:
            message += f"{',' if self.received else ':'} expected {self.expected}"
        if self.remedy:
            message += f"; {typed(self.remedy, where)}"
        return message

    def relabelled(self, argument: str) -> Self:
        """The same error about an argument under another name."""
        error = copy.copy(self)
        error.argument = argument
        return error


def typed(text: str, where: str) -> str:
    """A text with its settings, such as {noise=learn}, as typed in "python" or in a "shell".

    Examples
    --------
    >>> typed("try {noise=learn}", "python"), typed("try {noise=learn}", "shell")
    ("try noise='learn'", 'try --noise learn')
    >>> print(typed("use {keep=['body mass']|body mass} or {header=False}", "shell"))
    use --keep 'body mass' or --no-header
    """

    def setting(found: re.Match[str]) -> str:
        name, value = found[1], found[2]
        if value is not None and "|" in value:
            value = value.split("|")[where == "shell"]
        if where == "shell" and value in ("True", "False"):
            return f"--{'no-' * (value == 'False')}{name.replace('_', '-')}"
        if where == "shell":
            return f"--{name.replace('_', '-')}" + ("" if value is None else f" {quote(value)}")
        if value is None:
            return name
        literal = re.fullmatch(r"[-+.\de]+|True|False|None|.*[\[({.\ue000].*", value) is not None
        return f"{name}={value if literal else repr(value)}"

    return _SETTING.sub(setting, text).translate({sign: old for old, sign in _SIGNS.items()})


def verbatim(name: str) -> str:
    """A name within a remedy or a warning, where its own braces are no setting.

    Examples
    --------
    >>> print(typed(f"use {{keep=['{verbatim('{a|b}')}']|{verbatim('{a|b}')}}}", "shell"))
    use --keep '{a|b}'
    """
    return name.translate(_SIGNS)


def printable(text: str) -> str:
    r"""Text with control characters, which a terminal would execute, shown as escapes.

    Examples
    --------
    >>> printable("red \x1b[31mname")
    'red \\x1b[31mname'
    """
    return "".join(
        c if unicodedata.category(c) not in ("Cc", "Cf", "Cs") else ascii(c)[1:-1] for c in text
    )


class InvalidInputError(MiniampError, ValueError):
    """An argument has a value that cannot be used; the message names it and a remedy.

    Nothing was changed: whatever held a belief before holds the same belief now.

    Examples
    --------
    >>> import miniamp
    >>> miniamp.priors.Gaussian(var=-1.0)
    Traceback (most recent call last):
    ...
    miniamp.errors.InvalidInputError: var: got -1.0, expected a finite number > 0; ...
    """


class InvalidTypeError(InvalidInputError, TypeError):
    """An argument has a type that cannot be converted to the type needed."""


class MissingExtraError(MiniampError, ImportError):
    """A feature needs an optional dependency; the message names the extra to install."""


class CheckpointError(InvalidInputError):
    """A checkpoint file is missing, truncated, altered or no checkpoint; it was not used.

    Attributes
    ----------
    previous : str or None
        Path of the checkpoint before it, where there is a sound one.
    """

    previous: str | None = None


class ConflictError(MiniampError, ArithmeticError):
    """A batch contradicts the model; the belief is unchanged.

    Tilts cannot be undone, so a batch that converged to a contradiction (its residuals far larger
    than its own error bars) is refused before its tilt is added.

    Attributes
    ----------
    health : float
        Squared residuals over their expected value in the last attempt, mean g^2 / mean(-dg);
        about 1 when all is well, NaN where an entry of X was refused before.
    iteration : int
        The iteration at which the last attempt ended.
    batch : int or None
        Index of the batch, counted from 0, from `absorb.stream`; None from an estimator.
    row : int or None
        Index in the batch, from 0, of the worst row, where single rows are at fault.
    deviations : float
        By how many standard deviations its y is off.
    """

    health: float = math.nan
    iteration: int = 0
    batch: int | None = None
    row: int | None = None
    deviations: float = math.nan

    def in_batch(self, batch: int) -> Self:
        """The same error with the index of its batch, which the message then names."""
        error = self.relabelled(f"batch {batch}, {self.argument}")
        error.batch = batch
        return error


class MiniampWarning(UserWarning):
    """Base class of all warnings of miniamp; settings in it are written as in a remedy.

    Examples
    --------
    >>> str(MiniampWarning("try {noise=learn}"))
    "try noise='learn'"
    """

    def __str__(self) -> str:
        return self.as_typed("python")

    def as_typed(self, where: str) -> str:
        """The message, with settings as they are typed in "python" or in a "shell"."""
        return typed(super().__str__(), where)


class ConflictWarning(MiniampWarning):
    """A batch contradicted the model and is tried again with a more careful method."""
