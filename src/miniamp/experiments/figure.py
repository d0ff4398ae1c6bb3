"""A figure: tasks that compute its tables, a picture of the tables, and the claims they decide."""

from __future__ import annotations

import hashlib
import importlib
import json
import logging
import os
import pkgutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from miniamp import checks
from miniamp.experiments import look
from miniamp.experiments.tables import Claim, Row, Table, write_table
from miniamp.streams.checkpoint import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

T = TypeVar("T")


#: One thread each, so that as many processes as cores do not fight, and the sums of a run do not
#: depend on how many cores there are.
SINGLE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Scale:
    """How large a run is: the paper's sizes or quick ones, and how many realisations."""

    quick: bool = False
    seeds: int | None = None

    def choose(self, full: T, quick: T) -> T:
        """`quick` in a quick run, else `full`."""
        return quick if self.quick else full

    def realisations(self, full: int, quick: int) -> range:
        """Seeds of the realisations: as many as asked for, else by size."""
        return range(self.choose(full, quick) if self.seeds is None else self.seeds)


Tables = Mapping[str, Table]


@dataclass(frozen=True)
class Task:
    """A piece of work: a function, and what it is given.

    Examples
    --------
    >>> from miniamp.experiments.tables import rows_of
    >>> Task("panel", rows_of, {"value": 3}).run()
    [{'value': 3}]
    """

    panel: str  #: the table that its rows go to
    work: Callable[..., list[Row]]  #: a module's function: takes `given` by name, returns rows
    #: Numbers and words only, since they are its identity on disk.
    given: dict[str, object] = field(default_factory=dict)

    def run(self) -> list[Row]:
        """The rows, computed here and now."""
        return self.work(**self.given)

    @property
    def address(self) -> str:
        """The function's name in full."""
        return f"{self.work.__module__}:{self.work.__qualname__}"

    @property
    def file(self) -> str:
        """Name of the file that keeps its rows: another setting is another task."""
        identity = json.dumps([self.address, self.given], sort_keys=True)
        digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
        return f"{self.panel}-{digest}.json"


def every(panel: str, work: Callable[..., list[Row]], /, **given: object) -> list[Task]:
    """A task for each combination of what is given as a tuple, a range or a dict.

    The last one varies fastest. The panel may be named by what is given: "model" stands for the
    value of model.

    Examples
    --------
    >>> from miniamp.experiments.tables import rows_of
    >>> [task.given for task in every("left", rows_of, seed=range(2), size=5)]
    [{'seed': 0, 'size': 5}, {'seed': 1, 'size': 5}]
    """
    axes = [v if isinstance(v, (tuple, range, Mapping)) else (v,) for v in given.values()]
    chosen = (dict(zip(given, values, strict=True)) for values in product(*axes))
    return [Task(str(one.get(panel, panel)), work, one) for one in chosen]


@dataclass(frozen=True)
class Figure:
    """What a module of a figure has to offer."""

    title: str
    tasks: Callable[[Scale], list[Task]]  #: the work, in the order in which it is to be done
    draw: Callable[[Tables], Canvas]  #: the picture, from the tables alone
    judge: Callable[[Tables, Scale], list[Claim]]  #: the claims, from the tables alone


def names(wanted: str = "all") -> list[str]:
    """The figures that a word stands for: "all", "beyond" or one name.

    A figure is a module of this package whose name begins with "figure" and a digit, or with
    "beyond": those of the paper, and others.

    Examples
    --------
    >>> names("beyond")[:4]
    ['beyond-drift', 'beyond-memory', 'beyond-parts', 'beyond-phases']
    """
    modules = sorted(found.name for found in pkgutil.iter_modules([str(Path(__file__).parent)]))
    papers = [name for name in modules if name.startswith("figure") and name != "figure"]
    beyond = [name.replace("_", "-") for name in modules if name.startswith("beyond")]
    groups = {"all": papers + beyond, "beyond": beyond}
    every = groups["all"]
    one = wanted.replace("_", "-")
    if wanted not in groups and one not in every:
        raise checks.refuse(
            "figure", repr(wanted), f"all, beyond or one of {', '.join(every)}", "choose one"
        )
    return groups.get(wanted, [one])


