"""One writer and many readers of a model on disk, with a log of the batches it has accepted.

The log is written ahead: a batch is on disk before it is acknowledged.
"""

from __future__ import annotations

import copy
import os
import queue
import struct
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from miniamp.errors import CheckpointError, InvalidInputError, MiniampError
from miniamp.estimators import load
from miniamp.streams.checkpoint import lock, sync_folder
from miniamp.streams.container import DamagedError, packed, unpacked

#: Before every entry of the log: a mark, and how many bytes follow.
_HEAD = struct.Struct("<4sQ")
_MARK = b"AMPL"
#: Ids of requests that are remembered: a batch that is sent again more than this many batches after
#: its first attempt may be learned twice.
REMEMBERED = 100_000
#: The checkpoint is written, and the log cleared, when the log has grown to this many bytes. So
#: much is learned again after a crash: a few seconds' work.
LOG_BYTES = 16 * 2**20
#: Seconds between checkpoints while batches come, for those who watch the file; and the share of
#: the time that writing them may take.
CHECKPOINT_SECONDS, CHECKPOINT_SHARE = 5.0, 0.05
#: Batches that are written to disk by one `fsync`.
GROUP = 32


class LogEntry(NamedTuple):
    """One accepted batch."""

    number: int  #: counted from 1 over the whole life of the model
    request: str  #: the id of the request that brought it
    digest: str  #: of the content, so that an id is not used for two batches
    X: NDArray[np.float64]
    y: NDArray[np.generic]


