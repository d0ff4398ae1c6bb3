"""A dense design swept once an iteration, compiled, on all cores."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.designs.base import Sweep
from miniamp.designs.dense import Dense
from miniamp.designs.swept import Swept
from miniamp.kernel import read_only

#: A matrix of at most this many bytes stays in the second level of the cache of one core, where two
#: products of BLAS beat a sweep: measured at 0.8 MB 45 us against 60, at 1.4 MB 98 against 97, at
#: 3 MB 231 against 180, at 19 MB 2460 against 1340 (one thread; with two the same order).
IN_CACHE = 1 << 20


class Fused(Swept, Dense):
    """A row-major matrix in memory, read once an iteration by a compiled sweep.

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

    def __init__(self, Phi: Given) -> None:
        super().__init__(Phi)
        if not sweepable(self.Phi):
            raise checks.refuse(
                "Phi",
                f"dtype {self.Phi.dtype} with strides {self.Phi.strides}",
                "a C-contiguous float64 or float32 array",
                "use designs.Dense, or numpy.ascontiguousarray",
            )

    def sandwich(self, x: Array, v: Array, y: Array, channel: Channel, memory: Any) -> Sweep:
        if np.ndim(v) == 0 and self.nbytes <= IN_CACHE and self.Phi.dtype == np.float64:
            return self._two_products(x, v, y, channel, memory)
        return Swept.sandwich(self, x, v, y, channel, memory)

    @property
    def nbytes(self) -> int:
        return self.Phi.nbytes

    @property
    def _kernels(self) -> ModuleType:
        from miniamp.designs import dense_kernels  # only now: the compiler is slow to import

        return dense_kernels

    def _rows(self, part: slice) -> tuple[Any, ...]:
        return (read_only(self.Phi)[part],)


def sweepable(Phi: NDArray[Any]) -> bool:
    """Whether the compiled sweep can read this matrix where it lies."""
    return Phi.flags.c_contiguous and Phi.flags.aligned and Phi.dtype in (np.float64, np.float32)
