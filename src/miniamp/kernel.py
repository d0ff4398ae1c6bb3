"""How a prior or a channel offers a compiled twin of its formula."""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from miniamp.arrays import Array, ArrayOrFloat

Number = TypeVar("Number", bound=np.generic)


class _Addressed(Protocol):
    address: int


class Kernel(NamedTuple):
    """A compiled formula and the numbers it needs.

    A class that has one returns it from its method `kernel`; the base classes return None, and
    then the NumPy formula is used. `function` is made by `miniamp.compiled.moments_kernel` (priors)
    or `miniamp.compiled.output_kernel` (channels), in a module that is imported only when asked
    for, because the compiler is slow to import.
    """

    function: object  #: what Numba made; it has an `address`
    parameters: Array  #: (1, P) where all is shared, (n, P) one set per coefficient

    @property
    def address(self) -> int:
        """Where the compiled code is, as sweeps take it (`miniamp.compiled`)."""
        return int(cast(_Addressed, self.function).address)


def packed(*columns: ArrayOrFloat) -> Array:
    """Hyper-parameters, each () or (n,), as the columns of one (1, P) or (n, P) matrix.

    Examples
    --------
    >>> import numpy as np
    >>> packed(0.0, np.array([1.0, 2.0]))
    array([[0., 1.],
           [0., 2.]])
    """
    if all(np.ndim(column) == 0 for column in columns):  # ten times quicker, and asked every sweep
        return read_only(np.array([columns], dtype=np.float64))
    vectors = np.broadcast_arrays(*(np.atleast_1d(column) for column in columns))
    return read_only(np.stack(vectors, axis=-1))


def read_only(array: NDArray[Number]) -> NDArray[Number]:
    """A view of `array` that cannot be written to, as compiled sweeps take their inputs."""
    view = array.view()
    view.setflags(write=False)
    return view


def flat(values: ArrayOrFloat) -> Array:
    """Values as compiled sweeps take them: a contiguous vector of float64, not to be written to.

    A copy only where they are not one yet; a number becomes a vector of one.

    Examples
    --------
    >>> flat(2.0)
    array([2.])
    """
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1 or not vector.flags.c_contiguous:
        vector = np.ascontiguousarray(np.atleast_1d(vector))
    return read_only(vector)
