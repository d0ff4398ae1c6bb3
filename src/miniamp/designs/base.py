"""What a design is: whoever holds Phi, and sweeps it once an iteration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import linalg

from miniamp.arrays import Array
from miniamp.channels.base import Channel
from miniamp.designs.columns import Columns, DenseColumns
from miniamp.designs.online import Answers, Running, one_by_one
from miniamp.posterior import Prior

if TYPE_CHECKING:
    from miniamp.designs.averaged import Averaged

#: Rows are swept in blocks of about this many bytes of float64: small enough to stay in the
#: second-level cache between the way forth (Phi x) and the way back (Phi' g).
BLOCK_BYTES = 1 << 20


class Sweep(NamedTuple):
    """What one pass over Phi brings back."""

    pull: Array  #: Phi' g, (N,)
    curvature: Array  #: (Phi^2)' (-dg), (N,); with a scalar variance the sum of -dg, ()
    memory: Any  #: g, for the Onsager term of the next iteration; opaque outside the design
    mean_square: float  #: mean of g^2 over the rows
    mean_curvature: float  #: mean of -dg over the rows


class Design(ABC):
    """A matrix Phi of M rows and N columns: the only code that touches its entries."""

    shape: tuple[int, int]

    @abstractmethod
    def sandwich(self, x: Array, v: Array, y: Array, channel: Channel, memory: Any) -> Sweep:
        """One pass over Phi: z and its variance out, the channel's answer back.

        Parameters
        ----------
        x : (N,) array
            Means of the coefficients.
        v : (N,) array or ()
            Their variances; as a scalar it is V itself, the same for every row, and no square of
            Phi is formed.
        y : (M,) array
            The observations.
        channel : Channel
            Gives g and -dg for each row.
        memory : Any
            `Sweep.memory` of the iteration before, None in the first.
        """

    @abstractmethod
    def forecast(self, x: Array, v: Array) -> tuple[Array, Array]:
        """Mean and variance of Phi x for coefficients of means x and variances v: (M,), (M,)."""

    @property
    @abstractmethod
    def mean_square(self) -> float:
        """Mean of the squared entries of Phi, 1/N for the paper's i.i.d. designs."""

    def averaged(self) -> Averaged:
        """The same matrix, swept with scalar variances."""
        from miniamp.designs.averaged import Averaged  # a design that wraps designs

        return Averaged(self)

    def toarray(self) -> Array:
        """All entries, (M, N) float64, for solvers that decompose a batch.

        Column by column here, which is right for every design; those that hold their entries do it
        at once.
        """
        columns, nothing = self.shape[1], np.zeros(self.shape[1])
        return np.column_stack([self.forecast(e, nothing)[0] for e in np.eye(columns)])

    def gram(self) -> Array:
        """Products of the columns, Phi' Phi, (N, N)."""
        entries = self.toarray()
        return np.asarray(entries.T @ entries)

    def weighted(self, weights: Array, targets: Array) -> tuple[Array, Array]:
        """Rows R and targets t with |t - R x|^2 = |targets - weights Phi x|^2 up to a constant.

        For solvers that decompose a batch: the rows times their weights (M,), or fewer that say the
        same, (m, N) and (m,).
        """
        return weights[:, None] * self.toarray(), targets

    def means(self, x: Array) -> Array:
        """Phi x, (M,)."""
        return np.asarray(self.toarray() @ x)

    def spread(self, root: Array | None, D: Array) -> Array:
        """Variance of every row . x for x of covariance diag(D) - root' root, (M,)."""
        rows = self.toarray()
        alone = np.asarray(np.square(rows) @ D)
        if root is None:
            return alone
        known = root @ rows.T
        return np.asarray(alone - np.einsum("ij,ij->j", known, known))

    def held(self) -> Design:
        """The same rows for a solver that decomposes them: as an array in memory.

        Rows that are elsewhere and can be decomposed there stay where they are.
        """
        from miniamp.designs.dense import Dense  # a design itself

        return Dense(self.toarray())

    def online(
        self, running: Running, y: Array, channel: Channel, prior: Prior, answers: Answers
    ) -> None:
        """Absorb the rows one after the other, one iteration each, updating `running` in place."""
        one_by_one(self._each_row(), running, y, channel, prior, answers)

    def columns(self) -> Columns:
        """A copy by columns, for updates of one coefficient after the other."""
        return DenseColumns(self.toarray())

    def _each_row(self) -> Iterator[tuple[Any, Array]]:
        """Every row as (places, entries)."""
        for row in self.toarray():
            yield slice(None), row

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]} x {self.shape[1]})"

    def diagnosis(self) -> str:
        """In plain words, what in Phi may have led AMP astray; asked only after a failure."""
        return ""


def triangle(R: Array, t: Array) -> tuple[Array, Array]:
    """The same rows rotated to at most N of them: |t - R x|^2 up to a constant."""
    if len(R) <= R.shape[1]:
        return R, t
    Q, square = linalg.qr(R, mode="economic", check_finite=False)
    return square, Q.T @ t


def row_blocks(rows: int, columns: int) -> list[slice]:
    """Slices that cut `rows` rows into blocks which fit the cache."""
    step = max(1, BLOCK_BYTES // (8 * max(columns, 1)))
    return [slice(k, min(k + step, rows)) for k in range(0, rows, step)]
