"""Sweeps on all cores: plain threads, since the kernels run without the interpreter's lock.

Not Numba's own threads: those end the process when it has forked, or (without OpenMP) when two
Python threads sweep at once, and double the time to compile.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import pairwise
from typing import TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")

#: A thread is woken for this many bytes of Phi; waking it takes as long as reading about a fifth of
#: them.
WORTH_A_THREAD = 4 << 20


@cache
def cores() -> int:
    """Threads to use: the cores this process may run on, or fewer where the environment says so.

    OMP_NUM_THREADS and NUMBA_NUM_THREADS limit them, as they limit other compiled code.
    """
    asked = [os.environ.get(name, "") for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")]
    return max(1, min([_allowed(), *(int(one) for one in asked if one.isdigit())]))


def _allowed() -> int:
    """The cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


#: The number of threads that the caller set, where it knows better than the environment.
_limit: ContextVar[int | None] = ContextVar("_limit", default=None)


@contextmanager
def limit(number: int) -> Iterator[None]:
    """Within it, sweeps take `number` threads: the share of one worker among several.

    Examples
    --------
    >>> with limit(1):
    ...     shares(rows=100, size=10**9)
    [slice(0, 100, None)]
    """
    before = _limit.set(number)
    try:
        yield
    finally:
        _limit.reset(before)


def shares(rows: int, size: int) -> list[slice]:
    """Slices that cut `rows` rows of `size` bytes in all into one share per thread."""
    parts = max(1, min(_limit.get() or cores(), size // WORTH_A_THREAD, rows))
    edges = [rows * k // parts for k in range(parts + 1)]
    return [slice(a, b) for a, b in pairwise(edges)]


def each(work: Callable[[Part], Result], parts: list[Part]) -> list[Result]:
    """`work` of every part, at the same time; the first in the calling thread.

    On a busy machine a thread may start late: parts that no thread has begun when the caller is
    done with its own, the caller does too. The result of a part does not depend on its thread.
    """
    if len(parts) == 1:
        return [work(parts[0])]
    futures = [_pool().submit(work, part) for part in parts[1:]]
    first, late = work(parts[0]), {}
    for future, part in zip(reversed(futures), reversed(parts[1:]), strict=True):
        if future.cancel():
            late[future] = work(part)
    return [first, *(late[f] if f in late else f.result() for f in futures)]


@contextmanager
def beside(work: Callable[[int], None], number: int) -> Iterator[None]:
    """Within it, `number` other threads do work(1), work(2), ..., as far as any are free.

    None of them is waited for: `work` has to end by itself once the context has been left.
    """
    futures = [_pool().submit(work, k) for k in range(1, number + 1)]
    try:
        yield
    finally:
        for future in futures:
            future.cancel()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, _allowed() - 1), thread_name_prefix="miniamp")


if hasattr(os, "register_at_fork"):
    # A forked child has the pool but not its threads: it makes its own.
    os.register_at_fork(after_in_child=_pool.cache_clear)
