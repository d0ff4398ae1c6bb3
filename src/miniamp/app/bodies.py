"""Rows in the body of a request, as JSON or Arrow, checked before anything is done with them."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from miniamp.errors import InvalidInputError
from miniamp.streams import Schema, open_stream

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
#: Keys of a JSON body.
KEYS = {"X", "y", "records", "id", "level"}


class FormatError(InvalidInputError):
    """The body is not in the form of its content type."""


class TooManyRowsError(InvalidInputError):
    """The body has more rows than are allowed at once."""


class RequestRows(NamedTuple):
    """The rows of a request."""

    X: NDArray[np.float64]
    y: NDArray[np.generic] | None
    request: str | None = None
    level: float = 0.9

    @property
    def digest(self) -> str:
        """Of rows and targets: equal for the same batch sent again."""
        y = b"" if self.y is None else self.y.tobytes()
        return hashlib.sha256(self.X.tobytes() + y).hexdigest()[:32]


class Names(NamedTuple):
    """What the model calls its columns; empty where it has no names.

    A model of `miniamp fit` also has `reading`, the state of its stream: columns may be categories,
    which become several features.
    """

    features: tuple[str, ...]
    target: str
    reading: dict[str, Any] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """What a record must have."""
        if self.reading is None:
            return self.features
        return tuple(column.name for column in Schema.from_dict(self.reading["schema"]).columns)


def parsed(content: bytes, kind: str, names: Names, most_rows: int) -> RequestRows:
    """The rows of a body of this content type.

    Examples
    --------
    >>> rows = parsed(b'{"X": [{"b": 2, "a": 1}], "y": [3]}', JSON, Names(("a", "b"), "y"), 10)
    >>> rows.X, rows.y
    (array([[1., 2.]]), array([3]))
    """
    if kind == ARROW:
        return _arrow(content, names, most_rows)
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        raise FormatError(
            "body", "bytes that are no JSON", 'an object {"X": ...}', "fix it"
        ) from None
    if isinstance(body, list):
        body = {"records": body}
    if not isinstance(body, dict):
        raise FormatError("body", type(body).__name__, 'an object {"X": ...}', "wrap the rows")
    unknown = sorted(set(body) - KEYS)
    if unknown:
        raise InvalidInputError(
            "body", f"the key {unknown[0]!r:.60}", "X, y or records", "send rows as X or records"
        )
    return _rows(body, names, most_rows)


def _rows(body: dict[str, Any], names: Names, most_rows: int) -> RequestRows:
    given = body.get("records", body.get("X"))
    if not isinstance(given, list) or not given:
        raise InvalidInputError("X", _kind(given), "a list of rows", "send at least one row")
    if len(given) > most_rows:
        raise TooManyRowsError(
            "X", f"{len(given)} rows", f"at most {most_rows}", "send them in parts"
        )
    y = body.get("y")
    if isinstance(given[0], dict):
        X, y = _by_name(given, y, names)
    else:
        X = _matrix(given)
    level = body.get("level", 0.9)
    if not isinstance(level, float) or not 0.0 < level < 1.0:
        raise InvalidInputError("level", _kind(level), "a number between 0 and 1", "leave it out")
    request = body.get("id")
    if request is not None and (not isinstance(request, str) or not 0 < len(request) <= 200):
        raise InvalidInputError("id", _kind(request), "text of 1 to 200 characters", "shorten it")
    return RequestRows(X, None if y is None else _targets(y, len(X)), request, level)


def _by_name(given: list[Any], y: Any, names: Names) -> tuple[NDArray[np.float64], Any]:
    """Records as a matrix in the model's order, and the targets in them."""
    if not names.features:
        raise InvalidInputError(
            "X", "records by name", "lists: the model has no names", "send the numbers in order"
        )
    columns = names.columns
    wanted = set(columns)
    targets = []
    for i, record in enumerate(given, 1):
        if not isinstance(record, dict):
            raise InvalidInputError(f"row {i}", _kind(record), "a record like the first row", "")
        extra = set(record) - wanted - {names.target}
        missing = wanted - set(record)
        if extra or missing:
            what = f"no {min(missing)!r:.60}" if missing else f"the key {min(extra)!r:.60}"
            raise InvalidInputError(f"row {i}", what, "the model's features", "see GET /model")
        if names.target in record and names.target not in wanted:
            targets.append(record[names.target])
    rows = [[record[name] for name in columns] for record in given]
    X = _matrix(rows) if names.reading is None else _encoded(rows, columns, names.reading)
    if y is None and targets:
        y = targets
    return X, y


