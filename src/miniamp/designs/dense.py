"""A dense design, swept in blocks of rows by NumPy: the plain reference of all others."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.designs.base import Design, Sweep, row_blocks
from miniamp.designs.columns import Columns, DenseColumns
from miniamp.errors import InvalidTypeError

#: A matrix of at most this many bytes is still in the last level of the cache on the way back, so
#: that with scalar variances two products of BLAS over all rows beat a sweep by blocks.
IN_CACHE = 24 << 20


class Dense(Design):
    """A matrix in memory, float64 or float32, read once an iteration and never copied whole.

    Parameters
    ----------
    Phi : (M, N) array
        float32 stays float32 in memory; its blocks are widened as they are swept.

    Examples
    --------
    >>> import numpy as np
    >>> mean, var = Dense(np.eye(2)).forecast(np.array([1.0, 2.0]), np.array([0.5, 0.5]))
    >>> mean, var
    (array([1., 2.]), array([0.5, 0.5]))
    """

    def __init__(self, Phi: Given) -> None:
        self.Phi = checked_matrix(Phi)
        self.shape = (self.Phi.shape[0], self.Phi.shape[1])

    def sandwich(self, x: Array, v: Array, y: Array, channel: Channel, memory: Any) -> Sweep:
        rows, columns = self.shape
        shared = np.ndim(v) == 0
        if shared and self.Phi.nbytes <= IN_CACHE and self.Phi.dtype == np.float64:
            return self._two_products(x, v, y, channel, memory)
        pull, curvature = np.zeros(columns), np.zeros(() if shared else columns)
        g, total = np.empty(rows), 0.0
        for block in row_blocks(rows, columns):
            part = self._block(block)
            squares = None if shared else np.square(part)
            V = np.full(len(part), v) if squares is None else squares @ v
            omega = part @ x
            if memory is not None:
                omega -= V * memory[block]
            g[block], answer = channel.at(block).output(y[block], omega, V)
            pull += g[block] @ part
            curvature = curvature + (answer.sum() if squares is None else answer @ squares)
            total += float(answer.sum())
        return Sweep(pull, curvature, g, float(np.mean(np.square(g))), total / rows)

    def _two_products(self, x: Array, V: Array, y: Array, channel: Channel, memory: Any) -> Sweep:
        """A sandwich with scalar variances of all rows at once."""
        omega = self.Phi @ x
        if memory is not None:
            omega -= V * memory
        g, answer = channel.output(y, omega, V)
        total, rows = answer.sum(), len(y)
        return Sweep(g @ self.Phi, total, g, float(g @ g) / rows, float(total) / rows)

    def forecast(self, x: Array, v: Array) -> tuple[Array, Array]:
        mean, var = np.empty(self.shape[0]), np.empty(self.shape[0])
        for block in row_blocks(*self.shape):
            part = self._block(block)
            mean[block] = part @ x
            var[block] = np.square(part) @ v
        return mean, var

    @cached_property
    def mean_square(self) -> float:
        total = sum(float(np.vdot(p, p)) for p in map(self._block, row_blocks(*self.shape)))
        return total / (self.shape[0] * self.shape[1])

    def toarray(self) -> Array:
        return self.Phi.astype(np.float64, copy=False)

    def columns(self) -> Columns:
        return DenseColumns(self.Phi)

    def _each_row(self) -> Iterator[tuple[Any, Array]]:
        for row in self.Phi:
            yield slice(None), row.astype(np.float64, copy=False)

    def diagnosis(self) -> str:
        return describe_columns(self.Phi)

    def _block(self, block: slice) -> Array:
        return self.Phi[block].astype(np.float64, copy=False)


def checked_matrix(Phi: Given) -> NDArray[np.float64] | NDArray[np.float32]:
    """`Phi` as a finite two-dimensional array with at least one row and column."""
    array = checks.array_of("Phi", Phi)
    if array.dtype.kind in "iub":
        array = array.astype(np.float64)
    if array.dtype not in (np.float64, np.float32):
        raise InvalidTypeError(
            f"Phi: got dtype {array.dtype}, expected float64 or float32; "
            "convert text, categories or complex numbers to floats first"
        )
    if array.ndim != 2:
        raise checks.refuse(
            "Phi", f"shape {array.shape}", "two dimensions, rows by columns", "reshape it"
        )
    if 0 in array.shape:
        raise checks.refuse(
            "Phi", f"an empty batch of shape {array.shape}", "at least one row", "skip this batch"
        )
    # A sum needs no temporary and is finite unless an entry is not (or it overflows: then look).
    # Not a product of BLAS: its threads are waited for, four times as long on a busy machine.
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(array.sum())
    if suspicious:
        checks.numeric("Phi", array)
    return array


def describe_columns(Phi: NDArray[Any]) -> str:
    """What is known to mislead AMP in these columns, in words."""
    spread, centre = Phi.std(axis=0), np.abs(Phi.mean(axis=0))
    constant = np.flatnonzero((spread == 0.0) & (centre > 0.0))
    _, first = np.unique(Phi, axis=1, return_index=True)
    repeated = np.setdiff1d(np.arange(Phi.shape[1]), first)
    found = []
    if constant.size:
        found.append(f"column {constant[0]} is constant ({constant.size} such)")
    if repeated.size:
        found.append(f"column {repeated[0]} repeats another ({repeated.size} such)")
    if np.median(centre) > 3.0 * np.median(spread) / np.sqrt(len(Phi)):
        found.append("the columns have means far from zero")
    return "; ".join(found)
