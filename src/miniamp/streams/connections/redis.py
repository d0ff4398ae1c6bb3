"""The entries of a Redis stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from miniamp import checks
from miniamp.streams.connections.base import WAIT, Entry, LiveConnection, Reader
from miniamp.streams.pieces import Mark, needed


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
        module = needed("redis", "reading Redis streams")
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
