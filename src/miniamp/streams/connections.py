"""Sources with an address: SQL queries, Redis streams, Kafka topics.

A new one is a subclass of `Connection` here and its name in `__all__`.
"""

from __future__ import annotations

import tempfile
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from miniamp import checks
from miniamp.streams.base import Mark, Piece, Source, refuse_too_many, rows_per_piece, skip_rows
from miniamp.streams.formats.arrow import arrow_piece
from miniamp.streams.formats.text import json_object
from miniamp.streams.in_memory import record_pieces
from miniamp.streams.schema import absent

if TYPE_CHECKING:
    import duckdb

__all__ = ["Connection", "KafkaTopic", "RedisStream", "SQLQuery"]

#: Entries that are read at once, and seconds to wait for the first of them: Ctrl-C is seen between.
ENTRIES, WAIT = 500, 0.25
#: Seconds to wait for the first answer of a broker.
CONNECT = 10.0
#: Memory that DuckDB may take; what sorting by the key needs beyond goes to a temporary folder.
#: 20 million rows of four numbers took 110 MB as they came, and 364 MB sorted.
LIMIT = "256MB"

Entry: TypeAlias = tuple[str, int | str, bytes | dict[str, object]]
Reader: TypeAlias = Callable[[int], Iterable[Entry]]


class Connection(Source):
    """A source with an address; a mark of its own records how far it was read.

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
        Stop when no row has come for this long; by default wait for ever.
    rows : int, optional
        Stop after this number of rows, those before a resume included.
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
        checks.refuse_duplicates([str(row[0]) for row in described], self.name)
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
        module = checks.needed("duckdb", "reading SQL")
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


class RedisStream(LiveConnection):
    """The entries of a Redis stream: each field a column, or one field `json` with an object.

    The mark is the identifier of the last entry. No consumer group is used: the checkpoint knows
    how far the stream was read, and Redis need not.

    Parameters
    ----------
    address : str
        redis://host:port/stream-name; redis://:password@host:port/stream-name.
    idle_seconds, rows
        See `LiveConnection`.
    """

    format = "redis"

    @contextmanager
    def _reader(self, mark: Mark) -> Iterator[Reader]:
        module = checks.needed("redis", "reading Redis streams")
        last = str(mark.get("id", "0-0"))

        def read(most: int) -> list[Entry]:
            nonlocal last
            entries: list[Entry] = []
            for _, found in client.xread({self.topic: last}, count=most, block=int(1000 * WAIT)):
                for name, fields in found:
                    last = name.decode()
                    row = {key.decode(): value.decode() for key, value in fields.items()}
                    single = fields.get(b"json") if len(row) == 1 else None
                    entries.append(("id", last, row if single is None else single))
            return entries

        try:
            with module.Redis.from_url(f"redis://{self.host}", protocol=2) as client:
                yield read
        except (module.RedisError, UnicodeDecodeError) as error:
            raise checks.refuse(
                self.name, str(error), "a stream of a Redis server", "check the address"
            ) from None


class KafkaTopic(LiveConnection):
    """The messages of all partitions of a topic, each a JSON object.

    The mark is the next offset of each partition. Nothing is committed to the broker: the
    checkpoint knows how far the topic was read. Messages of several partitions come in the order
    in which they arrive, so that only one partition is read in the same order every time.

    Parameters
    ----------
    address : str
        kafka://broker:port/topic; several brokers with commas between.
    idle_seconds, rows
        See `LiveConnection`.
    """

    format = "kafka"

    @contextmanager
    def _reader(self, mark: Mark) -> Iterator[Reader]:
        module = checks.needed("confluent_kafka", "reading Kafka topics")
        consumer = module.Consumer(
            {
                "bootstrap.servers": self.host,
                "group.id": "miniamp",  # asked for, and never used: nothing is committed
                "enable.auto.commit": False,
                "auto.offset.reset": "error",  # rows that the broker dropped are no silent gap
                "log_level": 0,
            }
        )

        def read(most: int) -> list[Entry]:
            entries: list[Entry] = []
            for message in consumer.consume(most, WAIT):
                if message.error() is not None:
                    raise module.KafkaException(message.error())
                entries.append(
                    (str(message.partition()), message.offset() + 1, message.value() or b"")
                )
            return entries

        try:
            topic = consumer.list_topics(self.topic, CONNECT).topics[self.topic]
            if topic.error is not None:
                raise module.KafkaException(topic.error)
            consumer.assign(
                [
                    module.TopicPartition(self.topic, p, mark.get(str(p), module.OFFSET_BEGINNING))
                    for p in sorted(topic.partitions)
                ]
            )
            yield read
        except module.KafkaException as error:
            raise checks.refuse(
                self.name, error.args[0].str(), "a topic of a Kafka broker", "check the address"
            ) from None
        finally:
            consumer.close()
