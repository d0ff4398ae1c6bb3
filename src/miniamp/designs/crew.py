"""Who holds which blocks of rows, and what happens when one of them dies.

Dask gives actors no resilience, so it is built here: every block knows how to load itself again,
and the blocks of a worker that died are loaded on others while the question it was asked waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from miniamp.designs.actors import (
    LostWorkers,
    Remote,
    WorkerLost,
    first_done,
    living_workers,
)
from miniamp.designs.row_block import RowBlocks, not_loaded, sum_of
from miniamp.errors import InvalidInputError, MiniampError

#: How often the blocks of lost workers are loaded again within one question before giving up.
TRIES = 8


class Group:
    """Some blocks, together on one worker.

    Attributes
    ----------
    blocks : tuple of int
        Which ones, in order.
    told : object
        What was last said to them that need not be said again.
    fresh : bool
        Whether they were loaded again, and have not been swept since.
    """

    def __init__(self, blocks: tuple[int, ...], remote: Remote, fresh: bool) -> None:
        self.blocks, self.remote, self.fresh = blocks, remote, fresh
        self.told: Any = None


class Crew:
    """The blocks of a design on the workers of a cluster.

    Parameters
    ----------
    sources : sequence of callables or dask.delayed objects
        What gives each block, now and again.
    client : distributed.Client
        The cluster.

    Attributes
    ----------
    recovered : int
        How many blocks had to be loaded again because their worker was lost.
    """

    def __init__(self, sources: Sequence[Any], client: Any) -> None:
        self.client, self.recovered = client, 0
        self._sources = list(sources)
        self.groups = self._loaded(range(len(self._sources)), fresh=False)

    def ask(
        self, method: str, arguments: Callable[[Group], tuple[Any, ...]]
    ) -> list[tuple[Group, Any]]:
        """What every group answers to a method, all asked at once."""
        waiting = [_called(group, method, arguments) for group in self.groups]
        answers: dict[Group, Any] = {}
        for _ in range(TRIES):
            lost = []
            for group, call in waiting:
                try:
                    answers[group] = call.result()
                except WorkerLost:
                    lost.append(group)
            if not lost:
                return [(group, answers[group]) for group in self.groups]
            waiting = [_called(group, method, arguments) for group in self._replaced(lost)]
        raise _too_often()

    def each(
        self, method: str, *shared: Any, own: Callable[[int], tuple[Any, ...]] = lambda _: ()
    ) -> list[Any]:
        """The answers of all blocks, in order, with arguments for all and for each."""
        found = self.ask("each", lambda g: (method, shared, [own(k) for k in g.blocks]))
        by_block = {
            k: answer
            for group, answers in found
            for k, answer in zip(group.blocks, answers, strict=True)
        }
        return [by_block[k] for k in sorted(by_block)]

    def sum(
        self, method: str, *shared: Any, own: Callable[[int], tuple[Any, ...]] = lambda _: ()
    ) -> Any:
        """The sum of the answers of all blocks, each worker's summed there."""
        found = self.ask("sum", lambda g: (method, shared, [own(k) for k in g.blocks]))
        return sum_of([answer for _, answer in found])

    def one(self, k: int, method: str, *arguments: Any) -> Any:
        """The answer of block k alone."""
        for _ in range(TRIES):
            group = next(group for group in self.groups if k in group.blocks)
            try:
                call = group.remote.call("one", group.blocks.index(k), method, arguments)
                return call.result()
            except WorkerLost:
                self._replaced([group])
        raise _too_often()

    def _replaced(self, lost: Sequence[Group]) -> list[Group]:
        """New groups in the place of lost ones."""
        blocks = sorted(k for group in lost for k in group.blocks)
        kept = [group for group in self.groups if group not in lost]
        new = self._loaded(blocks, fresh=True)
        self.recovered += len(blocks)
        self.groups = sorted([*kept, *new], key=lambda group: group.blocks)
        return new

    def _loaded(self, blocks: Sequence[int], *, fresh: bool) -> list[Group]:
        """Groups of blocks, one a worker, all loaded at the same time."""
        for _ in range(TRIES):
            given = {k: self._begun(self._sources[k]) for k in blocks}
            where = self._whereabouts(given)
            parts = dealt(blocks, self._idlest(living_workers(self.client)), where)
            groups = [
                Group(part, self._placed(worker, part, given), fresh)
                for worker, part in parts.items()
            ]
            try:
                for group in groups:
                    self._wait_for(group)
            except WorkerLost:
                continue
            return groups
        raise LostWorkers(
            f"client: the workers that were to load blocks {min(blocks)} to {max(blocks)} died "
            f"{TRIES} times over, expected them to live; give them more memory, or cut the rows "
            "into smaller blocks"
        )

    def _placed(self, worker: str, part: tuple[int, ...], given: dict[int, Any]) -> Remote:
        return Remote(self.client, worker, RowBlocks, part, *(given[k] for k in part))

    def _begun(self, source: Any) -> Any:
        """A source, where the cluster is to compute it as a future."""
        return self.client.compute(source) if hasattr(source, "__dask_graph__") else source

    def _whereabouts(self, given: dict[int, Any]) -> dict[int, str]:
        """Which worker has the rows of a block, for those that the cluster computes."""
        futures = {k: future for k, future in given.items() if hasattr(future, "key")}
        waiting = list(futures.values())
        while waiting:
            done = first_done(self.client, waiting)
            waiting = [future for future in waiting if future not in done]
        held = self.client.who_has(list(futures.values())) if futures else {}
        places = {k: held.get(future.key) for k, future in futures.items()}
        return {k: place[0] for k, place in places.items() if place}

    def _idlest(self, workers: list[str]) -> list[str]:
        """Workers, those with the fewest blocks first."""
        held = dict.fromkeys(workers, 0)
        for group in getattr(self, "groups", ()):
            if group.remote.address in held:
                held[group.remote.address] += len(group.blocks)
        return sorted(workers, key=lambda worker: (held[worker], worker))

    def _wait_for(self, group: Group) -> None:
        try:
            group.remote.ready()
        except (MiniampError, WorkerLost):
            raise
        except Exception as error:  # of a graph that the cluster was to compute
            first, last = group.blocks[0], group.blocks[-1]
            which = str(first) if first == last else f"{first} to {last}"
            raise InvalidInputError(not_loaded(which, error)) from error


