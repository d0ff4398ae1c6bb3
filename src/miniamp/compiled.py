"""The compiler, in one place: imported only when something is to be compiled.

Kernels are functions at module level. A prior's or channel's formula reaches
them as the address of its code: one compiled sweep serves every channel, a formula that changes is
compiled anew without the sweeps that use it, and all of it stays in Numba's cache on disk. Numba's
own function type would do the same, but looking at it takes 15 us a call, a number 0.1 us.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from numba import cfunc, njit, types
from numba.core import event

Function = TypeVar("Function", bound=Callable[..., Any])


_given = types.Array(types.float64, 1, "C", readonly=True)
_table = types.Array(types.float64, 2, "C", readonly=True)
_filled = types.float64[::1]

#: (A, B, parameters, mean, var): fills the last two, for vectors of one length.
MOMENTS = types.void(_given, _given, _table, _filled, _filled)
#: (y, omega, V, parameters, g, curvature): fills the last two, for vectors of one length.
OUTPUT = types.void(_given, _given, _given, _table, _filled, _filled)

#: Sums may be reordered (that is what lets them use SIMD) and products fused into them; infinities
#: and NaN still mean what they mean.
_REORDERED = {"reassoc", "contract", "nsz"}


#: Only a product and the sum that follows it may become one: the order of everything stays.
_FUSED = {"contract", "nsz"}


def moments_kernel(function: Function) -> Function:
    """Compile a prior's moments: a function of (A, B, parameters, mean, var)."""
    return _cached(cfunc, MOMENTS)(function)


def output_kernel(function: Function) -> Function:
    """Compile a channel's output: a function of (y, omega, V, parameters, g, curvature)."""
    return _cached(cfunc, OUTPUT)(function)


def compiled(function: Function) -> Function:
    """Compile a sweep at its first call; it runs without the interpreter's lock.

    Callers pass what is only read as read-only arrays (`miniamp.kernel.read_only`): to the compiler
    a writable array is another type, and it would compile a second time.
    """
    return _cached(njit, nogil=True, fastmath=_REORDERED)(function)


def compiled_in_order(function: Function) -> Function:
    """Compile a sweep that looks entries up by their index, as those of sparse rows do.

    Where sums may be reordered the compiler looks several up with one gather instruction, which was
    measured three times slower than one after the other.
    """
    return _cached(njit, nogil=True, fastmath=_FUSED)(function)


def inlined(function: Function) -> Function:
    """Compile a scalar formula that kernels of the same file call."""
    return _cached(njit, fastmath={"contract"})(function)


def _cached(compiler: Any, *arguments: Any, **options: Any) -> Callable[[Function], Function]:
    settings = {"error_model": "numpy", **options}

    def decorate(function: Function) -> Function:
        try:
            made: Function = compiler(*arguments, cache=True, **settings)(function)
        except RuntimeError:  # nowhere to write a cache: compile in every process instead
            made = compiler(*arguments, **settings)(function)
        return made

    return decorate


class _Announce(event.Listener):
    """Say once that a cold start is compiling, so that the wait has a reason."""

    said = False

    def on_start(self, event: Any) -> None:
        name = getattr(event.data.get("dispatcher"), "__module__", "")
        if not _Announce.said and str(name).startswith("miniamp"):
            _Announce.said = True
            sys.stderr.write("miniamp: compiling, once on this machine ...\n")

    def on_end(self, event: Any) -> None:
        """Nothing to say: the work goes on."""


event.register("numba:compile", _Announce())  # type: ignore[no-untyped-call]  # Numba has no types
