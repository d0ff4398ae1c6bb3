"""What a run learns: a regression or classification (`fit`), or a clustering (`cluster`)."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np
import typer
from numpy.typing import NDArray

import miniamp
from miniamp import checks
from miniamp.cli.options import Options, noise_of, prior_of
from miniamp.cli.outputs import errors_line
from miniamp.errors import InvalidInputError, MiniampWarning
from miniamp.streams import StreamBatch

if TYPE_CHECKING:
    from miniamp.estimators import MiniAMPClassifier, MiniAMPClusterer, MiniAMPRegressor

    Predictor: TypeAlias = MiniAMPRegressor | MiniAMPClassifier
    Estimator: TypeAlias = Predictor | MiniAMPClusterer

    E = TypeVar("E", bound=Estimator)
else:
    E = TypeVar("E")

#: Rows per batch at most.
MOST_ROWS = 10_000
#: Batches there should be, so that there are predictions to compare, unless they become too small.
FEW_BATCHES, LEAST_ROWS = 10, 32
#: Numbers per batch at most: 64 MB.
MOST_NUMBERS = 8_000_000
#: Whole numbers that are so few, each so many times on average, may be classes.
FEW_CLASSES, MANY_FOR_CLASSES = 10, 3

Labels = NDArray[np.generic]


class LearningTask(ABC, Generic[E]):
    """What the options ask to learn; making one refuses options that no run could use.

    Parameters
    ----------
    options : dict
        Those that decide about the result, by name.
    """

    #: The name of the command.
    command: ClassVar[str]
    #: Rows per batch, where the options decide; None where the first rows do.
    batch_rows: int | None
    #: Whether the target is text, as `open_stream` takes it.
    labels: bool | str = "auto"

    def __init__(self, options: Options) -> None:
        self.options = options

    def suited_rows(self, first: StreamBatch, total: int) -> int:
        """Rows per batch that suit the first of `total` rows."""
        raise NotImplementedError  # only where `batch_rows` is None

    @abstractmethod
    def new_estimator(self, first: StreamBatch) -> E:
        """The estimator that the options and the first batch ask for, not fitted."""

    @abstractmethod
    def absorb(self, estimator: E, batch: StreamBatch) -> None:
        """Let the estimator learn a batch, all or nothing."""

    @abstractmethod
    def progress(self, estimator: E) -> str:
        """What the progress shows of the latest batch."""


class Prediction(LearningTask["Predictor"]):
    """A regression or classification."""

    command = "fit"

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._prior, self._noise = prior_of(options["prior"]), noise_of(options["noise"])
        size, classes = options["batch_size"], options.get("classes")
        self.batch_rows = None if size == "auto" else int(size)
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
            batch_size="auto" if self.batch_rows is None else self.batch_rows,
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


class Clustering(LearningTask["MiniAMPClusterer"]):
    """A clustering."""

    command = "cluster"

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._noise = cluster_noise_of(options["noise"])
        # The first batch must have a row for every cluster.
        self.batch_rows = max(options["batch_size"], options["clusters"])

    def new_estimator(self, first: StreamBatch) -> MiniAMPClusterer:
        return miniamp.MiniAMPClusterer(
            self.options["clusters"],
            noise=self._noise,
            batch_size=checks.count("batch_size", self.batch_rows),
            random_state=self.options["seed"],
        )

    def absorb(self, estimator: MiniAMPClusterer, batch: StreamBatch) -> None:
        estimator.partial_fit(batch.X)

    def progress(self, estimator: MiniAMPClusterer) -> str:
        return f"noise {np.mean(estimator.noise_):.3g}"


def cluster_noise_of(given: str) -> str | float:
    """The noise around a centre: learned, one for all features or one each, or a variance."""
    if given in ("learn", "per-feature"):
        return given
    try:
        variance = float(given)
    except ValueError:
        variance = np.nan
    if not 0.0 < variance < float("inf"):
        raise typer.BadParameter(
            f"got {given!r}, expected learn, per-feature or a variance above 0",
            param_hint="--noise",
        )
    return variance


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
