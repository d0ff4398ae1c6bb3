"""A run of `fit` or `cluster`: an estimator, a stream, and the position in it."""

from __future__ import annotations

import copy
import hashlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar, cast

import numpy as np

import miniamp
from miniamp import checks
from miniamp.cli.options import Options, column, hashed_of, pairs, reading_options
from miniamp.streams import Schema, Stream, StreamBatch, open_stream
from miniamp.streams.sources import files_of, is_read_once

if TYPE_CHECKING:
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
#: Rows that are looked at to choose the size of a batch, and rows per batch from a pipe.
SAMPLE, PIPE_ROWS = 1024, 1000
#: Options that decide when to stop, and may be others when a run is resumed.
LIMITS = ("idle_seconds", "rows")


@dataclass(frozen=True)
class Learned(Generic[E]):
    """An estimator and the position in the stream that it has reached: replaced together."""

    estimator: E
    reading: State


class Run(ABC, Generic[E]):
    """What a checkpoint holds, while it is made; a subclass has what is to be learned.

    Once made, it begins or resumes a checkpoint.

    Parameters
    ----------
    source : str
        The rows, as given.
    options : dict
        Those that decide about the result, by name.

    Attributes
    ----------
    batch_rows : int
        Rows per batch.
    resumed : int
        Rows that were learned before this process began.
    """

    #: The name of the command.
    command: ClassVar[str]
    #: Rows per batch, where the options decide; None where the first rows do.
    asked_rows: int | None
    #: Whether the target is text, as `open_stream` takes it.
    labels: bool | str = "auto"

    def __init__(self, source: str, options: Options) -> None:
        self.source, self.options = source, options
        self.learned: Learned[E] | None = None
        self._written: Learned[E] | None = None
        self.resumed, self.batch_rows = 0, SAMPLE
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Refuse options that no run could use, and set `asked_rows`."""

    def suited_rows(self, first: StreamBatch, total: int) -> int:
        """Rows per batch that suit the first of `total` rows."""
        return first.rows  # where the options do not decide, the task does

    @abstractmethod
    def new_estimator(self, first: StreamBatch) -> E:
        """The estimator that the options and the first batch ask for, not fitted."""

    @abstractmethod
    def absorb(self, estimator: E, batch: StreamBatch) -> None:
        """Let the estimator learn a batch, all or nothing."""

    @abstractmethod
    def progress_of(self, estimator: E) -> str:
        """What the progress shows of the latest batch."""

    @cached_property
    def files(self) -> list[dict[str, str | int]]:
        """What the source was when the run began; see `fingerprint`."""
        return fingerprint(self.source)

    def begin(self) -> None:
        """Choose the rows per batch of a new run: as the options ask, or as suits its rows."""
        if self.asked_rows is not None or is_read_once(self.source):
            self.batch_rows = self.asked_rows or PIPE_ROWS
            return
        # Warnings about the rows are shown when they are read again to be learned.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stream = self.stream()
            first = next(iter(stream))
            total = first.rows
            if first.rows >= SAMPLE:
                total = stream.rows or _estimated_rows(files_of(self.source))
            self.batch_rows = self.suited_rows(first, total)

    def resume(self, path: Path, new_rows: bool) -> None:
        """Take up the run that this checkpoint holds; refused if it is another one."""
        estimator, saved = opened(path)
        by = None if saved is None else saved.get("command", "fit")
        if saved is None or by != self.command:
            raise checks.refuse(
                f"{path}",
                f"a model written by {f'miniamp {by}' if by else 'Python'}",
                f"a checkpoint of miniamp {self.command}",
                "choose another {checkpoint}",
            )
        _require_same_options(path, self.options, saved["options"])
        same = _same_source(self.source, saved)
        if not same and not new_rows:
            raise checks.refuse(
                f"{path}",
                f"the rows of {name_of(self.source)}",
                f"those of {name_of(saved['source'])} that it was begun with",
                "use the same source to resume, {new_rows} to learn from this one as well, or "
                "another {checkpoint} to start over",
            )
        reading = saved["reading"]
        if new_rows and (is_read_once(self.source) or not same):
            reading = from_start(reading)
        else:
            self.__dict__["files"] = saved["files"]
        self.learned = self._written = Learned(cast(E, estimator), reading)
        self.batch_rows, self.resumed = saved["batch_rows"], self.rows

    @property
    def estimator(self) -> E:
        """The estimator that has learned all batches so far."""
        assert self.learned is not None
        return self.learned.estimator

    @property
    def rows(self) -> int:
        """Rows learned so far."""
        return 0 if self.learned is None else int(self.learned.estimator.n_samples_seen_)

    def progress(self) -> str:
        """What the progress shows of the latest batch."""
        return self.progress_of(self.estimator)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features."""
        assert self.learned is not None
        return feature_names(self.learned.reading)

    def learn(self, batch: StreamBatch) -> None:
        """Learn one batch: estimator and position move on together, or not at all."""
        # A copy learns, so that an interrupt at any moment leaves estimator and position in step.
        successor = self.new_estimator(batch) if self.learned is None else copy.copy(self.estimator)
        successor._features = batch.feature_names  # for warnings
        self.absorb(successor, batch)
        self.learned = Learned(successor, batch.state())

    def keep(self, checkpoint: Path | None) -> None:
        """Write the checkpoint, if there is one and something new for it."""
        if checkpoint is not None and self.learned is not self._written:
            self.save(checkpoint)
            self._written = self.learned

    def save(self, path: Path) -> None:
        """Write the checkpoint; it is a model that `predict` and `miniamp.load` read as well."""
        self.named().save(path, self.state())

    def state(self) -> dict[str, object]:
        """What is saved beside the estimator."""
        assert self.learned is not None
        return {
            "command": self.command,
            "source": self.source,
            "files": self.files,
            "options": self.options,
            "batch_rows": self.batch_rows,
            "reading": dict(self.learned.reading),
        }

    def named(self) -> E:
        """A copy of the estimator that knows the names of its features, and its source."""
        named = copy.copy(self.estimator)
        named.feature_names_in_ = np.array(self.feature_names, dtype=object)
        named.stream_ = self.state()
        return named

    def stream(self, again: bool = False) -> Stream:
        """The rows that are left, or all of them `again`, read as they were learned."""
        options = self.options
        reading = None if self.learned is None else self.learned.reading
        if again and reading is not None:
            reading = from_start(reading)
        names, target = options.get("columns"), options.get("target")
        reference = options.get("reference")
        if reference not in (None, "first"):
            reference = pairs(reference, "--reference")
        return open_stream(
            self.source,
            None if target is None else column(target),
            self.batch_rows,
            columns=None if names is None else [column(name) for name in names],
            categorical=options.get("categorical", "auto"),
            missing=options["missing"],
            unknown=str(options.get("unknown") or "warn"),
            keep=options.get("keep", ()),
            hashed=hashed_of(options.get("hashed", "")),
            reference=reference,
            labels=self.labels,
            shuffle=0 if again else options.get("shuffle", 0),
            seed=options.get("seed", 0),
            resume=reading,
            **reading_options(options),
        )


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


