"""Blocks of rows on one worker: the actor behind `designs.Distributed`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from miniamp import checks
from miniamp.arrays import Array
from miniamp.channels.base import Channel
from miniamp.designs import threads
from miniamp.designs.base import Design, Sweep, as_design
from miniamp.designs.sequential import Responses as Answers
from miniamp.designs.sequential import Running
from miniamp.errors import InvalidInputError, MiniampError
from miniamp.posterior import Prior

#: Iterations whose g a block remembers: the one being made, the one it is made from, and one that
#: was made to look at an estimate.
_KEPT = 3


class Facts(NamedTuple):
    """What the client must know of a block."""

    rows: int
    columns: int
    mean_square: float


class Asked(NamedTuple):
    """One sweep, as it is asked of a worker."""

    x: Array
    v: Array
    token: int  #: under which g is kept
    memory: int | None  #: token of the sweep whose g makes the Onsager term
    news: Sequence[tuple[Array | None, Channel]] | None  #: observations and channel, where new
    past: Sequence[tuple[Array, Array, int]] = ()  #: (x, v, token) of sweeps to make up for first


class Answer(NamedTuple):
    """What a sweep of one worker's blocks brings back, summed over its rows."""

    pull: Array
    curvature: Array
    square: float
    answer: float


class RowBlock:
    """Rows in a worker's memory, with their observations and their g.

    Parameters
    ----------
    source : callable or rows
        What gives the block: called here, on the worker, or already computed by the cluster. Rows
        alone, or a pair (rows, observations).
    index : int
        Which block this is, for messages.
    """

    def __init__(self, source: Any, index: int) -> None:
        try:
            loaded = source() if callable(source) else source
            rows, target = loaded if isinstance(loaded, tuple) else (loaded, None)
            self.design = as_design(rows)
            size = self.design.shape[0]
            self._own = None if target is None else checks.vector("y", target, size)
        except InvalidInputError as error:
            raise type(error)(f"block {index}: {error}") from error
        except MiniampError:
            raise
        except Exception as error:  # whatever a loader may raise, its file being gone among it
            raise InvalidInputError(not_loaded(index, error)) from error
        self._y: Array | None = self._own
        self._channel: Channel | None = None
        self._memory: dict[int, Any] = {}
        self._made: tuple[int, Any] | None = None

    def facts(self) -> Facts:
        return Facts(*self.design.shape, self.design.mean_square)

    def own_target(self) -> Array | None:
        return self._own

    def told(self, y: Array | None, channel: Channel) -> None:
        self._y, self._channel = self._y if y is None else y, channel

    def sandwich(self, x: Array, v: Array, token: int, memory: int | None) -> Sweep:
        """One pass over the block; its g stays here, under `token`."""
        assert self._y is not None  # the client sends them before it asks for a sweep
        assert self._channel is not None
        before = None if memory is None else self._memory.get(memory)
        sweep = self.design.sandwich(x, v, self._y, self._channel, before)
        self._memory[token] = sweep.memory
        while len(self._memory) > _KEPT:
            del self._memory[min(self._memory)]
        return sweep

    def forecast(self, x: Array, v: Array) -> tuple[Array, Array]:
        return self.design.forecast(x, v)

    def online(
        self, running: Running, prior: Prior, y: Array, channel: Channel
    ) -> tuple[Running, Answers]:
        """A belief after the rows of this block, one by one, and what the channel said to each."""
        running = Running(*(np.array(part) for part in running))  # what arrives is read-only
        answers = Answers(np.empty(len(y)), np.empty(len(y)))
        self.design.online(running, y, channel, prior, answers)
        return running, answers

    def entries(self) -> Array:
        return self.design.toarray()

    def gram(self) -> Array:
        return self.design.information(np.ones(self.design.shape[0]))

    def row_variances(self, root: Array | None, D: Array) -> Array:
        return self.design.row_variances(root, D)

    def of_made(self, key: int, make: Callable[[Design], Any], name: str, *arguments: Any) -> Any:
        """A method or value of what `make` makes of the rows, which is kept until the next key."""
        if self._made is None or self._made[0] != key:
            self._made = None  # make room before there are two
            self._made = (key, make(self.design))
        found = getattr(self._made[1], name)
        return found(*arguments) if callable(found) else found

    def diagnosis(self) -> str:
        return self.design.diagnosis()


