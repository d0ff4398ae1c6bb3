"""Parquet: row groups read a slice at a time, never a whole group, never ahead.

What remains resident is a page or two of every column (1 MB each as most programs write them) and,
where values are encoded by a dictionary, that: 2 to 3 MB a column.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from miniamp.errors import InvalidInputError
from miniamp.streams.extras import needed
from miniamp.streams.pieces import Piece, Table, refuse_doubles, rows_a_piece, too_short

#: Bytes read from the file at a time for each column.
BUFFER = 1 << 14


class Parquet:
    """The rows of one Parquet file.

    Parameters
    ----------
    path : Path
        The file.
    """

    again = True

    def __init__(self, path: Path) -> None:
        needed("pyarrow", "reading Parquet")
        self.name = str(path)
        self._path = path
        self._opened().close()

    def _opened(self) -> Any:
        pa = needed("pyarrow", "reading Parquet")
        pq = needed("pyarrow.parquet", "reading Parquet")
        try:
            return pq.ParquetFile(self._path, pre_buffer=False, buffer_size=BUFFER)
        except (pa.ArrowInvalid, OSError) as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> InvalidInputError:
        reason = (str(error).splitlines() or ["unreadable"])[0]
        return InvalidInputError(
            f"{self.name}: the Parquet file is damaged or cut short ({reason:.100}); write it again"
        )

    def count(self) -> int:
        """The number of rows, from the file's own notes."""
        with self._opened() as file:
            return int(file.metadata.num_rows)

    def pieces(self, start: int, only: Collection[str] | None) -> Iterator[Piece]:
        """The rows from number `start` on; row groups before it are not read."""
        pa = needed("pyarrow", "reading Parquet")
        with self._opened() as file:
            names = file.schema_arrow.names
            refuse_doubles(names, self.name)
            chosen = [name for name in names if only is None or name in only]
            sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
            if start > sum(sizes):
                raise too_short(self.name, sum(sizes), start)
            first = row = 0
            while first < len(sizes) and row + sizes[first] <= start:
                row += sizes[first]
                first += 1
            batches = file.iter_batches(
                batch_size=rows_a_piece(len(chosen)),
                row_groups=list(range(first, len(sizes))),
                columns=chosen,
                use_threads=False,
            )
            try:
                for batch in batches:
                    table = table_of(batch, self.name, row)
                    row += table.rows
                    if row > start:
                        yield table.cut(max(0, start - table.row), table.rows)
            except (pa.ArrowInvalid, OSError) as error:
                raise self._damaged(error) from None


def table_of(batch: Any, name: str, row: int) -> Table:
    """An Arrow record batch as a table."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    return Table(name, row, batch.num_rows, columns)
