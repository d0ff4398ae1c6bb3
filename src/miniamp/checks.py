"""Validation of arguments, with errors of one form.

An error names the argument, what was received, what was expected and the remedy. Inside the core
nothing is checked again.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from types import ModuleType
from typing import Any, SupportsIndex, cast

import numpy as np
from numpy.typing import NDArray

from miniamp.arrays import Array, Given
from miniamp.errors import InvalidInputError, InvalidTypeError, MiniampError, MissingExtraError

#: The largest finite number.
MOST = float(np.finfo(np.float64).max)
#: At most this many bytes are formed of something that a design does not hold already: dense
#: entries of sparse rows, M x M or N x N products, rows brought from a cluster. Beyond it a
#: request is refused before memory is taken. 1 GiB is M = 11,000 rows in `Design.gram`.
FORMED_BYTES = 1 << 30
#: Objects that NumPy would count or read digits of, where numbers are meant.
NO_NUMBERS = (str, bytes, date, timedelta, np.datetime64, np.timedelta64)

#: The extra that has a package, where it is not `streams`.
EXTRAS = {"duckdb": "sql", "redis": "redis", "confluent_kafka": "kafka", "sklearn": "sklearn"}
EXTRAS |= dict.fromkeys(("matplotlib", "plotly"), "report")
EXTRAS |= {"arviz": "arviz", "onnx": "onnx", "formulaic": "formula", "distributed": "distributed"}


def refuse(name: str, received: object, expected: str, remedy: str) -> InvalidInputError:
    """The error for an argument that cannot be used."""
    return InvalidInputError(name, received, expected, remedy)


@contextmanager
def computing() -> Iterator[None]:
    """Context manager that turns arithmetic errors into errors about the batch."""
    try:
        yield
    except MiniampError:
        raise
    except (ArithmeticError, np.linalg.LinAlgError) as error:
        raise refuse(
            "X, y",
            f"a batch that cannot be computed ({type(error).__name__}: {error})",
            "numbers of moderate size",
            "change their units, or start over if the model is from a file that was altered",
        ) from error


def count(name: str, value: Given, least: int = 1, most: int | None = None) -> int:
    """`value` as an int that is at least `least`, and at most `most`."""
    try:
        number = operator.index(cast(SupportsIndex, value))
    except TypeError:
        received = f"{value!r} of type {type(value).__name__}"
        raise InvalidTypeError(
            name, received, f"a whole number >= {least}", "pass an int"
        ) from None
    if number < least:
        raise refuse(name, number, f"a whole number >= {least}", "pass a larger one")
    if most is not None and number > most:
        raise refuse(name, number, f"at most {most:,}", "pass a smaller one")
    return number


def numeric(name: str, value: Given) -> Array:
    """`value` as a float64 array of any shape, all finite."""
    if type(value) is np.ndarray and value.dtype.char == "d" and np.isfinite(value).all():
        return value
    given = array_of(name, value)
    # NumPy would drop imaginary parts, count dates and read digits: none of it is meant.
    objects = given.flat if given.dtype.kind == "O" else ()
    if given.dtype.kind in "cmMSU" or any(isinstance(one, NO_NUMBERS) for one in objects):
        raise _not_real(name, value)
    try:
        array: Array = given.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise _not_real(name, value) from None
    if not np.isfinite(array).all():
        raise refuse(
            name, _first_bad(array), "finite numbers", "drop or fill missing and infinite values"
        )
    return array


def array_of(name: str, value: Given) -> NDArray[Any]:
    """`value` as an array of any dtype; ragged lists and masked values are refused."""
    unmasked(name, value)
    try:
        return np.asarray(value)
    except (TypeError, ValueError):
        raise _not_real(name, value) from None


def unmasked(name: str, value: Given) -> Given:
    """`value`, refused if it is an array with masked values: without the mask they would count."""
    if np.ma.isMaskedArray(value) and np.ma.getmaskarray(value).any():
        raise refuse(name, "masked values", "a value for each row", "drop such rows, or fill them")
    return value


def number(
    name: str, value: Given, *, least: float = -np.inf, above: float = -np.inf, most: float = np.inf
) -> float:
    """`value` as one finite float within the bounds."""
    array = parameter(name, value, least=least, above=above, most=most)
    shape = np.asarray(value).shape
    if shape:
        raise refuse(name, f"an array of shape {shape}", "one number", "pass a scalar")
    return float(array)


def parameter(
    name: str, value: Given, *, least: float = -np.inf, above: float = -np.inf, most: float = np.inf
) -> Array:
    """A hyper-parameter: a float64 scalar or (N,) array, finite and within the bounds.

    An array of one number is that number: shared, as `Parametric.shape` says.
    """
    # Most are single numbers of another object: an update of ten features checked 18 of them.
    one = value if isinstance(value, float) else None
    if type(value) is np.ndarray and value.ndim == 0 and value.dtype == np.float64:
        one = float(value)
    if one is not None and max(least, -MOST) <= one <= min(most, MOST) and one > above:
        array = np.array(one, dtype=np.float64)
        array.setflags(write=False)
        return array
    array = numeric_parameter(name, value)
    bad = (array < least) | (array <= above) | (array > most)
    if bad.any():
        bounds = [f">= {least:g}"] if least > -np.inf else []
        bounds += [f"> {above:g}"] if above > -np.inf else []
        bounds += [f"<= {most:g}"] if most < np.inf else []
        worst = array[bad].flat[0] if array.ndim else array
        raise refuse(
            name, worst, "a finite number " + " and ".join(bounds), "choose a value in that range"
        )
    array.setflags(write=False)
    return array


def numeric_parameter(name: str, value: Given) -> Array:
    """A private float64 copy of a scalar or one-dimensional hyper-parameter."""
    array = np.array(numeric(name, value))
    if array.ndim > 1:
        raise refuse(
            name, f"shape {array.shape}", "a scalar or a one-dimensional array", "ravel it"
        )
    return array.reshape(()) if array.size == 1 else array


def components(
    name: str, value: Given, *, least: float = -np.inf, above: float = -np.inf, most: float = np.inf
) -> Array:
    """A hyper-parameter along a last axis of K components: (K,), or (N, K), N coefficients."""
    array = np.array(numeric(name, value))
    if array.ndim not in (1, 2) or array.size == 0:
        raise refuse(
            name,
            f"shape {array.shape}",
            "shape (K,), or (N, K) for one set per coefficient, K >= 1",
            "give a list of numbers",
        )
    parameter(name, array.ravel(), least=least, above=above, most=most)
    array = array[0] if array.shape[:-1] == (1,) else array  # shared, as `parameter` has it
    array.setflags(write=False)
    return array


def probabilities(name: str, value: Given) -> Array:
    """Weights along a last axis of K components, divided by their sum, which must be positive."""
    array = components(name, value, least=0.0)
    total = array.sum(axis=-1, keepdims=True)
    if not (total > 0.0).all():
        raise refuse(
            name, "weights that sum to 0", "a positive sum", "give at least one weight > 0"
        )
    shares: Array = array / total
    shares.setflags(write=False)
    return shares


def fits(name: str, shape: tuple[int, ...], size: int) -> None:
    """Refuse hyper-parameters that are neither shared nor one per coefficient."""
    if shape not in ((), (size,)):
        raise refuse(
            name,
            f"hyper-parameters of shape {shape}",
            f"shape () or ({size},) for {size} coefficients",
            "give one value, or one per coefficient",
        )


def vector(name: str, value: Given, size: int | None = None) -> Array:
    """`value` as a float64 vector, all finite, of length `size` where given."""
    array = numeric(name, value)
    if array.ndim != 1:
        raise refuse(name, f"shape {array.shape}", "a one-dimensional array", "ravel it")
    if size is not None and array.shape[0] != size:
        raise refuse(
            name, f"{array.shape[0]} values", f"{size} values", "give one value for each row"
        )
    return array


def matrix_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """`shape`, if it is that of a matrix with at least one row and one column."""
    if len(shape) != 2:
        raise refuse("Phi", f"shape {shape}", "two dimensions, rows by columns", "reshape it")
    if 0 in shape:
        raise refuse(
            "Phi", f"an empty batch of shape {shape}", "at least one row", "skip this batch"
        )
    return int(shape[0]), int(shape[1])


def matrix_dtype(dtype: np.dtype[np.generic]) -> None:
    """Refuse entries that are neither float64 nor float32."""
    if dtype not in (np.float64, np.float32):
        raise InvalidTypeError(
            "Phi",
            f"dtype {dtype}",
            "float64 or float32",
            "convert text, categories or complex numbers to floats first",
        )


def formed_bytes(size: int, what: str, remedy: str = "") -> None:
    """Refuse to form more than `FORMED_BYTES` bytes."""
    if size > FORMED_BYTES:
        raise refuse(
            "Phi",
            f"a request for {what}, {1e-9 * size:.3g} GB",
            f"at most {1e-9 * FORMED_BYTES:.3g} GB",
            remedy or "use smaller batches, or a solver that sweeps the rows: {solver=amp}",
        )


def generator(name: str, value: Given) -> np.random.Generator:
    """`value` as a NumPy random generator: one, a seed, or None for a fresh one."""
    if isinstance(value, np.random.Generator):
        return value
    try:
        return np.random.default_rng(cast(int | None, value))
    except (TypeError, ValueError):
        raise InvalidTypeError(
            name,
            repr(value),
            "a numpy.random.Generator or an integer seed",
            "make one with numpy.random.default_rng(0)",
        ) from None


def refuse_duplicates(names: Iterable[str], source: str) -> None:
    """Refuse column names that occur more than once."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise refuse(source, f"the column name {name!r} twice", "different names", "rename one")
        seen.add(name)


