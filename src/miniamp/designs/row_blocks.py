"""Blocks of rows for `designs.Distributed`: where they come from, and the actor that holds them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from miniamp import checks
from miniamp.arrays import Array
from miniamp.channels.base import Channel
from miniamp.designs import threads
from miniamp.designs.base import Design, Sweep, as_design
from miniamp.designs.sequential import Responses, Running
from miniamp.errors import InvalidInputError, MiniampError, MissingExtraError
from miniamp.posterior import Prior

if TYPE_CHECKING:
    from dask.array import Array as DaskArray
    from dask.dataframe import DataFrame
    from dask.delayed import Delayed
    from pandas import DataFrame as Partition

#: Rows and observations.
Pair: TypeAlias = tuple[NDArray[np.generic], NDArray[np.generic]]
#: What gives a block, called on a worker.
Source: TypeAlias = Callable[[], Pair]
#: Iterations whose g a block remembers: the one being made, the one it is made from, and one that
#: was made to check an estimate.
_KEPT = 3


class BlockFacts(NamedTuple):
    """What the client must know of a block."""

    rows: int
    columns: int
    mean_square: float
    y: Array | None  #: observations that came with the rows


class Derived(NamedTuple):
    """An object that workers make of each block and keep beside it."""

    key: int
    make: Callable[[Design], object]


class Request(NamedTuple):
    """A method of every block's design, or of what was derived from it."""

    method: str
    shared: tuple[object, ...]  #: arguments for all blocks
    own: Sequence[tuple[object, ...]]  #: further arguments of each block
    of: Derived | None = None


class SweepRequest(NamedTuple):
    """One sweep, as it is requested from a worker."""

    x: Array
    v: Array
    number: int  #: under which g is kept
    before: int | None  #: number of the sweep whose g makes the Onsager term
    news: Sequence[tuple[Array | None, Channel]] | None  #: observations and channel, where new
    past: Sequence[tuple[Array, Array, int]] = ()  #: (x, v, number) of sweeps to repeat first


class RowBlock:
    """Rows in a worker's memory, with their observations and their g.

    The source is called here, on the worker, or was already computed by the cluster: rows alone, or
    a pair (rows, observations). Messages name the block by its index.
    """

    def __init__(self, source: object, index: int) -> None:
        try:
            loaded = source() if callable(source) else source
            rows, y = loaded if isinstance(loaded, tuple) else (loaded, None)
            self.design = as_design(rows)
            size = self.design.shape[0]
            self.y = None if y is None else checks.vector("y", y, size)
        except InvalidInputError as error:
            raise error.relabelled(f"block {index}: {error.argument}") from error
        except MiniampError:
            raise
        except Exception as error:  # whatever a loader may raise, its file being gone among it
            raise cannot_load(index, error) from error
        self._observed: tuple[Array, Channel] | None = None
        self._memory: dict[int, Array] = {}
        self._derived: tuple[int, object] | None = None

    def observe(self, y: Array | None, channel: Channel) -> None:
        """Take new observations, or keep the old ones, and a new channel."""
        known = self._observed[0] if y is None and self._observed is not None else y
        assert known is not None  # the client sends them before it requests a sweep
        self._observed = known, channel

    def sandwich(self, x: Array, v: Array, number: int, before: int | None) -> Sweep:
        """One pass over the block; its g stays here, under `number`."""
        assert self._observed is not None
        memory = None if before is None else self._memory.get(before)
        sweep = self.design.sandwich(x, v, *self._observed, memory)
        self._memory[number] = sweep.memory
        while len(self._memory) > _KEPT:
            del self._memory[min(self._memory.keys() - {before})]
        return sweep

    def of(self, wanted: Derived | None) -> object:
        """The design, or what is derived from it, which is kept until another is needed."""
        if wanted is None:
            return self.design
        if self._derived is None or self._derived[0] != wanted.key:
            self._derived = None  # free the old one before there are two
            self._derived = (wanted.key, wanted.make(self.design))
        return self._derived[1]


