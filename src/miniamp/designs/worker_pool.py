"""Blocks of rows in stock Dask actors, and their recovery when a worker dies.

Each worker holds its blocks in one actor, so that a call is one message out and one back per
worker. Dask chooses the worker of an actor (the one with the fewest) and starts it elsewhere when
that worker dies while loading, but it does not recover the state of an actor. The layer here does:
every block knows its source, and the pool keeps a log of the calls that made a block what it is.
The blocks of a lost worker are loaded again, and repeat the log before the call that found it lost.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from miniamp import checks
from miniamp.arrays import Array
from miniamp.channels.base import Channel
from miniamp.designs import threads
from miniamp.designs.base import Design, Sweep, as_design
from miniamp.designs.sequential import Responses, Running
from miniamp.errors import InvalidInputError, MiniampError
from miniamp.posterior import Prior

if TYPE_CHECKING:
    from distributed import ActorFuture, Client, Future

#: Seconds between two looks at whether the worker of a pending call is alive.
WATCH = 0.5
#: Seconds that a cluster without workers, or without its scheduler, is given to bring them back: a
#: nanny needs about one, on a busy machine ten.
REVIVAL = 30.0
#: How often the blocks of lost workers are loaded again within one call before giving up.
TRIES = 8
#: Iterations whose g a block remembers: the one being made, the one it is made from, and one that
#: was made to check an estimate.
KEPT = 3


class LostWorkersError(MiniampError, RuntimeError):
    """No worker is left that could hold a block of rows; the belief is unchanged."""

    @classmethod
    def of(cls, received: str, remedy: str) -> LostWorkersError:
        """The error for this state of the cluster."""
        expected = "workers that live and have room for the rows"
        return cls("client", received, expected, f"{remedy}; the belief is unchanged")


class LostSchedulerError(LostWorkersError):
    """The scheduler of the cluster does not answer; the belief is unchanged."""


class _WorkerLost(Exception):
    """The worker that held a group of blocks is gone; they can be loaded again elsewhere."""


class RowBlock:
    """Rows in a worker's memory, with their observations and their g.

    The source is called here, on the worker, or was already computed by the cluster: rows alone, or
    a pair (rows, observations). Messages name the block by its index.
    """

    def __init__(self, source: object, index: int) -> None:
        with loading(index):
            loaded = source() if callable(source) else source
            rows, y = loaded if isinstance(loaded, tuple) else (loaded, None)
            try:
                self.design = as_design(rows)
                self.y = None if y is None else checks.vector("y", y, self.design.shape[0])
            except InvalidInputError as error:
                raise error.relabelled(f"block {index}: {error.argument}") from error
        self._observed = np.empty(0)
        self._memory: dict[int, Array] = {}
        self._derived: tuple[int, object] = (0, self.design)

    def facts(self) -> tuple[tuple[int, int], float, Array | None]:
        """What the client must know: shape, mean square, and the observations that came along."""
        return self.design.shape, self.design.mean_square, self.y

    def ask(
        self, made: tuple[int, Callable[[Design], object]] | None, name: str, *arguments: object
    ) -> Any:
        """A method or attribute of the design, or of something made of it.

        `made` is a number and what makes it; it is kept until one of another number is asked for.
        """
        if made is not None and self._derived[0] != made[0]:
            self._derived = (0, self.design)  # free the old one before there are two
            self._derived = (made[0], made[1](self.design))
        found = getattr(self.design if made is None else self._derived[1], name)
        return found(*arguments) if callable(found) else found

    def observe(self, y: Array) -> None:
        """Take the observations of the sweeps to come."""
        self._observed = y

    def sandwich(
        self, x: Array, v: Array, number: int, before: int | None, channel: Channel
    ) -> Sweep:
        """One pass over the block, with sums instead of means; g stays here, as `number`."""
        memory = None if before is None else self._memory.get(before)
        sweep = self.design.sandwich(x, v, self._observed, channel, memory)
        self._memory[number] = sweep.memory
        while len(self._memory) > KEPT:
            del self._memory[min(self._memory.keys() - {before})]
        rows = self.design.shape[0]
        pull, curvature, _, mean_square, mean_curvature = sweep
        return Sweep(pull, curvature, np.empty(0), rows * mean_square, rows * mean_curvature)

    def online(
        self, running: Running, prior: Prior, y: Array, channel: Channel
    ) -> tuple[Running, Responses]:
        """A belief after the rows, one by one, and the channel's responses."""
        running = Running(*(np.array(part) for part in running))  # what arrives is read-only
        responses = Responses.empty(len(y))
        self.design.online(running, y, channel, prior, responses)
        return running, responses


