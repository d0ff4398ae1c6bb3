"""Blocks of rows on the workers of a Dask cluster, and their recovery when a worker dies.

Each worker holds its blocks in one stock Dask actor, so that a call is one message out and one back
per worker. Dask does not recover the state of an actor, so a thin layer above does: every block
knows its source, and the pool keeps a log of the calls that made a block what it is. The blocks of
a lost worker are loaded on others and repeat the log, while the call that found it lost waits.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from miniamp import checks
from miniamp.designs import threads
from miniamp.errors import InvalidInputError, MiniampError, MissingExtraError

if TYPE_CHECKING:
    from distributed import ActorFuture, Client, Future

#: Seconds between two looks at whether the worker of a pending call is alive.
WATCH = 0.5
#: Seconds that a cluster without workers, or without its scheduler, is given to bring them back: a
#: nanny needs about one, on a busy machine ten.
REVIVAL = 30.0
#: How often the blocks of lost workers are loaded again within one call before giving up.
TRIES = 8

#: Makes a block, on the worker, of its source and its index.
Make: TypeAlias = Callable[[object, int], object]


class LostWorkersError(MiniampError, RuntimeError):
    """No worker is left that could hold a block of rows; the belief is unchanged."""


class LostSchedulerError(LostWorkersError):
    """The scheduler of the cluster does not answer; the belief is unchanged."""


class _WorkerLost(Exception):
    """The worker that held a group of blocks is gone; they can be loaded again elsewhere."""


class Call(NamedTuple):
    """A function of each block, and its arguments."""

    task: Callable[..., Any]  #: called with the block, then `shared`, then `own(k)`
    shared: tuple[object, ...] = ()  #: arguments for all blocks
    own: Callable[[int], tuple[object, ...]] = lambda _: ()  #: further arguments of block k
    combine: Callable[[Iterable[Any]], Any] = list  #: what a worker makes of its blocks' results


class Message(NamedTuple):
    """Calls on the way to a worker; Dask would take a plain list apart, piece by piece."""

    calls: list[tuple[Any, ...]]  #: (task, shared, {block: own}, combine)


class Failed(NamedTuple):
    """An error of a task, sent back as a result: what a call itself raises is then Dask's own."""

    error: Exception


class Blocks:
    """The actor: all blocks of one worker."""

    def __init__(self, make: Make, indices: Sequence[int], *sources: object) -> None:
        from distributed import get_worker

        self._blocks = {k: make(source, k) for k, source in zip(indices, sources, strict=True)}
        # Dask sets OMP_NUM_THREADS to 1 for all its workers, however many threads one was given.
        self._threads = int(get_worker().state.nthreads)

    def run(self, message: Message) -> Any:
        """The result of the last of several calls."""
        result = None
        try:
            with threads.limit(self._threads):
                for task, shared, own, combine in message.calls:
                    each = (task(self._blocks[k], *shared, *mine) for k, mine in own.items())
                    result = combine(each)
        except Exception as error:  # raised by `Group.result`
            return Failed(error)
        return result


class Group:
    """The blocks that one actor holds."""

    def __init__(self, pool: WorkerPool, worker: str, sources: dict[int, object]) -> None:
        self.worker, self.blocks, self._client = worker, tuple(sources), pool.client
        # On this worker and no other: Dask lets a task wait for ever whose preferred worker died.
        self._future: Future = pool.client.submit(
            Blocks, pool.make, self.blocks, *sources.values(),
            actor=True, pure=False, workers=[worker],
        )  # fmt: skip

    def wait(self) -> None:
        """Wait until the blocks are loaded; raises what a source raised."""
        from distributed import CancelledError, KilledWorker

        while not first_done(self._client, [self._future]):
            if self.worker not in living_workers(self._client):
                raise _WorkerLost
        try:
            with self._client.as_current():  # an actor belongs to the client that is current
                self._actor = self._future.result()
        except (KilledWorker, CancelledError) as error:
            raise _WorkerLost from error
        except MiniampError:
            raise
        except Exception as error:  # of a graph that the cluster was to compute
            which = " to ".join(map(str, sorted({self.blocks[0], self.blocks[-1]})))
            raise cannot_load(which, error) from error

    def send(self, calls: Sequence[Call], only: Sequence[int]) -> ActorFuture | None:
        """The pending result of the last call; None if the worker is known to be lost."""
        if self._future.status != "finished":
            return None
        blocks = [k for k in self.blocks if k in only]
        sent = [(c.task, c.shared, {k: c.own(k) for k in blocks}, c.combine) for c in calls]
        return self._actor.run(Message(sent))

    def result(self, pending: ActorFuture | None) -> Any:
        """The result of a pending call."""
        while pending is not None and self._future.status == "finished":
            try:
                result = pending.result(timeout=WATCH)
            except TimeoutError:
                continue
            except Exception:  # the connection broke, or the worker is closing
                break
            if isinstance(result, Failed):
                raise result.error
            return result
        raise _WorkerLost