class Log:
    """The log beside a model file.

    An entry that was cut short by a crash was never acknowledged. It can only be the last one, and
    is dropped. A damaged entry before the last one is an error. A missing file is made.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = Log(Path(folder) / "m.amp.log")
    ...     log.append([LogEntry(1, "a", "", np.ones((2, 1)), np.ones(2))])
    ...     print([entry.request for entry in log.entries()])
    ...     log.close()
    ['a']
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        new = not path.exists()
        self._file: BinaryIO = path.open("ab+")
        if new:
            sync_folder(path.parent)
        self._drop_unfinished()

    def append(self, entries: list[LogEntry]) -> None:
        """Write entries and force them to the disk, all at once."""
        bodies = [packed(entry._asdict()) for entry in entries]
        content = b"".join(_HEAD.pack(_MARK, len(body)) + body for body in bodies)
        start = self._file.seek(0, os.SEEK_END)
        try:
            self._file.write(content)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError:
            # A full disk: what was written of the batch must not be read again.
            self._file.truncate(start)
            raise

    def entries(self) -> Iterator[LogEntry]:
        """All entries, in order."""
        for content in self._contents():
            try:
                yield LogEntry(**cast(dict[str, Any], unpacked(content)))
            except DamagedError as error:
                raise CheckpointError(
                    str(self.path),
                    str(error),
                    "a log as it was written",
                    "restore it, or delete it and with it the batches after the checkpoint",
                ) from None

    def clear(self) -> None:
        """Forget all entries: the checkpoint has them."""
        self._file.truncate(0)
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def size(self) -> int:
        """Size in bytes."""
        return os.fstat(self._file.fileno()).st_size

    def _contents(self) -> Iterator[bytes]:
        self._file.seek(0)
        while len(head := self._file.read(_HEAD.size)) == _HEAD.size:
            place = self._file.tell()
            mark, length = _HEAD.unpack(head)
            if mark != _MARK or length > self.size - place:
                return
            self._file.seek(place)
            yield self._file.read(length)

    def _drop_unfinished(self) -> None:
        end = 0
        last = b""
        for content in self._contents():
            end += _HEAD.size + len(content)
            last = content
        if last:
            try:
                unpacked(last)
            except DamagedError:
                end -= _HEAD.size + len(last)
        if end < self.size:
            self._file.truncate(end)


class BusyError(MiniampError):
    """More batches are waiting than are allowed; try again later."""


class ReusedError(InvalidInputError):
    """The id of a request was used before, for other rows."""


class BatchAnswer(NamedTuple):
    """The answer to a client about its batch."""

    id: str
    batch: int
    rows: int
    rows_seen: int
    repeated: bool


class _Waiting(NamedTuple):
    entry: LogEntry  #: its number is not known yet
    answer: Future[BatchAnswer]


class Learner:
    """A model that one thread updates, batch by batch, and any thread reads.

    A batch is learned on a copy of the model; the copy takes the model's place when the batch is
    in the log on disk. So a reader sees whole batches only, and an acknowledged batch survives a
    crash.

    Where there is no file it begins with `model`; `stream` then has the "names" of its features and
    the "classes" of its targets. So many batches may wait; one more is refused with `BusyError`.
    """

    batches: int  #: learned over the whole life of the model
    refused: int  #: since the start

    def __init__(
        self,
        path: Path,
        model: Any = None,
        stream: dict[str, Any] | None = None,
        *,
        waiting: int = 64,
    ) -> None:
        self.path = path
        self.stream = dict(stream or {})
        self._held = ExitStack()
        self._held.enter_context(lock(path))
        try:
            if model is None or path.exists():
                model = load(path)
            self._log = Log(path.with_name(f"{path.name}.log"))
            self._held.callback(self._log.close)
            self._resume(model)
        except BaseException:
            self._held.close()
            raise
        self.refused = 0
        self._queue: queue.Queue[_Waiting | None] = queue.Queue(waiting)
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="learner", daemon=True)
        self._thread.start()

    def _resume(self, model: Any) -> None:
        """Learn again what is in the log and not in the file."""
        self.stream |= getattr(model, "stream_", None) or {}
        served = self.stream.pop("served", {"batches": 0, "requests": {}})
        self.batches = served["batches"]
        self._requests: OrderedDict[str, list[Any]] = OrderedDict(served["requests"])
        self.model = model  #: the latest finished one; never changed, only replaced
        self._seen: int = getattr(model, "n_samples_seen_", 0)
        for entry in self._log.entries():
            # A crash between writing the checkpoint and clearing the log leaves both.
            if entry.number > self.batches:
                self.model = self._learned(self.model, entry.X, entry.y)
                self._record(entry)
        self._checkpoint()

    @property
    def alive(self) -> bool:
        """Whether batches are still being learned."""
        return self._thread.is_alive()

    @property
    def depth(self) -> int:
        """Number of batches that wait."""
        return self._queue.qsize()

    @property
    def log_bytes(self) -> int:
        """Size of the log in bytes."""
        return self._log.size

    def submit(
        self, request: str, digest: str, X: NDArray[np.float64], y: NDArray[np.generic]
    ) -> Future[BatchAnswer]:
        """Put a batch in line; the result comes when it is learned and on disk."""
        waiting = _Waiting(LogEntry(0, request, digest, X, y), Future())
        if self._stopping:
            raise BusyError("server", "a request to stop", "", "send the batch again, same id")
        try:
            self._queue.put_nowait(waiting)
        except queue.Full:
            raise BusyError(
                "server", f"{self.depth} batches that wait", "fewer", "send it again a little later"
            ) from None
        return waiting.answer

    def stop(self) -> None:
        """Learn what waits, write the checkpoint and let go of the file."""
        self._stopping = True
        self._queue.put(None)
        self._thread.join()
        self._checkpoint()
        self._held.close()

    def _work(self) -> None:
        while True:
            group = [self._queue.get()]
            while len(group) < GROUP and not self._queue.empty():
                group.append(self._queue.get())
            batches = [each for each in group if each is not None]
            self._learn(batches)
            if len(batches) < len(group):
                return
            pause = max(CHECKPOINT_SECONDS, self._writing / CHECKPOINT_SHARE)
            if self._log.size > LOG_BYTES or time.time() - self.saved > pause:
                self._checkpoint()

    def _learn(self, batches: list[_Waiting]) -> None:
        """Learn some batches, write them to the log at once, then answer."""
        model = self.model
        accepted: dict[str, LogEntry] = {}
        sound: list[tuple[_Waiting, bool]] = []  #: and whether it repeats one that was accepted
        for entry, answer in batches:
            if entry.request in accepted:
                before: str | None = accepted[entry.request].digest
            else:
                before = self._requests.get(entry.request, [None])[0]
            if before is None:
                try:
                    model = self._learned(model, entry.X, entry.y)
                except Exception as refusal:
                    self.refused += 1
                    answer.set_exception(refusal)
                    continue
                number = self.batches + len(accepted) + 1
                accepted[entry.request] = entry._replace(number=number)
            elif before != entry.digest:
                reused = f"{entry.request!r} with other rows than before"
                remedy = "make a new id for a new batch"
                answer.set_exception(ReusedError("request id", reused, "an id per batch", remedy))
                continue
            sound.append((_Waiting(entry, answer), before is not None))
        try:
            self._log.append(list(accepted.values()))
        except OSError as error:
            full = BusyError("disk", error.strerror or "", "room for the log", "free some")
            for (_, answer), _ in sound:
                answer.set_exception(full)
            return
        self.model = model
        for entry in accepted.values():
            self._record(entry)
        for (entry, answer), repeated in sound:
            answer.set_result(self._answer(entry.request, repeated=repeated))

    def _learned(self, model: Any, X: NDArray[np.float64], y: NDArray[np.generic]) -> Any:
        """A new model that has learned the batch; the old one is as it was."""
        new = copy.copy(model)
        first = not hasattr(model, "n_features_in_")
        more = {"classes": self.stream["classes"]} if first and "classes" in self.stream else {}
        with warnings.catch_warnings():  # they are in `health_`, too
            warnings.simplefilter("ignore")
            new.partial_fit(X, y, **more)
        if first and "names" in self.stream:
            new.feature_names_in_ = np.array(self.stream["names"], dtype=object)
        return new

    def _record(self, entry: LogEntry) -> None:
        self.batches = entry.number
        seen = self._seen + len(entry.y)
        self._requests[entry.request] = [entry.digest, entry.number, len(entry.y), seen]
        self._seen = seen
        while len(self._requests) > REMEMBERED:
            self._requests.popitem(last=False)

    def _answer(self, request: str, *, repeated: bool) -> BatchAnswer:
        _, batch, rows, seen = self._requests[request]
        return BatchAnswer(request, batch, rows, seen, repeated)

    def _checkpoint(self) -> None:
        start = time.time()
        served = {"batches": self.batches, "requests": dict(self._requests)}
        if self.batches or self.path.exists():
            self.model.save(self.path, {**self.stream, "served": served})
        self._log.clear()
        self.saved = time.time()
        self._writing = self.saved - start
