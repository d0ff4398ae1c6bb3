"""Sweeps that several threads share, in a loop that waits for none of them.

The rows are cut into parts. Whoever is free takes the next part, by a ticket that also names the
iteration, and sweeps it into sums of its own. The thread that runs the loop takes parts too, adds
up all sums in the order of the parts and updates the coefficients, while the others look for the
next tickets. So the result does not depend on who did what.

Not a lock or a barrier: where the other cores are busy, the thread that is waited for may not run
for several milliseconds, which is ten iterations. Here a part that does not come in time is done
again, and the late result is refused by the `board`. The machine is then busy, and the loop goes on
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from miniamp.arrays import Array
from miniamp.compiled import added, compiled, replaced, seen
from miniamp.designs import dense_kernels, sparse_kernels, threads
from miniamp.designs.base import LoopRows
from miniamp.designs.sequential import KernelRows

#: Tickets of one iteration: more than there are parts and threads.
_TURN = 1 << 20
#: A ticket beyond all iterations: the loop has ended.
_END = 1 << 62
#: Where the states of the parts begin, a cache line or two after the ticket that all threads take.
_FIRST = 16
#: Rows that kernels sweep together, at most; parts are made of whole groups.
_GROUP = 8


class Team(NamedTuple):
    """What the threads of one loop share; sums have a row for each of them."""

    board: NDArray[np.int64]  #: the next ticket; for each part, iterations done and by whom
    edges: NDArray[np.int64]  #: where the parts begin and end
    patience: int  #: looks at the board, of two entries' time each, before a thread is given up
    V: Array  #: (2, 1) the variance of z where it is the same for all rows, in turns
    pull: Array  #: (threads, parts, N)
    curvature: Array  #: (threads, parts, N), or 1 where variances are scalar
    g: Array  #: (threads, M)
    response: Array  #: (threads, M)


#: rows, y, the channel's numbers and address, whether variances are vectors, x, v, g (two of each).
Problem: TypeAlias = tuple[KernelRows, Array, Array, int, bool, Array, Array, Array]


def sweep(rows: KernelRows, *rest: object) -> None:
    """The sweep of the design whose rows these are; for compiled callers only."""
    raise NotImplementedError


def _sweep_of(rows: KernelRows, *rest: object) -> Callable[..., None]:  # noqa: ARG001
    """The dense sweep for one matrix, with its frame or without; the sparse one for vectors."""
    if len(rows) == 1:
        return lambda rows, *rest: dense_kernels.sweep(rows[0], *rest)
    if rows[0].ndim == 2:
        return lambda rows, *rest: dense_kernels.sweep(rows[0], *rest, *rows[1:])
    return lambda rows, *rest: sparse_kernels.sweep(rows[0], rows[1], rows[2], *rest)


overload(sweep, strict=False)(_sweep_of)


def cut(rows: KernelRows, start: int, stop: int) -> KernelRows:
    """Some of the rows; for compiled callers only."""
    raise NotImplementedError


def _cut_of(rows: KernelRows, start: int, stop: int) -> Callable[..., KernelRows]:  # noqa: ARG001
    if len(rows) == 1:
        return lambda rows, start, stop: (rows[0][start:stop],)
    if rows[0].ndim == 2:
        return lambda rows, start, stop: (rows[0][start:stop], rows[1], rows[2])
    return lambda rows, start, stop: (rows[0], rows[1], rows[2][start : stop + 1])


overload(cut, strict=False)(_cut_of)


@compiled
def part_of(ticket: int, parts: int) -> int:
    """The part of this ticket: in every second iteration the last ones come first."""
    k = ticket % _TURN
    return parts - 1 - k if ticket // _TURN % 2 == 1 else k


@compiled
def take(t: int, part: int, who: int, problem: Problem, team: Team) -> None:
    """Sweep this part in iteration t, unless that has been done."""
    rows, y, numbers, output, squares, x, v, g = problem
    last, before = t % 2, seen(team.board, _FIRST + part)
    if before // _TURN != t:
        return
    here = slice(team.edges[part], team.edges[part + 1])
    pull, curvature = team.pull[who, part], team.curvature[who, part]
    pull[:] = 0.0
    curvature[:] = 0.0
    own = numbers if len(numbers) == 1 else numbers[here]
    sweep(
        cut(rows, here.start, here.stop), x[last], v[last] if squares else team.V[last], y[here],
        g[last][here], squares, t % 2 == 1, own, output, team.g[who][here],
        team.response[who][here], pull, curvature,
    )  # fmt: skip
    replaced(team.board, _FIRST + part, before, (t + 1) * _TURN + who)


@compiled
def sweep_together(
    t: int, problem: Problem, team: Team, g: Array, response: Array, pull: Array, curvature: Array
) -> None:
    """`sweep` in iteration t: `g` and `response` filled, `pull` and `curvature` added to."""
    board, edges, parts = team.board, team.edges, len(team.edges) - 1
    alone = seen(board, 0) >= _END
    if not alone:
        turn(board, t * _TURN)
        ticket = added(board, 0, 1)
        while ticket % _TURN < parts:
            take(t, part_of(ticket, parts), 0, problem, team)
            ticket = added(board, 0, 1)
    looks = 0
    for part in range(parts):
        done = seen(board, _FIRST + part)
        while done // _TURN == t:
            looks += 1
            if alone or looks > team.patience:
                take(t, part, 0, problem, team)
            done = seen(board, _FIRST + part)
        who, here = done % _TURN, slice(edges[part], edges[part + 1])
        g[here] = team.g[who][here]
        response[here] = team.response[who][here]
        add(team.pull[who, part], pull)
        add(team.curvature[who, part], curvature)
    if looks > team.patience:
        turn(board, _END)


@compiled
def turn(board: NDArray[np.int64], ticket: int) -> None:
    """Make this the next ticket."""
    while not replaced(board, 0, seen(board, 0), ticket):
        pass  # another thread was faster


@compiled
def add(some: Array, total: Array) -> None:
    """total += some."""
    for i in range(len(total)):
        total[i] += some[i]


@compiled
def help_out(who: int, problem: Problem, team: Team) -> None:
    """Take parts until the loop has ended, or none has come for so long that it does not run.

    It may be this thread that keeps it from running, on the same core.
    """
    board, parts, looks = team.board, len(team.edges) - 1, 0
    while looks < team.patience:
        ticket = seen(board, 0)
        if ticket >= _END:
            return
        looks += 1
        if ticket % _TURN < parts:
            ticket = added(board, 0, 1)
            if ticket < _END and ticket % _TURN < parts:
                take(ticket // _TURN, part_of(ticket, parts), who, problem, team)
                looks = 0


@contextmanager
def assisted(loop: LoopRows, problem: Problem) -> Iterator[Team | None]:
    """The team of a loop, whose helpers work within this context; None for one thread."""
    if loop.threads == 1:
        yield None
        return
    M, N, parts = len(problem[1]), problem[5].shape[1], loop.parts
    board = np.zeros(_FIRST + parts, np.int64)
    board[0] = _TURN - 1  # nothing to take yet
    groups = -(-M // _GROUP)
    sums = (loop.threads, parts, N)
    team = Team(
        board,
        np.array([min(M, groups * k // parts * _GROUP) for k in range(parts + 1)]),
        2 * loop.rows[0].size // parts,  # four times as long as a part takes
        np.zeros((2, 1)),
        np.empty(sums),
        np.empty(sums if loop.mean_square == 0.0 else (loop.threads, parts, 1)),
        np.empty((loop.threads, M)),
        np.empty((loop.threads, M)),
    )
    with threads.beside(lambda who: help_out(who, problem, team), loop.threads - 1):
        try:
            yield team
        finally:
            board[0] = _END
