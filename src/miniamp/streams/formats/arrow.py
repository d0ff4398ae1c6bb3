"""Parquet and Arrow IPC, read by pyarrow as record batches.

Parquet row groups are read a slice at a time, never a whole group, never ahead. What remains
resident is a page or two of every column (1 MB each as most programs write them) and, where values
are encoded by a dictionary, that: 2 to 3 MB per column.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from miniamp.streams.formats.base import (
    Format,
    InputFile,
    StandardInput,
    Targets,
    readable,
    refuse_too_many,
)
from miniamp.streams.formats.expansion import check_buffers, check_pages
from miniamp.streams.pieces import (
    ArrowArray,
    Piece,
    TablePiece,
    needed,
    refuse_duplicates,
    rows_per_piece,
    too_short,
)

#: Bytes read from the file at a time for each column.
BUFFER = 1 << 14


class _Schema(Protocol):
    @property
    def names(self) -> list[str]: ...


class RecordBatch(Protocol):
    """What is used of a pyarrow RecordBatch."""

    @property
    def schema(self) -> _Schema: ...
    @property
    def columns(self) -> Sequence[ArrowArray]: ...
    @property
    def num_rows(self) -> int: ...
    def validate(self, *, full: bool) -> None: ...


def arrow_piece(batch: RecordBatch, name: str, row: int) -> TablePiece:
    """The batch as a piece, after every offset, index and text in it has been checked.

    Unchecked, an offset out of bounds is memory of somebody else, or the end of the process.
    """
    batch.validate(full=True)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    return TablePiece(name, row, batch.num_rows, dict(columns))


class Parquet(Format):
    """The rows of one Parquet file."""

    format = "parquet"
    endings = (".parquet", ".pq")
    marks = (b"PAR1",)
    by_path = True

    def __init__(self, file: InputFile | StandardInput, targets: Targets) -> None:
        super().__init__(file, targets)
        parquet = needed("pyarrow.parquet", "reading Parquet")
        with readable(self.name, self.format):
            self._metadata = parquet.read_metadata(self.name)
            self._groups = [
                int(self._metadata.row_group(g).num_rows)
                for g in range(self._metadata.num_row_groups)
            ]
        refuse_too_many(self._metadata.num_columns, self.name)

    def count(self) -> int:
        return sum(self._groups)

    def _from(self, start: int, columns: Collection[str] | None) -> Iterator[Piece]:
        """Row groups before the row `start` are not read."""
        if start > self.count():
            raise too_short(self.name, self.count(), start)
        parquet = needed("pyarrow.parquet", "reading Parquet")
        first = row = 0
        while first < len(self._groups) and row + self._groups[first] <= start:
            row += self._groups[first]
            first += 1
        with parquet.ParquetFile(
            self.name, metadata=self._metadata, pre_buffer=False, buffer_size=BUFFER
        ) as file:
            names = file.schema_arrow.names
            refuse_duplicates(names, self.name)
            chosen = [name for name in names if columns is None or name in columns]
            for group in range(first, len(self._groups)):
                self._check_pages(group, chosen)
                for batch in file.iter_batches(
                    batch_size=rows_per_piece(len(chosen)),
                    row_groups=[group],
                    columns=chosen,
                    use_threads=False,
                ):
                    piece = arrow_piece(batch, self.name, row)
                    row += piece.rows
                    if row > start:
                        yield piece.cut(max(0, start - piece.row), piece.rows)

    def _check_pages(self, group: int, columns: Collection[str]) -> None:
        """Refuse pages of these columns that become too large, before they do."""
        described = self._metadata.row_group(group)
        with Path(self.name).open("rb") as file:
            for j in range(described.num_columns):
                chunk = described.column(j)
                if chunk.path_in_schema.split(".")[0] in columns:
                    pages = (chunk.dictionary_page_offset, chunk.data_page_offset)
                    begin = min(page for page in pages if page is not None)
                    place = f"{self.name}, column {chunk.path_in_schema!r}"
                    check_pages(place, file, begin, chunk.total_compressed_size)

    def _all(self, columns: Collection[str] | None) -> Iterator[Piece]:
        return self._from(0, columns)


class ArrowIPC(Format):
    """The rows of one Arrow IPC file, in the file format (Feather) or the stream format.

    Each of its record batches must fit in memory.
    """

    format = "arrow"
    endings = (".arrow", ".arrows", ".ipc", ".feather")
    marks = (b"ARROW1", b"\xff\xff\xff\xff")
    by_path = True

    def __init__(self, file: InputFile | StandardInput, targets: Targets) -> None:
        super().__init__(file, targets)
        needed("pyarrow", "reading Arrow IPC")

    def _all(self, columns: Collection[str] | None) -> Iterator[Piece]:
        row = 0
        for batch in self._batches(columns):
            piece = arrow_piece(batch, self.name, row)
            yield piece
            row += piece.rows

    def _batches(self, columns: Collection[str] | None) -> Iterator[RecordBatch]:
        """The record batches; each message is looked at before it is unpacked.

        A file is a stream after eight bytes, and is read as such: its footer could point anywhere.
        """
        pa = needed("pyarrow", "reading Arrow IPC")
        begin = 8 if self.file.head.startswith(self.marks[0]) else 0
        options = pa.ipc.IpcReadOptions(use_threads=False)
        with pa.OSFile(self.name) as file, pa.OSFile(self.name) as ahead:
            ahead.seek(begin)
            messages = pa.ipc.MessageReader.open_stream(ahead)
            schema = pa.ipc.read_schema(messages.read_next_message())
            refuse_too_many(len(schema.names), self.name)
            refuse_duplicates(schema.names, self.name)
            fields = [j for j, n in enumerate(schema.names) if columns is None or n in columns]
            if 0 < len(fields) < len(schema.names):
                options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=fields)
            file.seek(begin)
            reader = None
            for message in messages:
                if message.body is not None:
                    check_buffers(self.name, memoryview(message.body))
                if message.type == "record batch":
                    reader = reader or pa.ipc.open_stream(file, options=options)
                    yield reader.read_next_batch()