def load(name: str) -> Figure:
    """The figure of a name, such as "figure1"."""
    (found,) = names(name)
    module = importlib.import_module(f"miniamp.experiments.{found.replace('-', '_')}")
    return module.FIGURE  # type: ignore[no-any-return]  # a module's attribute has any type


def reproduce(
    name: str,
    out: Path,
    scale: Scale | None = None,
    jobs: int = 1,
    progress: Callable[[], object] = lambda: None,
) -> list[Claim]:
    """Make a figure: its tables, then the picture from them, then the claims; all go to `out`.

    Parameters
    ----------
    name : str
        Such as "figure1".
    out : Path
        Folder for NAME-PANEL.csv, NAME.png, NAME.pdf and NAME-summary.csv. Finished tasks are kept
        in its .parts and not run again.
    scale : Scale
        How large.
    jobs : int
        Processes at a time.
    progress : function
        Called after each task.
    """
    scale = Scale() if scale is None else scale
    figure = load(name)
    tasks = figure.tasks(scale)
    parts = out / ".parts" / name
    run_all(tasks, parts, checks.count("jobs", jobs), progress)
    gather(name, tasks, out)
    return picture(name, out, scale)


def gather(name: str, tasks: Sequence[Task], out: Path) -> None:
    """Write one table per panel from the tasks that are finished."""
    rows: dict[str, list[Row]] = {}
    for task in tasks:
        rows.setdefault(task.panel, []).extend(finished(task, out / ".parts" / name) or [])
    for panel, found in rows.items():
        write_table(out / f"{name}-{panel}.csv", found)


def picture(name: str, out: Path, scale: Scale) -> list[Claim]:
    """Draw a figure and judge its claims from the tables in `out`."""
    figure = load(name)
    panels = dict.fromkeys(task.panel for task in figure.tasks(scale))
    tables = {panel: Table.read(out / f"{name}-{panel}.csv") for panel in panels}
    # Fonts without a date, on purpose, are not worth a line each on the terminal.
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    with look.context():
        drawn = figure.draw(tables)
        # Without a date in them, the same numbers give the same bytes.
        drawn.savefig(out / f"{name}.png", dpi=180, metadata={"Software": None})
        drawn.savefig(out / f"{name}.pdf", metadata={"CreationDate": None, "Creator": None})
    claims = figure.judge(tables, scale)
    write_table(out / f"{name}-summary.csv", [claim.row() for claim in claims])
    return claims


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
    tasks: Sequence[Task], parts: Path, jobs: int, progress: Callable[[], object] = lambda: None
) -> None:
    """Run every task that is not finished; each leaves its rows in `parts` as soon as it is.

    A task that fails ends the run with its error; what is finished stays, and the next run goes on
    from there. `progress` is called after each task, also for those that were finished before.
    """
    waiting = [task for task in tasks if finished(task, parts) is None]
    for _ in range(len(tasks) - len(waiting)):
        progress()
    if not waiting:
        return
    # Fresh processes rather than forks: threads of the parent's libraries would not survive a fork.
    with (
        _environment(dict.fromkeys(SINGLE_THREAD, "1")),
        ProcessPoolExecutor(min(jobs, len(waiting)), mp_context=get_context("spawn")) as pool,
    ):
        running = [pool.submit(_run_and_keep, task, parts) for task in waiting]
        try:
            for future in as_completed(running):
                future.result()
                progress()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _run_and_keep(task: Task, parts: Path) -> None:
    start = time.process_time()  # of one thread: what it takes on a machine that is free
    rows = task.run()
    kept = {
        "work": task.address,
        "given": task.given,
        "seconds": round(time.process_time() - start, 3),
        "rows": rows,
    }
    parts.mkdir(parents=True, exist_ok=True)
    write_whole(parts / task.file, json.dumps(kept, default=np.generic.item))


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
