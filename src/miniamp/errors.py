"""What can go wrong, by name, so that a caller can tell bad data from a failed computation."""

from __future__ import annotations


class MiniampError(Exception):
    """Base of every error that miniamp raises on purpose."""


class InvalidInput(MiniampError, ValueError):
    """An argument cannot be used as it came; the message names it, and what to do.

    Nothing was changed: whatever held a belief before holds the same belief now.

    Examples
    --------
    >>> import miniamp
    >>> miniamp.priors.Gaussian(var=-1.0)
    Traceback (most recent call last):
    ...
    miniamp.errors.InvalidInput: var: got -1.0, expected a finite number > 0; ...
    """


class InvalidType(InvalidInput, TypeError):
    """An argument is of a type that cannot be turned into what is needed."""


class MissingExtra(MiniampError, ImportError):
    """A feature needs an optional dependency; the message names the extra to install."""


class BadCheckpoint(InvalidInput):
    """A checkpoint file is cut short, altered or no checkpoint; it was not used.

    Attributes
    ----------
    previous : str or None
        Path of the checkpoint before it, where there is a sound one.
    """

    def __init__(self, message: str, *, previous: str | None = None) -> None:
        super().__init__(message)
        self.previous = previous


class IllBatch(MiniampError, ArithmeticError):
    """A batch could not be absorbed soundly, and the belief is what it was before it.

    Tilts cannot be undone, so a batch that converged to a contradiction (its residuals far larger
    than its own error bars) is refused before its tilt is added.

    Attributes
    ----------
    health : float
        The figure mean g^2 / mean(-dg) of the last attempt; about 1 when all is well.
    iteration : int
        The iteration at which the last attempt ended.
    batch : int or None
        Index of the batch in its stream, counted from 0, where known.
    """

    def __init__(
        self, message: str, *, health: float, iteration: int, batch: int | None = None
    ) -> None:
        super().__init__(message)
        self.health = health
        self.iteration = iteration
        self.batch = batch


class IllBatchWarning(UserWarning):
    """A batch looked unsound and is being tried again in a more careful way."""
