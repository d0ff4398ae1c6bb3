"""Which design holds a given matrix."""

from __future__ import annotations

from miniamp import checks
from miniamp.arrays import Given
from miniamp.designs.base import Design
from miniamp.designs.dense import Dense
from miniamp.designs.fused import Fused, sweepable
from miniamp.designs.sparse import Sparse, is_sparse

#: Below this many entries NumPy is done before a compiled sweep has begun.
WORTH_COMPILING = 1 << 15


def as_design(Phi: Given) -> Design:
    """`Phi` as a design: itself if it is one, else the design that suits its kind.

    A Dask array or frame becomes `Distributed`, on the client that is current.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> as_design(np.ones((2, 3))), as_design(np.ones((500, 300))), as_design(sparse.eye(3))
    (Dense(2 x 3), Fused(500 x 300), Sparse(3 x 3))
    """
    if isinstance(Phi, Design):
        return Phi
    if hasattr(type(Phi), "__dask_graph__"):  # of the type: a delayed object has any attribute
        return _distributed(Phi)
    if is_sparse(Phi):
        return Sparse(Phi)
    array = checks.array_of("Phi", Phi)
    return Fused(array) if array.size >= WORTH_COMPILING and sweepable(array) else Dense(array)


def _distributed(Phi: Given) -> Design:
    """The rows of a Dask collection, left on their workers."""
    from miniamp.designs.distributed import Distributed  # a design of designs

    if hasattr(type(Phi), "chunks"):
        return Distributed.from_array(Phi)
    if hasattr(type(Phi), "npartitions") and hasattr(type(Phi), "columns"):
        return Distributed.from_frame(Phi)
    raise checks.refuse(
        "Phi",
        f"the Dask collection {type(Phi).__name__}",
        "a dask.array or a dask.dataframe",
        "give its parts to designs.Distributed as delayed objects or functions",
    )
