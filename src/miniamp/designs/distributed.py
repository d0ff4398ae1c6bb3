"""A design whose rows live on the workers of a Dask cluster.

x and v go out, two vectors of length N come back; the rows and their g never leave a worker. Dask
gives actors no resilience, so it is built here: every block knows how to load itself again, and a
block whose worker died is loaded on another one while the iteration goes on.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from miniamp import checks
from miniamp.arrays import Array
from miniamp.channels.base import Channel
from miniamp.designs import row_sources
from miniamp.designs.base import Design, Sweep
from miniamp.designs.row_block import Facts, RowBlock
from miniamp.errors import MiniampError, MissingExtra

#: How often a block is loaded again within one call before giving up, and the pause between tries,
#: in seconds: a nanny needs about a second to bring a worker back.
_TRIES = 8
_PAUSE = 0.5


class LostWorkers(MiniampError, RuntimeError):
    """No worker is left that could hold a block of rows; the belief is unchanged."""


class _Block(NamedTuple):
    source: Any
    rows: slice
    facts: Facts


class Distributed(Design):
    """Row blocks on Dask workers, swept where they are.

    Parameters
    ----------
    sources : sequence of callables or dask.delayed objects
        Each gives the rows of one block: an array, a sparse matrix, or a pair (rows, observations).
        Callables are called on the worker that is to hold the block, delayed objects computed by
        the cluster; both again if that worker dies.
    client : distributed.Client, optional
        The cluster; the current client by default.

    Attributes
    ----------
    y : (M,) array
        The observations that the blocks brought along, fetched once: M numbers, not M x N.
    recovered : int
        How many blocks had to be loaded again because their worker was lost. Such a block starts
        without Onsager memory (its g died with the worker): one iteration is off, and the fixed
        point that the following ones reach is the same.

    Examples
    --------
    >>> import functools
    >>> import numpy as np
    >>> from dask.distributed import Client
    >>> blocks = [functools.partial(np.full, (2, 3), value) for value in (1.0, 2.0)]
    >>> with Client(processes=False, n_workers=1, dashboard_address=None) as client:
    ...     Distributed(blocks, client).forecast(np.ones(3), np.ones(3))
    (array([3., 3., 6., 6.]), array([ 3.,  3., 12., 12.]))
    """

    def __init__(self, sources: Sequence[Any], client: Any = None) -> None:
        self.client = current_client(client)
        if not sources:
            raise checks.refuse("sources", "none", "at least one block of rows", "check the source")
        self.recovered = 0
        self._tokens = itertools.count(1)
        self._target: Array | None = None
        self._actors = [self._place(source, k, k) for k, source in enumerate(sources)]
        facts = [actor.facts().result() for actor in self._actors]
        widths = {f.columns for f in facts}
        if len(widths) > 1:
            raise checks.refuse(
                "sources",
                f"blocks of {sorted(widths)} columns",
                "the same number of columns in every block",
                "select the same columns in every file",
            )
        edges = np.cumsum([0, *(f.rows for f in facts)])
        self._blocks = [
            _Block(source, slice(int(a), int(b)), fact)
            for source, a, b, fact in zip(sources, edges[:-1], edges[1:], facts, strict=True)
        ]
        self.shape = (int(edges[-1]), widths.pop())
        self._sent: Array | None = None

    def sandwich(self, x: Array, v: Array, y: Array, channel: Channel, memory: Any) -> Sweep:
        self._send_target(y)
        token = next(self._tokens)
        parts = self._on_all("sandwich", x, v, memory, token, per_block=self._channels(channel))
        return Sweep(
            pull=_sum([p.pull for p in parts]),
            curvature=_sum([p.curvature for p in parts]),
            memory=token,
            mean_square=self._row_mean([p.mean_square for p in parts]),
            mean_curvature=self._row_mean([p.mean_curvature for p in parts]),
        )

    def forecast(self, x: Array, v: Array) -> tuple[Array, Array]:
        means, variances = zip(*self._on_all("forecast", x, v), strict=True)
        return np.concatenate(means), np.concatenate(variances)

    @property
    def mean_square(self) -> float:
        return self._row_mean([block.facts.mean_square for block in self._blocks])

    @property
    def y(self) -> Array:
        """The observations that the blocks brought along."""
        if self._target is None:
            parts = self._on_all("own_target")
            if any(part is None for part in parts):
                raise checks.refuse(
                    "y",
                    "blocks without observations",
                    "sources that give (rows, y)",
                    "name the target column, or pass y yourself",
                )
            self._target = np.concatenate(parts)
        return self._target

    def diagnosis(self) -> str:
        found = [text for text in self._on_all("diagnosis") if text]
        return found[0] if found else ""

    def _channels(self, channel: Channel) -> list[Channel]:
        return [channel.at(block.rows) for block in self._blocks]

    def _row_mean(self, values: list[float]) -> float:
        return float(np.average(values, weights=[b.facts.rows for b in self._blocks]))

    def _send_target(self, y: Array) -> None:
        """Give every block its observations once, not at every iteration."""
        if self._sent is y:
            return
        self._sent = y
        self._on_all("set_target", per_block=[y[block.rows] for block in self._blocks])

    def _on_all(
        self, method: str, *shared: Any, per_block: Sequence[Any] | None = None
    ) -> list[Any]:
        """The answers of all blocks to one call, made on all workers at once."""
        extras = [() if per_block is None else (per_block[k],) for k in range(len(self._actors))]
        calls = [
            _try(actor, method, *shared, *extra)
            for actor, extra in zip(self._actors, extras, strict=True)
        ]
        return [
            self._answer(k, call, method, (*shared, *extra))
            for k, (call, extra) in enumerate(zip(calls, extras, strict=True))
        ]

    def _answer(self, k: int, call: Any, method: str, arguments: tuple[Any, ...]) -> Any:
        for _ in range(_TRIES):
            try:
                if isinstance(call, Exception):
                    raise call
                return call.result()
            except Exception as error:
                if not _worker_was_lost(error):
                    raise
            try:
                self._recover(k)
                call = _try(self._actors[k], method, *arguments)
            except Exception as error:
                if not _worker_was_lost(error):
                    raise
                time.sleep(_PAUSE)
        raise LostWorkers(
            f"client: no worker could hold block {k} after {_TRIES} tries, expected one; "
            "start more workers and call again, the belief is unchanged"
        )

    def _recover(self, k: int) -> None:
        self._actors[k] = self._place(self._blocks[k].source, k, k + 1 + self.recovered)
        self.recovered += 1
        if self._sent is not None:
            self._actors[k].set_target(self._sent[self._blocks[k].rows]).result()

    def _place(self, source: Any, k: int, turn: int) -> Any:
        workers = sorted(self.client.scheduler_info(n_workers=-1)["workers"])
        if not workers:
            raise LostWorkers("client: got a cluster without workers, expected one; start a worker")
        where = {"workers": [workers[turn % len(workers)]], "allow_other_workers": True}
        if hasattr(source, "__dask_graph__"):
            source = self.client.compute(source, **where)
        return self.client.submit(RowBlock, source, k, actor=True, pure=False, **where).result()

    @classmethod
    def from_array(cls, Phi: Any, y: Any = None, client: Any = None) -> Distributed:
        """A dask.array of rows, one block a chunk of rows; y may be a dask.array too."""
        return cls(row_sources.array_blocks(Phi, y), client)

    @classmethod
    def from_frame(
        cls, frame: Any, target: str, features: Sequence[str] | None = None, client: Any = None
    ) -> Distributed:
        """A dask.dataframe, one block a partition."""
        return cls(row_sources.frame_blocks(frame, target, features), client)

    @classmethod
    def from_parquet(
        cls, pattern: str, target: str, features: Sequence[str] | None = None, client: Any = None
    ) -> Distributed:
        """Parquet files that match a glob, one block a file, read by the workers themselves."""
        return cls(row_sources.parquet_blocks(pattern, target, features), client)


def current_client(client: Any = None) -> Any:
    """`client`, or the one that is current in this process."""
    try:
        from distributed import get_client
    except ImportError:
        raise MissingExtra(
            "designs.Distributed needs Dask, which is not installed; "
            "pip install 'miniamp[distributed]'"
        ) from None
    if client is not None:
        return client
    try:
        return get_client()
    except ValueError:
        raise checks.refuse(
            "client", "none", "a running Dask cluster", "pass client=distributed.Client()"
        ) from None


def _try(actor: Any, method: str, *arguments: Any) -> Any:
    """A call's pending answer, or the error it met at once, to be dealt with in its turn."""
    try:
        return getattr(actor, method)(*arguments)
    except Exception as error:
        return error


def _worker_was_lost(error: Exception) -> bool:
    """Whether an actor failed because its worker did, not because of what it computed."""
    from distributed import CancelledError
    from distributed.scheduler import KilledWorker

    if isinstance(error, OSError | KilledWorker | CancelledError):
        return True
    # Dask's own words for an actor whose worker is gone, and a restarted worker's for one that it
    # does not know.
    return (isinstance(error, RuntimeError) and "holding Actor was lost" in str(error)) or (
        isinstance(error, KeyError) and RowBlock.__name__ in str(error)
    )


def _sum(arrays: list[Array]) -> Array:
    total = np.array(arrays[0], copy=True)
    for array in arrays[1:]:
        total = total + array
    return total
