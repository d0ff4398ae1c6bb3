"""The bytes of a checkpoint: a tree of plain values, raw arrays, and a checksum over all of it.

Layout, little-endian: 8 bytes of mark, the version (u32), the length of the header (u64) and of the
whole file (u64), the header (JSON: the tree, and type, shape and place of every array), the arrays,
each at a multiple of 64 bytes, and SHA-256 of everything before it (32 bytes). Nothing in it is
code: reading a file from a stranger can give wrong numbers, but runs nothing.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

MARK = b"\x93MINIAMP"
VERSION = 1
_START = struct.Struct("<8sIQQ")
_DIGEST = hashlib.sha256().digest_size
_ALIGN = 64
#: Booleans, integers, floats, complex numbers and text; never objects.
_KINDS = "biufcU"


class Damaged(Exception):
    """The bytes are no sound container; the message says in which way."""


class Unsavable(Exception):
    """A value that has no plain form: where it is in the tree, and what it is."""


def packed(tree: Any) -> bytes:
    """The tree as bytes: dicts with text keys, lists, tuples, plain values, numbers, arrays.

    Examples
    --------
    >>> unpacked(packed({"rows": 3, "A": np.array([0.1, -0.0])}))
    {'rows': 3, 'A': array([ 0.1, -0. ])}
    """
    arrays: list[NDArray[Any]] = []
    plain = _plain(tree, arrays, "state")
    places: list[tuple[str, list[int], bool, int]] = []
    offset = 0
    for array in arrays:
        by_columns = not array.flags.c_contiguous and array.flags.f_contiguous
        places.append((array.dtype.str, list(array.shape), by_columns, offset))
        offset += -(-array.nbytes // _ALIGN) * _ALIGN
    header = json.dumps({"tree": plain, "arrays": places}, separators=(",", ":")).encode()
    begin = -(-(_START.size + len(header)) // _ALIGN) * _ALIGN
    size = begin + offset + _DIGEST
    content = bytearray(size)
    content[: _START.size] = _START.pack(MARK, VERSION, len(header), size)
    content[_START.size : _START.size + len(header)] = header
    for array, (_, _, by_columns, place) in zip(arrays, places, strict=True):
        raw = array.tobytes("F" if by_columns else "C")
        content[begin + place : begin + place + len(raw)] = raw
    content[-_DIGEST:] = hashlib.sha256(memoryview(content)[:-_DIGEST]).digest()
    return bytes(content)


def unpacked(content: bytes) -> Any:
    """The tree that was packed, bit for bit."""
    check(content)
    _, _, length, _ = _START.unpack_from(content)
    header = json.loads(content[_START.size : _START.size + length])
    begin = -(-(_START.size + length) // _ALIGN) * _ALIGN
    arrays = []
    for kind, shape, by_columns, offset in header["arrays"]:
        raw = np.frombuffer(
            content, np.dtype(kind), count=math.prod(shape), offset=begin + offset
        ).copy()
        arrays.append(raw.reshape(shape, order="F" if by_columns else "C"))
    return _restored(header["tree"], arrays)


def check(content: bytes) -> None:
    """Raise `Damaged` unless this is a whole, unaltered container of a known version."""
    if not content.startswith(MARK):
        if content and MARK.startswith(content[: len(MARK)]):
            raise Damaged("is cut short")
        raise Damaged("is empty" if not content else "is no checkpoint of miniamp")
    if len(content) < _START.size + _DIGEST:
        raise Damaged("is cut short")
    _, version, _, size = _START.unpack_from(content)
    if len(content) < size:
        raise Damaged(f"is cut short: it has {len(content)} bytes of {size}")
    if len(content) > size or hashlib.sha256(content[:-_DIGEST]).digest() != content[-_DIGEST:]:
        raise Damaged("was altered: its checksum does not match")
    if version != VERSION:
        raise Damaged(
            f"has format version {version}, this miniamp reads version {VERSION}; "
            "use the miniamp that wrote it"
        )


def _plain(value: Any, arrays: list[NDArray[Any]], where: str) -> Any:
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
    if isinstance(value, (list, tuple)):
        items = [_plain(item, arrays, f"{where}[{i}]") for i, item in enumerate(value)]
        return items if isinstance(value, list) else {"$": "tuple", "items": items}
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) or key == "$":
                raise Unsavable(f"{where}: has the key {key!r}, expected text other than '$'")
        return {key: _plain(item, arrays, f"{where}.{key}") for key, item in value.items()}
    raise Unsavable(
        f"{where}: is {value!r:.60} of type {type(value).__name__}, expected numbers, text, "
        "arrays, lists or dicts"
    )


def _check_kind(dtype: np.dtype[Any], where: str) -> None:
    if dtype.kind not in _KINDS:
        raise Unsavable(f"{where}: has dtype {dtype}, expected numbers or text")


def _restored(value: Any, arrays: list[NDArray[Any]]) -> Any:
    if isinstance(value, list):
        return [_restored(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("$")
    if kind is None:
        return {key: _restored(item, arrays) for key, item in value.items()}
    if kind == "array":
        return arrays[value["number"]]
    if kind == "tuple":
        return tuple(_restored(item, arrays) for item in value["items"])
    if kind == "float":
        return float(value["value"])
    return np.frombuffer(bytes.fromhex(value["bytes"]), np.dtype(value["type"]))[0]
