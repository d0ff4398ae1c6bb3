"""What programs read: a model as plain values, and tables that appear when they are whole.

And whether outputs can be written, which is asked before any work.
"""

from __future__ import annotations

import csv
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import miniamp
from miniamp import checks
from miniamp.errors import typed
from miniamp.streams.checkpoint import real_path, replacing
from miniamp.streams.sources import files_of

if TYPE_CHECKING:
    from miniamp.cli.saved import Estimator
    from miniamp.estimators.summary import Summary

#: Coefficients that are listed, and features of clusters: those fit the width of a terminal.
STRONGEST, WIDTH = 10, 4

#: One batch of a history.
Entry = Mapping[str, Any]


def described(
    estimator: Estimator, names: Sequence[str], top: int = STRONGEST
) -> dict[str, object]:
    """The model as plain values."""
    if hasattr(estimator, "cluster_centers_"):
        return _clusters(estimator, names, min(top, WIDTH))
    mean = miniamp.estimators.describe.mean_over_rows
    history: Sequence[Entry] = estimator.history_
    last = history[-1]
    classes = getattr(estimator, "classes_", None)
    scored = [entry for entry in history if entry.get("error") is not None]
    return {
        "model": type(estimator).__name__,
        "task": "regression" if classes is None else "classification",
        "classes": None if classes is None else np.asarray(classes).tolist(),
        "rows": int(estimator.n_samples_seen_),
        "features": int(estimator.n_features_in_),
        "batches": last["batch"] + 1,
        "solver": last["solver"],
        "reason": last["reason"],
        "error": mean(history, "error"),
        "last_error": scored[-1]["error"] if scored else None,
        "forecast": scored[-1]["expected_error"] if scored else None,
        "theory": scored[-1].get("theory_error") if scored else None,
        "coverage": mean(history, "coverage"),
        "hyper_parameters": {
            name: value
            for name, value in last.items()
            if name.startswith(("prior_", "noise_")) and not name.endswith("_learned")
        },
        "intercept": np.asarray(estimator.intercept_).tolist(),
        "coefficients": _strongest(estimator._summary(0.9, names), top),
        "health": [
            {"kind": f.kind, "message": typed(f.seen, "shell"), "remedy": typed(f.action, "shell")}
            for f in estimator.health_.findings
        ],
    }


def _clusters(estimator: Any, names: Sequence[str], top: int) -> dict[str, object]:
    """A clustering; `clearest` are the features that separate clusters best."""
    centres, std = estimator.cluster_centers_, estimator.cluster_std_
    return {
        "model": type(estimator).__name__,
        "task": "clustering",
        "clusters": len(centres),
        "rows": int(estimator.n_samples_seen_),
        "features": len(names),
        "batches": len(estimator.history_),
        "noise": np.asarray(estimator.noise_).tolist(),
        "feature_names": [str(name) for name in names],
        "weights": estimator.cluster_weights_.tolist(),
        "centres": centres.tolist(),
        "centres_std": std.tolist(),
        "clearest": miniamp.estimators.describe.separating(centres, std)[:top],
    }


def _strongest(found: Summary, top: int) -> list[dict[str, object]]:
    """The coefficients that are furthest from zero in units of their own uncertainty."""
    listed = []
    for i in np.argsort(-found.strength, kind="stable").tolist():
        if np.isfinite(found.strength[i]):  # the intercept is not
            row = {name: values[i] for name, values in found.columns.items()}
            own = {"class": row.pop("class")} if "class" in row else {}
            included = row.pop("inclusion", 1.0)
            one = {**own, "feature": row.pop("name"), **row, "inclusion_probability": included}
            listed.append(one)
    return listed[:top]


def write_json(value: object) -> None:
    """One JSON document on standard output; what is no finite number is null."""
    sys.stdout.write(json.dumps(miniamp.estimators.describe.finite(value), indent=2) + "\n")


def require_outputs(
    files: Mapping[str, Path | None], source: str | None = None, model: Path | None = None
) -> None:
    """Refuse, before any work, outputs that cannot be written or would overwrite each other.

    Parameters
    ----------
    files : dict
        The path of each option that names a file; - is standard output.
    source : str, optional
        Where the rows come from, which no output may replace.
    model : path, optional
        The model that is read, which no output may replace either.
    """
    taken: dict[Path, str] = {} if model is None else {model.resolve(): "the model itself"}
    for file in () if source is None else files_of(source):
        taken[file.resolve()] = "the source itself"
    for name, path in files.items():
        if path is None or str(path) == "-":
            continue
        _require_place(name, path)
        for place in (path.resolve(), path.with_name(f"{path.name}.previous").resolve()):
            if place in taken:
                raise checks.refuse(name, path, f"another file than {taken[place]}", "rename it")
            taken[place] = f"that of {name}"


