"""A figure: tasks that make its tables, a picture of the tables, and the claims they settle."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from miniamp import checks
from miniamp.experiments import look
from miniamp.experiments.claims import Claim
from miniamp.experiments.tables import Table, write_table
from miniamp.experiments.tasks import Task, finished, run_all

#: Every figure there is, in the order in which `all` makes them; each is a module of that name.
FIGURES = (
    "figure1",
    "figure2",
    "figure4",
    "figure3",
    "beyond_memory",
    "beyond_plan",
    "beyond_phases",
    "beyond_parts",
)


@dataclass(frozen=True)
class Scale:
    """How large a run is: the paper's sizes or quick ones, and how many realisations."""

    quick: bool = False
    seeds: int | None = None

    def choose(self, full: Any, quick: Any) -> Any:
        """The one that applies."""
        return quick if self.quick else full

    def realisations(self, full: int, quick: int) -> range:
        """Seeds of the realisations: as many as asked for, else by size."""
        return range(self.choose(full, quick) if self.seeds is None else self.seeds)


Tables = Mapping[str, Table]


@dataclass(frozen=True)
class Figure:
    """What a module of a figure says of it.

    Parameters
    ----------
    title : str
        In a few words.
    tasks : function of a Scale
        The work, in the order in which it is to be done.
    draw : function of Tables
        The picture, from the tables alone; gives a matplotlib figure.
    judge : function of Tables and a Scale
        The claims, from the tables alone.
    """

    title: str
    tasks: Callable[[Scale], list[Task]]
    draw: Callable[[Tables], Any]
    judge: Callable[[Tables, Scale], list[Claim]]


def load(name: str) -> Figure:
    """The figure of a name, such as "figure1"."""
    module = name.replace("-", "_")
    if module not in FIGURES:
        raise checks.refuse("figure", repr(name), f"one of {', '.join(names('all'))}", "choose one")
    figure: Figure = importlib.import_module(f"miniamp.experiments.{module}").FIGURE
    return figure


def names(wanted: str) -> list[str]:
    """The figures that a word stands for: "all", "beyond" or one name.

    Examples
    --------
    >>> names("beyond")
    ['beyond-memory', 'beyond-plan', 'beyond-phases', 'beyond-parts']
    """
    every = [name.replace("_", "-") for name in FIGURES]
    if wanted == "all":
        return every
    if wanted == "beyond":
        return [name for name in every if name.startswith("beyond")]
    if wanted.replace("_", "-") not in every:
        raise checks.refuse(
            "figure", repr(wanted), f"all, beyond or one of {', '.join(every)}", "choose one"
        )
    return [wanted.replace("_", "-")]


def reproduce(
    name: str,
    out: Path,
    scale: Scale | None = None,
    jobs: int = 1,
    tell: Callable[[Task], None] = lambda _: None,
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
    tell : function
        Called after each task.
    """
    scale = Scale() if scale is None else scale
    figure = load(name)
    tasks = figure.tasks(scale)
    parts = out / ".parts" / name
    run_all(tasks, parts, checks.count("jobs", jobs), tell)
    gather(name, tasks, out)
    return picture(name, out, scale)


def gather(name: str, tasks: Sequence[Task], out: Path) -> None:
    """Write one table a panel from the tasks that are finished."""
    rows: dict[str, list[dict[str, Any]]] = {}
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