class RowBlocks:
    """All blocks of one worker: one message out and one back for all of them."""

    def __init__(self, indices: Sequence[int], *sources: object) -> None:
        from distributed import get_worker

        self._blocks = [RowBlock(*pair) for pair in zip(sources, indices, strict=True)]
        # Dask sets OMP_NUM_THREADS to 1 for all its workers, however many threads one was given.
        self._threads = int(get_worker().state.nthreads)

    def facts(self) -> list[BlockFacts]:
        """What the client must know of every block."""
        return [BlockFacts(*b.design.shape, b.design.mean_square, b.y) for b in self._blocks]

    def each(self, request: Request) -> list[Any]:
        """The result of every block."""
        return [self.one(k, request, own) for k, own in enumerate(request.own)]

    def sum(self, request: Request) -> Array:
        """The sum of those results."""
        return sum_of(self.each(request))

    def one(self, position: int, request: Request, own: tuple[object, ...] = ()) -> Any:
        """The result of one block, by its position here."""
        found = getattr(self._blocks[position].of(request.of), request.method)
        with threads.limit(self._threads):
            return found(*request.shared, *own) if callable(found) else found

    def online(
        self, position: int, running: Running, prior: Prior, y: Array, channel: Channel
    ) -> tuple[Running, Responses]:
        """A belief after the rows of one block, one by one, and the channel's responses."""
        running = Running(*(np.array(part) for part in running))  # what arrives is read-only
        responses = Responses.empty(len(y))
        self._blocks[position].design.online(running, y, channel, prior, responses)
        return running, responses

    def triangle(self, own: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
        """All rows here, times their weights, rotated to at most N of them block by block."""
        R, t = np.empty((0, self._blocks[0].design.shape[1])), np.empty(0)
        for block, (weights, targets) in zip(self._blocks, own, strict=True):
            rows, values = block.design.weighted(weights, targets)
            R, t = triangle(np.concatenate([R, rows]), np.concatenate([t, values]))
        return R, t

    def sandwich(self, asked: SweepRequest) -> Sweep:
        """One pass over all rows here, with sums in the place of means and no memory.

        Blocks that were loaded again repeat the sweeps of their batch first.
        """
        if asked.news is not None:
            for block, (y, channel) in zip(self._blocks, asked.news, strict=True):
                block.observe(y, channel)
        with threads.limit(self._threads):
            before = None if asked.past else asked.before
            for x, v, number in asked.past:
                for block in self._blocks:
                    block.sandwich(x, v, number, before)
                before = number
            sweeps = [
                block.sandwich(asked.x, asked.v, asked.number, before) for block in self._blocks
            ]
        rows = [block.design.shape[0] for block in self._blocks]
        return Sweep(
            sum_of([sweep.pull for sweep in sweeps]),
            sum_of([sweep.curvature for sweep in sweeps]),
            np.empty(0),
            float(np.dot(rows, [sweep.mean_square for sweep in sweeps])),
            float(np.dot(rows, [sweep.mean_curvature for sweep in sweeps])),
        )


def triangle(R: Array, t: Array) -> tuple[Array, Array]:
    """The same rows rotated to at most N of them: |t - R x|^2 up to a constant."""
    if len(R) <= R.shape[1]:
        return R, t
    N = R.shape[1]
    both = np.empty((len(R), N + 1), order="F")
    both[:, :N], both[:, N] = R, t
    # The targets are rotated with the rows: the rotation itself takes as long as the triangle.
    (square,) = linalg.qr(both, mode="r", overwrite_a=True, check_finite=False)
    return np.ascontiguousarray(square[:N, :N]), square[:N, N].copy()


def sum_of(arrays: Sequence[Array]) -> Array:
    """The sum of arrays, in a new one if there are several."""
    total = arrays[0]
    for array in arrays[1:]:
        total = total + array
    return total


def cannot_load(index: int | str, error: Exception) -> InvalidInputError:
    """The error for a block whose source fails."""
    return checks.refuse(
        "sources",
        f"block {index}, which cannot be loaded ({type(error).__name__}: {error})",
        "a source that gives its rows",
        "put its file back or fix the loader, and call again; the belief is unchanged",
    )


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