def _require_place(name: str, path: Path) -> None:
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "a pipe or device"
        raise checks.refuse(name, f"{path}, which is {what}", "a file", "name a file")
    if not path.parent.is_dir():
        raise checks.refuse(
            name,
            path,
            "a folder that exists",
            f"the folder {path.parent} does not exist: create it",
        )
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
        writable = not path.exists() or os.access(path, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        raise checks.refuse(name, path, "a place that can be written", "check its permissions")


#: One batch of a table: columns of equal length by name.
Table = Mapping[str, Sequence[object] | NDArray[np.generic]]

#: Writes one batch of rows after the other.
Writer: TypeAlias = Callable[[Table], None]

#: How text begins that a spreadsheet would compute.
FORMULA = ("=", "+", "-", "@", "\t", "\r")

_KINDS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


def kind_of(path: Path) -> str:
    """What to write, by the ending of the name; CSV to standard output."""
    if str(path) == "-":
        return "csv"
    kind = _KINDS.get(path.suffix.lower())
    if kind is None:
        raise checks.refuse(
            "--output",
            f"{path}",
            "a name ending in .csv, .jsonl or .parquet, or - for CSV on standard output",
            "rename it",
        )
    return kind


@contextmanager
def writing(path: Path) -> Iterator[Writer]:
    r"""A writer to a file that appears under its name at the end, if all went well.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = Path(folder) / "p.csv"
    ...     with writing(place) as write:
    ...         write({"prediction": [1.5, 2.0], "std": [0.5, 0.25]})
    ...     place.read_text()
    'prediction,std\n1.5,0.5\n2.0,0.25\n'
    """
    kind = kind_of(path)
    if str(path) == "-":
        with _csv(sys.stdout) as write:
            yield write
        sys.stdout.flush()
        return
    try:
        with ExitStack() as stack:
            fresh = stack.enter_context(replacing(real_path(path)))
            if kind == "parquet":
                yield stack.enter_context(_parquet(stack.enter_context(fresh.open("xb"))))
            else:
                # Text has the same line ends on every system.
                text = stack.enter_context(fresh.open("x", encoding="utf-8", newline="\n"))
                yield stack.enter_context((_csv if kind == "csv" else _json_lines)(text))
    except OSError as error:
        raise checks.refuse(
            f"{path}", f"{error.strerror}", "a place to write to", "check the folder and the disk"
        ) from None


@contextmanager
def _csv(file: IO[str]) -> Iterator[Writer]:
    """Comma-separated values, with the names first."""
    rows, begun = csv.writer(file, lineterminator="\n"), False

    def write(table: Table) -> None:
        nonlocal begun
        if not begun:
            rows.writerow(map(_inert, table))
            begun = True
        columns = (map(_inert, _list(column)) for column in table.values())
        rows.writerows(zip(*columns, strict=True))

    yield write


def _inert(cell: object) -> object:
    """A cell that no spreadsheet takes as a formula: text that begins like one gets an apostrophe.

    Examples
    --------
    >>> _inert("=cmd|' /C calc'!A0"), _inert("-1"), _inert(-1.5)
    ("'=cmd|' /C calc'!A0", '-1', -1.5)
    """
    if not isinstance(cell, str) or not cell.startswith(FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


@contextmanager
def _json_lines(file: IO[str]) -> Iterator[Writer]:
    """One JSON object per line."""

    def write(table: Table) -> None:
        names = list(table)
        for row in zip(*map(_list, table.values()), strict=True):
            file.write(json.dumps(dict(zip(names, row, strict=True))) + "\n")

    yield write


@contextmanager
def _parquet(file: IO[bytes]) -> Iterator[Writer]:
    """Parquet, one row group per batch."""
    pa = checks.needed("pyarrow", "writing Parquet")
    parquet = checks.needed("pyarrow.parquet", "writing Parquet")
    with ExitStack() as stack:
        opened: list[Any] = []

        def write(table: Table) -> None:
            rows = pa.table({name: _list(column) for name, column in table.items()})
            if not opened:
                opened.append(stack.enter_context(parquet.ParquetWriter(file, rows.schema)))
            opened[0].write_table(rows)

        yield write


def _list(column: Sequence[object] | NDArray[np.generic]) -> list[object]:
    return list(column.tolist() if isinstance(column, np.ndarray) else column)
