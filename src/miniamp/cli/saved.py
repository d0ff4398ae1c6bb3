"""What is saved of a run, and whether another one may resume from it."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

import miniamp
from miniamp import checks
from miniamp.streams.sources import files_of, is_read_once

if TYPE_CHECKING:
    from miniamp.cli.app import Options
    from miniamp.cli.learn import Run
    from miniamp.estimators import MiniAMPClassifier, MiniAMPClusterer, MiniAMPRegressor

    Predictor: TypeAlias = MiniAMPRegressor | MiniAMPClassifier
    Estimator: TypeAlias = Predictor | MiniAMPClusterer

    E = TypeVar("E", bound=Estimator)
else:
    E = TypeVar("E")

#: What `batch.state()` gives, or a run that was saved.
State: TypeAlias = Mapping[str, Any]

#: Bytes of the first file by which sources are compared. A file may grow at its end, or be
#: corrected in rows that were not read yet, and is still the same.
COMPARED = 4096
#: Options that decide when to stop, and may be others when a run is resumed.
LIMITS = ("idle_seconds", "rows")


def save(run: Run[E], path: Path) -> None:
    """Write a checkpoint; it is a model that `predict` and `miniamp.load` read as well."""
    named(run).save(path, state(run))


def named(run: Run[E]) -> E:
    """A copy of the estimator that knows the names of its features, and its source."""
    estimator = copy.copy(run.estimator)
    estimator.feature_names_in_ = np.array(run.feature_names, dtype=object)
    estimator.stream_ = state(run)
    return estimator


def state(run: Run[E]) -> dict[str, object]:
    """The state of the run, saved beside the estimator."""
    assert run.learned is not None
    return {
        "command": run.command,
        "source": run.source,
        "files": run.files,
        "options": run.options,
        "batch_rows": run.batch_rows,
        "reading": dict(run.learned[1]),
    }


def opened(path: Path) -> tuple[Estimator, State | None]:
    """The estimator of a file, and what the command line wrote beside it, if it did.

    A model of the command line comes without the names of its features, as it learns from arrays:
    the state of its stream has them.
    """
    if path.is_dir():
        raise checks.refuse(f"{path}", "a folder", "a file", "add the name of the model")
    estimator: Estimator = miniamp.load(path)
    saved = getattr(estimator, "stream_", None)
    if not isinstance(saved, dict) or "reading" not in saved:
        return estimator, None
    return miniamp.estimators.describe.nameless(estimator), saved


def resumed(
    path: Path, command: str, source: str, options: Options, new_rows: bool
) -> tuple[Estimator, State]:
    """The estimator of a checkpoint and the state of its run; refused if that is another run.

    Where rows of another source follow, the state has no files, and its reading starts over.
    """
    estimator, saved = opened(path)
    by = None if saved is None else saved.get("command", "fit")
    if saved is None or by != command:
        raise checks.refuse(
            f"{path}",
            f"a model written by {f'miniamp {by}' if by else 'Python'}",
            f"a checkpoint of miniamp {command}",
            "choose another {checkpoint}",
        )
    _require_same_options(path, options, saved["options"])
    same = _same_source(source, saved)
    if not same and not new_rows:
        raise checks.refuse(
            f"{path}",
            f"the rows of {name_of(source)}",
            f"those of {name_of(saved['source'])} that it was begun with",
            "use the same source to resume, {new_rows} to learn from this one as well, or "
            "another {checkpoint} to start over",
        )
    if new_rows and (is_read_once(source) or not same):
        return estimator, {**saved, "reading": from_start(saved["reading"]), "files": []}
    return estimator, saved


def from_start(reading: State) -> dict[str, Any]:
    """The state of a stream that is read in the same way, from its first row on."""
    return {**reading, "position": 0, "mark": None, "shuffle": (0, 0)}


def fingerprint(source: str) -> list[dict[str, str | int]]:
    """The name of each file of the source, and of the first the checksum of its first bytes."""
    paths = files_of(source)
    if not paths:
        return []
    with paths[0].open("rb") as file:
        head = file.read(COMPARED)
    checksum = hashlib.sha256(head).hexdigest()
    others_: list[dict[str, str | int]] = [{"name": path.name} for path in paths[1:]]
    return [{"name": paths[0].name, "bytes": len(head), "sha256": checksum}, *others_]


def _same_source(source: str, saved: State) -> bool:
    """Whether the source begins with what was there before."""
    before, paths = saved["files"], files_of(source)
    if not before or not paths:
        return bool(source == saved["source"])
    with paths[0].open("rb") as file:
        head = file.read(before[0]["bytes"])
    # A lone file may be moved; among several the name decides the order.
    names = [path.name for path in paths[: len(before)]]
    ordered = len(before) == 1 or names == [file["name"] for file in before]
    return ordered and hashlib.sha256(head).hexdigest() == before[0]["sha256"]


def _require_same_options(path: Path, options: Options, saved: State) -> None:
    """Refuse options that are not those of the checkpoint, naming the first that differs."""
    for name in {**saved, **options}:
        was, now = saved.get(name), options.get(name)
        if was != now and name not in LIMITS:
            raise checks.refuse(
                f"{path}",
                _as_typed(name, now),
                f"{_as_typed(name, was)} as it was begun with",
                "use the same options to resume, or another {checkpoint} to start over",
            )


def _as_typed(name: str, value: object) -> str:
    flag = f"--{name.replace('_', '-')}"
    if value is None or value is False:
        return f"no {flag}"
    if value is True:
        return flag
    return f"{flag} {','.join(value) if isinstance(value, list) else value}"


def name_of(source: str) -> str:
    """What to call a source in messages."""
    return "standard input" if source == "-" else source
