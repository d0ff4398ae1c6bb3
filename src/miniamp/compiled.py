"""The compiler, in one place: imported only when something is to be compiled.

Kernels are functions at module level. A prior's or channel's formula reaches
them as the address of its code: one compiled sweep serves every channel, a formula that changes is
compiled again without the sweeps that use it, and all of it stays in Numba's cache on disk. Numba's
own function type would do the same, but looking at it takes 15 us per call, a number 0.1 us.

The functions of the last part do what Numba has no words for: call a formula by its address, look
at bits, change a number that other threads look at. Numba passes each its own view of the call
(`typing`) first, and asks for the types it takes and for the code to be put in its place.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar, cast

import numpy as np
from llvmlite import ir
from numba import cfunc, config, njit, types
from numba.core import event
from numba.core.caching import FunctionCache
from numba.core.cgutils import unpack_tuple
from numba.core.errors import TypingError
from numba.core.typing.templates import Signature
from numba.extending import intrinsic
from numpy.typing import NDArray

from miniamp.arrays import Array

Function = TypeVar("Function", bound=Callable[..., object])


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


def _cached(
    compiler: Callable[..., object], *arguments: object, **options: object
) -> Callable[[Function], Function]:
    """Compile with a cache on disk, and without one where it is damaged, full or not private."""
    settings = {"error_model": "numpy", **options}

    def decorate(function: Function) -> Function:
        make = cast(Callable[..., Callable[[Function], Function]], compiler)
        for damaged in (False, True):
            try:
                with _cache_folder():
                    if damaged:
                        cache_of = cast(Callable[[object], _Overloads], FunctionCache)
                        cache_of(function).flush()  # an empty index, to be filled again
                    made = make(*arguments, cache=True, **settings)(function)
            except Exception as error:  # a damaged cache raises whatever its bytes mean to pickle
                _report(error)
                continue
            if hasattr(made, "_cache"):
                made._cache = _TolerantCache(made._cache)
            return made
        return make(*arguments, **settings)(function)

    return decorate


@contextmanager
def _cache_folder() -> Iterator[None]:
    """Within it Numba caches in a folder that only this user can write to.

    Its default, `__pycache__` beside the source, may be writable by others, and what it holds is
    executed. A folder that the user has set (NUMBA_CACHE_DIR) is used as given.
    """
    settings = vars(config)  # Numba fills it from the environment
    given = settings["CACHE_DIR"]
    try:
        settings["CACHE_DIR"] = given or _private_folder()
        yield
    finally:
        settings["CACHE_DIR"] = given


@cache
def _private_folder() -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or "~/.cache"
    folder = Path(base).expanduser() / "miniamp" / "compiled"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if hasattr(os, "getuid"):
        if folder.stat().st_uid != os.getuid():
            raise PermissionError(f"{folder} belongs to another user")
        folder.chmod(0o700)
    return str(folder)


class _Overloads(Protocol):
    """What is used of Numba's cache of one function."""

    def load_overload(self, signature: Signature, context: object) -> object: ...

    def save_overload(self, signature: Signature, data: object) -> None: ...

    def flush(self) -> None: ...


class _TolerantCache:
    """Numba's cache of one function; what cannot be read or written is compiled again."""

    def __init__(self, inner: _Overloads) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def load_overload(self, signature: Signature, context: object) -> object:
        try:
            return self._inner.load_overload(signature, context)
        except Exception as error:  # whatever its bytes mean to pickle
            _report(error)
            with suppress(Exception):
                self._inner.flush()  # an empty index, to be filled again
            return None

    def save_overload(self, signature: Signature, data: object) -> None:
        try:
            self._inner.save_overload(signature, data)
        except Exception as error:  # a full disk among others
            _report(error)


@cache
def _report_once() -> None:
    sys.stderr.write("miniamp: the cache of compiled code cannot be used; compiling without it\n")


def _report(error: Exception) -> None:
    _report_once()
    logging.getLogger(__name__).info("compiled code is not cached", exc_info=error)


class _Context(Protocol):
    """What is used of Numba's own view of the target."""

    def get_value_type(self, kind: types.Type) -> ir.Type: ...

    def get_dummy_value(self) -> ir.Value: ...

    def make_array(self, kind: types.Type) -> Callable[..., Any]: ...


