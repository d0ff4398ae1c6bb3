"""One block of rows on one worker: the actor behind `designs.Distributed`."""

from __future__ import annotations

from typing import Any, NamedTuple

from miniamp import checks
from miniamp.arrays import Array
from miniamp.channels.base import Channel
from miniamp.designs.base import Sweep
from miniamp.designs.choose import as_design
from miniamp.errors import InvalidInput

#: Iterations whose g a block remembers: the one being made and the one it is made from, so that a
#: call which is repeated after a failure elsewhere gives the same answer.
_KEPT = 2


class Facts(NamedTuple):
    """What the client must know of a block."""

    rows: int
    columns: int
    mean_square: float


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
            self._design = as_design(rows)
            size = self._design.shape[0]
            self._own = None if target is None else checks.vector("y", target, size)
        except InvalidInput as error:
            raise type(error)(f"block {index}: {error}") from error
        self._y: Array | None = self._own
        self._memory: dict[int, Any] = {}

    def facts(self) -> Facts:
        return Facts(*self._design.shape, self._design.mean_square)

    def own_target(self) -> Array | None:
        return self._own

    def set_target(self, y: Array) -> None:
        self._y = y
        self._memory.clear()

    def sandwich(
        self, x: Array, v: Array, memory: int | None, token: int, channel: Channel
    ) -> Sweep:
        """One pass over the block; its g stays here, under `token`."""
        assert self._y is not None  # the client sends y before it asks for a sweep
        before = None if memory is None else self._memory.get(memory)
        sweep = self._design.sandwich(x, v, self._y, channel, before)
        self._memory[token] = sweep.memory
        while len(self._memory) > _KEPT:
            del self._memory[min(self._memory)]
        return sweep._replace(memory=None)

    def forecast(self, x: Array, v: Array) -> tuple[Array, Array]:
        return self._design.forecast(x, v)

    def diagnosis(self) -> str:
        return self._design.diagnosis()