class RowBlocks:
    """All blocks of one worker: one message out and one back for all of them.

    Parameters
    ----------
    indices : sequence of int
        Which blocks these are.
    *sources
        What gives each block.
    """

    def __init__(self, indices: Sequence[int], *sources: Any) -> None:
        self._blocks = [RowBlock(*pair) for pair in zip(sources, indices, strict=True)]
        self._threads = _threads_of_worker()

    def each(self, method: str, shared: Sequence[Any], own: Sequence[Sequence[Any]]) -> list[Any]:
        """The answer of every block to a method, with arguments for all and for each."""
        with threads.given(self._threads):
            return [
                getattr(block, method)(*shared, *more)
                for block, more in zip(self._blocks, own, strict=True)
            ]

    def one(self, place: int, method: str, arguments: Sequence[Any]) -> Any:
        """The answer of one block, by its place here."""
        with threads.given(self._threads):
            return getattr(self._blocks[place], method)(*arguments)

    def sum(self, method: str, shared: Sequence[Any], own: Sequence[Sequence[Any]]) -> Any:
        """The sum of those answers."""
        return sum_of(self.each(method, shared, own))

    def triangle(self, own: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
        """All rows here, times their weights, rotated to at most N of them block by block."""
        R, t = np.empty((0, self._blocks[0].design.shape[1])), np.empty(0)
        for block, (weights, targets) in zip(self._blocks, own, strict=True):
            rows, values = block.design.weighted(weights, targets)
            R, t = triangle(np.concatenate([R, rows]), np.concatenate([t, values]))
        return R, t

    def sandwich(self, asked: Asked) -> Answer:
        """One pass over all rows here; what a lost worker had done is made up for first."""
        if asked.news is not None:
            for block, (y, channel) in zip(self._blocks, asked.news, strict=True):
                block.told(y, channel)
        with threads.given(self._threads):
            memory = asked.memory
            if asked.past:
                memory = None
            for x, v, token in asked.past:
                for block in self._blocks:
                    block.sandwich(x, v, token, memory)
                memory = token
            sweeps = [
                block.sandwich(asked.x, asked.v, asked.token, memory) for block in self._blocks
            ]
        rows = [block.design.shape[0] for block in self._blocks]
        return Answer(
            sum_of([sweep.pull for sweep in sweeps]),
            sum_of([sweep.curvature for sweep in sweeps]),
            float(np.dot(rows, [sweep.mean_square for sweep in sweeps])),
            float(np.dot(rows, [sweep.mean_curvature for sweep in sweeps])),
        )


def triangle(R: Array, t: Array) -> tuple[Array, Array]:
    """The same rows rotated to at most N of them: |t - R x|^2 up to a constant."""
    if len(R) <= R.shape[1]:
        return R, t
    Q, square = linalg.qr(R, mode="economic", check_finite=False)
    return square, Q.T @ t


def sum_of(arrays: Sequence[Array]) -> Array:
    """The sum of arrays, in a new one if there are several."""
    if len(arrays) == 1:
        return arrays[0]
    total = arrays[0] + arrays[1]
    for array in arrays[2:]:
        total = total + array
    return total


def not_loaded(index: int | str, error: Exception) -> str:
    """The message for a block whose source fails."""
    return (
        f"sources: block {index} cannot be loaded ({type(error).__name__}: {error}), expected its "
        "rows; put its file back or mend the loader, and call again: the belief is unchanged"
    )


def _threads_of_worker() -> int:
    """How many threads the worker was given: Dask tells BLAS and OpenMP one, whatever that is."""
    from distributed import get_worker

    return int(get_worker().state.nthreads)
