"""Rows in another frame than the one they came in, which compiled sweeps bring them to."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from miniamp import checks
from miniamp.arrays import Array
from miniamp.channels.base import Channel
from miniamp.designs.base import Sweep, row_blocks
from miniamp.designs.dense import Fused
from miniamp.designs.sequential import KernelRows, Responses, Running
from miniamp.kernel import flat, read_only
from miniamp.posterior import Prior


class Framed(Fused):
    """The matrix (X - centre) unit, with a last column of ones for an intercept, held as X.

    A sweep brings a few rows at a time to their frame, in the first level of the cache: at 1000 x
    100 it takes 1.3 times as long as a sweep over the finished matrix, at 1000 x 1000 1.7 times.
    To make that matrix takes as long as 2 to 5 sweeps. So this is for rows that are swept a few
    times. Where their entries are asked for the matrix is made after all, once.

    Parameters
    ----------
    X : (M, N) array
        Finite numbers, C-contiguous, float64 or float32.
    centre, unit : (N,) array
        What is subtracted from each column, and what it is then multiplied by.
    intercept : bool
        Whether there is a last column of ones.
    power : (N,) array, optional
        The sum of the squares of each column of X - centre, where it is known.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 1e9], [3.0, 1e9 + 2.0]])
    >>> Framed(X, np.array([2.0, 1e9]), np.array([1.0, 0.5])).toarray()
    array([[-1.,  0.,  1.],
           [ 1.,  1.,  1.]])
    """

    def __init__(
        self,
        X: Array,
        centre: Array,
        unit: Array,
        *,
        intercept: bool = True,
        power: Array | None = None,
    ) -> None:
        self._require_sweepable(X)
        self.X, self.centre, self.unit, self.power = X, flat(centre), flat(unit), power
        self.shape = (X.shape[0], X.shape[1] + intercept)
        checks.vector("centre", centre, X.shape[1])
        checks.vector("unit", unit, X.shape[1])

    @cached_property
    def Phi(self) -> Array:  # type: ignore[override]
        return framed(self.X, self.centre, self.unit, self.shape[1])

    @property
    def _held(self) -> bool:
        """Whether the matrix has been made: it is then swept as it is."""
        return "Phi" in vars(self)

    @property
    def nbytes(self) -> int:
        return self.Phi.nbytes if self._held else self.X.nbytes

    @cached_property
    def mean_square(self) -> float:
        if self.power is None:
            return super().mean_square
        (rows, size), features = self.shape, len(self.unit)
        total = float(np.sum(self.power * np.square(self.unit))) + rows * (size - features)
        return total / (rows * size)

    def sandwich(
        self, x: Array, v: Array, y: Array, channel: Channel, memory: Array | None
    ) -> Sweep:
        if channel.kernel() is None:
            _ = self.Phi  # blocks of it go forth and back
        return super().sandwich(x, v, y, channel, memory)

    def times(self, x: Array) -> Array:
        if self._held or x.ndim == 2:
            return super().times(x)
        return self.forecast(x, np.zeros(len(x)))[0]

    def online(
        self, running: Running, y: Array, channel: Channel, prior: Prior, responses: Responses
    ) -> None:
        _ = self.Phi  # row after row, each in its frame
        super().online(running, y, channel, prior, responses)

    def _rows(self, part: slice) -> KernelRows:
        return super()._rows(part) if self._held else (read_only(self.X)[part],)

    @property
    def _frame(self) -> tuple[Array, ...]:
        return () if self._held else (self.centre, self.unit)


def framed(X: Array, centre: Array, unit: Array, size: int) -> Array:
    """(X - centre) unit as a new matrix of `size` columns, whose last may be one of ones."""
    rows, columns = X.shape
    made = np.empty((rows, size))
    for block in row_blocks(rows, size):  # in the cache: a third of the time
        own = np.subtract(X[block], centre, out=made[block, :columns])
        own *= unit
    made[:, columns:] = 1.0
    return made
