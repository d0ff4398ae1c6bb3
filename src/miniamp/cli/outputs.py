"""What commands give out: a model in words, and tables that appear when they are whole."""

from __future__ import annotations

import csv
import json
import os
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape

import miniamp
from miniamp import checks
from miniamp.errors import printable, typed
from miniamp.streams.checkpoint import beside, real_path
from miniamp.streams.sources import files_of

if TYPE_CHECKING:
    from miniamp.cli.tasks import Estimator
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
        "error": _mean(history, "error"),
        "last_error": scored[-1]["error"] if scored else None,
        "forecast": scored[-1]["expected_error"] if scored else None,
        "theory": scored[-1].get("theory_error") if scored else None,
        "coverage": _mean(history, "coverage"),
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


def errors_line(history: Sequence[Entry], classes: bool) -> str:
    """The prediction error, over all rows and over the latest, beside the expected one.

    The model's own prediction is always there; that of state evolution for independent features
    only.

    Examples
    --------
    >>> errors_line([{"rows": 5}, {"rows": 5, "error": 0.04, "expected_error": 0.09}], False)
    'error so far 0.2, latest 5 rows 0.2 (predicted 0.3)'
    """
    recent: Sequence[Entry] = miniamp.estimators.describe.latest(history)
    if not recent:
        return "no predictions yet"
    rows = sum(entry["rows"] for entry in recent)
    theory = _mean(recent, "theory_error")
    predicted = shown_error(_mean(recent, "expected_error"), classes)
    predicted += "" if theory is None else f", theory {shown_error(theory, classes)}"
    return (
        f"error so far {shown_error(_mean(history, 'error'), classes)}, latest {rows:,} rows "
        f"{shown_error(_mean(recent, 'error'), classes)} (predicted {predicted})"
    )


def _mean(history: Sequence[Entry], name: str) -> float | None:
    return miniamp.estimators.describe.mean_over_rows(history, name)


def shown(text: object) -> str:
    """Text as it is: neither rich nor the terminal takes anything in it as a command."""
    return escape(printable(str(text)))


def shown_error(error: float | None, classes: bool) -> str:
    """A share of errors, or the root of a mean square, in the units of the target."""
    if error is None:
        return "unknown"
    return f"{100.0 * error:.3g} %" if classes else f"{error**0.5:.3g}"


def show(
    estimator: Estimator, names: Sequence[str], console: Console, top: int = STRONGEST
) -> None:
    """Print the summary of a model, its errors and its health."""
    found = estimator._summary(0.9, names)
    if hasattr(estimator, "cluster_centers_"):
        lines = [found.text()]
    else:
        intercepts = int(np.sum(np.isinf(found.strength)))
        lines = [found.text(top + intercepts), *_about_fit(estimator)]
    for line in lines:
        console.print(escape(line), soft_wrap=True, highlight=False)


def _about_fit(estimator: Any) -> list[str]:
    history = estimator.history_
    last = history[-1]
    lines = [f"solver: {printable(last['solver'])} ({printable(last['reason'])})"]
    health = estimator.health_
    findings = [f"health: {printable(f.as_typed('shell'))}" for f in health.findings]
    if any(entry.get("error") is not None for entry in history):
        lines.append(errors_line(history, hasattr(estimator, "classes_")))
        return lines + (findings or [f"health: {health}"])
    unknown = "health: unknown, as no row was predicted before it was learned from; use more rows"
    return lines + (findings or [f"{unknown}, a smaller --batch-size, or --shuffle if sorted"])


def write_json(value: object) -> None:
    """One JSON document on standard output; what is no finite number is null."""
    sys.stdout.write(json.dumps(miniamp.estimators.describe.finite(value), indent=2) + "\n")


#: One batch of a table: columns of equal length by name.
Table = Mapping[str, Sequence[object] | NDArray[np.generic]]

#: How text begins that a spreadsheet would compute.
FORMULA = ("=", "+", "-", "@", "\t", "\r")

_KINDS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


class Writer(ABC):
    """Takes one batch of rows after the other."""

    @abstractmethod
    def write(self, table: Table) -> None:
        """Write a batch."""

    def close(self) -> None:  # noqa: B027
        """Write what is left, if anything is."""


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
    ...     with writing(place) as writer:
    ...         writer.write({"prediction": [1.5, 2.0], "std": [0.5, 0.25]})
    ...     place.read_text()
    'prediction,std\n1.5,0.5\n2.0,0.25\n'
    """
    kind = kind_of(path)
    if str(path) == "-":
        yield CSVWriter(sys.stdout)
        sys.stdout.flush()
        return
    place = real_path(path)
    fresh = beside(place, "new")
    try:
        # Text has the same line ends on every system.
        text = kind != "parquet"
        with fresh.open(
            "x" if text else "xb",
            encoding="utf-8" if text else None,
            newline="\n" if text else None,
        ) as file:
            writer = WRITERS[kind](file)
            yield writer
            writer.close()
        fresh.replace(place)
    except OSError as error:
        raise checks.refuse(
            f"{path}", f"{error.strerror}", "a place to write to", "check the folder and the disk"
        ) from None
    finally:
        fresh.unlink(missing_ok=True)


class CSVWriter(Writer):
    """Comma-separated values, with the names first."""

    def __init__(self, file: IO[str]) -> None:
        self._csv = csv.writer(file, lineterminator="\n")
        self._begun = False

    def write(self, table: Table) -> None:
        if not self._begun:
            self._csv.writerow(map(_inert, table))
            self._begun = True
        columns = (map(_inert, _list(column)) for column in table.values())
        self._csv.writerows(zip(*columns, strict=True))


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


class JSONLinesWriter(Writer):
    """One JSON object per line."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, table: Table) -> None:
        names = list(table)
        for row in zip(*map(_list, table.values()), strict=True):
            self._file.write(json.dumps(dict(zip(names, row, strict=True))) + "\n")


class ParquetWriter(Writer):
    """Parquet, one row group per batch."""

    def __init__(self, file: IO[bytes]) -> None:
        self._arrow = checks.needed("pyarrow", "writing Parquet")
        self._parquet = checks.needed("pyarrow.parquet", "writing Parquet")
        self._file = file
        self._writer: Any = None

    def write(self, table: Table) -> None:
        rows = self._arrow.table({name: _list(column) for name, column in table.items()})
        if self._writer is None:
            self._writer = self._parquet.ParquetWriter(self._file, rows.schema)
        self._writer.write_table(rows)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def _list(column: Sequence[object] | NDArray[np.generic]) -> list[object]:
    return list(column.tolist() if isinstance(column, np.ndarray) else column)


WRITERS: dict[str, Callable[[IO[Any]], Writer]] = {
    "csv": CSVWriter,
    "jsonl": JSONLinesWriter,
    "parquet": ParquetWriter,
}


def require_outputs(outputs: Mapping[str, Path | None], source: str | None = None) -> None:
    """Refuse, before any work, outputs that cannot be written or would overwrite each other.

    Parameters
    ----------
    outputs : dict
        The path of each option that names a file; - is standard output.
    source : str, optional
        Where the rows come from, which no output may replace.
    """
    taken: dict[Path, str] = {}
    for file in () if source is None else files_of(source):
        taken[file.resolve()] = "the source itself"
    for name, path in outputs.items():
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