def from_start(reading: State) -> dict[str, Any]:
    """The state of a stream that is read in the same way, from its first row on."""
    return {**reading, "position": 0, "mark": None, "shuffle": (0, 0)}


def feature_names(reading: State) -> tuple[str, ...]:
    """The names of the features that a stream with this state gives."""
    return tuple(Schema.from_dict(reading["schema"]).feature_names)


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
    for name in {**saved, **options}.keys() - set(LIMITS):
        was, now = saved.get(name), options.get(name)
        if was != now:
            raise checks.refuse(
                f"{path}",
                _shown(name, now),
                f"{_shown(name, was)} as it was begun with",
                "use the same options to resume, or another {checkpoint} to start over",
            )


def _shown(name: str, value: object) -> str:
    flag = f"--{name.replace('_', '-')}"
    if value is None or value is False:
        return f"no {flag}"
    if value is True:
        return flag
    return f"{flag} {','.join(value) if isinstance(value, list) else value}"


def name_of(source: str) -> str:
    """What to call a source in messages."""
    return "standard input" if source == "-" else source


def _estimated_rows(paths: list[Path]) -> int:
    """Rows of files of text, by the length of the first lines."""
    with paths[0].open("rb") as file:
        head = file.read(1 << 20)
    size = sum(path.stat().st_size for path in paths)
    return size * (head.count(b"\n") + 1) // max(1, len(head))
