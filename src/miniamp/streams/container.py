"""The bytes of a checkpoint: a tree of plain values, raw arrays, and a checksum over all of it.

Layout, little-endian: 8 bytes of mark, the version (u32), the length of the header (u64) and of the
whole file (u64), the header (JSON: the package's version, the tree, and type, shape and place of
every array), the arrays, each at a multiple of 64 bytes, and SHA-256 of everything before it (32
bytes). Nothing in it is code: reading a file from a stranger can give wrong numbers, but runs
nothing.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import struct
import sys
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from miniamp.errors import InvalidTypeError

MARK = b"\x93MINIAMP"
VERSION = 1
_START = struct.Struct("<8sIQQ")
_DIGEST = hashlib.sha256().digest_size
_ALIGN = 64
#: Booleans, integers, floats, complex numbers and text; never objects.
_KINDS = "biufcU"
#: Lists of so many dicts are written by columns: 10,000 entries of a history took 1 to 1.9 s.
TABLE_ROWS = 16
#: What is said of a file of something else, such as a CSV file.
NO_CHECKPOINT = "a file that is no checkpoint of miniamp"
_JSON: frozenset[type] = frozenset([type(None), bool, int, float, str])
_COLUMN_TYPES: dict[type, str] = {float: "<f8", int: "<i8", bool: "|b1"}


class DamagedError(Exception):
    """The bytes are no sound container; the message is what they are instead."""


def packed(tree: object) -> bytes:
    """The tree as bytes: dicts with text keys, lists, tuples, plain values, numbers, arrays.

    Examples
    --------
    >>> unpacked(packed({"rows": 3, "A": np.array([0.1, -0.0])}))
    {'rows': 3, 'A': array([ 0.1, -0. ])}
    """
    arrays: list[NDArray[np.generic]] = []
    plain = _plain(tree, arrays, "state")
    places: list[tuple[str, list[int], bool, int]] = []
    offset = 0
    for array in arrays:
        by_columns = not array.flags.c_contiguous and array.flags.f_contiguous
        places.append((array.dtype.str, list(array.shape), by_columns, offset))
        offset += _aligned(array.nbytes)
    version = sys.modules["miniamp"].__version__
    parts = {"miniamp": version, "tree": plain, "arrays": places}
    header = json.dumps(parts, separators=(",", ":")).encode()
    begin = _aligned(_START.size + len(header))
    size = begin + offset + _DIGEST
    content = bytearray(size)
    content[: _START.size] = _START.pack(MARK, VERSION, len(header), size)
    content[_START.size : _START.size + len(header)] = header
    for array, (_, _, by_columns, place) in zip(arrays, places, strict=True):
        raw = array.tobytes("F" if by_columns else "C")
        content[begin + place : begin + place + len(raw)] = raw
    content[-_DIGEST:] = hashlib.sha256(memoryview(content)[:-_DIGEST]).digest()
    return bytes(content)


def unpacked(content: bytes) -> object:
    """The tree that was packed, bit for bit; `DamagedError` if that cannot be."""
    check(content)
    _, _, length, _ = _START.unpack_from(content)
    begin = _aligned(_START.size + length)
    try:
        header = json.loads(content[_START.size : _START.size + length])
        arrays = []
        for kind, shape, by_columns, offset in header["arrays"]:
            raw = np.frombuffer(
                content, _number_type(kind), count=math.prod(shape), offset=begin + offset
            ).copy()
            arrays.append(raw.reshape(shape, order="F" if by_columns else "C"))
        return _restored(header["tree"], arrays)
    except Exception as error:  # whoever repairs the checksum of a file can write anything
        raise DamagedError(
            f"a header that cannot be read ({type(error).__name__}: {error!s:.80})"
        ) from None


def written_by(content: bytes) -> str:
    """The version of the package that wrote a container; nothing where it does not say."""
    check(content)
    _, _, length, _ = _START.unpack_from(content)
    try:
        version = json.loads(content[_START.size : _START.size + length]).get("miniamp")
    except (ValueError, AttributeError, RecursionError):
        return ""
    return version if isinstance(version, str) else ""


def check(content: bytes) -> None:
    """Raise `DamagedError` unless this is a whole, unaltered container of a known version."""
    if not content:
        raise DamagedError("an empty file")
    if not content.startswith(MARK[: len(content)]):
        raise DamagedError(NO_CHECKPOINT)
    if len(content) < _START.size + _DIGEST:
        raise DamagedError("a file that is cut short")
    _, version, _, size = _START.unpack_from(content)
    if len(content) < size:
        raise DamagedError(f"a file that is cut short: {len(content)} bytes of {size}")
    if len(content) > size or hashlib.sha256(content[:-_DIGEST]).digest() != content[-_DIGEST:]:
        raise DamagedError("an altered file: its checksum does not match")
    if version != VERSION:
        raise DamagedError(
            f"format version {version}, of which this miniamp reads version {VERSION}"
        )


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def _number_type(name: object) -> np.dtype[np.generic]:
    kind: np.dtype[np.generic] = np.dtype(str(name))
    if kind.kind not in _KINDS:
        raise TypeError(f"the array type {name}")
    return kind


def _plain(value: object, arrays: list[NDArray[np.generic]], where: str) -> object:
    """The value in JSON's terms; what JSON lacks is a dict with the key "$"."""
    if isinstance(value, np.generic):
        _check_kind(value.dtype, where)
        return {"$": "scalar", "type": value.dtype.str, "bytes": value.tobytes().hex()}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$": "float", "value": repr(value)}
    if isinstance(value, np.ndarray):
        _check_kind(value.dtype, where)
        arrays.append(value.astype(value.dtype.newbyteorder("<"), copy=False))
        return {"$": "array", "number": len(arrays) - 1}
    if isinstance(value, list) and len(value) >= TABLE_ROWS and {*map(type, value)} == {dict}:
        runs = [list(run) for _, run in itertools.groupby(value, key=tuple)]
        return {"$": "table", "runs": [_table(run, arrays, where) for run in runs]}
    if isinstance(value, (list, tuple)):
        items = list(value)
        if not _as_json(items):
            items = [_plain(item, arrays, f"{where}[{i}]") for i, item in enumerate(value)]
        return items if isinstance(value, list) else {"$": "tuple", "items": items}
    if isinstance(value, dict):
        _check_keys(value, where)
        return {key: _plain(item, arrays, f"{where}.{key}") for key, item in value.items()}
    raise _unsavable(
        where,
        f"{value!r:.60} of type {type(value).__name__}",
        "numbers, text, arrays, lists or dicts",
    )


