"""Rows in the body of a request, as JSON or Arrow, checked before anything is done with them."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from miniamp import checks
from miniamp.arrays import Array
from miniamp.errors import InvalidInputError
from miniamp.streams import Schema, open_stream
from miniamp.streams.formats.arrow import unpacked_bytes

if TYPE_CHECKING:
    import pyarrow as pa

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

    X: Array
    y: NDArray[np.generic] | None
    request: str | None = None
    level: float = 0.9

    @property
    def digest(self) -> str:
        """Checksum of rows and targets: equal for the same batch sent again."""
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
        """Columns that a record must have."""
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
        table = _table(content, most_rows)
        body: Any = {"records": table.to_pylist()}
        if not names.features:  # in the order of the table
            features = tuple(name for name in table.column_names if name != names.target)
            names = names._replace(features=features)
    else:
        body = _json(content)
    given, y, request = body.get("records", body.get("X")), body.get("y"), body.get("id")
    level = body.get("level", 0.9)
    if not isinstance(given, list) or not given:
        raise checks.refuse("X", _kind(given), "a list of rows", "send at least one row")
    if len(given) > most_rows:
        raise _too_many("X", len(given), most_rows)
    if not isinstance(level, float) or not 0.0 < level < 1.0:
        raise checks.refuse("level", _kind(level), "a number between 0 and 1", "leave it out")
    if request is not None and (not isinstance(request, str) or not 0 < len(request) <= 200):
        raise checks.refuse("id", _kind(request), "text of 1 to 200 characters", "shorten it")
    if isinstance(given[0], dict):
        X, y = _by_name(given, y, names)
    else:
        X = _matrix(given)
    return RequestRows(X, None if y is None else _targets(y, len(X)), request, level)


def _json(content: bytes) -> dict[str, Any]:
    """The object of a JSON body; a list is one of records."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        raise FormatError(
            "body", "bytes that are no JSON", 'an object {"X": ...}', "fix it"
        ) from None
    if isinstance(body, list):
        return {"records": body}
    if not isinstance(body, dict):
        raise FormatError("body", type(body).__name__, 'an object {"X": ...}', "wrap the rows")
    for unknown in sorted(set(body) - KEYS):
        received = f"the key {unknown!r:.60}"
        raise checks.refuse("body", received, "X, y or records", "send rows as X or records")
    return body


def _by_name(given: list[Any], y: Any, names: Names) -> tuple[Array, Any]:
    """Records as a matrix in the model's order, and the targets in them."""
    if not names.features:
        raise checks.refuse(
            "X", "records by name", "lists: the model has no names", "send the numbers in order"
        )
    columns = names.columns
    wanted = set(columns)
    records, targets = [], []
    for i, record in enumerate(given, 1):
        if not isinstance(record, dict):
            raise checks.refuse(f"row {i}", _kind(record), "a record like the first row", "")
        extra, missing = record.keys() - wanted - {names.target}, wanted - record.keys()
        if extra or missing:
            what = f"no {min(missing)!r:.60}" if missing else f"the key {min(extra)!r:.60}"
            raise checks.refuse(f"row {i}", what, "the model's features", "see GET /model")
        if names.target in record and names.target not in wanted:
            targets.append(record[names.target])
        records.append({name: record[name] for name in columns})
    if names.reading is None:
        X = _matrix([list(record.values()) for record in records])
    else:
        X = _encoded(records, names.reading)
    return X, targets if y is None and targets else y


def _encoded(records: list[dict[str, Any]], reading: dict[str, Any]) -> Array:
    """Records as features: categories by the vocabulary that the model has learned.

    The means of a model that was fitted with `--missing mean` fill gaps.
    """
    rule = "error" if reading["means"] is None else "mean"
    for i, record in enumerate(records, 1):
        for name, value in record.items():
            if not isinstance(value, str | int | float) and (value is not None or rule == "error"):
                place = f"row {i}, column {name!r:.60}"
                raise checks.refuse(place, _kind(value), "a value", "fill it")
    try:
        state = {**reading, "position": 0}
        stream = open_stream(records, None, len(records), missing=rule, resume=state)
        X = np.asarray(next(iter(stream)).X, dtype=np.float64)
    except InvalidInputError as error:
        place = "".join(error.argument.rpartition("row ")[1:])
        raise checks.refuse(place, error.received, error.expected, "fix it") from None
    if len(X) != len(records):
        raise checks.refuse("X", "rows with missing values", "values", "fill them")
    return checks.numeric("X", X)


def _matrix(rows: list[Any]) -> Array:
    X = checks.numeric("X", rows)
    if X.ndim != 2 or X.shape[1] == 0:
        raise checks.refuse("X", f"shape {X.shape}", "rows of numbers", "nest them once")
    return X


def _targets(y: Any, rows: int) -> NDArray[np.generic]:
    found = checks.array_of("y", y)
    if found.shape != (rows,):
        raise checks.refuse("y", f"shape {found.shape}", f"{rows} values", "one per row")
    if found.dtype.kind == "f":
        return checks.numeric("y", found)
    if found.dtype.kind not in "iubU" or len({type(value) for value in y}) > 1:
        raise checks.refuse("y", "values of several types", "numbers, or labels", "use one type")
    return found


def _kind(value: object) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {value!r:.40}"


def _too_many(name: str, rows: int, most: int) -> TooManyRowsError:
    return TooManyRowsError(name, f"{rows} rows", f"at most {most}", "send them in parts")


def _table(content: bytes, most_rows: int) -> pa.Table:
    """The table of an Arrow stream; refused before anything in it is unpacked or made a list."""
    try:
        import pyarrow as pa  # noqa: PLC0415 (optional)
    except ImportError:
        raise FormatError("body", "Arrow", "JSON: the server has no pyarrow", "send JSON") from None
    try:
        for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(content)):
            if message.type == "dictionary":
                remedy = "cast them before sending"
                raise FormatError("body", "dictionaries", "plain columns", remedy)
            # A small body may otherwise unpack to gigabytes.
            if message.body is not None and unpacked_bytes(memoryview(message.body)):
                raise FormatError("body", "compressed batches", "plain ones", "write uncompressed")
        # Batches that are not compressed are read without a copy.
        table = pa.ipc.open_stream(content).read_all()
        if table.num_rows > most_rows:
            raise _too_many("body", table.num_rows, most_rows)
        table.validate(full=True)
    except InvalidInputError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError):
        raise FormatError(
            "body", "bytes that are no Arrow stream", "one", "write it again"
        ) from None
    checks.refuse_duplicates(table.column_names, "body")
    return table
