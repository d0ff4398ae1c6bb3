"""How large the compressed parts of Parquet and Arrow files say that they become.

The libraries take that memory at once, and the sizes of pages and buffers are in no metadata that
they check: 40 kB of zeros became a gigabyte. Here the sizes are read before the library sees them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import numpy as np

from miniamp import checks
from miniamp.streams.formats.base import MAX_EXPANSION, MAX_ROW_BYTES

#: Bytes of a page header that are read at first; statistics of long texts make some longer.
_HEADER = 1 << 12
#: First bytes of compressed data within an Arrow buffer: LZ4 and Zstandard frames, and frames that
#: their decoders skip.
_FRAMES = np.array([0x184D2204, 0xFD2FB528, *range(0x184D2A50, 0x184D2A60)], dtype="<u4")
#: A length beyond this is no length: other bytes that look like the beginning of a frame.
_LONGEST = 1 << 40


def refuse_expansion(name: str, size: int, packed: int) -> None:
    """Refuse a part that is out of proportion to its compressed bytes."""
    limit = max(MAX_ROW_BYTES, MAX_EXPANSION * packed)
    if size > limit:
        raise checks.refuse(
            name,
            f"{packed:,} compressed bytes that become {size:,}",
            f"at most {limit:,}",
            "write it again with smaller pages or batches",
        )


def check_buffers(name: str, body: memoryview) -> None:
    """Refuse a message of Arrow IPC whose compressed buffers become too large.

    Each begins at a multiple of eight bytes with its length, then a frame.
    """
    words = np.frombuffer(body[: len(body) // 8 * 8], dtype="<u4").reshape(-1, 2)
    starts = np.flatnonzero(np.isin(words[1:, 0], _FRAMES))
    lengths = np.ascontiguousarray(words[starts]).view("<i8")[:, 0]
    plausible = lengths[(lengths > 0) & (lengths < _LONGEST)]
    refuse_expansion(name, int(plausible.sum()), len(body))


def check_pages(name: str, file: IO[bytes], begin: int, size: int) -> None:
    """Refuse a column chunk of Parquet with a page that becomes too large."""
    at, end = begin, begin + size
    while at < end:
        for length in (_HEADER, size):
            file.seek(at)
            try:
                header = _Thrift(file.read(min(length, end - at)))
                sizes = {field: value for field, value in header.struct() if field in (2, 3)}
                break
            except IndexError:
                continue
        else:
            return  # no header that could be read: the library refuses it
        if 3 not in sizes:
            return
        refuse_expansion(name, sizes.get(2, 0), sizes[3])
        at += header.at + max(sizes[3], 0)


class _Thrift:
    """Thrift's compact protocol, as far as page headers need it: numbers, and what to skip."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.at = 0

    def struct(self) -> Iterator[tuple[int, int]]:
        """The number of each field, and its value; 0 where that is no whole number."""
        field = 0
        while byte := self._byte():
            field = field + (byte >> 4) if byte >> 4 else self._integer()
            yield field, self._value(byte & 15)

    def _byte(self) -> int:
        self.at += 1
        return self._content[self.at - 1]

    def _unsigned(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128 or shift > 63:
                return number

    def _integer(self) -> int:
        number = self._unsigned()
        return (number >> 1) ^ -(number & 1)

    def _value(self, kind: int) -> int:
        if kind in (4, 5, 6):
            return self._integer()
        if kind in (3, 7):  # a byte, a double
            self.at += 1 if kind == 3 else 8
        elif kind == 8:  # bytes
            self.at += self._unsigned()
        elif kind in (9, 10):  # a list or set
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._unsigned()
            if count > len(self._content):
                raise IndexError(count)
            for _ in range(count):
                self._value(head & 15)
        elif kind == 12:
            for _ in self.struct():
                pass
        elif kind > 2:
            raise IndexError(kind)
        return 0
