"""`miniamp fit`: learn to predict a column from the others."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import typer
from numpy.typing import NDArray

import miniamp
from miniamp import checks
from miniamp.cli import learn, options, reading
from miniamp.cli.options import ConflictRule, SolverName, TaskName, noise_of, prior_of
from miniamp.cli.reading import DecimalSign, MissingRule, UnknownRule
from miniamp.cli.run import Run
from miniamp.cli.summary import errors_line
from miniamp.errors import InvalidInputError, MiniampWarning
from miniamp.streams import Stream, StreamBatch
from miniamp.streams.sources import files_of, is_read_once

if TYPE_CHECKING:
    from miniamp.estimators import MiniAMPClassifier, MiniAMPRegressor

    Predictor: TypeAlias = MiniAMPRegressor | MiniAMPClassifier

#: Rows that are looked at to choose the size of a batch.
SAMPLE = 1024
#: Rows per batch at most, and from a pipe.
MOST_ROWS, PIPE_ROWS = 10_000, 1000
#: Batches there should be, so that there are predictions to compare, unless they become too small.
FEW_BATCHES, LEAST_ROWS = 10, 32
#: Numbers per batch at most: 64 MB.
MOST_NUMBERS = 8_000_000

#: Whole numbers that are so few, each so many times on average, may be classes.
FEW_CLASSES, MANY_FOR_CLASSES = 10, 3

Labels = NDArray[np.generic]


def fit(
    ctx: typer.Context,
    source: reading.Source,
    target: options.Target,
    task: options.Task = TaskName.auto,
    prior: options.Prior = "gaussian",
    noise: options.Noise = "learn",
    memory: options.Memory = "auto",
    solver: options.Solver = SolverName.auto,
    forget: options.Forget = None,
    half_life: options.HalfLife = None,
    on_conflict: options.OnConflict = ConflictRule.adapt,
    intercept: options.Intercept = True,
    classes: options.Classes = None,
    batch_size: reading.BatchSize = "auto",
    columns: reading.Columns = None,
    categorical: reading.Categorical = None,
    missing: reading.Missing = MissingRule.error,
    unknown: reading.Unknown = UnknownRule.error,
    format_: reading.Format = None,
    delimiter: reading.Delimiter = None,
    header: reading.Header = True,
    decimal: reading.Decimal = DecimalSign.point,
    encoding: reading.Encoding = None,
    keep: reading.Keep = None,
    hashed: reading.Hashed = None,
    reference: reading.Reference = None,
    shuffle: reading.Shuffle = None,
    seed: reading.ShuffleSeed = None,
    database: reading.Database = None,
    key: reading.Key = None,
    idle_seconds: reading.IdleSeconds = None,
    rows: reading.MostRows = None,
    checkpoint: options.Checkpoint = None,
    every: options.Every = 10,
    new_rows: options.NewRows = False,
    output: options.ModelOutput = None,
    report: options.Report = None,
    watch: options.Watch = False,
    as_json: options.AsJSON = False,
) -> None:
    """Learn to predict a column from the others, in one pass and bounded memory.

    Every row is predicted before it is learned from, so the error shown is that on unseen rows.
    Ctrl-C saves to the checkpoint; the same command resumes from there. Killed at any moment and
    started again, it ends with the same model bit for bit. From standard input, rows that were
    learned already are skipped: pipe in the same rows again, or use --new-rows.

    Example: miniamp fit houses.csv --target price --prior sparse --checkpoint houses.amp
    """
    if forget is not None and half_life is not None:
        raise typer.BadParameter("use --forget or --half-life, not both")
    files = {
        "checkpoint": ("--checkpoint", checkpoint),
        "model": ("--output", output),
        "report": ("--report", report),
    }
    with learn.watched(checkpoint) if watch else nullcontext():
        learn.execute(FitRun, ctx.params, files)


class FitRun(Run["Predictor"]):
    """A regression or classification."""

    command = "fit"

    def chosen_rows(self) -> int:
        prior_of(self.options["prior"]), noise_of(self.options["noise"])
        size = self.options["batch_size"]
        if size != "auto":
            return int(size)
        if is_read_once(self.source):
            return PIPE_ROWS
        # A look only: what is wrong with the rows is reported when they are read in earnest.
        self.batch_rows = SAMPLE
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stream = self.stream()
            first = next(iter(stream))
            settings = self.new_estimator(first)._settings()
        affordable = miniamp.estimators.settings.auto_rows(settings, first.X)
        if affordable < first.rows:
            return affordable
        features = max(1, len(first.feature_names))
        total = (
            first.rows
            if first.rows < SAMPLE
            else stream.rows or _estimated_rows(files_of(self.source))
        )
        most = min(MOST_ROWS, MOST_NUMBERS // features)
        return max(1, min(max(total // FEW_BATCHES, LEAST_ROWS, 2 * features), most))

    def stream(self, again: bool = False, **more: Any) -> Stream:
        # Classes that are no numbers make the target text, even where it begins with numbers.
        classes = self.options.get("classes")
        labels = "auto" if classes is None else _numbers(classes) is None
        return super().stream(again, labels=labels, **more)

    def new_estimator(self, first: StreamBatch) -> Predictor:
        task, y = self.options["task"], first.y if first.head is None else first.head
        if task == "auto":
            task = "classification" if _has_classes(y) else "regression"
            _ask_about_whole_numbers(y, task)
        _warn_of_order(first.y if self.options.get("shuffle") else y, task)
        cls = miniamp.MiniAMPRegressor if task == "regression" else miniamp.MiniAMPClassifier
        forget = self.options.get("forget", 1.0)
        forget = forget if forget == "auto" else float(forget)
        if "half_life" in self.options:
            forget = 0.5 ** (first.rows / self.options["half_life"])
        size, memory = self.options["batch_size"], self.options["memory"]
        return cls(
            prior=prior_of(self.options["prior"]),
            noise=noise_of(self.options["noise"]),
            batch_size=size if size == "auto" else int(size),
            memory=memory if memory == "auto" else int(memory),
            forget=forget,
            solver=self.options["solver"],
            on_conflict=self.options.get("on_conflict", "adapt"),
            fit_intercept=self.options["intercept"],
        )

    def absorb(self, estimator: Predictor, batch: StreamBatch) -> None:
        assert batch.y is not None
        given, y = {}, batch.y
        if isinstance(estimator, miniamp.MiniAMPClassifier):
            y = labels_of(y)
            known = self._known_classes(
                estimator, y if batch.head is None else labels_of(batch.head)
            )
            _require_classes(y, known, batch.position)
            given = {} if hasattr(estimator, "classes_") else {"classes": known}
        elif y.dtype.kind not in "fiu":
            raise checks.refuse(
                "target", "text", "numbers for a regression", "use {task=classification}"
            )
        try:
            estimator.partial_fit(batch.X, y, **given)
        except InvalidInputError as error:
            raise (error.relabelled("target") if error.argument == "y" else error) from None

    def progress(self) -> str:
        return errors_line(self.estimator.history_, hasattr(self.estimator, "classes_"))

    def _known_classes(self, estimator: Predictor, y: Labels) -> Labels:
        """Those of the first rows, or all that were named."""
        known = getattr(estimator, "classes_", None)
        if known is not None:
            return np.asarray(known)
        classes = self.options.get("classes")
        if classes is None:
            return np.unique(y)
        numbers = _numbers(classes) if y.dtype.kind in "fiu" else None
        return np.unique(classes if numbers is None else labels_of(numbers))


def _estimated_rows(paths: list[Path]) -> int:
    """Rows of files of text, by the length of the first lines."""
    with paths[0].open("rb") as file:
        head = file.read(1 << 20)
    size = sum(path.stat().st_size for path in paths)
    return size * (head.count(b"\n") + 1) // max(1, len(head))


def _require_classes(y: Labels, known: Labels, position: int) -> None:
    """Refuse labels that are no classes, or that are none of the known ones."""
    if y.dtype.kind == "f":
        broken = y[y != np.rint(y)]
        raise checks.refuse(
            "target",
            f"{(broken if len(broken) else y)[0]:g}",
            "text or whole numbers for classes",
            "use {task=regression}",
        )
    unknown = np.setdiff1d(y, known)
    if len(unknown) or len(known) < 2:
        raise checks.refuse(
            "target",
            f"the class {str(unknown[0])!r} in the rows before {position}"
            if len(unknown)
            else f"one class, {str(y[0])!r}, in the rows before {position}",
            ", ".join(str(name) for name in known[:20]) if len(unknown) else "at least two classes",
            "list all with {classes=a,b,c}, or use {shuffle=10000}",
        )


def labels_of(y: Labels) -> Labels:
    """Targets as labels: whole numbers are written without a point."""
    if y.dtype.kind == "f" and np.array_equal(y, np.rint(y)) and np.abs(y).max() < 2**53:
        return y.astype(np.int64)
    return y


def _numbers(classes: list[str]) -> Labels | None:
    """The classes as numbers; None if one is none."""
    try:
        return np.array([float(name) for name in classes])
    except ValueError:
        return None


def _ask_about_whole_numbers(y: Labels | None, task: str) -> None:
    """Warn of few whole numbers, which may be classes, where they are taken as numbers."""
    if y is None or task != "regression" or len(y) < MANY_FOR_CLASSES * FEW_CLASSES:
        return
    values = np.unique(y)
    if len(values) <= FEW_CLASSES and np.array_equal(values, np.rint(values.astype(float))):
        warnings.warn(
            MiniampWarning(
                f"the target has {len(values)} different whole numbers and is taken as a number; "
                "if these are classes, use {task=classification}, else {task=regression}"
            ),
            stacklevel=2,
        )


def _warn_of_order(y: Labels | None, task: str) -> None:
    """Warn of first rows that are sorted by the target: later ones will contradict them."""
    if y is None or len(y) < MANY_FOR_CLASSES * FEW_CLASSES:
        return
    values, codes = np.unique(y, return_inverse=True)
    steps = np.diff(codes)
    few = 1 < len(values) <= len(y) // MANY_FOR_CLASSES
    blocks = task == "classification" and few and len(values) == np.count_nonzero(steps) + 1
    rising = task == "regression" and len(values) > 2 and (np.all(steps >= 0) or np.all(steps <= 0))
    if blocks or rising:
        warnings.warn(
            MiniampWarning(
                "the first rows are sorted by the target, and a model that sees one part of its "
                "range at a time learns less; use {shuffle=10000}, or shuffle the file"
            ),
            stacklevel=2,
        )


def _has_classes(y: Labels | None) -> bool:
    """Text, or two whole numbers."""
    if y is None or y.dtype.kind != "f":
        return True
    values = np.unique(y)
    return len(values) == 2 and bool(np.array_equal(values, np.rint(values)))
