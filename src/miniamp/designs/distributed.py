"""A design whose rows live on the workers of a Dask cluster.

x and v go out, two vectors of length N come back; the rows and their g never leave a worker.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from miniamp import checks
from miniamp.arrays import Array
from miniamp.channels.base import Channel
from miniamp.designs import row_blocks
from miniamp.designs.base import Design, Sweep
from miniamp.designs.row_blocks import BlockFacts, Derived, Request, SweepRequest, sum_of, triangle
from miniamp.designs.sequential import Columns, Responses, Running
from miniamp.designs.worker_pool import (
    Group,
    LostSchedulerError,
    LostWorkersError,
    WorkerPool,
    current_client,
)
from miniamp.posterior import Prior

if TYPE_CHECKING:
    from dask.array import Array as DaskArray
    from dask.dataframe import DataFrame
    from distributed import Client

__all__ = ["Distributed", "LostSchedulerError", "LostWorkersError"]

#: At most this many bytes of past estimates are kept, for blocks that are loaded again to repeat
#: their sweeps: 16 iterations of a million coefficients, 160 of 100,000.
REMEMBERED_BYTES = 256 << 20
#: The remedy where rows or their products would have to come to the client.
_STAY = "use evidence.Batch, which leaves the rows on the workers"


class _Past(NamedTuple):
    """A sweep as it was requested, to be repeated by blocks that were loaded again."""

    x: Array
    v: Array
    before: int | None
    observed: tuple[Array, Channel]  #: y and channel of its time


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
        client = current_client(client)
        if not sources:
            raise checks.refuse("sources", "none", "at least one block of rows", "check the source")
        self._pool = WorkerPool(sources, client)
        found = self._pool.call("facts", lambda _: ())
        facts: list[BlockFacts] = self._in_order([(g.blocks, one) for g, one in found])
        widths = {f.columns for f in facts}
        if len(widths) > 1:
            raise checks.refuse(
                "sources",
                f"blocks of {sorted(widths)} columns",
                "the same number of columns in every block",
                "select the same columns in every file",
            )
        sizes = [f.rows for f in facts]
        self._rows = [
            slice(b - n, b) for n, b in zip(sizes, np.cumsum(sizes).tolist(), strict=True)
        ]
        self.shape = (sum(sizes), widths.pop())
        self._mean_square = float(np.average([f.mean_square for f in facts], weights=sizes))
        self._targets = [f.y for f in facts if f.y is not None]
        self._numbers = itertools.count(1)
        self._past: dict[int, _Past] = {}
        self._observed: tuple[Array, Channel] | None = None

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
    def client(self) -> Client:
        """The cluster."""
        return self._pool.client

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
        if self._observed is None or self._observed[0] is not y or self._observed[1] is not channel:
            self._observed = (y, channel)
        if memory is None:
            self._past.clear()
        before = None if memory is None else int(memory)
        number, past = next(self._numbers), self._since(before)

        def request(group: Group) -> tuple[SweepRequest]:
            repeated = past if group.fresh else []
            return (SweepRequest(x, v, number, before, self._news(group), repeated),)

        sweeps: list[Sweep] = []
        for group, sweep in self._pool.call("sandwich", request):
            group.fresh = False
            sweeps.append(sweep)
        self._past[number] = _Past(x, v, before, self._observed)
        while len(self._past) > max(2, REMEMBERED_BYTES // (2 * x.nbytes)):
            del self._past[min(self._past)]
        return Sweep(
            pull=sum_of([sweep.pull for sweep in sweeps]),
            curvature=sum_of([sweep.curvature for sweep in sweeps]),
            memory=np.array(float(number)),  # g stays with its rows: the number of the sweep
            mean_square=sum(sweep.mean_square for sweep in sweeps) / self.shape[0],
            mean_curvature=sum(sweep.mean_curvature for sweep in sweeps) / self.shape[0],
        )

    def _news(self, group: Group) -> list[tuple[Array | None, Channel]] | None:
        """Observations and channel of a group's blocks, sent once and not in every iteration."""
        if group.sent is self._observed or self._observed is None:
            return None
        (y, channel), old = self._observed, group.sent
        known = isinstance(old, tuple) and old[0] is y
        group.sent = self._observed
        where = [self._rows[k] for k in group.blocks]
        return [(None if known else y[rows], channel.at(rows)) for rows in where]

    def _since(self, before: int | None) -> list[tuple[Array, Array, int]]:
        """The sweeps that led to a memory, the first one first."""
        chain = []
        while before in self._past and self._past[before].observed is self._observed:
            x, v, earlier, _ = self._past[before]
            chain.append((x, v, before))
            before = earlier
        return chain[::-1]

    def forecast(self, x: Array, v: Array) -> tuple[Array, Array]:
        means, variances = zip(*self._each("forecast", x, v), strict=True)
        return np.concatenate(means), np.concatenate(variances)

    @property
    def mean_square(self) -> float:
        return self._mean_square

    def diagnosis(self) -> str:
        found = [text for text in self._each("diagnosis") if text]
        return str(found[0]) if found else ""

    def online(
        self, running: Running, y: Array, channel: Channel, prior: Prior, responses: Responses
    ) -> None:
        """Rows one after the other: the belief goes from block to block, 4 N numbers at a time."""
        for k, rows in enumerate(self._rows):
            own = (running, prior, y[rows], channel.at(rows))
            new, given = self._pool.call_one(k, "online", *own)
            for mine, theirs in zip(running, new, strict=True):
                mine[:] = theirs
            for mine, theirs in zip(responses, given, strict=True):
                mine[rows] = theirs

    def toarray(self) -> Array:
        """All entries, brought to the client."""
        M, N = self.shape
        checks.formed_bytes(8 * M * N, f"{M} x {N} rows at the client", _STAY)
        return np.concatenate(self._each("toarray"))

    def transposed_times(self, u: Array) -> Array:
        return self._sum("transposed_times", own=lambda k: (u[self._rows[k]],))

    def information(self, weights: Array) -> Array:
        N = self.shape[1]
        checks.formed_bytes(8 * N * N, f"{N} x {N} products of columns at the client", _STAY)
        return self._sum("information", own=lambda k: (weights[self._rows[k]],))

    def columns(self) -> Columns:
        """What coordinate updates need of the columns: their products, N x N numbers."""
        return GramColumns(self, self.information(np.ones(self.shape[0])))

    def weighted(self, weights: Array, targets: Array) -> tuple[Array, Array]:
        M, N = self.shape
        if M <= N:
            return super().weighted(weights, targets)
        workers = len(self._pool.groups)
        what = f"triangles of {N} x {N} from {workers} workers at the client"
        checks.formed_bytes(8 * N * N * (1 + workers), what, _STAY)

        def own(group: Group) -> tuple[list[tuple[Array, Array]]]:
            return ([(weights[self._rows[k]], targets[self._rows[k]]) for k in group.blocks],)

        parts = [part for _, part in self._pool.call("triangle", own)]
        rows, values = zip(*parts, strict=True)
        return triangle(np.concatenate(rows), np.concatenate(values))

    def row_variances(self, root: Array | None, D: Array) -> Array:
        return np.concatenate(self._each("row_variances", root, D))

    def held(self) -> Design:
        """This design where it has more rows than columns, which each worker can decompose itself.

        Fewer rows than columns tie workers together in pairs: such a batch comes to the client.
        """
        return self if self.shape[0] > self.shape[1] else super().held()

    def derive(self, make: Callable[[Design], object]) -> DerivedBlocks:
        """What `make` makes of each block, kept beside it on its worker."""
        return DerivedBlocks(self, Derived(next(self._numbers), make))

    def _each(self, method: str, *shared: object, of: Derived | None = None) -> list[Any]:
        """The results of all blocks, in order."""
        found = self._pool.call(
            "each", lambda group: (Request(method, shared, [()] * len(group.blocks), of),)
        )
        return self._in_order([(group.blocks, results) for group, results in found])

    def _sum(
        self,
        method: str,
        own: Callable[[int], tuple[object, ...]],
        of: Derived | None = None,
    ) -> Array:
        """The sum of the results of all blocks, each worker's summed there."""
        found = self._pool.call(
            "sum", lambda group: (Request(method, (), [own(k) for k in group.blocks], of),)
        )
        return sum_of([one for _, one in found])

    @staticmethod
    def _in_order(found: Sequence[tuple[tuple[int, ...], Sequence[Any]]]) -> list[Any]:
        by_block = {
            k: one for blocks, results in found for k, one in zip(blocks, results, strict=True)
        }
        return [by_block[k] for k in sorted(by_block)]

    @classmethod
    def from_array(
        cls, Phi: DaskArray, y: DaskArray | None = None, client: Client | None = None
    ) -> Distributed:
        """A dask.array of rows, one block per chunk of rows; y may be a dask.array too."""
        return cls(row_blocks.array_blocks(Phi, y), client)

    @classmethod
    def from_frame(
        cls,
        frame: DataFrame,
        target: str | None = None,
        features: Sequence[str] | None = None,
        client: Client | None = None,
    ) -> Distributed:
        """A dask.dataframe, one block per partition; without a target all columns are features."""
        return cls(row_blocks.frame_blocks(frame, target, features), client)

    @classmethod
    def from_parquet(
        cls,
        pattern: str,
        target: str,
        features: Sequence[str] | None = None,
        client: Client | None = None,
    ) -> Distributed:
        """Parquet files that match a glob, one block per file, read by the workers themselves."""
        return cls(row_blocks.parquet_blocks(pattern, target, features), client)


