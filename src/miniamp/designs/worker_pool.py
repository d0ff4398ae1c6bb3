"""Blocks of rows held by the workers of a Dask cluster, and loaded again when a worker dies.

Each worker holds one stock Dask actor with its blocks. Dask does not recover the state of an actor,
so a thin layer above does: every block knows its source, and the blocks of a lost worker are loaded
on others while the call that found it lost waits.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from miniamp import checks
from miniamp.designs.row_blocks import RowBlocks, cannot_load
from miniamp.errors import MiniampError, MissingExtraError

if TYPE_CHECKING:
    from distributed import ActorFuture, Client, Future

#: Seconds between two looks at whether the worker of a pending call is alive.
WATCH = 0.5
#: Seconds that a cluster without workers, or without its scheduler, is given to bring them back: a
#: nanny needs about one, on a busy machine ten.
REVIVAL = 30.0
#: How often the blocks of lost workers are loaded again within one call before giving up.
TRIES = 8


class LostWorkersError(MiniampError, RuntimeError):
    """No worker is left that could hold a block of rows; the belief is unchanged."""


class LostSchedulerError(LostWorkersError):
    """The scheduler of the cluster does not answer; the belief is unchanged."""


class _WorkerLost(Exception):
    """The worker that held a group of blocks is gone; they can be loaded again elsewhere."""


class Group:
    """Some blocks, together in one actor on one worker.

    They are `fresh` if they were loaded again and have not been swept since.
    """

    def __init__(
        self,
        client: Client,
        worker: str,
        blocks: tuple[int, ...],
        sources: Sequence[object],
        *,
        fresh: bool,
    ) -> None:
        self.blocks, self.worker, self.fresh = blocks, worker, fresh
        self.sent: object = None  #: observations that need not be sent again
        self._client = client
        # On this worker and no other: Dask lets a task wait for ever whose preferred worker died.
        self._future: Future = client.submit(
            RowBlocks, blocks, *sources, actor=True, pure=False, workers=[worker]
        )

    def wait(self) -> None:
        """Wait until the blocks are loaded; raises what a source raised."""
        from distributed import CancelledError, KilledWorker

        while not self._future.done():
            first_done(self._client, [self._future])
            if not self._future.done() and self.worker not in living_workers(self._client):
                raise _WorkerLost
        try:
            with self._client.as_current():  # an actor belongs to the client that is current
                self._actor = self._future.result()
        except (KilledWorker, CancelledError) as error:
            raise _WorkerLost from error

    def call(self, method: str, *arguments: object) -> ActorFuture | None:
        """The pending result of a method of `RowBlocks`; None if the worker is known to be lost."""
        lost = self._future.status != "finished"
        return None if lost else getattr(self._actor, method)(*arguments)

    def result(self, call: ActorFuture | None) -> Any:
        """The result of a pending call."""
        while call is not None and self._future.status == "finished":
            try:
                return call.result(timeout=WATCH)
            except TimeoutError:
                continue
            except OSError:  # RowBlocks raises none itself: the connection broke
                break
        raise _WorkerLost


class WorkerPool:
    """The blocks of a design on the workers of a cluster.

    Sources are callables or dask.delayed objects; `recovered` counts the blocks that were loaded
    again because their worker was lost.
    """

    def __init__(self, sources: Sequence[object], client: Client) -> None:
        self.client, self.recovered = client, 0
        self._sources = list(sources)
        self.groups: list[Group] = []
        self.groups = self._loaded(range(len(self._sources)), fresh=False)

    def call(
        self, method: str, arguments: Callable[[Group], tuple[object, ...]]
    ) -> list[tuple[Group, Any]]:
        """Every group's result of a method, all called at the same time."""
        results: dict[Group, Any] = {}
        pending = self.groups
        for _ in range(TRIES):
            lost = []
            for group, call in [(g, g.call(method, *arguments(g))) for g in pending]:
                try:
                    results[group] = group.result(call)
                except _WorkerLost:
                    lost.append(group)
            if not lost:
                return [(group, results[group]) for group in self.groups]
            pending = self._replaced(lost)
        raise _lost_workers(f"workers lost {TRIES} times in one call", "give them more memory")

    def call_one(self, k: int, method: str, *arguments: object) -> Any:
        """The result of a method for block k alone; its position in its group comes first."""
        for _ in range(TRIES):
            group = next(group for group in self.groups if k in group.blocks)
            try:
                return group.result(group.call(method, group.blocks.index(k), *arguments))
            except _WorkerLost:
                self._replaced([group])
        raise _lost_workers(f"workers lost {TRIES} times in one call", "give them more memory")

    def _replaced(self, lost: Sequence[Group]) -> list[Group]:
        """New groups in the place of lost ones."""
        blocks = sorted(k for group in lost for k in group.blocks)
        self.groups = [group for group in self.groups if group not in lost]
        try:
            new = self._loaded(blocks, fresh=True)
        except MiniampError:
            self.groups = sorted([*self.groups, *lost], key=lambda group: group.blocks)
            raise
        self.recovered += len(blocks)
        self.groups = sorted([*self.groups, *new], key=lambda group: group.blocks)
        return new

    def _loaded(self, blocks: Sequence[int], *, fresh: bool) -> list[Group]:
        """Groups of blocks, one per worker, all loaded at the same time."""
        for _ in range(TRIES):
            given = {k: self._computed(self._sources[k]) for k in blocks}
            parts = assign(blocks, self._least_loaded(), self._workers_of(given))
            groups = [
                Group(self.client, worker, part, [given[k] for k in part], fresh=fresh)
                for worker, part in parts.items()
            ]
            try:
                for group in groups:
                    self._wait_for(group)
            except _WorkerLost:
                continue
            return groups
        raise _lost_workers(
            f"workers that died {TRIES} times while loading blocks {min(blocks)} to {max(blocks)}",
            "give them more memory, or cut the rows into smaller blocks",
        )

    def _computed(self, source: object) -> object:
        """A source, as a future where the cluster is to compute it."""
        return self.client.compute(source) if hasattr(source, "__dask_graph__") else source

    def _workers_of(self, given: dict[int, object]) -> dict[int, str]:
        """Which worker holds the rows of a block, for those that the cluster computes."""
        futures = {k: future for k, future in given.items() if hasattr(future, "key")}
        waiting = list(futures.values())
        while waiting:
            done = first_done(self.client, waiting)
            waiting = [future for future in waiting if future not in done]
        held = self.client.who_has(list(futures.values())) if futures else {}
        found = {k: held.get(future.key) for k, future in futures.items()}
        return {k: workers[0] for k, workers in found.items() if workers}

    def _least_loaded(self) -> list[str]:
        """The workers there are, those with the fewest blocks first."""
        held = dict.fromkeys(living_workers(self.client), 0)
        for group in self.groups:
            if group.worker in held:
                held[group.worker] += len(group.blocks)
        return sorted(held, key=lambda worker: (held[worker], worker))

    def _wait_for(self, group: Group) -> None:
        try:
            group.wait()
        except (MiniampError, _WorkerLost):
            raise
        except Exception as error:  # of a graph that the cluster was to compute
            first, last = group.blocks[0], group.blocks[-1]
            which = str(first) if first == last else f"{first} to {last}"
            raise cannot_load(which, error) from error


