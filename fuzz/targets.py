"""What is fuzzed: each file format, and checkpoints with their checksum repaired.

A target takes bytes and returns, whatever they are. `MiniampError` is a refusal; every other
exception, a crash, a hang or hundreds of megabytes are findings. The same functions run under
atheris (`python -m fuzz`) and, on the kept corpus, as ordinary tests (tests/faults/test_corpus.py).
"""

from __future__ import annotations

import hashlib
import os
import struct
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import miniamp
from miniamp.errors import MiniampError
from miniamp.streams import load, open_stream, sources
from miniamp.streams.container import MARK, VERSION

CORPUS = Path(__file__).parent / "corpus"
#: Rows beyond this show nothing new.
MOST_BATCHES = 20
#: One file for all inputs of a process, in memory where the system has that: making one each, on a
#: disk, would be most of the time.
_MEMORY = Path("/dev/shm")
_FOLDER = _MEMORY if os.access(_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
_PLACE = _FOLDER / f"miniamp-fuzz-{os.getpid()}"


def read_format(name: str, content: bytes) -> None:
    """Read rows of a file that claims to be of this format."""
    _PLACE.write_bytes(content)
    try:
        stream = open_stream(_PLACE, None, 16, format=name, missing="drop", unknown="ignore")
        for k, batch in enumerate(stream):
            batch.feature_names[:2]
            if k == MOST_BATCHES:
                break
    except MiniampError:
        pass


def read_any(content: bytes) -> None:
    """Read a file without a hint what it is."""
    _PLACE.write_bytes(content)
    try:
        next(iter(open_stream(_PLACE, None, 16)))
    except MiniampError:
        pass


def load_checkpoint(content: bytes) -> None:
    """Load a checkpoint whose sum, size and version are right, predict with it and learn."""
    _PLACE.write_bytes(repaired(content))
    try:
        load(_PLACE)
        model = miniamp.load(_PLACE)
        if hasattr(model, "n_features_in_"):
            X = np.arange(40.0 * model.n_features_in_).reshape(40, -1) % 7
            model.predict(X)
            labels = getattr(model, "classes_", X[:, 0])
            model.partial_fit(X, labels[np.arange(40) % len(labels)])
    except MiniampError:
        pass


def repaired(content: bytes) -> bytes:
    """The content with mark, version, size and checksum put right."""
    body = content[28:-32] if content.startswith(MARK) and len(content) > 60 else content
    length = struct.unpack_from("<Q", content, 12)[0] if len(content) > 60 else len(body)
    size = 28 + len(body) + 32
    start = struct.pack("<8sIQQ", MARK, VERSION, min(length, len(body)), size)
    return start + body + hashlib.sha256(start + body).digest()


TARGETS: dict[str, Callable[[bytes], None]] = {
    **{name: partial(read_format, name) for name in sorted(sources.formats())},
    "any": read_any,
    "checkpoint": load_checkpoint,
}
