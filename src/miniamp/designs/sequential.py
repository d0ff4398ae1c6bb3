"""Rows or coefficients visited one after the other, each updating what the next one sees."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from miniamp.arrays import Array
from miniamp.channels.base import Channel
from miniamp.posterior import Moments, Prior
from miniamp.tilt import Tilt

#: Which coefficients a row has entries for, or which rows a column.
Where: TypeAlias = slice | NDArray[np.intp] | NDArray[np.int32]
#: What kernels take for a few rows or columns.
KernelRows: TypeAlias = tuple[NDArray[np.generic], ...]


class Running(NamedTuple):
    """A belief that is updated in place: private copies, (N,) each."""

    A: Array
    B: Array
    mean: Array
    var: Array


def private(tilt: Tilt, moments: Moments) -> Running:
    """A belief as `Running`: a copy, one number per coefficient even where it shares one A."""
    size = len(tilt.B)
    parts = (tilt.A, tilt.B, moments.mean, moments.var)
    return Running(*(np.array(np.broadcast_to(part, size)) for part in parts))


class Responses(NamedTuple):
    """What was known of each row before it, and the channel's response, (M,) each."""

    omega: Array
    V: Array
    g: Array
    curvature: Array

    @classmethod
    def empty(cls, rows: int) -> Responses:
        """For so many rows, to be filled row by row."""
        return cls(*np.empty((4, rows)))


def one_by_one(
    rows: Iterable[tuple[Where, Array]],
    running: Running,
    y: Array,
    channel: Channel,
    prior: Prior,
    responses: Responses,
) -> None:
    """Absorb each row (indices, entries) in turn, by NumPy: the reference of the compiled loops.

    Algorithm 2: only the coefficients at these indices change.
    """
    A, B, mean, var = running
    for m, (where, entries) in enumerate(rows):
        squares, here = np.square(entries), slice(m, m + 1)
        omega, V = np.atleast_1d(entries @ mean[where]), np.atleast_1d(squares @ var[where])
        g, curvature = channel.at(here).output(y[here], omega, V)
        A[where] += curvature * squares
        B[where] += g * entries + curvature * squares * mean[where]
        own = prior.at(where, len(mean))
        mean[where], var[where] = own.moments(A[where], B[where])
        for all_rows, one in zip(responses, (omega, V, g, curvature), strict=True):
            all_rows[m] = one[0]


class Columns(ABC):
    """The columns of a design, for sweeps that update one coefficient after the other."""

    power: Array  #: (N,) sum of the squares of each column

    @abstractmethod
    def descend(
        self, belief: Running, prior: Prior, noise: float, mean: Array, var: Array, residual: Array
    ) -> tuple[Array, Array]:
        """One sweep of coordinate updates at a given noise; returns each coefficient's tilt (A, B).

        Every coefficient takes its moments given the means of all others; `mean`, `var` and
        `residual` = y - Phi mean are updated in place.
        """


class GramColumns(Columns):
    """Columns that are known by their products Phi' Phi alone, for rows that are elsewhere.

    A coordinate update needs Phi_i' (y - Phi x), and all that changes in it when x_j does is
    (Phi' Phi)_ij: with the products in hand a sweep over all coefficients uses the rows only twice,
    for Phi' residual before it and Phi x after it. The updates are those of the columns themselves,
    up to rounding.

    Examples
    --------
    >>> import numpy as np
    >>> Phi = np.array([[1.0, 2.0], [0.0, 1.0]])
    >>> GramColumns(Phi.T @ Phi, Phi.dot, Phi.T.dot).power
    array([1., 5.])
    """

    def __init__(
        self, gram: Array, times: Callable[[Array], Array], transposed: Callable[[Array], Array]
    ) -> None:
        self._gram, self._times, self._transposed = gram, times, transposed
        self.power = np.array(np.diag(gram))

    def descend(
        self, belief: Running, prior: Prior, noise: float, mean: Array, var: Array, residual: Array
    ) -> tuple[Array, Array]:
        correlation, before = self._transposed(residual), mean.copy()
        A, B = self.power / noise, np.empty(len(mean))
        for i, column in enumerate(self._gram):
            here = slice(i, i + 1)
            B[i] = correlation[i] / noise + A[i] * mean[i]
            own = prior.at(here, len(mean))
            new, var[here] = own.moments(belief.A[here] + A[here], belief.B[here] + B[here])
            correlation -= (new - mean[here]) * column
            mean[here] = new
        residual -= self._times(mean - before)
        return A, B