class _Announce(event.Listener):
    """Say once that a cold start is compiling, so that the wait has a reason."""

    said = False

    def on_start(self, event: event.Event) -> None:
        name = getattr(event.data.get("dispatcher"), "__module__", "")
        if not _Announce.said and str(name).startswith("miniamp"):
            _Announce.said = True
            sys.stderr.write("miniamp: compiling, once on this machine ...\n")

    def on_end(self, event: event.Event) -> None:
        """Nothing to say: the work goes on."""


event.register("numba:compile", _Announce())  # type: ignore[no-untyped-call]  # Numba has no types


#: What Numba asks of an instruction: the types it takes, and how its code is made.
_Generate: TypeAlias = Callable[..., ir.Value]
_Code: TypeAlias = tuple[Signature, _Generate]


def _call(_typing: object, _address: object, *arrays: types.Type) -> _Code:
    for one in arrays:
        if not (isinstance(one, types.Array) and one.layout == "C" and one.dtype == types.float64):
            raise TypingError(f"a formula takes contiguous arrays of float64, got {one}")

    def generate(
        context: _Context, builder: ir.IRBuilder, signature: Signature, given: list[ir.Value]
    ) -> ir.Value:
        kinds = [context.get_value_type(kind) for kind in signature.args[1].types]
        code = ir.FunctionType(ir.VoidType(), kinds).as_pointer()
        filled: list[ir.Value] = unpack_tuple(builder, given[1])  # type: ignore[no-untyped-call]
        builder.call(builder.inttoptr(given[0], code), filled)
        return context.get_dummy_value()

    own = types.StarArgTuple.from_types(arrays)  # type: ignore[no-untyped-call]
    return types.void(types.intp, own), generate


def _bits_of(_typing: object, _number: types.Type) -> _Code:
    return types.int64(types.float64), _reinterpret


def _float_of(_typing: object, _bits: types.Type) -> _Code:
    return types.float64(types.int64), _reinterpret


def _reinterpret(
    context: _Context, builder: ir.IRBuilder, signature: Signature, given: list[ir.Value]
) -> ir.Value:
    return builder.bitcast(given[0], context.get_value_type(signature.return_type))


def _at_place(make: Callable[[ir.IRBuilder, ir.Value, list[ir.Value]], ir.Value]) -> _Generate:
    """The code that `make` gives for the address of a number in an array of int64."""

    def generate(
        context: _Context, builder: ir.IRBuilder, signature: Signature, given: list[ir.Value]
    ) -> ir.Value:
        view = context.make_array(signature.args[0])(context, builder, given[0])
        return make(builder, builder.gep(view.data, [given[1]]), given)

    return generate


def _seen(_typing: object, array: types.Type, index: types.Type) -> _Code:
    return types.int64(array, index), _at_place(
        lambda builder, place, _: builder.load_atomic(place, "seq_cst", align=8)
    )


def _added(_typing: object, array: types.Type, index: types.Type, _more: types.Type) -> _Code:
    return types.int64(array, index, types.int64), _at_place(
        lambda builder, place, given: builder.atomic_rmw("add", place, given[2], "seq_cst")
    )


def _replaced(
    _typing: object, array: types.Type, index: types.Type, _old: types.Type, _new: types.Type
) -> _Code:
    def exchanged(builder: ir.IRBuilder, place: ir.Value, given: list[ir.Value]) -> ir.Value:
        found = builder.cmpxchg(place, given[2], given[3], "seq_cst", "seq_cst")
        return builder.extract_value(found, 1)

    return types.boolean(array, index, types.int64, types.int64), _at_place(exchanged)


#: Call the prior's `moments_kernel` that is at `Kernel.address`, the first argument.
fill_moments = cast(Callable[[int, Array, Array, Array, Array, Array], None], intrinsic(_call))
#: Call the channel's `output_kernel` that is at `Kernel.address`, the first argument.
fill_output = cast(
    Callable[[int, Array, Array, Array, Array, Array, Array], None], intrinsic(_call)
)
#: The 64 bits of a float64, as an integer.
bits_of = cast(Callable[[float], int], intrinsic(_bits_of))
#: The float64 that these 64 bits are.
float_of = cast(Callable[[int], float], intrinsic(_float_of))
#: A number of an int64 array that other threads change: as it is now.
seen = cast(Callable[[NDArray[np.int64], int], int], intrinsic(_seen))
#: The same, and something is added to it in the same moment.
added = cast(Callable[[NDArray[np.int64], int, int], int], intrinsic(_added))
#: Replace it if it is still what it was: whether that was so.
replaced = cast(Callable[[NDArray[np.int64], int, int, int], bool], intrinsic(_replaced))
