"""JSON lines: one object a line."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from typing import IO, Any

from miniamp.errors import InvalidInputError
from miniamp.streams.pieces import Piece, skipping
from miniamp.streams.records import tables_of
from miniamp.streams.text import line_blocks


class JSONLines:
    """The objects of a JSON lines file; a key that an object lacks is a missing value.

    Parameters
    ----------
    name : str
        For messages.
    open_file : callable
        Gives a binary file at its beginning.
    again : bool
        Whether `open_file` may be called more than once.
    """

    def __init__(
        self, name: str, open_file: Callable[[], IO[bytes]], *, again: bool = True
    ) -> None:
        self.name = name
        self.again = again
        self._open = open_file

    def pieces(self, start: int, only: Collection[str] | None) -> Iterator[Piece]:
        """The rows from number `start` on."""
        return skipping(tables_of(self._objects(), self.name, only), start, self.name)

    def _objects(self) -> Iterator[list[dict[str, Any]]]:
        row = 0
        with closing(self._open()) as file:
            for block in line_blocks(file, self.name, live=not self.again):
                objects = []
                for line in block.splitlines():
                    if line.strip():
                        row += 1
                        objects.append(self._object(line, row))
                yield objects

    def _object(self, line: bytes, row: int) -> dict[str, Any]:
        try:
            value = json.loads(line)
        except ValueError:
            text = line.decode(errors="replace")
            raise InvalidInputError(
                f"{self.name}, row {row}: got {text!r:.60}, expected one JSON object a line; "
                'write each row as {"name": value, ...} on a line of its own'
            ) from None
        if not isinstance(value, dict):
            raise InvalidInputError(
                f"{self.name}, row {row}: got a JSON {type(value).__name__}, expected an object; "
                'write each row as {"name": value, ...} on a line of its own'
            )
        return value
