"""`miniamp fit`: learn to predict a column from the others."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import typer
from numpy.typing import NDArray

import miniamp
from miniamp import channels, checks
from miniamp.channels.base import Channel
from miniamp.cli.app import learner, listed
from miniamp.cli.learn import Run, say
from miniamp.cli.options import PRIORS, Features, Files, FitOptions, Reading, SourceArgument
from miniamp.cli.outputs import STRONGEST, Entry
from miniamp.errors import InvalidInputError, MiniampWarning
from miniamp.parametric import Parametric
from miniamp.priors import ScalarPrior
from miniamp.streams import StreamBatch

if TYPE_CHECKING:
    from miniamp.cli.saved import Predictor

#: Rows per batch at most.
MOST_ROWS = 10_000
#: Batches there should be, so that there are predictions to compare, unless they become too small.
FEW_BATCHES, LEAST_ROWS = 10, 32
#: Numbers per batch at most: 64 MB.
MOST_NUMBERS = 8_000_000
#: Whole numbers that are so few, each so many times on average, may be classes.
FEW_CLASSES, MANY_FOR_CLASSES = 10, 3

Labels = NDArray[np.generic]
P = TypeVar("P", bound=Parametric)
CHANNELS = channels.by_name()


@learner(SourceArgument, FitOptions, Features, Reading, Files)
class Prediction(Run["Predictor"]):
    """Learn to predict a column from the others, in one pass and bounded memory.

    Every row is predicted before the model learns from it, so errors are those on unseen rows.
    Ctrl-C saves to the checkpoint; the same command resumes from there. Killed at any moment and
    started again, it ends with the same model bit for bit. From standard input, rows that were
    learned already are skipped: pipe in the same rows again, or use --new-rows.

    Example: miniamp fit houses.csv --target price --prior sparse --checkpoint houses.amp
    """

    command = "fit"
    outputs: ClassVar = {"checkpoint": "checkpoint", "model": "output", "report": "report"}

    def prepare(self) -> None:
        options = self.options
        if {"forget", "half_life"} <= options.keys():
            raise typer.BadParameter("use --forget or --half-life, not both")
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

    def progress(self, estimator: Predictor) -> str:
        return errors_line(estimator.history_, hasattr(estimator, "classes_"))

    def shown(self, estimator: Predictor, names: Sequence[str]) -> list[str]:
        return about(estimator, names)

    def meanwhile(self) -> AbstractContextManager[None]:
        return _watched(self.given["checkpoint"]) if self.given["watch"] else nullcontext()

    def _known_classes(self, estimator: Predictor, y: Labels) -> Labels:
        """Those of the first rows, or all that were named."""
        known = getattr(estimator, "classes_", None)
        if known is not None:
            return np.asarray(known)
        classes = self.options.get("classes")
        if classes is None:
            found = np.unique(y)
            if y.dtype.kind != "f" and len(found) > max(FEW_CLASSES, len(y) // MANY_FOR_CLASSES):
                received = f"{len(found):,} different values in the first {len(y):,} rows"
                received += f", such as {str(found[-1])!r:.40}"
                remedy = "name another column, or list all classes with {classes=a,b,c}"
                raise checks.refuse("target", received, "classes that repeat", remedy)
            return found
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
    if 1 < len(values) <= FEW_CLASSES and np.array_equal(values, np.rint(values.astype(float))):
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
            say("the page stays until Ctrl-C")
            page.wait()
        except KeyboardInterrupt:
            pass
        finally:
            page.terminate()


def errors_line(history: Sequence[Entry], classes: bool) -> str:
    """The prediction error, over all rows and over the latest, beside the expected one.

    The model's own prediction is always there; that of state evolution for independent features
    only.

    Examples
    --------
    >>> errors_line([{"rows": 5}, {"rows": 5, "error": 0.04, "expected_error": 0.09}], False)
    'error so far 0.2, latest 5 rows 0.2 (predicted 0.3)'
    """
    describe = miniamp.estimators.describe
    recent: Sequence[Entry] = describe.latest(history)
    if not recent:
        return "no predictions yet"
    rows, mean = sum(entry["rows"] for entry in recent), describe.mean_over_rows
    theory = mean(recent, "theory_error")
    predicted = shown_error(mean(recent, "expected_error"), classes)
    predicted += "" if theory is None else f", theory {shown_error(theory, classes)}"
    return (
        f"error so far {shown_error(mean(history, 'error'), classes)}, latest {rows:,} rows "
        f"{shown_error(mean(recent, 'error'), classes)} (predicted {predicted})"
    )


def shown_error(error: float | None, classes: bool) -> str:
    """A share of errors, or the root of a mean square, in the units of the target."""
    if error is None:
        return "unknown"
    return f"{100.0 * error:.3g} %" if classes else f"{error**0.5:.3g}"


def about(estimator: Any, names: Sequence[str], top: int = STRONGEST) -> list[str]:
    """Lines about a model: its summary, its solver, its errors and its health."""
    found, history, health = estimator._summary(0.9, names), estimator.history_, estimator.health_
    intercepts = int(np.sum(np.isinf(found.strength)))
    lines: list[str] = found.text(top + intercepts).split("\n")
    lines.append(f"solver: {history[-1]['solver']} ({history[-1]['reason']})")
    findings = [f"health: {finding.as_typed('shell')}" for finding in health.findings]
    if any(entry.get("error") is not None for entry in history):
        lines.append(errors_line(history, hasattr(estimator, "classes_")))
        return lines + (findings or [f"health: {health}"])
    unknown = "health: unknown, as no row was predicted before it was learned from; use more rows"
    return lines + (findings or [f"{unknown}, a smaller --batch-size, or --shuffle if sorted"])


def prior_of(given: str) -> str | ScalarPrior:
    """A prior by its name, to be learned, or with numbers, `sparse:rho=0.1`, to be held fixed.

    Examples
    --------
    >>> prior_of("sparse"), prior_of("laplace:scale=2")
    ('sparse', Laplace(scale=2))
    """
    name, _, numbers = given.partition(":")
    if given == "auto":
        return given
    if name not in PRIORS:
        known = f"one of auto, {', '.join(PRIORS)}, or with numbers like sparse:rho=0.1"
        raise typer.BadParameter(f"got {given!r}, expected {known}", param_hint="--prior")
    return _made(PRIORS[name], numbers, "--prior") if numbers else name


def noise_of(given: str) -> str | float | Channel:
    """The noise: `learn`, a variance, or a channel such as `student-t:df=4,scale=1`.

    Examples
    --------
    >>> noise_of("learn"), noise_of("0.5"), noise_of("logistic")
    ('learn', 0.5, Logistic())
    """
    if given == "learn":
        return given
    try:
        variance = float(given)
    except ValueError:
        return channel_of(given, "--noise")
    if not 0.0 <= variance < float("inf"):
        raise typer.BadParameter(f"got {given}, expected a variance >= 0", param_hint="--noise")
    return variance


def channel_of(given: str, name_of_option: str) -> Channel:
    """A channel by its name, with numbers where it has some: `gaussian:var=0.1`."""
    name, _, numbers = given.partition(":")
    if name not in CHANNELS:
        known = (
            f"learn, a variance, or one of {', '.join(CHANNELS)} with numbers like student-t:df=4"
        )
        raise typer.BadParameter(f"got {given!r}, expected {known}", param_hint=name_of_option)
    return _made(CHANNELS[name], numbers, name_of_option)


def _made(cls: type[P], numbers: str, name: str) -> P:
    """An object of the class from `name=number,name=number`."""
    values: dict[str, float] = {}
    for pair in listed(numbers):
        key, _, number = pair.partition("=")
        try:
            values[key.strip()] = float(number)
        except ValueError:
            message = f"got {pair!r}, expected name=number"
            raise typer.BadParameter(message, param_hint=name) from None
    if values.keys() - set(cls.names):
        names = ", ".join(cls.names) or "nothing: it has none"
        raise typer.BadParameter(f"got {numbers!r}, expected numbers for {names}", param_hint=name)
    try:
        return cls(**values)
    except InvalidInputError as error:
        raise typer.BadParameter(str(error), param_hint=name) from None