def dealt(
    blocks: Sequence[int], workers: Sequence[str], where: dict[int, str]
) -> dict[str, tuple[int, ...]]:
    """The blocks of each worker: equal shares of neighbours, left where they are if possible.

    Examples
    --------
    >>> dealt([0, 1, 2, 3, 4], ["a", "b"], where={})
    {'a': (0, 1, 2), 'b': (3, 4)}
    >>> dealt([0, 1, 2, 3], ["a", "b"], where={0: "b", 1: "b", 2: "b"})
    {'a': (2, 3), 'b': (0, 1)}
    """
    share = -(-len(blocks) // len(workers))
    parts: dict[str, list[int]] = {worker: [] for worker in workers}
    homeless = []
    for k in blocks:
        home = parts.get(where.get(k, ""))
        if home is None or len(home) >= share:
            homeless.append(k)
        else:
            home.append(k)
    for part in parts.values():
        room = share - len(part)
        part.extend(homeless[:room])
        homeless = homeless[room:]
    return {worker: tuple(sorted(part)) for worker, part in parts.items() if part}


def _called(
    group: Group, method: str, arguments: Callable[[Group], tuple[Any, ...]]
) -> tuple[Group, Future[Any]]:
    return group, group.remote.call(method, *arguments(group))


def _too_often() -> LostWorkers:
    return LostWorkers(
        f"client: workers were lost {TRIES} times in one iteration, expected some that live longer "
        "than it; start workers with more memory and call again, the belief is unchanged"
    )
