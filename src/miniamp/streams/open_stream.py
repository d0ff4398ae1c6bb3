"""`open_stream`: batches of exactly k rows from whatever holds rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from numbers import Integral
from typing import cast

import numpy as np
from numpy.typing import DTypeLike

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.errors import InvalidTypeError
from miniamp.streams.missing import RULES
from miniamp.streams.pieces import Mark
from miniamp.streams.schema import (
    MOST_BITS,
    ReadOptions,
    Reference,
    Schema,
    checked_schema,
)
from miniamp.streams.sources import source_of
from miniamp.streams.stream import Shuffle, Stream


def open_stream(
    source: Given,
    target: Given = None,
    batch_size: int = 1000,
    *,
    columns: Collection[str | int] | None = None,
    categorical: str | Collection[str] = "auto",
    missing: str = "error",
    unknown: str = "error",
    schema: Schema | Mapping[str, object] | None = None,
    labels: bool | str = "auto",
    start: int = 0,
    resume: Mapping[str, object] | None = None,
    keep: Collection[str] = (),
    hashed: Mapping[str, int] | None = None,
    reference: Reference = None,
    shuffle: int = 0,
    seed: int = 0,
    dtype: DTypeLike = np.float64,
    **options: Given,
) -> Stream:
    """A stream of batches of exactly `batch_size` rows, in bounded memory; the last may be shorter.

    Parameters
    ----------
    source : str, path, array, frame, table or iterable
        A file of CSV, Parquet, Arrow IPC, NPY, NPZ, LIBSVM or JSON lines (text also gzipped), a
        folder or glob pattern or list of such files, "-" for standard input (CSV or JSON lines), a
        pandas or polars DataFrame, a pyarrow Table, a dense or scipy sparse array, a pair (X, y),
        or any iterable of (X, y), of rows, of dicts or of frames; a function without arguments that
        returns such an iterable makes it readable more than once. Or an address: "sql:SELECT ...",
        "redis://host:port/stream", "kafka://broker:port/topic".
    target : str, int, array or None
        The column to predict, by name or number; the targets themselves, for an array or frame; or
        None to read features only.
    batch_size : int
        The number k of rows per batch.
    columns : list of str or int, optional
        The feature columns, in this order; all but the target by default. Columns are found by name
        in every file, whatever their order there, and further ones are ignored.
    categorical : "auto" or list of str
        Columns to turn into one indicator feature per category. "auto" takes those where the first
        rows have text and no number. Dates, by type or as ISO text, become days since 2000, season,
        weekday and time of day, as far as these vary, unless they are listed here.
    missing : "error", "mean" or "drop"
        What to do where a value is missing: stop, naming row and column; fill in the running mean
        of the column; or leave the row out. Masked values of a masked array are missing.
    unknown : "error", "warn" or "ignore"
        What to do with a category that is not in the vocabulary: stop, naming row, column and
        value; or set all indicators of the column to zero, with or without a warning per column.
    schema : Schema, its dict, or dict of column name to categories, optional
        Fixes the vocabularies, or all of the reading; by default the first 10,000 rows do (fewer of
        wide tables); of a pipe, the first batch.
    labels : bool or "auto"
        Whether to keep the target as text; "auto" does where the first rows have one that is no
        number.
    start : int
        Rows to skip at the beginning.
    resume : dict, optional
        What `batch.state()` gave: continue after that batch, bit for bit as if never stopped.
    keep : list of str
        Columns that are no features, and are given as text in `batch.kept`.
    hashed : dict of str to int, optional
        For columns of an open vocabulary, the number of bits: each of their words is a signed count
        in one of 2^bits features (scikit-learn's FeatureHasher). Beyond 4096 features X is sparse.
    reference : dict of str to str, or "first", optional
        For columns of categories, the one without an indicator, with which the others are compared.
    shuffle : int
        Rows that are put in random order together, window after window; 0 keeps the order.
    seed : int
        Of that order.
    dtype : float64 or float32
        Type of X.
    **options
        `format` ("csv", "parquet", ...) where the name does not show it; `delimiter` and `header`
        for CSV; `n_features` and `zero_based` for LIBSVM; `database` and `key` for SQL;
        `idle_seconds` and `rows`, after which to stop, for Redis and Kafka.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp.streams import open_stream
    >>> rows = [{"age": a, "city": c, "y": a % 2} for a, c in zip(range(5), "ABABA")]
    >>> stream = open_stream(rows, target="y", batch_size=2)
    >>> stream.feature_names
    ('age', 'city=A', 'city=B')
    >>> [(batch.rows, batch.position) for batch in stream]
    [(2, 2), (2, 4), (1, 5)]
    """
    checks.choice("missing", missing, RULES)
    checks.choice("unknown", unknown, ("error", "warn", "ignore"))
    checks.choice("labels", labels, (True, False, "auto"))
    size = checks.count("batch_size", batch_size)
    known = checked_schema(schema)
    begin = checks.count("start", start, least=0)
    means, mark, begun = None, None, (0, 0)
    if resume is not None:
        begin, known, means, mark, begun = _resumed(resume)
    named = _column_name(target)
    found = source_of(source, named, None if named is not None else target, size, options)
    found.resume(begin, mark)
    kept = tuple(str(name) for name in _listed("keep", keep) or ())
    read = ReadOptions(
        target=named,
        columns=_listed("columns", columns),
        categorical="auto"
        if isinstance(categorical, str) and categorical == "auto"
        else frozenset(str(c) for c in _listed("categorical", categorical) or ()),
        labels=labels,
        vocabularies=known if isinstance(known, dict) else {},
        keep=kept,
        left_out=kept if found.key is None else (*kept, found.key),
        hashed={name: _bits(name, bits) for name, bits in (hashed or {}).items()},
        reference=reference,
    )
    order = None
    if checks.count("shuffle", shuffle, least=0):
        order = partial(Shuffle, shuffle, checks.count("seed", seed, least=0), begin, begun)
    full = known if isinstance(known, Schema) else None
    return Stream(
        found, read, size, missing, unknown, full, begin, means, _checked_dtype(dtype), order
    )


def _resumed(
    state: Mapping[str, Given],
) -> tuple[int, Schema, Mapping[str, Array] | None, Mark | None, tuple[int, int]]:
    schema = state.get("schema") if hasattr(state, "keys") else None
    if not isinstance(schema, (Schema, Mapping)) or not {"position", "means"} <= state.keys():
        raise checks.refuse("resume", f"{state!r:.60}", "what batch.state() gives", "pass that")
    known = schema if isinstance(schema, Schema) else Schema.from_dict(schema)
    means = cast("Mapping[str, Array] | None", state["means"])
    mark = cast("Mark | None", state.get("mark"))
    skip, rows = cast("tuple[int, int]", state.get("shuffle", (0, 0)))
    begin = checks.count("resume: position", state["position"], least=0)
    return begin, known, means, mark, (skip, rows)


def _column_name(target: Given) -> str | int | None:
    """The target where it is a column's name or number; None where it is none, or the targets."""
    if isinstance(target, bool):
        return None
    if isinstance(target, Integral):
        return int(target)
    return target if isinstance(target, str) else None


def _listed(name: str, given: Given) -> tuple[str | int, ...] | None:
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidTypeError(name, repr(given), "a list of columns", f"write [{given!r}]")
    return tuple(int(c) if isinstance(c, Integral) else str(c) for c in given)


def _bits(name: str, bits: Given) -> int:
    if checks.count(f"hashed, column {name!r}", bits) > MOST_BITS:
        raise checks.refuse("hashed", f"{bits} bits", f"at most {MOST_BITS}", "choose fewer")
    return checks.count("hashed", bits)


def _checked_dtype(dtype: DTypeLike) -> np.dtype[np.float64]:
    for known in (np.float64, np.float32):
        try:
            if np.dtype(dtype) == np.dtype(known):
                return cast("np.dtype[np.float64]", np.dtype(known))
        except TypeError:
            break
    raise checks.refuse("dtype", repr(dtype), "float64 or float32", "choose one")