def assign(
    blocks: Sequence[int], workers: Sequence[str], where: dict[int, str]
) -> dict[str, tuple[int, ...]]:
    """The blocks of each worker: equal shares of neighbours, left where they are if possible.

    Examples
    --------
    >>> assign([0, 1, 2, 3, 4], ["a", "b"], where={})
    {'a': (0, 1, 2), 'b': (3, 4)}
    >>> assign([0, 1, 2, 3], ["a", "b"], where={0: "b", 1: "b", 2: "b"})
    {'a': (2, 3), 'b': (0, 1)}
    """
    share = -(-len(blocks) // len(workers))
    parts: dict[str, list[int]] = {worker: [] for worker in workers}
    unassigned = []
    for k in blocks:
        part = parts.get(where.get(k, ""))
        if part is None or len(part) >= share:
            unassigned.append(k)
        else:
            part.append(k)
    for part in parts.values():
        room = share - len(part)
        part.extend(unassigned[:room])
        unassigned = unassigned[room:]
    return {worker: tuple(sorted(part)) for worker, part in parts.items() if part}


def current_client(client: Client | None = None) -> Client:
    """`client`, or the one that is current in this process, with calls straight to the workers.

    Through the scheduler, Dask's default, every vector crosses the network twice: 3.6 ms for a call
    of two workers that takes 2.4 ms straight.
    """
    try:
        from distributed import get_client
    except ImportError:
        raise MissingExtraError(
            "designs.Distributed",
            "no Dask",
            "dask.distributed",
            "pip install 'miniamp[distributed]'",
        ) from None
    if getattr(client, "asynchronous", False):
        raise checks.refuse(
            "client", "an asynchronous one", "one that waits", "pass distributed.Client(address)"
        )
    if client is None:
        try:
            client = get_client()
        except ValueError:
            raise checks.refuse(
                "client", "none", "a running Dask cluster", "pass client=distributed.Client()"
            ) from None
    client.direct_to_workers = True
    return client


def living_workers(client: Client) -> list[str]:
    """Addresses of the workers there are, in a fixed order; waits if there are none just now."""
    end = time.monotonic() + REVIVAL
    while True:
        workers: list[str] = []
        scheduler = client.status == "running"
        if scheduler:
            try:
                workers = sorted(client.nthreads())
            except (OSError, RuntimeError):  # the connection broke just now
                scheduler = False
        if workers:
            return workers
        if time.monotonic() > end or client.status == "closed":
            raise _lost(scheduler)
        time.sleep(WATCH)


def _lost(scheduler: bool) -> LostWorkersError:
    if scheduler:
        return _lost_workers(
            f"a cluster without workers for {REVIVAL:g} s", "start a worker and call again"
        )
    return LostSchedulerError(
        "client",
        f"a scheduler that has not answered for {REVIVAL:g} s",
        "a running Dask cluster",
        "connect to a new one and load the rows again; the belief is unchanged",
    )


def _lost_workers(received: str, remedy: str) -> LostWorkersError:
    expected = "workers that live and have room for the rows"
    return LostWorkersError("client", received, expected, f"{remedy}; the belief is unchanged")


def first_done(client: Client, futures: Sequence[Future]) -> list[Future]:
    """Those that are done, as soon as one is; none after a while, if there still are workers."""
    from distributed import wait

    with contextlib.suppress(TimeoutError):
        wait(list(futures), timeout=WATCH, return_when="FIRST_COMPLETED")
    done = [future for future in futures if future.done()]
    if not done:
        living_workers(client)
    return done
