"""The rows of a query, by DuckDB: over a database, or over CSV, Parquet and other files."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from miniamp import checks
from miniamp.streams.connections.base import Connection
from miniamp.streams.formats.arrow import arrow_piece
from miniamp.streams.formats.base import refuse_too_many
from miniamp.streams.pieces import Mark, Piece, needed, refuse_duplicates, rows_per_piece
from miniamp.streams.schema import absent

if TYPE_CHECKING:
    import duckdb

#: Memory that DuckDB may take; what sorting by the key needs beyond goes to a temporary folder.
#: 20 million rows of four numbers took 110 MB as they came, and 364 MB sorted.
LIMIT = "256MB"


class SQLQuery(Connection):
    """The rows of a SELECT, streamed as Arrow record batches.

    Parameters
    ----------
    address : str
        `sql:SELECT ...`; files are tables by their name, as in `SELECT * FROM 'rows.parquet'`.
    database : path, optional
        A DuckDB database, opened for reading only.
    key : str, optional
        A column whose values are all different. The rows are ordered by it, and a run resumes after
        the last key; without one a query can be read from its first row only.
    """

    format = "sql"
    options = ("database", "key")

    def __init__(self, address: str, database: str | None = None, key: str | None = None) -> None:
        super().__init__(address)
        self._query = address.partition(":")[2].strip().rstrip("; \n")
        self._database = ":memory:" if database is None else str(database)
        self.key = key
        if database is not None and not Path(database).is_file():
            raise checks.refuse("database", repr(database), "a DuckDB file", "check the path")
        with self._connected() as connection:
            described = connection.sql(f"DESCRIBE ({self._query}\n)").fetchall()
        self._types = {str(row[0]): str(row[1]) for row in described}
        refuse_too_many(len(described), self.name)
        refuse_duplicates([str(row[0]) for row in described], self.name)
        if key is not None and key not in self._types:
            raise absent("key", key, list(self._types), "the query")

    def count(self) -> int:
        with self._connected() as connection:
            ((rows,),) = connection.sql(f"SELECT count(*) FROM ({self._query}\n)").fetchall()
        return int(rows)

    def _after(self, mark: Mark, row: int, columns: Collection[str] | None) -> Iterator[Piece]:
        if row and self.key is None:
            raise checks.refuse(
                self.name,
                f"a query to resume after {row} rows",
                "a column that orders its rows",
                "start over with {key=id}",
            )
        chosen = [n for n in self._types if columns is None or n in columns or n == self.key]
        query = f"SELECT {', '.join(map(_quoted, chosen))} FROM ({self._query}\n)"
        if self.key is not None:
            key = _quoted(self.key)
            after = f"WHERE {key} > CAST($key AS {self._types[self.key]})" if mark else ""
            query += f" {after} ORDER BY {key} NULLS FIRST"
        last = mark.get("key")
        with self._connected() as connection:
            answer = connection.sql(query, params={"key": last} if mark else None)
            for batch in answer.to_arrow_reader(rows_per_piece(len(chosen))):
                piece = arrow_piece(batch, self.name, row)
                if self.key is not None:
                    for value in batch.columns[chosen.index(self.key)].to_pylist():
                        if value is None or str(value) == last:
                            raise checks.refuse(
                                f"column {self.key!r}",
                                "a missing value" if value is None else f"{last!r} twice",
                                "a different value in every row",
                                "choose another {key=id}",
                            )
                        last = str(value)
                        self._passed("key", last)
                yield piece
                row += piece.rows

    @contextmanager
    def _connected(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection; whatever DuckDB raises while it is used is an error about the query."""
        module = needed("duckdb", "reading SQL")
        # One thread, so that rows without an order come in the same one every time.
        config = {"memory_limit": LIMIT, "temp_directory": tempfile.gettempdir(), "threads": 1}
        try:
            with module.connect(
                self._database, read_only=self._database != ":memory:", config=config
            ) as connection:
                connection.execute("SET enable_progress_bar = false")  # it prints to stdout
                yield connection
        except module.Error as error:
            reason = str(error).splitlines()[0]
            raise checks.refuse(self.name, reason, "a query of DuckDB", "correct it") from None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
