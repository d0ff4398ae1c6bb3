"""Changes of a checkpoint that keep its form: a field of another value or type, gone, or doubled.

Random bytes nearly always end at the JSON header; these reach the classes behind it.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import struct

from fuzz.targets import repaired
from miniamp.streams.container import MARK, VERSION

START, DIGEST, ALIGN = 28, 32, 64
VALUES: tuple[object, ...] = (
    None, True, False, 0, 1, -1, 2, 2**31, 2**63, -(2**63), 10**30, 0.5, -0.5, 1e308, 1e-320,
    "", "x", "auto", "learn", "nan", "priors.Gaussian", "channels.Probit", "Posterior", "Tilt",
    [], [0], {}, {"$": "array", "number": 0}, {"$": "array", "number": -1},
    {"$": "float", "value": "nan"}, {"$": "float", "value": "-inf"}, {"$": "tuple", "items": []},
    {"$": "scalar", "type": "<f8", "bytes": "00"}, {"@": "Tilt"}, {"@": "priors.Laplace"},
)  # fmt: skip
NUMBERS = tuple(
    struct.pack("<d", x) for x in (math.nan, math.inf, -math.inf, -1.0, 0.0, 1e-300, 1e150, 1e300)
)


def mutated(content: bytes, most: int, seed: int) -> bytes:
    """The checkpoint with one to four changes of its tree, or of the places of its arrays."""
    rng = random.Random(seed)
    try:
        length = struct.unpack_from("<Q", content, 12)[0]
        header = json.loads(content[START : START + length])
    except (struct.error, ValueError, RecursionError):
        return repaired(content)[:most]
    begin = -(-(START + length) // ALIGN) * ALIGN
    for _ in range(rng.randint(1, 4)):
        header = changed(header, rng)
    text = json.dumps(header).encode()
    gap = bytes(-(START + len(text)) % ALIGN)
    arrays = bytearray(content[begin:-DIGEST])
    if arrays and rng.random() < 0.3:
        at = rng.randrange(len(arrays)) & ~7
        arrays[at : at + 8] = rng.choice([*NUMBERS, rng.randbytes(8)])
    body = text + gap + bytes(arrays)
    start = struct.pack("<8sIQQ", MARK, VERSION, len(text), START + len(body) + DIGEST)
    return (start + body + hashlib.sha256(start + body).digest())[:most]


def changed(value: object, rng: random.Random) -> object:
    """A copy with one change somewhere below."""
    inner = isinstance(value, (dict, list)) and bool(value) and rng.random() < 0.9
    if isinstance(value, dict) and inner:
        key = rng.choice(list(value))
        if rng.random() < 0.12:
            return {k: v for k, v in value.items() if k != key}
        if rng.random() < 0.04:
            return {(f"{k}x" if k == key else k): v for k, v in value.items()}
        return {**value, key: changed(value[key], rng)}
    if isinstance(value, list) and inner:
        at = rng.randrange(len(value))
        if rng.random() < 0.1:
            return value[:at] + value[at + 1 :]
        if rng.random() < 0.1:
            return value + value[at:]
        return [changed(v, rng) if i == at else v for i, v in enumerate(value)]
    if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.5:
        return value + rng.choice([-1, 1, 7, -value, value])
    return rng.choice(VALUES)
