"""Sources of the row blocks of a distributed design; the client never holds the rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from miniamp import checks
from miniamp.errors import InvalidInputError, MissingExtraError

if TYPE_CHECKING:
    from dask.array import Array as DaskArray
    from dask.dataframe import DataFrame
    from dask.delayed import Delayed
    from pandas import DataFrame as Partition

#: Rows and observations.
Pair: TypeAlias = tuple[NDArray[np.generic], NDArray[np.generic]]
#: What gives a block, called on a worker.
Source: TypeAlias = Callable[[], Pair]


def array_blocks(Phi: DaskArray, y: DaskArray | None = None) -> list[Delayed]:
    """One delayed block per chunk of rows of a dask.array, with its observations where given."""
    if getattr(Phi, "ndim", None) != 2:
        raise checks.refuse(
            "Phi",
            f"{type(Phi).__name__} of {getattr(Phi, 'ndim', '?')} dimensions",
            "a two-dimensional dask.array",
            "reshape it, or give the blocks as callables",
        )
    if any(np.isnan(size) for size in Phi.chunks[0]):
        Phi = Phi.compute_chunk_sizes()
    whole = Phi.rechunk({1: -1})
    blocks = list(whole.to_delayed()[:, 0])
    if y is None:
        return blocks
    from dask.array import asarray

    y = asarray(y)
    if y.ndim != 1 or (not np.isnan(y.shape[0]) and y.shape[0] != whole.shape[0]):
        raise checks.refuse(
            "y", f"shape {y.shape}", f"({whole.shape[0]},)", "give one value for each row"
        )
    return _paired(blocks, y.rechunk((whole.chunks[0],)).to_delayed())


def frame_blocks(
    frame: DataFrame, target: str | None = None, features: Sequence[str] | None = None
) -> list[Delayed]:
    """One delayed block per partition of a dask.dataframe; with its observations."""
    from dask.delayed import delayed

    chosen = _chosen(list(frame.columns), target, features)
    split = delayed(_split_frame)
    return [split(part, chosen, target) for part in frame.to_delayed()]


def parquet_blocks(
    pattern: str, target: str, features: Sequence[str] | None = None
) -> list[Source]:
    """One callable per Parquet file; the workers read, the client sees only the names."""
    whole = Path(pattern)
    paths = sorted(
        str(path) for path in Path(whole.anchor).glob(str(whole.relative_to(whole.anchor)))
    )
    if not paths:
        raise checks.refuse("pattern", repr(pattern), "at least one Parquet file", "check the path")
    return [functools.partial(read_parquet, path, target, features) for path in paths]


def read_parquet(path: str, target: str, features: Sequence[str] | None) -> Pair:
    """Rows and observations of one Parquet file."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError(
            "reading Parquet", "no pyarrow", "pyarrow", "pip install 'miniamp[streams]'"
        ) from None
    try:
        names = pq.read_schema(path).names
        chosen = _chosen(names, target, features)
        table = pq.read_table(path, columns=[*chosen, target])
    except InvalidInputError as error:
        raise error.relabelled(f"{path}: {error.argument}") from error
    except (OSError, ValueError) as error:
        raise checks.refuse(
            "source",
            f"{path}, which cannot be read ({error})",
            "a complete Parquet file",
            "write it again",
        ) from error
    rows = np.column_stack([table[name].to_numpy() for name in chosen])
    return rows, table[target].to_numpy()


def _paired(blocks: Sequence[Delayed], targets: Sequence[Delayed]) -> list[Delayed]:
    from dask.delayed import delayed

    pair = delayed(_pair)
    return [pair(rows, y) for rows, y in zip(blocks, targets, strict=True)]


def _pair(rows: NDArray[np.generic], y: NDArray[np.generic]) -> Pair:
    return rows, y


def _split_frame(
    part: Partition, features: Sequence[str], target: str | None
) -> NDArray[np.generic] | Pair:
    rows = part[list(features)].to_numpy()
    return rows if target is None else (rows, part[target].to_numpy())


def _chosen(
    columns: Sequence[str], target: str | None, features: Sequence[str] | None
) -> list[str]:
    """The feature columns, after a check that they and the target are there."""
    wanted = [*(features or ()), *([] if target is None else [target])]
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise checks.refuse(
            "target" if missing == [target] else "features",
            f"{missing[0]!r}",
            f"one of the columns {', '.join(map(str, columns[:8]))}{', ...' * (len(columns) > 8)}",
            "check the spelling",
        )
    return [name for name in columns if name != target] if features is None else list(features)
