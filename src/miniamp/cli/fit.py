"""`miniamp fit`: learn to predict a column from the others."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from numpy.typing import NDArray

import miniamp
from miniamp import checks
from miniamp.cli import learn
from miniamp.cli.options import (
    FILES,
    MODEL,
    PRIORS,
    ROWS,
    Features,
    Files,
    Reading,
    Source,
    auto_or_count,
    command,
    noise_of,
    option,
    prior_of,
    within,
)
from miniamp.cli.run import Run
from miniamp.errors import InvalidInputError, MiniampWarning
from miniamp.streams import StreamBatch

if TYPE_CHECKING:
    from miniamp.cli.run import Predictor

#: Rows per batch at most.
MOST_ROWS = 10_000
#: Batches there should be, so that there are predictions to compare, unless they become too small.
FEW_BATCHES, LEAST_ROWS = 10, 32
#: Numbers per batch at most: 64 MB.
MOST_NUMBERS = 8_000_000
#: Whole numbers that are so few, each so many times on average, may be classes.
FEW_CLASSES, MANY_FOR_CLASSES = 10, 3

Labels = NDArray[np.generic]

TaskName = StrEnum("TaskName", "auto regression classification")
SolverName = StrEnum("SolverName", "auto amp robust")
ConflictRule = StrEnum("ConflictRule", "adapt skip raise")


def _auto_or_share(value: str | None) -> str | None:
    """A check of an option that takes "auto" or a number above 0 and at most 1."""
    if value is not None and value != "auto":
        try:
            within(0, 1, closed=True)(float(value))
        except ValueError:
            raise typer.BadParameter(f"got {value!r}, expected auto or a number") from None
    return value


class FitOptions:
    """Options of `fit` alone."""

    target: str = option(
        ..., None, "COLUMN", "The column to predict: its name, or #3 for its number (from 0)."
    )
    task: TaskName = option(
        TaskName.auto, None, "TASK",
        "regression, classification, or auto: text or two whole numbers are classes.",
    )  # fmt: skip
    prior: str = option(
        "gaussian", MODEL, "PRIOR",
        f"{', '.join(PRIORS)}: learned from the rows; or fixed with numbers, such as "
        "sparse:rho=0.1,var=2; or auto: gaussian, laplace or sparse, whichever suits the rows.",
    )  # fmt: skip
    noise: str = option(
        "learn", MODEL, "NOISE",
        "learn, a variance, or a channel: student-t:df=4 (outliers), poisson (counts), logistic.",
    )  # fmt: skip
    memory: str = option(
        "auto", MODEL, "ROWS",
        "Remembered rows, which keep correlations between batches: auto, or 0 for none.",
        callback=auto_or_count(0),
    )  # fmt: skip
    solver: SolverName = option(
        SolverName.auto, MODEL, "SOLVER",
        "amp for independent features, robust for any; auto looks at the rows.",
    )  # fmt: skip
    forget: str | None = option(
        None, MODEL, "FACTOR",
        "For drifting streams: the weight of earlier batches is multiplied by this with every "
        "batch, such as 0.95; or auto: learned from the stream.",
        callback=_auto_or_share,
    )  # fmt: skip
    half_life: float | None = option(
        None, MODEL, "ROWS", "The same as a number of rows after which earlier ones count half.",
        callback=within(0, float("inf")),
    )  # fmt: skip
    on_conflict: ConflictRule = option(
        ConflictRule.adapt, MODEL, "RULE",
        "For a batch that contradicts what was learned: adapt learns what it can, skip leaves it "
        "out, raise stops.",
    )  # fmt: skip
    intercept: bool = option(
        True, MODEL, None, "Whether to add an intercept.", "--intercept/--no-intercept"
    )
    classes: str | None = option(
        None, MODEL, "LIST", "All classes, a,b,c; by default those of the first rows."
    )
    seed: int | None = option(None, ROWS, None, "Of the random order.", min=0)
    output: Path | None = option(
        None, FILES, "FILE", "Write the model here at the end.", "--output", "-o"
    )
    watch: bool = option(
        False, FILES, None, "Show in the browser how it goes; needs --checkpoint.", "--watch"
    )


@command(FitOptions, Features, Reading, Files)
def fit(source: Source, **given: Any) -> None:
    """Learn to predict a column from the others, in one pass and bounded memory.

    Every row is predicted before it is learned from, so the error shown is that on unseen rows.
    Ctrl-C saves to the checkpoint; the same command resumes from there. Killed at any moment and
    started again, it ends with the same model bit for bit. From standard input, rows that were
    learned already are skipped: pipe in the same rows again, or use --new-rows.

    Example: miniamp fit houses.csv --target price --prior sparse --checkpoint houses.amp
    """
    if None not in (given["forget"], given["half_life"]):
        raise typer.BadParameter("use --forget or --half-life, not both")
    files = {"checkpoint": "checkpoint", "model": "output", "report": "report"}
    with _watched(given["checkpoint"]) if given["watch"] else nullcontext():
        learn.execute(Prediction, source, given, files)


@contextmanager
def _watched(checkpoint: Path | None) -> Iterator[None]:
    """While entered, `miniamp watch` shows the checkpoint; afterwards it stays until Ctrl-C."""
    if checkpoint is None:
        raise typer.BadParameter("--watch shows the --checkpoint; name it")
    words = [sys.executable, "-m", "miniamp", "watch", str(checkpoint), "--port", "0"]
    # Out of reach of Ctrl-C, which is for the learner first.
    with subprocess.Popen(words, start_new_session=True) as page:
        try:
            yield
            learn.say("the page stays until Ctrl-C")
            page.wait()
        except KeyboardInterrupt:
            pass
        finally:
            page.terminate()


class Prediction(Run["Predictor"]):
    """A regression or classification."""

    command = "fit"

    def prepare(self) -> None:
        options = self.options
        self._prior, self._noise = prior_of(options["prior"]), noise_of(options["noise"])
        size, classes = options["batch_size"], options.get("classes")
        self.asked_rows = None if size == "auto" else int(size)
        # Classes that are no numbers make the target text, even where it begins with numbers.
        self.labels = "auto" if classes is None else _numbers(classes) is None

    def suited_rows(self, first: StreamBatch, total: int) -> int:
        settings = self.new_estimator(first)._settings()
        affordable = miniamp.estimators.settings.auto_rows(settings, first.X)
        if affordable < first.rows:
            return affordable
        features = max(1, len(first.feature_names))
        most = min(MOST_ROWS, MOST_NUMBERS // features)
        return max(1, min(max(total // FEW_BATCHES, LEAST_ROWS, 2 * features), most))

    def new_estimator(self, first: StreamBatch) -> Predictor:
        task = self.options["task"]
        y = first.y if first.first_targets is None else first.first_targets
        if task == "auto":
            task = "classification" if _has_classes(y) else "regression"
            _ask_about_whole_numbers(y, task)
        _warn_of_order(first.y if self.options.get("shuffle") else y, task)
        kinds = miniamp.estimators
        cls = kinds.MiniAMPRegressor if task == "regression" else kinds.MiniAMPClassifier
        forget = self.options.get("forget", 1.0)
        forget = forget if forget == "auto" else float(forget)
        if "half_life" in self.options:
            forget = 0.5 ** (first.rows / self.options["half_life"])
        memory = self.options["memory"]
        return cls(
            prior=self._prior,
            noise=self._noise,
            batch_size="auto" if self.asked_rows is None else self.asked_rows,
            memory=memory if memory == "auto" else int(memory),
            forget=forget,
            solver=self.options["solver"],
            on_conflict=self.options.get("on_conflict", "adapt"),
            fit_intercept=self.options["intercept"],
        )

    def absorb(self, estimator: Predictor, batch: StreamBatch) -> None:
        assert batch.y is not None
        given, y = {}, batch.y
        if isinstance(estimator, miniamp.estimators.MiniAMPClassifier):
            y = labels_of(y)
            known = self._known_classes(
                estimator, y if batch.first_targets is None else labels_of(batch.first_targets)
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

    def progress_of(self, estimator: Predictor) -> str:
        return learn.errors_line(estimator.history_, hasattr(estimator, "classes_"))

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
