"""A design whose rows live on the workers of a Dask cluster.

x and v go out, two vectors of length N come back; the rows and their g never leave a worker.
"""

from __future__ import annotations

import copy
import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from miniamp import checks
from miniamp.arrays import Array
from miniamp.channels.base import Channel
from miniamp.designs.base import Design, Sweep, triangle
from miniamp.designs.sequential import Columns, GramColumns, Responses, Running
from miniamp.designs.worker_pool import (
    Call,
    LostSchedulerError,
    LostWorkersError,
    RowBlock,
    WorkerPool,
    current_client,
)
from miniamp.posterior import Prior

if TYPE_CHECKING:
    from dask.array import Array as DaskArray
    from dask.dataframe import DataFrame
    from distributed import Client
    from pandas import DataFrame as Partition

__all__ = ["Distributed", "LostSchedulerError", "LostWorkersError"]

#: At most this many bytes of past estimates are kept, for blocks that are loaded again to repeat
#: their sweeps: 16 iterations of a million coefficients, 160 of 100,000.
REMEMBERED_BYTES = 256 << 20
#: The remedy where rows or their products would have to come to the client.
_STAY = "use evidence.Batch, which leaves the rows on the workers"


class Distributed(Design):
    """Row blocks on Dask workers, swept where they are.

    Any evidence works on it. Batches by message passing and rows one by one never bring a row to
    the client. Mean field and the robust solver need N x N numbers there, and the robust solver on
    fewer rows than columns needs the rows: each up to `checks.FORMED_BYTES`, and refused
    beyond.

    Parameters
    ----------
    sources : sequence of callables or dask.delayed objects
        Each gives the rows of one block: an array, a sparse matrix, or a pair (rows, observations).
        Callables are called on the worker that is to hold the block, delayed objects computed by
        the cluster; both again if that worker dies.
    client : distributed.Client, optional
        The cluster; the current client by default. Its calls then go straight to the workers, as
        with `Client(direct_to_workers=True)`.

    Attributes
    ----------
    y : (M,) array
        The observations that came with the blocks, fetched once: M numbers, not M x N.
    recovered : int
        How many blocks had to be loaded again because their worker was lost. Such a block first
        repeats the sweeps of its batch, on its own, and then has the g that died with the worker:
        the posterior is the same as without the loss. (Where the estimates of a batch take more
        than `REMEMBERED_BYTES`, it starts from the oldest that is kept, and the fixed point is the
        same.)

    Examples
    --------
    >>> import functools
    >>> import numpy as np
    >>> from dask.distributed import Client
    >>> blocks = [functools.partial(np.full, (2, 3), value) for value in (1.0, 2.0)]
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     Distributed(blocks, client).forecast(np.ones(3), np.ones(3))
    (array([3., 3., 6., 6.]), array([ 3.,  3., 12., 12.]))
    """

    takes_arrays = False

    def __init__(self, sources: Sequence[object], client: Client | None = None) -> None:
        self.client = current_client(client)
        if not sources:
            raise checks.refuse("sources", "none", "at least one block of rows", "check the source")
        self._pool = WorkerPool(sources, self.client)
        shapes, mean_squares, targets = zip(*self._pool.run(Call(RowBlock.facts)), strict=True)
        sizes, widths = [rows for rows, _ in shapes], {columns for _, columns in shapes}
        if len(widths) > 1:
            raise checks.refuse(
                "sources",
                f"blocks of {sorted(widths)} columns",
                "the same number of columns in every block",
                "select the same columns in every file",
            )
        edges = [0, *np.cumsum(sizes).tolist()]
        self._rows = [slice(a, b) for a, b in itertools.pairwise(edges)]
        self.shape = (edges[-1], widths.pop())
        self._mean_square = float(np.average(mean_squares, weights=sizes))
        self._targets = [y for y in targets if y is not None]
        self._numbers = itertools.count(1)
        self._observed: Array | None = None
        self._made: tuple[int, Callable[[Design], object]] | None = None

    @classmethod
    def of(cls, Phi: object) -> Design | None:
        kind = type(Phi)  # a delayed object has any attribute, its type has not
        if not hasattr(kind, "__dask_graph__"):
            return None
        if hasattr(kind, "chunks"):
            return cls.from_array(Phi)
        if hasattr(kind, "npartitions") and hasattr(kind, "columns"):
            return cls.from_frame(Phi)
        raise checks.refuse(
            "Phi",
            f"the Dask collection {kind.__name__}",
            "a dask.array or a dask.dataframe",
            "give its parts to designs.Distributed as delayed objects or functions",
        )

    @property
    def recovered(self) -> int:
        """How many blocks had to be loaded again because their worker was lost."""
        return self._pool.recovered

    @property
    def y(self) -> Array:
        """The observations that came with the blocks."""
        if len(self._targets) < len(self._rows):
            raise checks.refuse(
                "y",
                "blocks without observations",
                "sources that give (rows, y)",
                "name the target column, or pass y yourself",
            )
        return np.concatenate(self._targets)

    def sandwich(
        self, x: Array, v: Array, y: Array, channel: Channel, memory: Array | None
    ) -> Sweep:
        number, before = next(self._numbers), None if memory is None else int(memory)
        observe = Call(RowBlock.observe, own=self._split(y))
        sweep = Call(
            RowBlock.sandwich,
            (x, v, number, before),
            lambda k: (channel.at(self._rows[k]),),
            added_sweeps,
        )
        # The observations are sent once, and not in every iteration.
        same = self._observed is y
        total = self._pool.run(*([sweep] if same else [observe, sweep]))
        past = self._pool.log[1:] if same and memory is not None else []
        kept = max(2, REMEMBERED_BYTES // (2 * x.nbytes))
        self._pool.log, self._observed = [observe, *[*past, sweep][-kept:]], y
        return Sweep(
            total.pull,
            total.curvature,
            np.array(float(number)),  # g stays with its rows: the number of the sweep
            total.mean_square / self.shape[0],
            total.mean_curvature / self.shape[0],
        )

    def forecast(self, x: Array, v: Array) -> tuple[Array, Array]:
        means, variances = zip(*self.each("forecast", x, v), strict=True)
        return np.concatenate(means), np.concatenate(variances)

    @property
    def mean_square(self) -> float:
        return self._mean_square

    def diagnosis(self) -> str:
        found = [text for text in self.each("diagnosis") if text]
        return str(found[0]) if found else ""

    def online(
        self, running: Running, y: Array, channel: Channel, prior: Prior, responses: Responses
    ) -> None:
        """Rows one after the other: the belief goes from block to block, 4 N numbers at a time."""
        for k, rows in enumerate(self._rows):
            call = Call(RowBlock.online, (running, prior, y[rows], channel.at(rows)))
            ((new, given),) = self._pool.run(call, only=[k])
            for mine, theirs in zip(running, new, strict=True):
                mine[:] = theirs
            for mine, theirs in zip(responses, given, strict=True):
                mine[rows] = theirs

    def toarray(self) -> Array:
        """All entries, brought to the client."""
        M, N = self.shape
        checks.formed_bytes(8 * M * N, f"{M} x {N} rows at the client", _STAY)
        return np.concatenate(self.each("toarray"))

    def transposed_times(self, u: Array) -> Array:
        return np.asarray(self.total("transposed_times", u))

    def transposed_squares_times(self, w: Array) -> Array:
        return np.asarray(self.total("transposed_squares_times", w))

    def information(self, weights: Array) -> Array:
        N = self.shape[1]
        checks.formed_bytes(8 * N * N, f"{N} x {N} products of columns at the client", _STAY)
        return np.asarray(self.total("information", weights))

    def columns(self) -> Columns:
        """What coordinate updates need of the columns: their products, N x N numbers."""
        gram = self.information(np.ones(self.shape[0]))
        return GramColumns(gram, self.times, self.transposed_times)

    def weighted(self, weights: Array, targets: Array) -> tuple[Array, Array]:
        M, N = self.shape
        if M <= N:
            return super().weighted(weights, targets)
        workers = len(self._pool.groups)
        what = f"triangles of {N} x {N} from {workers} workers at the client"
        checks.formed_bytes(8 * N * N * (1 + workers), what, _STAY)
        R, t = self.total("weighted", weights, targets, combine=triangles)
        return R, t

    def row_variances(self, root: Array | None, D: Array) -> Array:
        return np.concatenate(self.each("row_variances", root, D))

    def held(self) -> Design:
        """This design where it has more rows than columns, which each worker can decompose itself.

        Fewer rows than columns tie workers together in pairs: such a batch comes to the client.
        """
        return self if self.shape[0] > self.shape[1] else super().held()

    def derive(self, make: Callable[[Design], object]) -> Self:
        """A handle to what `make` makes of each block, kept beside it: for `each` and `total`."""
        new = copy.copy(self)
        new._made = next(self._numbers), make
        return new

    def each(self, name: str, *shared: object) -> list[Any]:
        """The results of a method of each block, or its attributes, in order."""
        result: list[Any] = self._pool.run(Call(RowBlock.ask, (self._made, name, *shared)))
        return result

    def total(self, name: str, *split: Array, combine: Callable[[Iterable[Any]], Any] = sum) -> Any:
        """What a method of all blocks gives in all, each given its rows of arrays (M, ...)."""
        asked = Call(RowBlock.ask, (self._made, name), self._split(*split), combine)
        return self._pool.run(asked)

    def _split(self, *arrays: Array) -> Callable[[int], tuple[object, ...]]:
        """The rows of block k of each array (M, ...)."""
        return lambda k: tuple(array[self._rows[k]] for array in arrays)

    @classmethod
    def from_array(
        cls, Phi: DaskArray, y: DaskArray | None = None, client: Client | None = None
    ) -> Distributed:
        """A dask.array of rows, one block per chunk of rows; y may be a dask.array too."""
        if getattr(Phi, "ndim", None) != 2:
            raise checks.refuse(
                "Phi",
                f"{type(Phi).__name__} of {getattr(Phi, 'ndim', '?')} dimensions",
                "a two-dimensional dask.array",
                "reshape it, or give the blocks as callables",
            )
        if any(np.isnan(size) for size in Phi.chunks[0]):
            Phi = Phi.compute_chunk_sizes()
        blocks = Phi.rechunk({1: -1}).to_delayed()[:, 0]
        if y is None:
            return cls(list(blocks), client)
        from dask.array import asarray
        from dask.delayed import delayed

        y = asarray(y)
        if y.ndim != 1 or (not np.isnan(y.shape[0]) and y.shape[0] != Phi.shape[0]):
            raise checks.refuse(
                "y", f"shape {y.shape}", f"({Phi.shape[0]},)", "give one value for each row"
            )
        targets = y.rechunk((Phi.chunks[0],)).to_delayed()
        return cls([delayed(tuple)(pair) for pair in zip(blocks, targets, strict=True)], client)

    @classmethod
    def from_frame(
        cls,
        frame: DataFrame,
        target: str | None = None,
        features: Sequence[str] | None = None,
        client: Client | None = None,
    ) -> Distributed:
        """A dask.dataframe, one block per partition; without a target all columns are features."""
        names = list(frame.columns)
        for argument, wanted in (("features", features or ()), ("target", [target])):
            missing = [name for name in wanted if name is not None and name not in names]
            if missing:
                raise checks.refuse(
                    argument,
                    f"{missing[0]!r}",
                    f"one of the columns {', '.join(map(str, names[:8]))}",
                    "check the spelling",
                )
        chosen = [name for name in names if name != target] if features is None else list(features)
        from dask.delayed import delayed

        part = frame[chosen if target is None else [*dict.fromkeys([*chosen, target])]]
        split = delayed(_split_frame)
        return cls([split(one, chosen, target) for one in part.to_delayed()], client)

    @classmethod
    def from_parquet(
        cls,
        pattern: str,
        target: str,
        features: Sequence[str] | None = None,
        client: Client | None = None,
    ) -> Distributed:
        """Parquet files that match a glob, one block per file, read by the workers themselves."""
        from dask.dataframe import read_parquet  # says itself what it lacks

        try:
            frame = read_parquet(pattern, split_row_groups=False)
            if frame.columns.empty:
                raise FileNotFoundError("there is none")
        except (OSError, ValueError) as error:
            raise checks.refuse(
                "pattern",
                f"{pattern!r}, which cannot be read ({error})",
                "at least one complete Parquet file",
                "check the path, or write the file again",
            ) from error
        return cls.from_frame(frame, target, features, client)


def _split_frame(part: Partition, features: list[str], target: str | None) -> object:
    """On the worker: the rows of a partition, with their observations where a target is named."""
    rows = part[features].to_numpy()
    return rows if target is None else (rows, part[target].to_numpy())


def added_sweeps(sweeps: Iterable[Sweep]) -> Sweep:
    """The sums of all parts of sweeps."""
    return functools.reduce(lambda a, b: Sweep(*map(operator.add, a, b)), sweeps)


def triangles(parts: Iterable[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Rows and targets on top of each other, rotated to at most N rows one after the other."""
    return functools.reduce(
        lambda a, b: triangle(*map(np.concatenate, zip(a, b, strict=True))),
        (triangle(*part) for part in parts),
    )
