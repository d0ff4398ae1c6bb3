"""Sources with an address. A new one is a file here with a `Connection`, and its export below."""

from miniamp.streams.connections.base import Connection
from miniamp.streams.connections.kafka import KafkaTopic
from miniamp.streams.connections.redis import RedisStream
from miniamp.streams.connections.sql import SQLQuery
from miniamp.streams.pieces import by_format

__all__ = ["Connection", "KafkaTopic", "RedisStream", "SQLQuery", "connection_of", "connections"]


def connections() -> dict[str, type[Connection]]:
    """Every connection that is exported here, by the scheme of its addresses.

    Examples
    --------
    >>> sorted(connections())
    ['kafka', 'redis', 'sql']
    """
    found = [globals()[name] for name in __all__]
    return by_format(Connection, found)  # type: ignore[type-abstract]  # only asked what is derived


def connection_of(given: object) -> type[Connection] | None:
    """The kind of source that has such an address; None for a file, or data in hand.

    Examples
    --------
    >>> connection_of("redis://localhost:6379/rows").__name__, connection_of("rows.csv")
    ('RedisStream', None)
    """
    scheme, colon, _ = given.partition(":") if isinstance(given, str) else ("", "", "")
    return connections().get(scheme) if colon else None