class WorkerPool:
    """Blocks on the workers of a cluster.

    Sources are callables or dask.delayed objects. `log` lists the calls that a block which is
    loaded again has to repeat, `recovered` counts such blocks.
    """

    def __init__(self, make: Make, sources: Sequence[object], client: Client) -> None:
        self.client, self.make, self._sources = client, make, sources
        self.recovered, self.log = 0, list[Call]()
        self.groups: list[Group] = []
        self.groups = self._load(range(len(sources)))

    def run(
        self, *calls: Call, only: Sequence[int] | None = None
    ) -> list[tuple[tuple[int, ...], Any]]:
        """Every worker's result of the last call, with its blocks; all work at the same time."""
        waiting = range(len(self._sources)) if only is None else only
        results: dict[tuple[int, ...], Any] = {}
        for _ in range(TRIES):
            asked = [group for group in self.groups if not set(waiting).isdisjoint(group.blocks)]
            lost = []
            for group, pending in [(group, group.send(calls, waiting)) for group in asked]:
                try:
                    results[group.blocks] = group.result(pending)
                except _WorkerLost:
                    lost.append(group)
            if not lost:
                return sorted(results.items())
            waiting = [k for group in lost for k in group.blocks if k in waiting]
            blocks = sorted(k for group in lost for k in group.blocks)
            new = self._load(blocks)  # where this fails the groups stay, to be found lost again
            self.groups = [group for group in self.groups if group not in lost] + new
            self.recovered += len(blocks)
        raise _lost_workers(f"workers lost {TRIES} times in one call", "give them more memory")

    def _load(self, blocks: Sequence[int]) -> list[Group]:
        """Groups of blocks, one per worker, all loaded at the same time; they repeat the log."""
        for _ in range(TRIES):
            try:
                groups = [Group(self, *part) for part in self._parts(blocks).items()]
                for group in groups:
                    group.wait()
                repeated = [(g, g.send(self.log, g.blocks)) for g in groups if self.log]
                for group, pending in repeated:
                    group.result(pending)
            except _WorkerLost:
                continue
            return groups
        raise _lost_workers(
            f"workers that died {TRIES} times while loading blocks {min(blocks)} to {max(blocks)}",
            "give them more memory, or cut the rows into smaller blocks",
        )

    def _parts(self, blocks: Sequence[int]) -> dict[str, dict[int, object]]:
        """The sources of each worker's blocks: equal shares of neighbours, least loaded first.

        What the cluster has to compute is computed by now, and stays where it is if that is fair.
        """
        given = {k: self._sources[k] for k in blocks}
        for k, source in given.items():
            if hasattr(source, "__dask_graph__"):
                given[k] = self.client.compute(source)
        futures = [source for source in given.values() if hasattr(source, "key")]
        waiting = futures
        while waiting:
            done = first_done(self.client, waiting)
            waiting = [future for future in waiting if future not in done]
        held = self.client.who_has(futures) if futures else {}
        place = {k: min(held.get(getattr(given[k], "key", ""), ()), default="") for k in blocks}
        ordered = sorted(blocks, key=lambda k: (place[k], k))
        load = {
            worker: sum(len(group.blocks) for group in self.groups if group.worker == worker)
            for worker in living_workers(self.client)
        }
        share = -(-len(blocks) // len(load))
        parts = [sorted(ordered[i : i + share]) for i in range(0, len(blocks), share)]
        workers = sorted(load, key=lambda worker: (load[worker], worker))
        return {w: {k: given[k] for k in part} for w, part in zip(workers, parts, strict=False)}


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
        try:
            scheduler = client.status == "running"
            workers = sorted(client.nthreads()) if scheduler else []
        except (OSError, RuntimeError):  # the connection broke just now
            scheduler, workers = False, []
        if workers:
            return workers
        if time.monotonic() > end or client.status == "closed":
            break
        time.sleep(WATCH)
    if scheduler:
        raise _lost_workers(
            f"a cluster without workers for {REVIVAL:g} s", "start a worker and call again"
        )
    raise LostSchedulerError(
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


def cannot_load(index: int | str, error: Exception) -> InvalidInputError:
    """The error for a block whose source fails."""
    return checks.refuse(
        "sources",
        f"block {index}, which cannot be loaded ({type(error).__name__}: {error})",
        "a source that gives its rows",
        "put its file back or fix the loader, and call again; the belief is unchanged",
    )