def _as_json(values: list[object]) -> bool:
    """Whether all are what JSON has: a look at them together takes a tenth of one at each."""
    kinds = {*map(type, values)}
    if float in kinds:
        return kinds <= {int, float} and math.isfinite(sum(values))  # type: ignore[arg-type]
    return kinds <= _JSON


def _table(
    rows: list[dict[str, object]], arrays: list[NDArray[np.generic]], where: str
) -> dict[str, object]:
    """Dicts of the same keys, such as a history, by columns: an array where all are numbers."""
    _check_keys(rows[0], where)
    columns: list[object] = []
    for key in rows[0]:
        cells = [row[key] for row in rows]
        types = {*map(type, cells)}
        kind = _COLUMN_TYPES.get(next(iter(types))) if len(types) == 1 else None
        if kind is None or (kind == "<i8" and max(map(abs, cells)) >= 2**63):  # type: ignore[arg-type]
            # Lists of numbers are looked at together: there are thousands in a history.
            each = list(itertools.chain.from_iterable(cells)) if types == {list} else cells  # type: ignore[arg-type]
            if not _as_json(each):
                cells = [_plain(cell, arrays, f"{where}.{key}") for cell in cells]
            columns.append(cells)
        else:
            arrays.append(np.array(cells, dtype=kind))
            columns.append(len(arrays) - 1)
    return {"rows": len(rows), "keys": list(rows[0]), "columns": columns}


def _check_keys(value: Iterable[object], where: str) -> None:
    for key in value:
        if not isinstance(key, str) or key == "$":
            raise _unsavable(where, f"the key {key!r}", "text other than '$'")


def _unsavable(where: str, received: str, expected: str) -> InvalidTypeError:
    return InvalidTypeError(where, received, expected, "save it in such a form")


def _check_kind(dtype: np.dtype[np.generic], where: str) -> None:
    if dtype.kind not in _KINDS:
        raise _unsavable(where, f"dtype {dtype}", "numbers or text")


def _restored(value: object, arrays: list[NDArray[np.generic]]) -> object:
    if isinstance(value, list):
        return [_restored(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("$")
    if kind is None:
        return {key: _restored(item, arrays) for key, item in value.items()}
    if kind == "array":
        return arrays[value["number"]]
    if kind == "table":
        return [row for run in value["runs"] for row in _rows_of(run, arrays)]
    if kind == "tuple":
        return tuple(_restored(item, arrays) for item in value["items"])
    if kind == "float":
        return float(value["value"])
    if kind == "scalar":
        return np.frombuffer(bytes.fromhex(value["bytes"]), _number_type(value["type"]))[0]
    raise ValueError(f"the mark {kind!r}")


def _rows_of(
    run: dict[str, list[object]], arrays: list[NDArray[np.generic]]
) -> list[dict[object, object]]:
    """The way back from `_table`."""
    columns = [
        arrays[column].tolist() if isinstance(column, int) else _restored(column, arrays)
        for column in run["columns"]
    ]
    rows: object = run["rows"]
    if any(not isinstance(c, list) or len(c) != rows for c in columns):
        raise ValueError("columns of several lengths")
    return [dict(zip(run["keys"], cells, strict=True)) for cells in zip(*columns, strict=True)]
