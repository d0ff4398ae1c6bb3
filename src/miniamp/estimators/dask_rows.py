"""Rows in a Dask collection: swept where they are, or streamed block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from miniamp.arrays import Array
from miniamp.estimators.batching import takes_amp
from miniamp.estimators.knowledge import Knowledge, Seen

#: The first rows, from which units are taken and the design is judged.
FIRST_ROWS = 2000


def blocks_of(X: Any) -> Iterator[Any]:
    """The rows of a Dask array or frame, one block or partition in memory at a time."""
    if _is_frame(X):
        for k in range(X.npartitions):
            yield X.partitions[k].compute()
        return
    whole = X.rechunk({1: -1})
    for k in range(whole.numblocks[0]):
        yield whole.blocks[k].compute()


def cluster_for(known: Knowledge, X: Any) -> Any:
    """The current Dask client, if AMP can sweep these rows on it; else None."""
    if not (hasattr(X, "chunks") or _is_frame(X)):
        return None
    try:
        from distributed import get_client

        client = get_client()
    except (ImportError, ValueError):
        return None
    return client if takes_amp(known.settings, _numbers(first_rows(X))) else None


def swept(known: Knowledge, X: Any, Y: Array, client: Any) -> Knowledge:
    """What is known after all rows of a Dask array or frame, which never leave their workers."""
    from miniamp.designs.distributed import Distributed

    frame = known.settings.first_frame(_numbers(first_rows(X)))
    intercept = known.settings.intercept
    width = X.shape[1] + intercept
    if _is_frame(X):
        X = X.to_dask_array(lengths=True)
    if any(np.isnan(size) for size in X.chunks[0]):
        X = X.compute_chunk_sizes()
    whole = X.rechunk({1: -1})
    framed = whole.map_blocks(
        frame.rows, intercept=intercept, dtype=np.float64, chunks=(whole.chunks[0], (width,))
    )
    return known.begun(frame, Distributed.from_array(framed, client=client), Y)


def first_rows(X: Any) -> Any:
    """The first rows of a Dask array or frame, in memory; a frame keeps the names of columns."""
    if _is_frame(X):
        return X.head(FIRST_ROWS, npartitions=-1)
    return _numbers(X[:FIRST_ROWS].compute())


def joined(blocks: list[list[Seen]]) -> list[Seen]:
    """What is believed of the rows of several blocks, one entry a target."""
    return [
        Seen(
            parts[0].channel,
            np.concatenate([part.omega for part in parts]),
            np.concatenate([part.V for part in parts]),
        )
        for parts in zip(*blocks, strict=True)
    ]


def _numbers(rows: Any) -> Array:
    return np.asarray(rows, dtype=np.float64)


def _is_frame(X: Any) -> bool:
    return hasattr(X, "partitions") and hasattr(X, "npartitions") and not hasattr(X, "chunks")