class Call(NamedTuple):
    """A function of each block, and its arguments."""

    task: Callable[..., Any]  #: called with the block, then `shared`, then `own(k)`
    shared: tuple[object, ...] = ()  #: arguments for all blocks
    own: Callable[[int], tuple[object, ...]] = lambda _: ()  #: further arguments of block k
    #: what is made of the results of a worker's blocks, and then of all workers'; None: a list
    combine: Callable[[Iterable[Any]], Any] | None = None


class Message(NamedTuple):
    """Calls on the way to a worker; Dask would take a plain list apart, piece by piece."""

    calls: list[tuple[Any, ...]]  #: (task, shared, {block: own}, combine)


class Failed(NamedTuple):
    """An error of a task, sent back as a result: what a call itself raises is then Dask's own."""

    error: Exception


class Blocks:
    """The actor: all blocks of one worker."""

    def __init__(self, indices: Sequence[int], *sources: object) -> None:
        from distributed import get_worker

        self._blocks = {k: RowBlock(source, k) for k, source in zip(indices, sources, strict=True)}
        # Dask sets OMP_NUM_THREADS to 1 for all its workers, however many threads one was given.
        self._threads = int(get_worker().state.nthreads)

    def run(self, message: Message) -> Any:
        """The result of the last of several calls."""
        result = None
        try:
            with threads.limit(self._threads):
                for task, shared, own, combine in message.calls:
                    each = ((k, task(self._blocks[k], *shared, *mine)) for k, mine in own.items())
                    result = combine(r for _, r in each) if combine else dict(each)
        except Exception as error:  # raised by `Group.result`
            return Failed(error)
        return result


class Group:
    """Blocks that one actor holds; `first` are the calls that they have to repeat first."""

    def __init__(self, client: Client, sources: dict[int, object], first: list[Call]) -> None:
        self.blocks, self.first, self._client = tuple(sources), first, client
        self._future: Future = client.submit(
            Blocks, self.blocks, *sources.values(), actor=True, pure=False
        )

    def load(self) -> None:
        """Wait until the blocks are loaded; raises what a source raised."""
        await_all(self._client, [self._future])
        with self._client.as_current():  # an actor belongs to the client that is current
            self._actor = self._future.result()

    def send(self, calls: Sequence[Call], only: Sequence[int]) -> ActorFuture | None:
        """The pending result of the last call; None if the worker is known to be lost."""
        if self._future.status != "finished":
            return None
        mine, some = self.blocks, [k for k in self.blocks if k in only]
        sent = [(call, mine) for call in self.first] + [(call, some) for call in calls]
        return self._actor.run(
            Message([(c.task, c.shared, {k: c.own(k) for k in ks}, c.combine) for c, ks in sent])
        )

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
            self.first = []
            return result
        raise _WorkerLost


