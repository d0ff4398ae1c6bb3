"""Compiled sweeps of rows in memory, on all cores."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from operator import call
from types import ModuleType

import numpy as np

from miniamp import checks
from miniamp.arrays import Array
from miniamp.channels.base import Channel
from miniamp.designs import threads
from miniamp.designs.base import BLOCK_BYTES, Design, LoopRows, Sweep, row_blocks
from miniamp.designs.sequential import Columns, KernelRows, Responses, Running
from miniamp.kernel import flat
from miniamp.posterior import Prior

#: Parts of the rows per thread where all iterations are one compiled call. At 1200 x 2000 one
#: thread took 37 ms and two 27 with 1, 18.5 with 2, 18.4 with 3, 19.2 with 4, 21 with 6: to begin a
#: part takes time, and a late one is waited for. A part of 1 MB takes 50 us, its ticket 1.
PARTS = 3
#: Beyond so many bytes, the last level of the cache where this was measured, threads sweep on their
#: own in each iteration: at 320 MB ten iterations took 209 ms, and 242 as one call.
ONE_CALL_BYTES = 32 << 20
#: Bytes of a part over those of its sums, so that these are written and read again at a percent or
#: two of the time of the sweep, and all coefficients are updated before a helper gives up.
PART_BYTES = 128
#: Rows to which NumPy applies a channel at once, at least: at 300 x 8000 a sweep with Poisson takes
#: 8.3 ms, and 16.1 in blocks of 16 rows, which fit the cache.
FEW = 128


class Swept(Design):
    """A design whose rows compiled kernels can read: each entry once per iteration.

    While a few rows are in the cache, z goes out and the channel's response goes back; squares are
    formed in registers. A channel with a kernel is called from within the sweep; any other is
    applied by NumPy, to one cached block of rows at a time.
    """

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """How many bytes a sweep reads."""

    @property
    @abstractmethod
    def _kernels(self) -> ModuleType:
        """The module with `sweep`, `forth`, `back`, `online` and `descend`."""

    @abstractmethod
    def _rows(self, part: slice) -> KernelRows:
        """Some rows, as the kernels take them."""

    def _swept(self, part: slice) -> tuple[KernelRows, KernelRows]:
        """Some rows for a sweep, and centre and unit where it brings them to their frame."""
        return self._rows(part), ()

    def sandwich(
        self, x: Array, v: Array, y: Array, channel: Channel, memory: Array | None
    ) -> Sweep:
        rows = self.shape[0]
        squares, x, v, y = np.ndim(v) == 1, flat(x), flat(v), flat(y)
        before = flat(np.zeros(rows) if memory is None else memory)
        self._check(columns=(x, v) if squares else (x,), rows=(y, before))
        g, response = np.empty(rows), np.empty(rows)
        kernel = channel.kernel()

        def prepared(part: slice) -> tuple[Array, Array, Callable[[], None]]:
            pull, curvature = np.zeros(self.shape[1]), np.zeros(len(v))
            inputs, outputs = (x, v, y[part], before[part]), (g[part], response[part])
            if kernel is None:
                own = (part, squares, inputs, channel.at(part), outputs, pull, curvature)
                return pull, curvature, partial(self._by_blocks, *own)
            numbers = kernel.parameters if len(kernel.parameters) == 1 else kernel.parameters[part]
            taken, frame = self._swept(part)
            sweep = partial(
                self._kernels.sweep, *taken, *inputs, squares, False, numbers, kernel.address,
                *outputs, pull, curvature, *frame,
            )  # fmt: skip
            return pull, curvature, sweep

        # All that needs the interpreter comes before any thread begins: two that need it in turn
        # wait for each other longer than a small sweep takes.
        sums = [prepared(part) for part in threads.shares(rows, self.nbytes)]
        threads.each(call, [sweep for _, _, sweep in sums])
        pull, curvature, _ = sums[0]
        for more_pull, more_curvature, _ in sums[1:]:
            pull += more_pull
            curvature += more_curvature
        total = float(response.sum()) if squares else float(curvature[0])
        curvature = curvature if squares else curvature[0]
        return Sweep(pull, curvature, g, float(np.mean(np.square(g))), total / rows)

    def loop_rows(self) -> LoopRows | None:
        (M, N), (taken, frame) = self.shape, self._swept(slice(0, self.shape[0]))
        number = len(threads.shares(M, self.nbytes))
        if number == 1:
            return LoopRows(taken + frame)
        parts = min(PARTS * number, self.nbytes // (PART_BYTES * 8 * N))
        shared = parts > number and self.nbytes <= ONE_CALL_BYTES
        return LoopRows(taken + frame, 0.0, number, parts) if shared else None

    def _by_blocks(
        self,
        part: slice,
        squares: bool,
        inputs: tuple[Array, Array, Array, Array],
        channel: Channel,
        outputs: tuple[Array, Array],
        pull: Array,
        curvature: Array,
    ) -> None:
        """What the kernel `sweep` does, with a channel that has none of its own."""
        x, v, y, before = inputs
        g, response = outputs
        for block in self._blocks(len(y)):
            where = slice(part.start + block.start, part.start + block.stop)
            rows, size = self._rows(where), block.stop - block.start
            omega, V = np.empty(size), np.full(size, v[0])
            many = (x, v, omega, V) if squares else (x, None, omega, None)
            self._kernels.forth(*rows, *many)
            omega -= V * before[block]
            g[block], response[block] = channel.at(block).output(y[block], omega, V)
            sums = curvature if squares else None
            self._kernels.back(*rows, g[block], response[block], pull, sums)
            if not squares:
                curvature += response[block].sum()

    def online(
        self, running: Running, y: Array, channel: Channel, prior: Prior, responses: Responses
    ) -> None:
        output, moments = channel.kernel(), prior.kernel(self.shape[1])
        if output is None or moments is None:
            return super().online(running, y, channel, prior, responses)
        rows = self._rows(slice(0, self.shape[0]))
        self._kernels.online(
            *rows, flat(y), output.parameters, output.address,
            moments.parameters, moments.address, *running, *responses,
        )  # fmt: skip
        return None

    def _check(self, columns: tuple[Array, ...], rows: tuple[Array, ...]) -> None:
        """Refuse vectors of a wrong length: compiled code would read past their end."""
        for vectors, size in ((rows, self.shape[0]), (columns, self.shape[1])):
            for vector in vectors:
                if len(vector) != size:
                    raise checks.refuse(
                        "x, v, y", f"a vector of {len(vector)}", f"{size}", "match the shape of Phi"
                    )

    def _blocks(self, rows: int) -> list[slice]:
        """Blocks that fit the cache, by the average size of a row; of long rows at least FEW."""
        return row_blocks(rows, min(self.nbytes // (8 * self.shape[0]), BLOCK_BYTES // (8 * FEW)))

    def forecast(self, x: Array, v: Array) -> tuple[Array, Array]:
        mean, var = np.empty(self.shape[0]), np.empty(self.shape[0])
        x, v = flat(x), flat(v)
        self._check(columns=(x, v), rows=())

        def share(part: slice) -> None:
            rows, frame = self._swept(part)
            forth = self._kernels.framed_forth if frame else self._kernels.forth
            forth(*rows, *frame, x, v, mean[part], var[part])

        threads.each(share, threads.shares(self.shape[0], self.nbytes))
        return mean, var


class HeldColumns(Columns):
    """Columns in memory, as the rows of the transposed matrix, which a compiled loop can read."""

    def __init__(self, transposed: Swept) -> None:
        self._columns = transposed
        self.power = np.array([np.square(c).sum() for _, c in transposed._each_row()])

    def descend(
        self, belief: Running, prior: Prior, noise: float, mean: Array, var: Array, residual: Array
    ) -> tuple[Array, Array]:
        A, B = np.empty(len(mean)), np.empty(len(mean))
        kernel = prior.kernel(len(mean))
        if kernel is not None:
            self._columns._kernels.descend(
                *self._columns._rows(slice(0, len(mean))), self.power, kernel.parameters,
                kernel.address, belief.A, belief.B, noise, A, B, mean, var, residual,
            )  # fmt: skip
            return A, B
        for i, (where, entries) in enumerate(self._columns._each_row()):
            A[i] = self.power[i] / noise
            B[i] = entries @ residual[where] / noise + A[i] * mean[i]
            here = slice(i, i + 1)
            own = prior.at(here, len(mean))
            new, var[here] = own.moments(belief.A[here] + A[here], belief.B[here] + B[here])
            residual[where] -= (new - mean[here]) * entries
            mean[here] = new
        return A, B