def needed(module: str, purpose: str) -> ModuleType:
    """An optional dependency, or an error that names the extra to install.

    Examples
    --------
    >>> needed("math", "reading numbers").pi
    3.141592653589793
    >>> needed("no_such_module", "reading Parquet")
    Traceback (most recent call last):
    ...
    miniamp.errors.MissingExtraError: reading Parquet: expected the package no_such_module; ...
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        root = module.split(".", maxsplit=1)[0]
        extra = EXTRAS.get(root, "streams")
        raise MissingExtraError(
            purpose, "", f"the package {root}", f'pip install "miniamp[{extra}]"'
        ) from error


def choice(name: str, value: object, allowed: tuple[object, ...]) -> None:
    """Refuse a value that is none of the allowed ones."""
    if not any(type(value) is type(one) and value == one for one in allowed):
        *others, last = map(repr, allowed)
        raise refuse(name, repr(value), f"{', '.join(others)} or {last}", "choose one")


def _not_real(name: str, value: object) -> InvalidTypeError:
    return InvalidTypeError(
        name,
        _describe(value),
        "real numbers",
        "convert text, dates, categories or complex numbers to floats first",
    )


def _describe(value: object) -> str:
    kind = type(value).__name__
    dtype = getattr(value, "dtype", None)
    return f"{kind} of dtype {dtype}" if dtype is not None else f"{value!r:.60} of type {kind}"


def _first_bad(array: Array) -> str:
    where = np.argwhere(~np.isfinite(array))
    place = tuple(int(i) for i in where[0])
    more = f" and {len(where) - 1} more" if len(where) > 1 else ""
    at = f" at index {place if len(place) > 1 else place[0]}" if place else ""
    return f"{array[place]}{at}{more}"