class WorkerPool:
    """Blocks on the workers of a cluster.

    Sources are callables or dask.delayed objects. `log` lists the calls that a block which is
    loaded again has to repeat, `recovered` counts such blocks.
    """

    def __init__(self, sources: Sequence[object], client: Client) -> None:
        self.client, self._sources = client, sources
        self.recovered, self.log = 0, list[Call]()
        self.groups = self._load(range(len(sources)))

    def run(self, *calls: Call, only: Sequence[int] | None = None) -> Any:
        """The result of the last call; all workers work at the same time."""
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
                break
            blocks = sorted(k for group in lost for k in group.blocks)
            waiting = [k for k in blocks if k in waiting]
            new = self._load(blocks)  # where this fails the groups stay, to be found lost again
            self.groups = [group for group in self.groups if group not in lost] + new
            self.recovered += len(blocks)
        else:
            raise LostWorkersError.of(
                f"workers lost {TRIES} times in one call", "give them more memory"
            )
        combine, found = calls[-1].combine, [result for _, result in sorted(results.items())]
        if combine is not None:
            return combine(found)
        each = {k: result for part in found for k, result in part.items()}
        return [each[k] for k in sorted(each)]

    def _load(self, blocks: Sequence[int]) -> list[Group]:
        """Groups of these blocks, as many as workers, loaded at the same time."""
        from distributed import KilledWorker

        which = " to ".join(map(str, sorted({min(blocks), max(blocks)})))
        for attempt in range(TRIES):
            groups = [Group(self.client, part, self.log) for part in self._shares(blocks)]
            try:
                for group in groups:
                    group.load()
            except MiniampError:
                raise
            except KilledWorker as error:  # Dask has tried several
                raise LostWorkersError.of(
                    f"workers that died one after the other while loading blocks {which}",
                    "give them more memory, or cut the rows into smaller blocks",
                ) from error
            except Exception as error:
                # An actor that was ready is lost, or a graph failed, as it will again.
                if attempt == TRIES - 1:
                    raise cannot_load(which, error) from error
            else:
                break
        return groups

    def _shares(self, blocks: Sequence[int]) -> list[dict[int, object]]:
        """The sources of each worker's blocks, equal shares: neighbours, or those on one worker.

        What the cluster has to compute is computed by now; Dask prefers its worker for the actor.
        """
        share = -(-len(blocks) // len(living_workers(self.client)))
        given = {k: self._sources[k] for k in blocks}
        for k, source in given.items():
            if hasattr(source, "__dask_graph__"):
                given[k] = self.client.compute(source)
        futures = [source for source in given.values() if hasattr(source, "key")]
        await_all(self.client, futures)
        held = self.client.who_has(futures) if futures else {}
        place = {k: min(held.get(getattr(given[k], "key", ""), ()), default="") for k in blocks}
        order = sorted(blocks, key=lambda k: (place[k], k))
        parts = [sorted(order[i : i + share]) for i in range(0, len(order), share)]
        return [{k: given[k] for k in part} for part in parts]


def current_client(client: Client | None = None) -> Client:
    """`client`, or the one that is current in this process, with calls straight to the workers.

    Through the scheduler, Dask's default, every vector crosses the network twice: 3.6 ms for a call
    of two workers that takes 2.4 ms straight.
    """
    dask = checks.needed("distributed", "designs.Distributed")
    if getattr(client, "asynchronous", False):
        raise checks.refuse(
            "client", "an asynchronous one", "one that waits", "pass distributed.Client(address)"
        )
    if client is None:
        try:
            client = cast("Client", dask.get_client())
        except ValueError:
            raise checks.refuse(
                "client", "none", "a running Dask cluster", "pass client=distributed.Client()"
            ) from None
    client.direct_to_workers = True
    return client


def living_workers(client: Client) -> list[str]:
    """Addresses of the workers there are; waits if there are none just now."""
    end = time.monotonic() + REVIVAL
    while True:
        try:
            scheduler = client.status == "running"
            workers = list(client.nthreads()) if scheduler else []
        except (OSError, RuntimeError):  # the connection broke just now
            scheduler, workers = False, []
        if workers:
            return workers
        if time.monotonic() > end or client.status == "closed":
            break
        time.sleep(WATCH)
    if scheduler:
        raise LostWorkersError.of(
            f"a cluster without workers for {REVIVAL:g} s", "start a worker and call again"
        )
    raise LostSchedulerError.of(
        f"a scheduler that has not answered for {REVIVAL:g} s",
        "connect to a new one and load the rows again",
    )


def first_done(client: Client, futures: Sequence[Future]) -> list[Future]:
    """Futures that are done, as soon as one is; none after a while, if there still are workers."""
    from distributed import wait

    with contextlib.suppress(TimeoutError):
        wait(list(futures), timeout=WATCH, return_when="FIRST_COMPLETED")
    done = [future for future in futures if future.done()]
    if not done:
        living_workers(client)
    return done


def await_all(client: Client, futures: Sequence[Future]) -> None:
    """Wait until all are done, as long as there are workers."""
    while futures:
        done = first_done(client, futures)
        futures = [future for future in futures if future not in done]


@contextlib.contextmanager
def loading(index: int) -> Iterator[None]:
    """Context manager in which a source gives a block, whatever it may raise."""
    try:
        yield
    except MiniampError:
        raise
    except Exception as error:  # whatever a loader may raise, its file being gone among it
        raise cannot_load(index, error) from error


def cannot_load(index: int | str, error: BaseException) -> InvalidInputError:
    """The error for a block whose source fails."""
    return checks.refuse(
        "sources",
        f"block {index}, which cannot be loaded ({type(error).__name__}: {error})",
        "a source that gives its rows",
        "put its file back or fix the loader, and call again; the belief is unchanged",
    )
