"""A run of `miniamp fit`: an estimator, a stream, and the place where it is in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from miniamp.cli.choices import column, noise_of, prior_of
from miniamp.cli.identity import fingerprint, require_same_options, require_same_source
from miniamp.errors import InvalidInput
from miniamp.streams import Batch, Stream, open_stream
from miniamp.streams.files import found

#: Rows that are looked at to choose the size of a batch.
SAMPLE = 1024
#: Rows of a batch at most, and of a batch from a pipe.
MOST_ROWS, PIPE_ROWS = 10_000, 1000
#: Batches there should be, so that there are forecasts to judge, unless they become so small.
FEW_BATCHES, LEAST_ROWS = 10, 32
#: Numbers a batch may hold: 64 MB.
MOST_NUMBERS = 8_000_000


@dataclass
class Run:
    """What a checkpoint holds while it is being made.

    Attributes
    ----------
    source : str
        The rows, as given.
    options : dict
        All options that have a say in the result, as given, by name.
    batch_rows : int
        Rows of a batch.
    estimator
        None until the first batch has shown what it must be.
    reading : dict or None
        `batch.state()` of the last batch that was learned.
    resumed : int
        Rows that were learned before this process began.
    unsaved : bool
        Whether something was learned since the last checkpoint.
    """

    source: str
    options: dict[str, Any]
    files: list[dict[str, Any]]
    batch_rows: int
    estimator: Any = None
    reading: dict[str, Any] | None = None
    resumed: int = 0
    unsaved: bool = False

    @classmethod
    def begun(cls, source: str, options: dict[str, Any]) -> Run:
        """A new run."""
        prior_of(options["prior"]), noise_of(options["noise"])
        run = cls(source, options, fingerprint(source), SAMPLE)
        size = options["batch_size"]
        run.batch_rows = int(size) if size != "auto" else run._chosen_rows()
        return run

    @classmethod
    def taken_up(cls, path: Path, source: str, options: dict[str, Any], new_rows: bool) -> Run:
        """The run whose checkpoint this is, where it stopped; refused if it is another one."""
        estimator, saved = opened(path)
        if saved is None:
            raise InvalidInput(
                f"{path}: holds a model that was not begun by miniamp fit, expected its "
                "checkpoint; name another --checkpoint"
            )
        require_same_options(path, options, saved["options"])
        run = cls(source, options, saved["files"], saved["batch_rows"], estimator)
        run.reading, run.resumed = saved["reading"], estimator.n_samples_seen_
        try:
            require_same_source(path, source, saved)
            fresh = new_rows and source == "-"
        except InvalidInput:
            if not new_rows:
                raise
            fresh = True
        if fresh:
            run.files = fingerprint(source)
            run.reading = {**saved["reading"], "position": 0}
        return run

    def keep(self, checkpoint: Path | None) -> None:
        """Write the checkpoint, where there is one and there is something new for it."""
        if checkpoint is not None and self.unsaved:
            self.save(checkpoint)
            self.unsaved = False

    def save(self, path: Path) -> None:
        """Write the checkpoint; it is a model that `predict` and `miniamp.load` read as well."""
        with self.named():
            self.estimator.save(
                path,
                {
                    "source": self.source,
                    "files": self.files,
                    "options": self.options,
                    "batch_rows": self.batch_rows,
                    "reading": self.reading,
                },
            )

    def named(self) -> AbstractContextManager[Any]:
        """While entered, the estimator knows the names of its features."""
        return named(self.estimator, self.reading)

    def stream(self) -> Stream:
        """The rows that are left."""
        return self._stream(self.batch_rows, self.reading)

    def learn(self, batch: Batch) -> dict[str, Any]:
        """Absorb one batch, all or nothing; gives its line of the history."""
        if self.estimator is None:
            estimator = new_estimator(self.options, batch)
            _absorb(estimator, batch, self.options["classes"])
            self.estimator = estimator
        else:
            _absorb(self.estimator, batch, None)
        self.reading, self.unsaved = batch.state(), True
        entry: dict[str, Any] = self.estimator.history_[-1]
        return entry

    def _stream(self, rows: int, reading: dict[str, Any] | None) -> Stream:
        options = self.options
        names = ("format", "delimiter", "header")
        extra = {name: options[name] for name in names if name in options}
        return open_stream(
            self.source,
            column(options["target"]),
            rows,
            columns=_columns(options["columns"]),
            categorical="auto" if options["categorical"] is None else options["categorical"],
            missing=options["missing"],
            unknown=options["unknown"],
            # Classes that are no numbers make the target text, even where it begins with numbers.
            labels=_numbers(options["classes"]) is None if options["classes"] else "auto",
            resume=reading,
            **extra,
        )

    def _chosen_rows(self) -> int:
        """As many rows a batch as the solver takes well, from a look at the first ones."""
        if self.source == "-":
            return PIPE_ROWS
        from miniamp.estimators.batching import auto_rows

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
        paths = found(self.source)
        with paths[0].open("rb") as file:
            head = file.read(1 << 20)
        size = sum(path.stat().st_size for path in paths)
        return size * (head.count(b"\n") + 1) // max(1, len(head))


@contextmanager
def named(estimator: Any, reading: dict[str, Any] | None) -> Iterator[Any]:
    """A context in which an estimator that learned from arrays has the names of its features.

    Outside of it arrays come and go without a word about names.
    """
    if reading is None:
        yield estimator
        return
    estimator.feature_names_in_ = np.array(feature_names(reading), dtype=object)
    try:
        yield estimator
    finally:
        del estimator.feature_names_in_


def opened(path: Path) -> tuple[Any, dict[str, Any] | None]:
    """The estimator of a file, and what `miniamp fit` wrote beside it, if it did."""
    from miniamp import estimators

    estimator = estimators.load(path)
    saved = getattr(estimator, "stream_", None)
    if not isinstance(saved, dict) or "reading" not in saved:
        return estimator, None
    estimator.__dict__.pop("feature_names_in_", None)
    return estimator, saved


def feature_names(reading: dict[str, Any]) -> tuple[str, ...]:
    """The names of the features that a stream with this state gives."""
    from miniamp.streams import Schema

    return Schema.from_dict(reading["schema"]).feature_names


def new_estimator(options: dict[str, Any], first: Batch) -> Any:
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


def _absorb(estimator: Any, batch: Batch, classes: list[str] | None) -> None:
    if not hasattr(estimator, "predict_proba"):
        if batch.y is not None and batch.y.dtype.kind not in "fiu":
            raise InvalidInput(
                "target: got text, expected numbers for a regression; use --task classification"
            )
        estimator.partial_fit(batch.X, batch.y)
        return
    y = labels_of(batch.y)
    wanted: Any = classes
    if classes is not None and y.dtype.kind in "fiu":
        wanted = labels_of(_numbers(classes))
    try:
        estimator.partial_fit(batch.X, y, classes=wanted)
    except InvalidInput as error:
        if not str(error).startswith("y: "):
            raise
        known = getattr(estimator, "classes_", np.unique(y) if wanted is None else wanted)
        strange = np.setdiff1d(y, known)
        found = f"the class {str(strange[0])!r}" if len(strange) else f"one class, {str(y[0])!r}"
        names = ", ".join(str(name) for name in known) if len(strange) else "at least two"
        raise InvalidInput(
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


def _columns(names: list[str] | None) -> list[str | int] | None:
    return None if names is None else [c for c in map(column, names) if c is not None]
