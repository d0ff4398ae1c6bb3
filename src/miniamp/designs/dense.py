"""Dense designs: swept by NumPy in blocks of rows (the plain reference), or compiled."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache, cached_property
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from miniamp import checks
from miniamp.arrays import Array
from miniamp.channels.base import Channel
from miniamp.designs.base import BLOCK_BYTES, Design, Sweep, as_design, row_blocks
from miniamp.designs.sequential import Columns, KernelRows, Where
from miniamp.designs.swept import HeldColumns, Swept
from miniamp.kernel import flat, read_only

#: A matrix of at most this many bytes is still in the last level of the cache on the way back, so
#: that with scalar variances two products of BLAS over all rows beat a sweep by blocks.
IN_CACHE = 24 << 20

#: Multiplications of a batch between which BLAS gets one thread. Fewer stay in one by themselves,
#: more take over 10 ms. Between them a second thread saves little on an idle machine, and on a busy
#: one OpenBLAS's threads wait for each other: eigh of 100 x 100 numbers takes 180 ms, not 3.
ONE_THREAD = 1e4, 1e8

#: Below this many entries NumPy is done before a compiled sweep has begun.
WORTH_COMPILING = 1 << 15


class Dense(Design):
    """A matrix in memory, float64 or float32, read once per iteration and never copied whole.

    Parameters
    ----------
    Phi : (M, N) array
        float32 stays float32 in memory; its blocks are widened as they are swept, and all sums are
        those of float64.

    Examples
    --------
    >>> import numpy as np
    >>> mean, var = Dense(np.eye(2)).forecast(np.array([1.0, 2.0]), np.array([0.5, 0.5]))
    >>> mean, var
    (array([1., 2.]), array([0.5, 0.5]))
    """

    def __init__(self, Phi: object) -> None:
        self.Phi = checked_matrix(Phi)
        self.shape = (self.Phi.shape[0], self.Phi.shape[1])

    @classmethod
    def of(cls, Phi: object) -> Design | None:
        return cls(Phi)

    def sandwich(
        self, x: Array, v: Array, y: Array, channel: Channel, memory: Array | None
    ) -> Sweep:
        rows, columns = self.shape
        shared = np.ndim(v) == 0
        if shared and self.Phi.nbytes <= IN_CACHE and self.Phi.dtype == np.float64:
            return self._two_products(x, v, y, channel, memory)
        pull, curvature = np.zeros(columns), np.zeros(() if shared else columns)
        g, total = np.empty(rows), 0.0
        for block, part in self._float64_blocks():
            squares = None if shared else np.square(part)
            V = np.full(len(part), v) if squares is None else squares @ v
            omega = part @ x
            if memory is not None:
                omega -= V * memory[block]
            g[block], response = channel.at(block).output(y[block], omega, V)
            pull += g[block] @ part
            curvature = curvature + (response.sum() if squares is None else response @ squares)
            total += float(response.sum())
        return Sweep(pull, curvature, g, float(np.mean(np.square(g))), total / rows)

    def _two_products(
        self, x: Array, V: Array, y: Array, channel: Channel, memory: Array | None
    ) -> Sweep:
        """A sandwich with scalar variances of all rows at once."""
        omega = self.Phi @ x
        if memory is not None:
            omega -= V * memory
        g, response = channel.output(y, omega, V)
        total, rows = response.sum(), len(y)
        mean_square = float(np.mean(np.square(g)))
        return Sweep(g @ self.Phi, total, g, mean_square, float(total) / rows)

    def forecast(self, x: Array, v: Array) -> tuple[Array, Array]:
        mean, var = np.empty(self.shape[0]), np.empty(self.shape[0])
        for block, part in self._float64_blocks():
            mean[block] = part @ x
            var[block] = np.square(part) @ v
        return mean, var

    @cached_property
    def mean_square(self) -> float:
        # Not a product of BLAS: it would wake its threads, and they spin for 18 ms of CPU after it.
        total = sum(float(np.square(part).sum()) for _, part in self._float64_blocks())
        return total / (self.shape[0] * self.shape[1])

    def toarray(self) -> Array:
        return self.Phi.astype(np.float64, copy=False)

    def times(self, x: Array) -> Array:
        if self.Phi.dtype == np.float64:
            return np.asarray(self.Phi @ x)
        return np.concatenate([part @ x for _, part in self._float64_blocks()])

    def transposed_times(self, u: Array) -> Array:
        if self.Phi.dtype == np.float64:
            return np.asarray(self.Phi.T @ u)
        total: Array = sum(
            (part.T @ u[block] for block, part in self._float64_blocks()),
            start=np.zeros((self.shape[1], *u.shape[1:])),
        )
        return total

    def squares_times(self, v: Array) -> Array:
        # Not by a compiled sweep: choosing a solver would wait for the compiler.
        return np.concatenate([np.square(part) @ v for _, part in self._float64_blocks()])

    def transposed_squares_times(self, w: Array) -> Array:
        total = np.zeros(self.shape[1])
        for block, part in self._float64_blocks():
            total += w[block] @ np.square(part)
        return total

    def information(self, weights: Array) -> Array:
        one = float(weights[0])
        if np.count_nonzero(weights != one):
            return super().information(weights)
        N, rows = self.shape[1], self.toarray()
        checks.formed_bytes(8 * N * N, f"{N} x {N} products of columns")
        return np.asarray(rows.T @ rows if one == 1.0 else one * (rows.T @ rows))

    def held(self) -> Design:
        return self

    def columns(self) -> Columns:
        return HeldColumns(Fused(np.ascontiguousarray(self.Phi.T)))

    def _each_row(self) -> Iterator[tuple[Where, Array]]:
        for row in self.Phi:
            yield slice(None), row.astype(np.float64, copy=False)

    def diagnosis(self) -> str:
        return describe_columns(self.Phi)

    def _float64_blocks(self) -> Iterator[tuple[slice, Array]]:
        """Blocks of rows that fit the cache, as float64."""
        whole = 8 * self.Phi.size <= BLOCK_BYTES
        for block in [slice(None)] if whole else row_blocks(*self.shape):
            yield block, self.Phi[block].astype(np.float64, copy=False)


class Fused(Swept, Dense):
    """A row-major matrix in memory, read once per iteration by a compiled sweep.

    Parameters
    ----------
    Phi : (M, N) array
        C-contiguous, float64 or float32; never copied, not even its squares.

    Examples
    --------
    >>> import numpy as np
    >>> mean, var = Fused(np.eye(2)).forecast(np.array([1.0, 2.0]), np.array([0.5, 0.5]))
    >>> mean, var
    (array([1., 2.]), array([0.5, 0.5]))
    """

    #: A matrix of at most this many bytes stays in the second level of the cache of one core, where
    #: two products of BLAS beat a sweep: measured at 0.8 MB 45 us against 60, at 1.4 MB 98 against
    #: 97, at 3 MB 231 against 180, at 19 MB 2460 against 1340 (one thread, and two alike).
    IN_CACHE = 1 << 20

    def __init__(self, Phi: object) -> None:
        super().__init__(Phi)
        self._require_sweepable(self.Phi)

    @staticmethod
    def _require_sweepable(Phi: NDArray[np.generic]) -> None:
        if not sweepable(Phi):
            raise checks.refuse(
                "Phi",
                f"dtype {Phi.dtype} with strides {Phi.strides}",
                "a C-contiguous float64 or float32 array",
                "use designs.Dense, or numpy.ascontiguousarray",
            )

    @classmethod
    def of(cls, Phi: object) -> Design | None:
        array = checks.array_of("Phi", Phi)
        return cls(array) if array.size >= WORTH_COMPILING and sweepable(array) else None

    def sandwich(
        self, x: Array, v: Array, y: Array, channel: Channel, memory: Array | None
    ) -> Sweep:
        if np.ndim(v) == 0 and self.nbytes <= self.IN_CACHE and self.Phi.dtype == np.float64:
            return self._two_products(x, v, y, channel, memory)
        return Swept.sandwich(self, x, v, y, channel, memory)

    def loop_square(self) -> float:
        if "mean_square" not in vars(self):  # a fifth of the time of NumPy's
            self.mean_square = self._kernels.sum_of_squares(read_only(self.Phi)) / self.Phi.size
        return self.mean_square

    @property
    def nbytes(self) -> int:
        return self.Phi.nbytes

    @property
    def _kernels(self) -> ModuleType:
        from miniamp.designs import dense_kernels  # only now: the compiler is slow to import

        return dense_kernels

    def _rows(self, part: slice) -> KernelRows:
        return (read_only(self.Phi)[part],)


class Framed(Fused):
    """The matrix (X - centre) unit, with a last column of ones for an intercept, held as X.

    A sweep subtracts the centre from each entry, and has the units in what it is multiplied by: at
    1000 x 100 it takes 1.3 times as long as over the finished matrix, at 1000 x 1000 1.1 times. To
    make that takes as long as 2 to 5 sweeps. Where entries are asked for it is made, once.

    Parameters
    ----------
    X : (M, N) array
        Finite numbers, C-contiguous, float64 or float32.
    centre, unit : (N,) array
        What is subtracted from each column, and what it is then multiplied by.
    intercept : bool
        Whether there is a last column of ones.
    mean_square : float, optional
        That of the entries, where it is known.

    Examples
    --------
    >>> import numpy as np
    >>> Framed(np.array([[1e9], [1e9 + 2.0]]), np.array([1e9]), np.array([0.5])).toarray()
    array([[0., 1.],
           [1., 1.]])
    """

    def __init__(
        self,
        X: Array,
        centre: Array,
        unit: Array,
        *,
        intercept: bool = True,
        mean_square: float | None = None,
    ) -> None:
        self._require_sweepable(X)
        self.X, self.shape = X, (X.shape[0], X.shape[1] + intercept)
        self.centre = flat(checks.vector("centre", centre, X.shape[1]))
        self.unit = flat(checks.vector("unit", unit, X.shape[1]))
        if mean_square is not None:
            self.mean_square = mean_square

    @cached_property
    def Phi(self) -> Array:  # type: ignore[override]
        return framed(self.X, self.centre, self.unit, self.shape[1])

    @property
    def nbytes(self) -> int:
        return self.X.nbytes

    def _swept(self, part: slice) -> tuple[KernelRows, KernelRows]:
        if "Phi" in vars(self):
            return super()._swept(part)
        return (read_only(self.X)[part],), (self.centre, self.unit)


def framed(X: NDArray[np.floating], centre: Array, unit: Array, size: int) -> Array:
    """(X - centre) unit as a new matrix of `size` columns; one beyond those of X is of ones."""
    rows, columns = X.shape
    made = np.empty((rows, size))
    small = made.nbytes <= BLOCK_BYTES
    for block in [slice(None)] if small else row_blocks(rows, size):  # a third of the time
        own = np.subtract(X[block], centre, out=made[block, :columns])
        own *= unit
    made[:, columns:] = 1.0
    return made


def column_sums(X: Array, centre: Array) -> tuple[Array, Array, Array, Array]:
    """Smallest and largest value and sum of each column, and that of (X - centre)^2: one pass.

    Of rows that are `sweepable`. A value that is no number makes its column's sums none either.
    """
    from miniamp.designs import dense_kernels  # only now: the compiler is slow to import

    low, high, total, power = (dense_kernels.zeros(X.shape[1]) for _ in range(4))
    low += np.inf
    high -= np.inf
    dense_kernels.add_columns(read_only(X), flat(centre), low, high, total, power)
    return low, high, total, power


def trusted(rows: Array | sparse.csr_array) -> Design:
    """The design of rows that were made of checked ones."""
    if not isinstance(rows, np.ndarray):
        return as_design(rows)
    new = object.__new__(Fused if rows.size >= WORTH_COMPILING and sweepable(rows) else Dense)
    new.Phi, new.shape = rows, (rows.shape[0], rows.shape[1])
    return new


def sweepable(Phi: NDArray[np.generic]) -> bool:
    """Whether the compiled sweep can read this matrix where it lies."""
    flags = Phi.flags
    return flags.c_contiguous and flags.aligned and Phi.dtype in (np.float64, np.float32)


def checked_matrix(Phi: object) -> NDArray[np.float64] | NDArray[np.float32]:
    """`Phi` as a finite two-dimensional array with at least one row and column."""
    array = checks.array_of("Phi", Phi)
    if array.dtype.kind in "iub":
        array = array.astype(np.float64)
    checks.matrix_dtype(array.dtype)
    checks.matrix_shape(array.shape)
    # A sum needs no temporary and is finite unless an entry is not (or it overflows: then look).
    # Not a product of BLAS: its threads are waited for, four times as long on a busy machine.
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(array.sum())
    if suspicious:
        checks.numeric("Phi", array)
    return array


def describe_columns(Phi: NDArray[np.floating]) -> str:
    """What is known to make AMP diverge in these columns, in words."""
    spread, centre = Phi.std(axis=0), np.abs(Phi.mean(axis=0))
    constant = np.flatnonzero((spread == 0.0) & (centre > 0.0))
    _, first = np.unique(Phi, axis=1, return_index=True)
    repeated = np.setdiff1d(np.arange(Phi.shape[1]), first)
    found = []
    if constant.size:
        more = f" ({constant.size} such)" if constant.size > 1 else ", as an intercept is"
        found.append(f"column {constant[0]} is constant{more}")
    if repeated.size:
        found.append(f"column {repeated[0]} repeats another ({repeated.size} such)")
    if np.median(centre) > 3.0 * np.median(spread) / np.sqrt(len(Phi)):
        found.append("the columns have means far from zero")
    return "; ".join(found)


def blas_threads(shape: tuple[int, int]) -> AbstractContextManager[object]:
    """A context in which BLAS has one thread if a design of this shape is too small for more.

    Without threadpoolctl, which scikit-learn brings along, it has those it had.
    """
    least, most = ONE_THREAD
    small = least < shape[0] * shape[1] * min(shape) < most
    several = small and _blas() and any(one.num_threads > 1 for one in _blas().lib_controllers)
    return _blas().limit(limits=1) if several else nullcontext()  # to look takes a thirtieth


@cache
def _blas() -> Any:
    with suppress(ImportError):
        found = importlib.import_module("threadpoolctl").ThreadpoolController()
        return found.select(user_api="blas")
    return None
