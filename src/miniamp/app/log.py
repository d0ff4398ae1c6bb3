"""A write-ahead log: batches that were accepted, in order, on disk before they are acknowledged."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from miniamp.errors import CheckpointError
from miniamp.streams.checkpoint import sync_folder
from miniamp.streams.container import DamagedError, packed, unpacked

#: Before every entry: a mark, and how many bytes follow.
_HEAD = struct.Struct("<4sQ")
_MARK = b"AMPL"


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
        """Bytes."""
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
