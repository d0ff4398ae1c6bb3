"""What sources with an address share: marks to resume from, and when to stop waiting for rows."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TypeAlias
from urllib.parse import urlsplit

from miniamp import checks
from miniamp.streams.formats.json_lines import json_object
from miniamp.streams.in_hand import record_pieces
from miniamp.streams.pieces import Mark, Piece, Source, skip_rows

#: Entries that are read at once, and seconds to wait for the first of them: Ctrl-C is seen between.
ENTRIES, WAIT = 500, 0.25


Entry: TypeAlias = tuple[str, int | str, bytes | dict[str, object]]
Reader: TypeAlias = Callable[[int], Iterable[Entry]]


class Connection(Source):
    """A source with an address, which knows by a mark of its own how far it was read.

    The mark is a dict of plain values: the last key of a table, the last identifier of a stream,
    the next offset of each partition. A batch's `state` has it, so that a checkpoint keeps the
    estimator and the mark together: every row is learned once, whenever the process is killed.

    Parameters
    ----------
    address : str
        Everything that was given, scheme included.
    """

    def __init__(self, address: str) -> None:
        self.name = address
        self._begin: tuple[int, Mark | None] = (0, None)
        self._mark: Mark = {}
        self._marked = 0
        self._steps: deque[tuple[str, int | str]] = deque()

    def resume(self, position: int, mark: Mark | None) -> None:
        """Let the row number `position` be the one after this mark."""
        self._begin = (position, mark)

    def mark(self, position: int) -> Mark:
        """The mark after `position` rows, which must not be fewer than asked for before."""
        while self._steps and self._marked < position:
            part, place = self._steps.popleft()
            self._mark = {**self._mark, part: place}
            self._marked += 1
        return self._mark

    def pieces(self, start: int, columns: Collection[str] | None) -> Iterator[Piece]:
        position, mark = self._begin
        self._steps.clear()
        if mark is None or start != position:  # no state of this source: count its rows
            self._mark, self._marked = {}, 0
            return skip_rows(self._after({}, 0, columns), start, self.name)
        self._mark, self._marked = mark, position
        return self._after(mark, position, columns)

    def _passed(self, part: str, place: int | str) -> None:
        """Note that the next row is the one at this place of a part."""
        self._steps.append((part, place))

    @abstractmethod
    def _after(self, mark: Mark, row: int, columns: Collection[str] | None) -> Iterator[Piece]:
        """The rows after this mark, of which the first is number `row`; one `_passed` per row."""


class LiveConnection(Connection):
    """A connection that waits for rows: JSON objects, or fields by name.

    Parameters
    ----------
    address : str
        scheme://host:port/name.
    idle_seconds : float, optional
        Stop when no row has come for so long; by default wait for ever.
    rows : int, optional
        Stop after so many rows, those before a resume included.
    """

    options = ("idle_seconds", "rows")
    rereadable = False

    def __init__(
        self, address: str, idle_seconds: float | None = None, rows: int | None = None
    ) -> None:
        super().__init__(address)
        parts = urlsplit(address)
        self.host, self.topic = parts.netloc, parts.path.strip("/")
        if not self.host or not self.topic or "/" in self.topic:
            raise checks.refuse(
                "source", repr(address), f"{self.format}://host:port/name", "write it so"
            )
        self._idle = idle_seconds
        if idle_seconds is not None:
            self._idle = checks.number("idle_seconds", idle_seconds, above=0.0)
        self._most = None if rows is None else checks.count("rows", rows)

    def _after(self, mark: Mark, row: int, columns: Collection[str] | None) -> Iterator[Piece]:
        return record_pieces(self._groups(mark, row), self.name, columns, row)

    def _groups(self, mark: Mark, row: int) -> Iterator[list[dict[str, object]]]:
        with self._reader(mark) as read:
            latest = time.monotonic()
            while self._most is None or row < self._most:
                most = ENTRIES if self._most is None else min(ENTRIES, self._most - row)
                group = []
                for part, place, content in read(most):
                    row += 1
                    group.append(self._row(content, row))
                    self._passed(part, place)
                if group:
                    yield group
                    latest = time.monotonic()
                elif self._idle is not None and time.monotonic() - latest > self._idle:
                    return

    def _row(self, content: bytes | dict[str, object], row: int) -> dict[str, object]:
        if isinstance(content, dict):
            return content
        return json_object(content, f"{self.name}, row {row}")

    @abstractmethod
    def _reader(self, mark: Mark) -> AbstractContextManager[Reader]:
        """A function that gives the next entries after the mark, at most as many as asked for.

        It returns none after `WAIT` seconds without any. An entry is its part, its place there,
        and its content.
        """
