"""Arrow IPC: the file format (Feather) and the stream format."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from miniamp.errors import InvalidInputError
from miniamp.streams.extras import needed
from miniamp.streams.parquet import table_of
from miniamp.streams.pieces import Piece, refuse_doubles, skipping

_FILE_MAGIC = b"ARROW1"


class ArrowIPC:
    """The rows of one Arrow IPC file; each of its record batches must fit in memory.

    Parameters
    ----------
    path : Path
        The file, in either format.
    """

    again = True

    def __init__(self, path: Path) -> None:
        needed("pyarrow", "reading Arrow IPC")
        self.name = str(path)
        self._path = path

    def pieces(self, start: int, only: Collection[str] | None) -> Iterator[Piece]:
        """The rows from number `start` on."""
        return skipping(self._tables(only), start, self.name)

    def _tables(self, only: Collection[str] | None) -> Iterator[Piece]:
        pa = needed("pyarrow", "reading Arrow IPC")
        row = 0
        try:
            with pa.OSFile(str(self._path)) as file:
                for batch in self._batches(pa, file, only):
                    table = table_of(batch, self.name, row)
                    yield table
                    row += table.rows
        except (pa.ArrowInvalid, OSError, EOFError) as error:
            reason = (str(error).splitlines() or ["unreadable"])[0]
            raise InvalidInputError(
                f"{self.name}: the Arrow file is damaged or cut short ({reason:.100}); "
                "write it again"
            ) from None

    def _batches(self, pa: Any, file: Any, only: Collection[str] | None) -> Iterator[Any]:
        is_file = file.read(len(_FILE_MAGIC)) == _FILE_MAGIC
        file.seek(0)
        ipc = pa.ipc
        options = ipc.IpcReadOptions(use_threads=False)
        reader = (
            ipc.open_file(file, options=options)
            if is_file
            else ipc.open_stream(file, options=options)
        )
        refuse_doubles(reader.schema.names, self.name)
        if is_file and only is not None:
            fields = [j for j, name in enumerate(reader.schema.names) if name in only]
            if fields:
                options = ipc.IpcReadOptions(use_threads=False, included_fields=fields)
                file.seek(0)
                reader = ipc.open_file(file, options=options)
        if is_file:
            for i in range(reader.num_record_batches):
                yield reader.get_batch(i)
        else:
            yield from reader
