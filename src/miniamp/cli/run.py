"""A run of `miniamp fit` or `miniamp cluster`: an estimator, a stream, and its place in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from miniamp.cli.choices import column
from miniamp.cli.identity import fingerprint, require_same_options, require_same_source
from miniamp.errors import InvalidInputError
from miniamp.streams import Stream, StreamBatch, open_stream


@dataclass
class Run(ABC):
    """What a checkpoint holds while it is being made.

    Attributes
    ----------
    source : str
        The rows, as given.
    options : dict
        All options that have a say in the result, as given, by name.
    files : list of dict
        What the source was when the run began; see `fingerprint`.
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

    #: The name of the command.
    command: ClassVar[str]

    source: str
    options: dict[str, Any]
    files: list[dict[str, Any]]
    batch_rows: int
    estimator: Any = None
    reading: dict[str, Any] | None = None
    resumed: int = 0
    unsaved: bool = False

    @classmethod
    @abstractmethod
    def begun(cls, source: str, options: dict[str, Any]) -> Self:
        """A new run."""

    @classmethod
    def taken_up(cls, path: Path, source: str, options: dict[str, Any], new_rows: bool) -> Self:
        """The run whose checkpoint this is, where it stopped; refused if it is another one."""
        estimator, saved = opened(path)
        by = None if saved is None else saved.get("command", "fit")
        if saved is None or by != cls.command:
            who = f"begun by miniamp {by}" if by else f"not begun by miniamp {cls.command}"
            raise InvalidInputError(
                f"{path}: holds a model that was {who}, expected a checkpoint of miniamp "
                f"{cls.command}; name another --checkpoint"
            )
        require_same_options(path, options, saved["options"])
        run = cls(source, options, saved["files"], saved["batch_rows"], estimator)
        run.reading, run.resumed = saved["reading"], estimator.n_samples_seen_
        try:
            require_same_source(path, source, saved)
            fresh = new_rows and source == "-"
        except InvalidInputError:
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
                    "command": self.command,
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

    def again(self) -> Stream:
        """All rows of the source once more, read as they were learned."""
        assert self.reading is not None
        return self._stream(self.batch_rows, {**self.reading, "position": 0})

    def learn(self, batch: StreamBatch) -> dict[str, Any]:
        """Absorb one batch, all or nothing; gives its line of the history."""
        self._absorb(batch)
        self.reading, self.unsaved = batch.state(), True
        entry: dict[str, Any] = self.estimator.history_[-1]
        return entry

    @abstractmethod
    def told(self) -> str:
        """What the progress shows of the latest batch."""

    @abstractmethod
    def _absorb(self, batch: StreamBatch) -> None:
        """Learn from the batch, with a new estimator if it is the first."""

    def _stream(self, rows: int, reading: dict[str, Any] | None, **more: Any) -> Stream:
        options = self.options
        names = ("format", "delimiter", "header")
        extra = {name: options[name] for name in names if name in options}
        return open_stream(
            self.source,
            column(options.get("target")),
            rows,
            columns=_columns(options["columns"]),
            categorical="auto" if options["categorical"] is None else options["categorical"],
            missing=options["missing"],
            unknown=options["unknown"],
            resume=reading,
            **extra,
            **more,
        )


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
    """The estimator of a file, and what the command line wrote beside it, if it did."""
    from miniamp import estimators

    if path.is_dir():
        raise InvalidInputError(f"{path}: is a folder, expected a file; name the model in it")
    estimator = estimators.load(path)
    saved = getattr(estimator, "stream_", None)
    if not isinstance(saved, dict) or "reading" not in saved:
        return estimator, None
    estimator.__dict__.pop("feature_names_in_", None)
    return estimator, saved


def feature_names(reading: dict[str, Any]) -> tuple[str, ...]:
    """The names of the features that a stream with this state gives."""
    from miniamp.streams import Schema

    return tuple(Schema.from_dict(reading["schema"]).feature_names)


def _columns(names: list[str] | None) -> list[str | int] | None:
    return None if names is None else [c for c in map(column, names) if c is not None]
