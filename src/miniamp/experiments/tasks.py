"""Tasks: the independent pieces of a figure, run once each, in as many processes as wanted."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from miniamp.experiments.tables import Row, write_whole

#: One thread each, so that as many processes as cores do not fight, and the sums of a run do not
#: depend on how many cores there are.
SINGLE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Task:
    """A piece of work: a function by its address, and what it is given.

    Parameters
    ----------
    panel : str
        The table that its rows go to.
    work : str
        "module:function"; the function takes `given` by name and returns rows.
    given : dict
        Numbers and words only, since they are its identity on disk.

    Examples
    --------
    >>> Task("panel", "miniamp.experiments.tasks:echo", {"value": 3}).run()
    [{'value': 3}]
    """

    panel: str
    work: str
    given: dict[str, Any] = field(default_factory=dict)

    def run(self) -> list[Row]:
        """The rows, computed here and now."""
        module, name = self.work.split(":")
        rows: list[Row] = getattr(importlib.import_module(module), name)(**self.given)
        return rows

    @property
    def file(self) -> str:
        """Where its rows are kept: another setting is another task."""
        identity = json.dumps([self.work, self.given], sort_keys=True)
        digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
        return f"{self.panel}-{digest}.json"


def echo(**given: Any) -> list[Row]:
    """One row, of what was given."""
    return [given]


def finished(task: Task, parts: Path) -> list[Row] | None:
    """The rows of a task that was run before, or None."""
    path = parts / task.file
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    rows: list[Row] = kept["rows"]
    return rows


def run_all(
    tasks: Sequence[Task], parts: Path, jobs: int, tell: Callable[[Task], None] = lambda _: None
) -> None:
    """Run every task that is not finished; each leaves its rows in `parts` as soon as it is.

    A task that fails ends the run with its error; what is finished stays, and the next run goes on
    from there. `tell` is called after each task, also for those that were finished before.
    """
    waiting: list[Task] = []
    for task in tasks:
        if finished(task, parts) is None:
            waiting.append(task)
        else:
            tell(task)
    if not waiting:
        return
    # Fresh processes rather than forks: threads of the parent's libraries would not survive a fork.
    with (
        _environment(dict.fromkeys(SINGLE_THREAD, "1")),
        ProcessPoolExecutor(min(jobs, len(waiting)), mp_context=get_context("spawn")) as pool,
    ):
        running: dict[Future[None], Task] = {}
        for task in waiting:
            running[pool.submit(_run_and_keep, task, parts)] = task
        try:
            while running:
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    task = running.pop(future)
                    future.result()
                    tell(task)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _run_and_keep(task: Task, parts: Path) -> None:
    start = time.process_time()  # of one thread: what it takes on a machine that is free
    rows = task.run()
    kept = {
        "work": task.work,
        "given": task.given,
        "seconds": round(time.process_time() - start, 3),
        "rows": rows,
    }
    write_whole(parts / task.file, json.dumps(kept, default=_plain))


def _plain(value: Any) -> Any:
    """A NumPy number as JSON knows it."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"rows: got {type(value).__name__}, expected numbers and words")


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Environment variables for the processes that are started within."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