class DerivedBlocks:
    """Something that was made of every block of rows, where it is: see `Distributed.derive`."""

    def __init__(self, design: Distributed, derived: Derived) -> None:
        self._design, self._derived = design, derived

    def each(self, name: str, *shared: object) -> list[Any]:
        """The results of one of its methods, or its attributes, for all blocks."""
        return self._design._each(name, *shared, of=self._derived)

    def one(self, row: int, name: str) -> Any:
        """The result of the block that has a row, given the row's position in it."""
        rows = self._design._rows
        k = next(k for k, block in enumerate(rows) if row < block.stop)
        request = Request(name, (row - rows[k].start,), (), self._derived)
        return self._design._pool.call_one(k, "one", request)

    def sum(self, name: str, split: Array) -> Array:
        """The sum of the results, each block given its own part of an array (M, ...)."""
        rows = self._design._rows
        return self._design._sum(name, lambda k: (split[rows[k]],), self._derived)


class GramColumns(Columns):
    """Columns that are known by their products alone.

    A coordinate update needs Phi_i' (y - Phi x), and all that changes in it when x_j does is
    (Phi' Phi)_ij: with the products in hand a sweep over all coefficients uses the rows only twice,
    for Phi' residual before it and Phi x after it. The updates are those of the columns themselves,
    up to rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp.designs import Dense
    >>> design = Dense(np.array([[1.0, 2.0], [0.0, 1.0]]))
    >>> GramColumns(design, design.information(np.ones(2))).power
    array([1., 5.])
    """

    def __init__(self, design: Design, gram: Array) -> None:  # gram is Phi' Phi
        self._design, self._gram = design, gram
        self.power = np.array(np.diag(gram))

    def descend(
        self, belief: Running, prior: Prior, noise: float, mean: Array, var: Array, residual: Array
    ) -> tuple[Array, Array]:
        correlation, before = self._design.transposed_times(residual), mean.copy()
        A, B = self.power / noise, np.empty(len(mean))
        for i, column in enumerate(self._gram):
            here = slice(i, i + 1)
            B[i] = correlation[i] / noise + A[i] * mean[i]
            own = prior.at(here, len(mean))
            new, var[here] = own.moments(belief.A[here] + A[here], belief.B[here] + B[here])
            correlation -= (new - mean[here]) * column
            mean[here] = new
        residual -= self._design.times(mean - before)
        return A, B
