"""Parquet and Arrow IPC, read by pyarrow as record batches.

Parquet row groups are read a slice at a time, never a whole group, never ahead. What remains
resident is a page or two of every column (1 MB each as most programs write them) and, where values
are encoded by a dictionary, that: 2 to 3 MB per column.

pyarrow takes the memory of a compressed page or buffer at once, and no metadata that it checks has
its size: 40 kB of zeros became a gigabyte. So these sizes are read first.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from miniamp import checks
from miniamp.streams.base import (
    Format,
    Input,
    Piece,
    Targets,
    readable,
    refuse_expansion,
    refuse_too_many,
    rows_per_piece,
)

if TYPE_CHECKING:
    import pyarrow as pa

#: Bytes read from the file at a time for each column.
BUFFER = 1 << 14
#: More rows per byte than this are refused, where there are more than `MANY_ROWS`. A column of
#: labels with one in a hundred takes a byte for about 50 rows; 1e8 rows of zeros alone, as pyarrow
#: writes them, one for 110, and are read in 4 s.
ROWS_PER_BYTE, MANY_ROWS = 1000, 10_000_000
#: Bytes of a page header that are read at first; statistics of long texts make some longer.
_HEADER = 1 << 12
#: First bytes of compressed data within an Arrow buffer: LZ4 and Zstandard frames, and frames that
#: their decoders skip.
_FRAMES = np.array([0x184D2204, 0xFD2FB528, *range(0x184D2A50, 0x184D2A60)], dtype="<u4")
#: A length beyond this is no length: other bytes that look like the beginning of a frame.
_LONGEST = 1 << 40
_SMALLER = "write it again with smaller pages or batches"


def arrow_piece(batch: pa.RecordBatch, name: str, row: int) -> Piece:
    """The batch as a piece, after every offset, index and text in it has been checked.

    Unchecked, an offset out of bounds is memory of somebody else, or the end of the process.
    """
    batch.validate(full=True)
    columns = dict(zip(batch.column_names, batch.columns, strict=True))
    return Piece(name, row, batch.num_rows, columns)


class Parquet(Format):
    """The rows of one Parquet file."""

    format = "parquet"
    endings = (".parquet", ".pq")
    marks = (b"PAR1",)
    by_path = True

    def __init__(self, file: Input, targets: Targets) -> None:
        super().__init__(file, targets)
        parquet = checks.needed("pyarrow.parquet", "reading Parquet")
        with readable(self.name, self.format):
            self._metadata = parquet.read_metadata(self.name)
            self._groups = [
                int(self._metadata.row_group(g).num_rows)
                for g in range(self._metadata.num_row_groups)
            ]
        refuse_too_many(self._metadata.num_columns, self.name)
        # A run of 2^31 equal values takes a few bytes: such rows have no end.
        size = Path(self.name).stat().st_size
        limit = max(MANY_ROWS, ROWS_PER_BYTE * size)
        if self.count() > limit:
            received = f"{self.count():,} rows in {size:,} bytes"
            raise checks.refuse(self.name, received, f"at most {limit:,}", "read a part of them")

    def count(self) -> int:
        return sum(self._groups)

    def pieces(self, start: int, columns: Collection[str] | None) -> Iterator[Piece]:
        """Row groups before the row `start` are not read."""
        parquet = checks.needed("pyarrow.parquet", "reading Parquet")
        first = row = 0
        while first < len(self._groups) and row + self._groups[first] <= start:
            row += self._groups[first]
            first += 1
        with parquet.ParquetFile(
            self.name, metadata=self._metadata, pre_buffer=False, buffer_size=BUFFER
        ) as file:
            names = file.schema_arrow.names
            checks.refuse_duplicates(names, self.name)
            chosen = [name for name in names if columns is None or name in columns]
            # pyarrow goes by the place of a column, and not by the name that is written beside it.
            flat = len(names) == self._metadata.num_columns
            leaves = names if flat else chosen[:1] * self._metadata.num_columns
            described = itertools.islice(_column_chunks(Path(self.name)), first, None)
            for group, chunks in zip(range(first, len(self._groups)), described, strict=True):
                for name, chunk in zip(leaves, chunks, strict=True):
                    if name in chosen:
                        _check_pages(f"{self.name}, column {name!r}", Path(self.name), *chunk)
                for batch in file.iter_batches(
                    batch_size=rows_per_piece(len(chosen)),
                    row_groups=[group],
                    columns=chosen,
                    use_threads=False,
                ):
                    piece = arrow_piece(batch, self.name, row)
                    row += piece.rows
                    yield piece


class ArrowIPC(Format):
    """The rows of one Arrow IPC file, in the file format (Feather) or the stream format.

    Each of its record batches must fit in memory.
    """

    format = "arrow"
    endings = (".arrow", ".arrows", ".ipc", ".feather")
    marks = (b"ARROW1", b"\xff\xff\xff\xff")
    by_path = True

    def __init__(self, file: Input, targets: Targets) -> None:
        super().__init__(file, targets)
        checks.needed("pyarrow", "reading Arrow IPC")

    def pieces(self, start: int, columns: Collection[str] | None) -> Iterator[Piece]:
        row = 0
        for batch in self._batches(columns):
            piece = arrow_piece(batch, self.name, row)
            yield piece
            row += piece.rows

    def _batches(self, columns: Collection[str] | None) -> Iterator[pa.RecordBatch]:
        """The record batches; each message is looked at before it is unpacked.

        A file is a stream after eight bytes, and is read as such: its footer could point anywhere.
        """
        pa = checks.needed("pyarrow", "reading Arrow IPC")
        begin = 8 if self.file.head.startswith(self.marks[0]) else 0
        options = pa.ipc.IpcReadOptions(use_threads=False)
        with pa.OSFile(self.name) as file, pa.OSFile(self.name) as ahead:
            ahead.seek(begin)
            messages = pa.ipc.MessageReader.open_stream(ahead)
            first = messages.read_next_message()
            if first.type != "schema":  # pyarrow reads another as if it were one, and crashes
                raise ValueError(f"it begins with a message of type {first.type}")
            schema = pa.ipc.read_schema(first)
            refuse_too_many(len(schema.names), self.name)
            checks.refuse_duplicates(schema.names, self.name)
            fields = [j for j, n in enumerate(schema.names) if columns is None or n in columns]
            if 0 < len(fields) < len(schema.names):
                options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=fields)
            file.seek(begin)
            reader = None
            for message in messages:
                if message.body is not None:
                    body = memoryview(message.body)
                    refuse_expansion(self.name, unpacked_bytes(body), len(body), _SMALLER)
                if message.type == "record batch":
                    reader = reader or pa.ipc.open_stream(file, options=options)
                    yield reader.read_next_batch()


def unpacked_bytes(body: memoryview) -> int:
    """Bytes that the compressed buffers of a message of Arrow IPC become; 0 without any.

    Each begins at a multiple of eight bytes with its length, then a frame.
    """
    words = np.frombuffer(body[: len(body) // 8 * 8], dtype="<u4").reshape(-1, 2)
    starts = np.flatnonzero(np.isin(words[1:, 0], _FRAMES))
    lengths = np.ascontiguousarray(words[starts]).view("<i8")[:, 0]
    return int(lengths[(lengths > 0) & (lengths < _LONGEST)].sum())


def _column_chunks(path: Path) -> Iterator[list[tuple[int, int]]]:
    """Where each column of each row group begins, and its bytes, from the end of the file.

    pyarrow has them too, but its `RowGroupMetaData.column` ends the process with an exception of
    C++ where the statistics of a chunk do not fit its column.
    """
    with path.open("rb") as file:
        file.seek(-8, os.SEEK_END)
        length = int.from_bytes(file.read(4), "little")
        file.seek(-8 - length, os.SEEK_END)
        footer = _Thrift(file.read(length)).struct()
    for group in footer.parts.get(4, []):
        columns = [chunk.parts[3][0].numbers for chunk in group.parts.get(1, [])]
        yield [(min(c[9], c.get(11, c[9])), c[7]) for c in columns]


def _check_pages(name: str, path: Path, begin: int, size: int) -> None:
    """Refuse a column chunk of Parquet with a page that becomes too large, before it does."""
    at, end = begin, min(begin + size, path.stat().st_size)
    with path.open("rb") as file:
        while at < end:
            file.seek(at)
            try:
                header = _Thrift(file.read(min(_HEADER, end - at)))
                sizes = header.struct().numbers
            except IndexError:
                file.seek(at)
                header = _Thrift(file.read(end - at))
                sizes = header.struct().numbers
            at += header.at + max(sizes[3], 0)
            if at > end:  # pyarrow would take memory for it
                raise ValueError(f"a page of {sizes[3]:,} bytes in a column of {size:,}")
            refuse_expansion(name, sizes.get(2, 0), sizes[3], _SMALLER)


@dataclass(slots=True)
class _Fields:
    """A structure of Thrift: what its fields hold, by their numbers; one value is a list of one."""

    numbers: dict[int, int] = field(default_factory=dict)
    parts: dict[int, list[_Fields]] = field(default_factory=dict)


class _Thrift:
    """Thrift's compact protocol, as far as Parquet's headers and footers need it."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.at = 0

    def struct(self) -> _Fields:
        """The structure that begins here."""
        found, number = _Fields(), 0
        while byte := self._byte():
            number = number + (byte >> 4) if byte >> 4 else self._integer()
            self._value(byte & 15, number, found)
        return found

    def _value(self, kind: int, number: int, found: _Fields) -> None:
        """Put a value of this type into the structure; what nobody asks for is passed over."""
        if kind in (4, 5, 6):
            found.numbers[number] = self._integer()
        elif kind in (3, 7):  # a byte, a double
            self.at += 1 if kind == 3 else 8
        elif kind == 8:  # bytes
            length = self._unsigned()  # on a line of its own: it moves `at`
            self.at += length
        elif kind == 12:
            found.parts[number] = [self.struct()]
        elif kind in (9, 10):  # a list or set
            head = self._byte()
            count, kind = head >> 4, head & 15
            count = count if count < 15 else self._unsigned()
            if count > len(self._content):
                raise IndexError(count)
            if kind == 12:
                found.parts[number] = [self.struct() for _ in range(count)]
            else:
                for _ in range(count):
                    self._value(3 if kind in (1, 2) else kind, 0, _Fields())
        elif kind > 2:
            raise IndexError(kind)

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
