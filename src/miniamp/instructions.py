"""What kernels do that Numba has no words for: call a formula by its address, look at bits.

Numba gives every one of these functions its own view of the call (`typing`) first, and asks for the
types it takes and for the code to be put in its place.
"""

# ruff: noqa: ARG001
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic


def _instruction(function: Callable[..., Any]) -> Any:
    return intrinsic(function)


@_instruction
def fill_moments(
    typing: Any, address: Any, A: Any, B: Any, parameters: Any, mean: Any, var: Any
) -> Any:
    """Call the prior's `compiled.moments_kernel` that is at `Kernel.address`."""
    return _call(A, B, parameters, mean, var)


@_instruction
def fill_output(
    typing: Any, address: Any, y: Any, omega: Any, V: Any, parameters: Any, g: Any, curvature: Any
) -> Any:
    """Call the channel's `compiled.output_kernel` that is at `Kernel.address`."""
    return _call(y, omega, V, parameters, g, curvature)


def _call(*arrays: Any) -> Any:
    for one in arrays:
        if not (isinstance(one, types.Array) and one.layout == "C" and one.dtype == types.float64):
            raise TypingError(f"a formula takes contiguous arrays of float64, got {one}")

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        kinds = [context.get_value_type(kind) for kind in signature.args[1:]]
        code = ir.FunctionType(ir.VoidType(), kinds).as_pointer()
        builder.call(builder.inttoptr(given[0], code), given[1:])
        return context.get_dummy_value()

    return types.void(types.intp, *arrays), generate


@_instruction
def bits_of(typing: Any, number: Any) -> Any:
    """The 64 bits of a float64, as an integer."""
    return types.int64(types.float64), _reinterpret


@_instruction
def float_of(typing: Any, bits: Any) -> Any:
    """The float64 that these 64 bits are."""
    return types.float64(types.int64), _reinterpret


def _reinterpret(context: Any, builder: Any, signature: Any, given: Any) -> Any:
    return builder.bitcast(given[0], context.get_value_type(signature.return_type))
