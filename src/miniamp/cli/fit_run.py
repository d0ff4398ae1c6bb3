"""A run of `miniamp fit`: the estimator that its options and the first rows ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from miniamp.cli.choices import noise_of, prior_of
from miniamp.cli.identity import fingerprint
from miniamp.cli.progress import errors_line
from miniamp.cli.run import Run
from miniamp.errors import InvalidInputError
from miniamp.streams import Stream, StreamBatch
from miniamp.streams.sources import find_files

#: Rows that are looked at to choose the size of a batch.
SAMPLE = 1024
#: Rows of a batch at most, and of a batch from a pipe.
MOST_ROWS, PIPE_ROWS = 10_000, 1000
#: Batches there should be, so that there are forecasts to judge, unless they become so small.
FEW_BATCHES, LEAST_ROWS = 10, 32
#: Numbers a batch may hold: 64 MB.
MOST_NUMBERS = 8_000_000


@dataclass
class FitRun(Run):
    """A regression or classification."""

    command = "fit"

    @classmethod
    def begun(cls, source: str, options: dict[str, Any]) -> Self:
        """A new run."""
        prior_of(options["prior"]), noise_of(options["noise"])
        run = cls(source, options, fingerprint(source), SAMPLE)
        size = options["batch_size"]
        run.batch_rows = int(size) if size != "auto" else run._chosen_rows()
        return run

    def told(self) -> str:
        return errors_line(self.estimator.history_, hasattr(self.estimator, "classes_"))

    def _absorb(self, batch: StreamBatch) -> None:
        if self.estimator is None:
            estimator = new_estimator(self.options, batch)
            _absorb(estimator, batch, self.options["classes"])
            self.estimator = estimator
        else:
            _absorb(self.estimator, batch, None)

    def _stream(self, rows: int, reading: dict[str, Any] | None, **more: Any) -> Stream:
        # Classes that are no numbers make the target text, even where it begins with numbers.
        classes = self.options["classes"]
        labels = _numbers(classes) is None if classes else "auto"
        return super()._stream(rows, reading, labels=labels, **more)

    def _chosen_rows(self) -> int:
        """As many rows a batch as the solver takes well, from a look at the first ones."""
        if self.source == "-":
            return PIPE_ROWS
        from miniamp.estimators.settings import auto_rows

        # A look only: what is wrong with the rows is said when they are read in earnest.
        stream = self._stream(SAMPLE, None)
        first = next(iter(stream))
        estimator = new_estimator(self.options, first)
        affordable: int = auto_rows(estimator._settings(), first.X)
        if affordable < first.rows:
            return affordable
        features = max(1, len(first.feature_names))
        total = first.rows if first.rows < SAMPLE else stream.rows or self._estimated_rows()
        most = min(MOST_ROWS, MOST_NUMBERS // features)
        return max(1, min(max(total // FEW_BATCHES, LEAST_ROWS, 2 * features), most))

    def _estimated_rows(self) -> int:
        """Rows of a source of text, by the length of its first lines."""
        paths = find_files(self.source)
        with paths[0].open("rb") as file:
            head = file.read(1 << 20)
        size = sum(path.stat().st_size for path in paths)
        return size * (head.count(b"\n") + 1) // max(1, len(head))


def new_estimator(options: dict[str, Any], first: StreamBatch) -> Any:
    """The estimator that the options and the first batch ask for."""
    from miniamp import estimators

    task = options["task"]
    if task == "auto":
        task = "classification" if _has_classes(first.y) else "regression"
    cls = estimators.MiniAMPClassifier if task == "classification" else estimators.MiniAMPRegressor
    size = options["batch_size"]
    forget = options["forget"]
    if options["half_life"] is not None:
        forget = 0.5 ** (first.rows / options["half_life"])
    return cls(
        prior=prior_of(options["prior"]),
        noise=noise_of(options["noise"]),
        batch_size=size if size == "auto" else int(size),
        memory=options["memory"] if options["memory"] == "auto" else int(options["memory"]),
        forget=1.0 if forget is None else forget,
        solver=options["solver"],
        fit_intercept=options["intercept"],
    )


def _absorb(estimator: Any, batch: StreamBatch, classes: list[str] | None) -> None:
    if not hasattr(estimator, "predict_proba"):
        if batch.y is not None and batch.y.dtype.kind not in "fiu":
            raise InvalidInputError(
                "target: got text, expected numbers for a regression; use --task classification"
            )
        estimator.partial_fit(batch.X, batch.y)
        return
    y = labels_of(batch.y)
    if y.dtype.kind == "f":
        broken = y[y != np.rint(y)]
        shown = broken[0] if len(broken) else y[0]
        raise InvalidInputError(
            f"target: got {shown:g}, expected text or whole numbers for classes; use --task "
            "regression"
        )
    wanted: Any = classes
    if classes is not None and y.dtype.kind in "fiu":
        wanted = labels_of(_numbers(classes))
    try:
        estimator.partial_fit(batch.X, y, classes=wanted)
    except InvalidInputError as error:
        if not str(error).startswith("y: got "):
            raise
        known = getattr(estimator, "classes_", np.unique(y) if wanted is None else wanted)
        strange = np.setdiff1d(y, known)
        found = f"the class {str(strange[0])!r}" if len(strange) else f"one class, {str(y[0])!r}"
        names = ", ".join(str(name) for name in known) if len(strange) else "at least two"
        raise InvalidInputError(
            f"target: got {found} in the rows before {batch.position}, expected {names}; name all "
            "classes there are with --classes a,b,c, or take more rows a batch"
        ) from None


def labels_of(y: Any) -> Any:
    """Targets as labels: whole numbers are written without a point."""
    if y.dtype.kind == "f" and np.array_equal(y, np.rint(y)) and np.abs(y).max() < 2**53:
        return y.astype(np.int64)
    return y


def _numbers(classes: list[str]) -> Any:
    """The classes as numbers; None if one is none."""
    try:
        return np.array([float(name) for name in classes])
    except ValueError:
        return None


def _has_classes(y: Any) -> bool:
    """Text, or two whole numbers."""
    if y.dtype.kind != "f":
        return True
    values = np.unique(y)
    return len(values) == 2 and bool(np.array_equal(values, np.rint(values)))
