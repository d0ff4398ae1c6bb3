"""A sparse design: only stored entries are read, and nothing dense is formed of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from miniamp import checks
from miniamp.arrays import Array
from miniamp.designs.base import Design
from miniamp.designs.sequential import Columns, KernelRows, Where
from miniamp.designs.swept import HeldColumns, Swept
from miniamp.errors import InvalidTypeError
from miniamp.kernel import read_only

if TYPE_CHECKING:
    from scipy import sparse

#: Columns with more entries are dense in products of rows, so many at a time. On a busy machine
#: those of 1000 Zipf rows took 24 ms with 16, 19 with 32, 18 with 64; memory grows with it.
MANY, TOGETHER = 32, 256
#: Predictions that read more are compiled; scipy takes a millisecond for these.
COMPILED_BYTES = 4 << 20


class Sparse(Swept):
    """A scipy.sparse matrix or array, held by compressed rows and swept once per iteration.

    Parameters
    ----------
    Phi : scipy.sparse matrix or array, (M, N)
        Any format; CSR with entries of float64 or float32 is held as it is, without a copy.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> Phi = Sparse(sparse.eye_array(2, format="coo"))
    >>> Phi.forecast(np.array([1.0, 2.0]), np.array([0.5, 0.5]))
    (array([1., 2.]), array([0.5, 0.5]))
    """

    takes_arrays = False

    def __init__(self, Phi: object) -> None:
        self.Phi = checked_sparse(Phi)
        self.shape = (int(self.Phi.shape[0]), int(self.Phi.shape[1]))

    @classmethod
    def of(cls, Phi: object) -> Design | None:
        return cls(Phi) if is_sparse(Phi) else None

    @property
    def nbytes(self) -> int:
        return int(self.Phi.data.nbytes + self.Phi.indices.nbytes)

    @property
    def filled(self) -> float:
        return float(self.Phi.nnz) / float(np.prod(self.shape, dtype=np.float64))

    @property
    def _kernels(self) -> ModuleType:
        from miniamp.designs import sparse_kernels  # only now: the compiler is slow to import

        return sparse_kernels

    def _rows(self, part: slice) -> KernelRows:
        ends = self.Phi.indptr[part.start : part.stop + 1]
        return read_only(self.Phi.data), unsigned(self.Phi.indices), unsigned(ends)

    @cached_property
    def _transposed(self) -> Sparse:
        return Sparse(self.Phi.T)

    @cached_property
    def _pairs(self) -> tuple[NDArray[np.integer], ...]:
        """Pairs of entries in a column, for columns of few: rows m >= n, columns, and products."""
        columns = self._transposed.Phi
        count = np.diff(columns.indptr)
        few = np.flatnonzero(np.repeat(count <= MANY, count))
        where = np.repeat(np.arange(len(count)), count)[few]
        begin = columns.indptr[where].astype(np.intp)  # of the column
        before = few - begin + 1  # entries of the column up to this one
        one = np.repeat(few, before)
        other = np.arange(len(one)) + np.repeat(begin - np.cumsum(before) + before, before)
        products = np.multiply(columns.data[one], columns.data[other], dtype=np.float64)
        where = np.repeat(where.astype(np.int32), before)
        return columns.indices[one], columns.indices[other], where, products

    def _dense_columns(self) -> Iterator[tuple[NDArray[np.intp], Array]]:
        """The columns of many entries, some at a time: which, and all of their entries (c, M)."""
        columns = self._transposed.Phi
        full = np.flatnonzero(np.diff(columns.indptr) > MANY)
        for some in np.split(full, range(TOGETHER, len(full), TOGETHER)):
            yield some, columns[some].toarray().astype(np.float64, copy=False)

    @cached_property
    def _squares(self) -> sparse.csr_array:
        """The squared entries as float64: the square of a small float32 would be lost."""
        squares = np.square(self.Phi.data.astype(np.float64))
        return type(self.Phi)((squares, self.Phi.indices, self.Phi.indptr), shape=self.shape)

    def columns(self) -> Columns:
        return HeldColumns(self._transposed)

    def _each_row(self) -> Iterator[tuple[Where, Array]]:
        for a, b in pairwise(self.Phi.indptr):
            yield self.Phi.indices[a:b], self.Phi.data[a:b].astype(np.float64)

    @cached_property
    def mean_square(self) -> float:
        return float(np.square(self.Phi.data, dtype=np.float64).sum()) / np.prod(self.shape)

    def toarray(self) -> Array:
        M, N = self.shape
        remedy = "use smaller batches, or {memory=0}, which leaves the rows sparse"
        checks.formed_bytes(8 * M * N, f"{M} x {N} dense entries of sparse rows", remedy)
        return np.asarray(self.Phi.toarray(), dtype=np.float64)

    def times(self, x: Array) -> Array:
        return np.asarray(self.Phi @ x)

    def transposed_times(self, u: Array) -> Array:
        return np.asarray(self.Phi.T @ u)

    def squares_times(self, v: Array) -> Array:
        return np.asarray(self._squares @ v)

    def transposed_squares_times(self, w: Array) -> Array:
        return np.asarray(self._squares.T @ w)

    def gram(self, weights: Array) -> Array:
        M = self.shape[0]
        checks.formed_bytes(8 * M * M, f"{M} x {M} products of rows")
        products, (m, n, where, pairs) = np.zeros((M, M)), self._pairs
        for some, entries in self._dense_columns():
            entries *= np.sqrt(weights[some, None])
            products += entries.T @ entries
        pairs = pairs * weights[where]
        np.add.at(products.ravel(), np.intp(M) * m + n, pairs)
        pairs[m == n] = 0.0
        np.add.at(products.ravel(), np.intp(M) * n + m, pairs)
        return products

    def information(self, weights: Array) -> Array:
        N = self.shape[1]
        checks.formed_bytes(8 * N * N, f"{N} x {N} products of columns")
        scaled = self.Phi.multiply(weights[:, None]).tocsr()
        return np.asarray((self.Phi.T @ scaled).toarray(), dtype=np.float64)

    def column_variances(self, K: Array) -> Array:
        m, n, where, pairs = self._pairs
        pairs = np.where(m == n, 1.0, 2.0) * pairs * K.ravel("F")[np.intp(self.shape[0]) * n + m]
        out = np.bincount(where, pairs, self.shape[1]).astype(np.float64)  # integers of none
        for some, entries in self._dense_columns():
            times = linalg.blas.dsymm(1.0, K, entries.T, lower=1)
            out[some] = np.einsum("ij,ji->i", entries, times)
        return out

    def forecast(self, x: Array, v: Array) -> tuple[Array, Array]:
        if self.nbytes > COMPILED_BYTES:
            return super().forecast(x, v)
        self._check(columns=(x, v), rows=())
        return self.times(x), self.squares_times(v)

    def used_columns(self) -> tuple[NDArray[np.intp], Design]:
        return self._used_columns

    @cached_property
    def _used_columns(self) -> tuple[NDArray[np.intp], Design]:
        used, indices = np.unique(self.Phi.indices, return_inverse=True)
        kept = (self.Phi.data, indices.astype(np.int32), self.Phi.indptr)
        narrow = type(self.Phi)(kept, shape=(self.shape[0], max(1, len(used))))
        return used.astype(np.intp), Sparse(narrow)

    def diagnosis(self) -> str:
        """Empty rows, and columns whose mean is far from zero."""
        filled = np.diff(self.Phi.indptr)
        found = []
        if (filled == 0).any():
            found.append(f"{int((filled == 0).sum())} rows are empty")
        stored = np.bincount(self.Phi.indices, minlength=self.shape[1])
        if stored.max() > 0.5 * self.shape[0] > 5:
            found.append(f"column {int(stored.argmax())} is stored in most rows: its mean is not 0")
        return "; ".join(found)


def is_sparse(Phi: object) -> bool:
    """Whether `Phi` is a scipy.sparse matrix or array, without importing scipy.sparse to know."""
    return hasattr(type(Phi), "tocsr") and hasattr(Phi, "nnz")


def checked_sparse(Phi: object) -> sparse.csr_array:
    """`Phi` by compressed rows, finite, each entry stored once, with columns as int32."""
    if not (hasattr(Phi, "tocsr") and hasattr(Phi, "shape") and is_sparse(Phi)):
        raise InvalidTypeError(
            "Phi",
            type(Phi).__name__,
            "a scipy.sparse matrix or array",
            "use designs.Dense for plain arrays",
        )
    checks.matrix_shape(Phi.shape)
    rows = Phi.tocsr()
    if rows.dtype.kind in "iub":
        rows = rows.astype(np.float64)
    checks.matrix_dtype(rows.dtype)
    if not rows.has_canonical_format:  # an entry stored in two parts would be squared in two parts
        rows = rows.copy()
        rows.sum_duplicates()
    checks.numeric("Phi", rows.data)
    if rows.indices.dtype == np.int32 and rows.indptr.dtype == np.int32:
        return rows
    if max(rows.nnz, *rows.shape) > np.iinfo(np.int32).max:
        raise checks.refuse(
            "Phi", f"{rows.nnz} stored entries", "fewer than 2**31", "split the batch"
        )
    indices, ends = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    return type(rows)((rows.data, indices, ends), shape=rows.shape)


def unsigned(indices: NDArray[np.int32]) -> NDArray[np.uint32]:
    """Indices as the kernels take them: unsigned, or each would be tested for being negative.

    Measured on 2.5 million entries: 8 ms per pass instead of 45.
    """
    return read_only(indices).view(np.uint32)
