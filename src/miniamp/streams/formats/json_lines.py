"""JSON lines: one object per line."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

from miniamp import checks
from miniamp.streams.formats.base import Format, is_text, line_blocks, refuse_too_many
from miniamp.streams.in_memory import record_pieces
from miniamp.streams.pieces import Piece


class JSONLines(Format):
    """The objects of a JSON lines file; a key that an object lacks is a missing value."""

    format = "jsonl"
    endings = (".jsonl", ".ndjson", ".json")
    piped = True

    @classmethod
    def likeness(cls, head: bytes) -> int:
        if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
            return 3
        return int(is_text(head))

    def _all(self, columns: Collection[str] | None) -> Iterator[Piece]:
        return record_pieces(self._objects(), self.name, columns)

    def _objects(self) -> Iterator[list[dict[str, object]]]:
        row = 0
        with self.file.opened() as file:
            for block in line_blocks(file, self.name, live=not self.rereadable):
                objects = []
                for line in block.split(b"\n"):
                    if line.strip():
                        row += 1
                        objects.append(json_object(line, f"{self.name}, row {row}"))
                yield objects


def json_object(line: bytes, place: str) -> dict[str, object]:
    """The JSON object of a row; `place` names it in the error where it is none."""
    refuse_too_many(line.count(b":"), place)
    try:
        value = json.loads(line)
        if b"\\u" in line:  # half a surrogate pair is no text that could be written again
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        value = line.decode(errors="replace")
    if not isinstance(value, dict):
        received = f"{value!r:.60}" if isinstance(value, str) else type(value).__name__
        raise checks.refuse(
            place, received, "one JSON object per row", 'write each row as {"name": value, ...}'
        )
    return value
