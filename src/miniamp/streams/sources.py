"""What the user gave, as a source of rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from miniamp import checks
from miniamp.arrays import Given
from miniamp.errors import InvalidTypeError
from miniamp.streams.arrays import Arrays
from miniamp.streams.files import files_source
from miniamp.streams.frames import Frame, is_frame
from miniamp.streams.iterators import Items
from miniamp.streams.pieces import Source, is_sparse
from miniamp.streams.standard_input import StandardInput


def source_of(
    given: Given, target: Given, y: Given, batch_size: int, options: dict[str, Any]
) -> Source:
    """The source for anything that `open_stream` takes; y is None or the targets themselves."""
    if isinstance(given, str) and given == "-":
        return StandardInput(options)
    if _is_paths(given):
        return files_source(given, y, target if isinstance(target, str) else None, options)
    if options:
        raise checks.refuse(
            ", ".join(options), "an option for files", "none for data in hand", "leave it out"
        )
    if is_frame(given):
        return Frame(given, y)
    if is_sparse(given) or isinstance(given, np.ndarray):
        return Arrays(given, y)
    if isinstance(given, tuple) and len(given) == 2 and _is_matrix(given[0]):
        X, targets = given
        return Frame(X, targets) if is_frame(X) else Arrays(X, targets)
    if y is not None and isinstance(given, list) and given and not isinstance(given[0], Mapping):
        return Arrays(given, y)
    if y is not None:
        raise checks.refuse(
            "target", "an array", "a column's name or number", "give pairs (X, y) instead"
        )
    if callable(given) or (isinstance(given, Iterable) and not isinstance(given, (Mapping, bytes))):
        return Items(given, batch_size)
    raise InvalidTypeError(
        f"source: got {type(given).__name__}, expected a path, an array, a frame or an iterable; "
        "see the documentation of open_stream"
    )


def _is_paths(given: Given) -> bool:
    if isinstance(given, list):
        return bool(given) and all(isinstance(one, (str, os.PathLike)) for one in given)
    return isinstance(given, (str, os.PathLike))


def _is_matrix(X: Given) -> bool:
    return is_frame(X) or is_sparse(X) or (isinstance(X, (np.ndarray, list)) and np.ndim(X) == 2)
