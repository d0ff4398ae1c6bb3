"""The kept corpus of the fuzz targets, and a few thousand mutations of it, as ordinary tests."""

from __future__ import annotations

import random
import sys
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(ROOT))
    from fuzz import mutate, targets


def kept():
    paths = sorted(targets.CORPUS.glob("*/*"))
    assert {path.parent.name for path in paths} == set(targets.TARGETS)
    return paths


@pytest.fixture(autouse=True)
def quiet():
    """Numbers from a stranger may overflow, or make a poor fit; that is no finding."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("path", kept(), ids=lambda p: f"{p.parent.name}-{p.name}")
@pytest.mark.timeout(20)
def test_kept_inputs_are_read_or_refused(path):
    targets.TARGETS[path.parent.name](path.read_bytes())


def flipped(content: bytes, rng: random.Random) -> bytes:
    """A few bytes changed, cut out, or doubled."""
    changed = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed) + 1)
        kind = rng.random()
        if kind < 0.6 and at < len(changed):
            changed[at] = rng.choice((0, 1, 127, 255, changed[at] ^ 1 << rng.randrange(8)))
        elif kind < 0.8:
            del changed[at : at + rng.randint(1, 30)]
        else:
            changed[at:at] = changed[max(0, at - rng.randint(1, 30)) : at]
    return bytes(changed)


def mutations(name: str, count: int, seed: int):
    """The same inputs for the same seed."""
    contents = [path.read_bytes() for path in sorted((targets.CORPUS / name).iterdir())]
    rng = random.Random(seed)
    for k in range(count):
        content = contents[k % len(contents)]
        yield mutate.mutated(content, 1 << 20, k) if name == "checkpoint" else flipped(content, rng)


@pytest.mark.skipif(sys.platform == "win32", reason="one file is rewritten while it may be open")
@pytest.mark.parametrize("name", sorted(targets.TARGETS))
def test_mutated_inputs_are_read_or_refused(name):
    """500 each here, seed 0; as many as there is time for by `make fuzz`."""
    for content in mutations(name, 500, 0):
        targets.TARGETS[name](content)
