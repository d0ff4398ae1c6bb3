"""A sparse design: only what is stored is read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.designs.base import row_blocks
from miniamp.designs.columns import Columns, SparseColumns, places
from miniamp.designs.swept import Swept
from miniamp.errors import InvalidTypeError
from miniamp.kernel import read_only

if TYPE_CHECKING:
    import scipy.sparse


class Sparse(Swept):
    """A scipy.sparse matrix or array, held by compressed rows and swept once an iteration.

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

    def __init__(self, Phi: Given) -> None:
        self.Phi = checked_sparse(Phi)
        self.shape = (int(self.Phi.shape[0]), int(self.Phi.shape[1]))

    @property
    def nbytes(self) -> int:
        return int(self.Phi.data.nbytes + self.Phi.indices.nbytes)

    @property
    def _kernels(self) -> ModuleType:
        from miniamp.designs import sparse_kernels  # only now: the compiler is slow to import

        return sparse_kernels

    def _rows(self, part: slice) -> tuple[Any, ...]:
        ends = self.Phi.indptr[part.start : part.stop + 1]
        return read_only(self.Phi.data), places(self.Phi.indices), places(ends)

    def columns(self) -> Columns:
        return SparseColumns(self.Phi)

    def _each_row(self) -> Iterator[tuple[Any, Array]]:
        for a, b in pairwise(self.Phi.indptr):
            yield self.Phi.indices[a:b], self.Phi.data[a:b].astype(np.float64)

    @cached_property
    def mean_square(self) -> float:
        blocks = (self.Phi.data[b].astype(np.float64) for b in row_blocks(self.Phi.nnz, 1))
        return sum(float(np.vdot(b, b)) for b in blocks) / (self.shape[0] * self.shape[1])

    def toarray(self) -> Array:
        return np.asarray(self.Phi.toarray(), dtype=np.float64)

    def gram(self) -> Array:
        return np.asarray((self.Phi.T @ self.Phi).toarray(), dtype=np.float64)

    def means(self, x: Array) -> Array:
        return np.asarray(self.Phi @ x)

    def spread(self, root: Array | None, D: Array) -> Array:
        alone = np.asarray(self.Phi.power(2) @ D)
        if root is None:
            return alone
        known = self.Phi @ root.T
        return np.asarray(alone - np.einsum("ij,ij->i", known, known))

    def diagnosis(self) -> str:
        """Columns that are stored nowhere say nothing; rows of very different size mislead."""
        filled = np.diff(self.Phi.indptr)
        found = []
        if (filled == 0).any():
            found.append(f"{int((filled == 0).sum())} rows are empty")
        stored = np.bincount(self.Phi.indices, minlength=self.shape[1])
        if stored.max() > 0.5 * self.shape[0] > 5:
            found.append(f"column {int(stored.argmax())} is stored in most rows: its mean is not 0")
        return "; ".join(found)


def is_sparse(Phi: Given) -> bool:
    """Whether `Phi` is a scipy.sparse matrix or array, without importing scipy.sparse to know."""
    return hasattr(Phi, "tocsr") and hasattr(Phi, "nnz")


def checked_sparse(Phi: Given) -> Any:
    """`Phi` by compressed rows, finite, each entry stored once, with columns as int32."""
    if not is_sparse(Phi):
        raise InvalidTypeError(
            f"Phi: got {type(Phi).__name__}, expected a scipy.sparse matrix or array; "
            "use designs.Dense for plain arrays"
        )
    sparse = cast("scipy.sparse.sparray", Phi)
    if len(sparse.shape) != 2:
        raise checks.refuse(
            "Phi", f"shape {sparse.shape}", "two dimensions, rows by columns", "reshape it"
        )
    if 0 in sparse.shape:
        raise checks.refuse(
            "Phi", f"an empty batch of shape {sparse.shape}", "at least one row", "skip this batch"
        )
    rows = sparse.tocsr()
    if rows.dtype.kind in "iub":
        rows = rows.astype(np.float64)
    if rows.dtype not in (np.float64, np.float32):
        raise InvalidTypeError(
            f"Phi: got dtype {rows.dtype}, expected float64 or float32; "
            "convert text, categories or complex numbers to floats first"
        )
    if not rows.has_canonical_format:  # an entry stored in two parts would be squared in two parts
        rows = rows.copy()
        rows.sum_duplicates()
    checks.numeric("Phi", rows.data)
    if rows.indices.dtype != np.int32 or rows.indptr.dtype != np.int32:
        rows = _with_short_places(rows)
    return rows


def _with_short_places(rows: Any) -> Any:
    if max(rows.nnz, *rows.shape) > np.iinfo(np.int32).max:
        raise checks.refuse(
            "Phi", f"{rows.nnz} stored entries", "fewer than 2**31", "split the batch"
        )
    places, ends = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    return type(rows)((rows.data, places, ends), shape=rows.shape)
