"""What a worker of a Dask cluster does with a block of rows, for `designs.Distributed`."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from miniamp import checks
from miniamp.arrays import Array
from miniamp.channels.base import Channel
from miniamp.designs.base import Design, Sweep, as_design, triangle
from miniamp.designs.sequential import Responses, Running
from miniamp.designs.worker_pool import cannot_load
from miniamp.errors import InvalidInputError, MiniampError
from miniamp.posterior import Prior

#: Iterations whose g a block remembers: the one being made, the one it is made from, and one that
#: was made to check an estimate.
_KEPT = 3


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
            self.y = None if y is None else checks.vector("y", y, self.design.shape[0])
        except InvalidInputError as error:
            raise error.relabelled(f"block {index}: {error.argument}") from error
        except MiniampError:
            raise
        except Exception as error:  # whatever a loader may raise, its file being gone among it
            raise cannot_load(index, error) from error
        self._observed = np.empty(0)
        self._memory: dict[int, Array] = {}
        self._derived: tuple[int, object] = (0, self.design)

    def facts(self) -> tuple[tuple[int, int], float, Array | None]:
        """What the client must know: shape, mean square, and the observations that came along."""
        return self.design.shape, self.design.mean_square, self.y

    def observe(self, y: Array) -> None:
        """Take the observations of the sweeps to come."""
        self._observed = y

    def sandwich(
        self, x: Array, v: Array, number: int, before: int | None, channel: Channel
    ) -> Sweep:
        """One pass over the block, with sums in the place of means; g stays here, as `number`."""
        memory = None if before is None else self._memory.get(before)
        sweep = self.design.sandwich(x, v, self._observed, channel, memory)
        self._memory[number] = sweep.memory
        while len(self._memory) > _KEPT:
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

    def triangle(self, weights: Array, targets: Array) -> tuple[Array, Array]:
        """The rows times their weights, and the targets, rotated to at most N of them."""
        return triangle(*self.design.weighted(weights, targets))

    def method(self, name: str, *arguments: object) -> Any:
        """The result of a method of the design."""
        return getattr(self.design, name)(*arguments)

    def derived(
        self, key: int, make: Callable[[Design], object], name: str, *arguments: object
    ) -> Any:
        """A method or attribute of what `make` makes of the design, kept until another is made."""
        if self._derived[0] != key:
            self._derived = (0, self.design)  # free the old one before there are two
            self._derived = (key, make(self.design))
        found = getattr(self._derived[1], name)
        return found(*arguments) if callable(found) else found


def added(results: Iterable[Any]) -> Any:
    """The sum of arrays."""
    return functools.reduce(operator.add, results)


def added_sweeps(sweeps: Iterable[Sweep]) -> Sweep:
    """The sums of all parts of sweeps."""
    return functools.reduce(lambda a, b: Sweep(*map(operator.add, a, b)), sweeps)


def stacked(triangles: Iterable[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Triangles on top of each other, rotated to at most N rows one after the other."""
    return functools.reduce(
        lambda a, b: triangle(*map(np.concatenate, zip(a, b, strict=True))), triangles
    )