def _encoded(
    rows: list[Any], columns: tuple[str, ...], reading: dict[str, Any]
) -> NDArray[np.float64]:
    """Records as features: categories by the vocabulary that the model has learned."""
    records = [dict(zip(columns, row, strict=True)) for row in rows]
    for i, record in enumerate(records, 1):
        for name, value in record.items():
            if not isinstance(value, str | int | float):
                raise InvalidInputError(
                    f"row {i}, column {name!r:.60}", _kind(value), "a value", "fill it"
                )
    try:
        stream = open_stream(records, None, len(rows), resume={**reading, "position": 0})
        X = np.asarray(next(iter(stream)).X, dtype=np.float64)
    except InvalidInputError as error:
        place = error.argument.rpartition("row ")[1:]
        raise InvalidInputError("".join(place), error.received, error.expected, "fix it") from None
    if len(X) != len(rows):
        raise InvalidInputError("X", "rows with missing values", "values", "fill them")
    return _finite("X", X)


def _matrix(rows: list[Any]) -> NDArray[np.float64]:
    try:
        X = np.asarray(rows)
    except ValueError:
        raise InvalidInputError(
            "X", "rows of several lengths", "one number per feature in each row", "fill the gaps"
        ) from None
    if X.ndim != 2 or X.shape[1] == 0:
        raise InvalidInputError("X", f"shape {X.shape}", "rows of numbers", "nest them once")
    if X.dtype.kind not in "iuf":
        raise InvalidInputError("X", "a value that is no number", "numbers", "encode or fill it")
    return _finite("X", X.astype(np.float64))


def _targets(y: Any, rows: int) -> NDArray[np.generic]:
    try:
        found = np.asarray(y)
    except ValueError:
        found = np.zeros((0, 0))
    if found.shape != (rows,):
        raise InvalidInputError("y", f"shape {found.shape}", f"{rows} values", "one per row")
    if found.dtype.kind == "f":
        return _finite("y", found)
    if found.dtype.kind not in "iubU" or len({type(value) for value in y}) > 1:
        raise InvalidInputError(
            "y", "values of several types", "numbers, or labels", "use one type"
        )
    return found


def _finite(name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    if not np.isfinite(values).all():
        raise InvalidInputError(name, "NaN or infinity", "finite numbers", "fill or drop the gaps")
    return values


def _kind(value: object) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {value!r:.40}"


def _arrow(content: bytes, names: Names, most_rows: int) -> RequestRows:
    """The rows of an Arrow stream: columns by name, or in order where the model has no names."""
    try:
        import pyarrow as pa  # noqa: PLC0415 (optional)
    except ImportError:
        raise FormatError("body", "Arrow", "JSON: the server has no pyarrow", "send JSON") from None
    try:
        _require_small(pa, content, most_rows)
        table = pa.ipc.open_stream(content).read_all()
        table.validate(full=True)
        columns = dict(zip(table.column_names, table.columns, strict=True))
    except (pa.ArrowException, OSError, ValueError, KeyError, struct.error) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise FormatError(
            "body", "bytes that are no Arrow stream", "one", "write it again"
        ) from None
    y = columns.pop(names.target, None)
    wanted = names.features or tuple(columns)
    if set(columns) != set(wanted) or len(columns) != len(table.column_names) - (y is not None):
        raise InvalidInputError("body", "other columns", "the model's features", "see GET /model")
    if not columns or table.num_rows == 0:
        raise InvalidInputError("body", "no rows", "at least one", "send some")
    X = _matrix([columns[name].to_pylist() for name in wanted]).T
    targets = None if y is None else _targets(y.to_pylist(), len(X))
    return RequestRows(np.ascontiguousarray(X), targets)


def _require_small(pa: Any, content: bytes, most_rows: int) -> None:
    """Refuse compressed batches, and more rows than are allowed, before they are unpacked.

    The metadata of a record batch has its number of rows and whether it is compressed; a small
    body may otherwise unpack to gigabytes.
    """
    rows = 0
    for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(content)):
        if message.type == "dictionary":
            raise FormatError("body", "dictionaries", "plain columns", "cast them before sending")
        if message.type != "record batch":
            continue
        metadata = message.metadata.to_pybytes()
        header = _field(metadata, struct.unpack_from("<I", metadata)[0], 2)
        batch = header + struct.unpack_from("<I", metadata, header)[0]
        length = _field(metadata, batch, 0)
        rows += struct.unpack_from("<q", metadata, length)[0] if length else 0
        if _field(metadata, batch, 3):
            raise FormatError("body", "compressed batches", "plain ones", "write uncompressed")
        if rows > most_rows:
            raise TooManyRowsError("body", f"{rows} rows", f"at most {most_rows}", "send parts")


def _field(data: bytes, table: int, index: int) -> int:
    """Where a field of a FlatBuffers table begins; 0 if it has its default."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, vtable)[0]
    place = 4 + 2 * index
    if place >= size:
        return 0
    offset = struct.unpack_from("<H", data, vtable + place)[0]
    return table + int(offset) if offset else 0
