"""`open_stream`: batches of exactly k rows, each with the state to resume from."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral
from typing import cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.errors import InvalidInputError, InvalidTypeError
from miniamp.streams.base import Mark, Numbers, Piece, Source, rows_per_piece
from miniamp.streams.blocks import RunningMean, Shuffle
from miniamp.streams.encode import Reader, known_targets, rebatch
from miniamp.streams.schema import (
    MOST_BITS,
    ReadOptions,
    Reference,
    Schema,
    advise,
    checked_schema,
    schema_of,
)
from miniamp.streams.sources import column_name, source_of

#: Rows that the schema and its vocabularies are made from, where they can be read again: files are
#: often sorted by a column, and of 8 that were tried, 4 had a category or class after the first
#: batch that was not in it. Fewer of wide tables, to be read in one piece.
HEAD_ROWS = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class StreamBatch:
    """Exactly k rows of a stream; only the last batch may be shorter.

    Attributes
    ----------
    X : (k, N) array or scipy CSR array
        The features.
    y : (k,) array or None
        The targets: float64, or text for a target of labels; None without a target.
    position : int
        Rows of the source consumed so far, dropped ones included: resume from here.
    schema : Schema
        How the columns became features.
    means : tuple of two (N,) arrays, or None
        Counts and totals behind the running means, where missing values are filled by those.
    row_numbers : (k,) array of int
        The number of each row in the source, counted from 0.
    kept : dict
        Columns that are carried along as text, (k,) objects each.
    mark : dict, optional
        What a source with an address resumes from: the last key, or the offsets.
    window : pair of int
        With `shuffle`, how many rows of the latest window the batches have had so far, and how many
        it has; (0, 0) at its end. The position is then the beginning of that window.
    first_targets : (m,) array or None
        Of the first batch, the targets of all rows that the schema was made from: classes that come
        later in a sorted file are among them.
    """

    X: Numbers
    y: NDArray[np.generic] | None
    position: int
    schema: Schema
    means: tuple[Array, Array] | None = None
    row_numbers: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    kept: Mapping[str, NDArray[np.object_]] = field(default_factory=dict)
    mark: Mark | None = None
    window: tuple[int, int] = (0, 0)
    first_targets: NDArray[np.generic] | None = None

    @property
    def rows(self) -> int:
        """The number k of rows."""
        return int(self.X.shape[0])

    @property
    def feature_names(self) -> Sequence[str]:
        """The names of the columns of X."""
        return self.schema.feature_names

    def state(self) -> dict[str, object]:
        """All that `open_stream(..., resume=state)` needs to continue after this batch, exactly."""
        means = None if self.means is None else {"count": self.means[0], "total": self.means[1]}
        more: dict[str, object] = {} if self.mark is None else {"mark": self.mark}
        more |= {"shuffle": list(self.window)} if any(self.window) else {}
        return {"position": self.position, "schema": self.schema.to_dict(), "means": means, **more}

    def __repr__(self) -> str:
        shape = f"{self.rows} rows x {self.X.shape[1]} features"
        return f"StreamBatch({shape}, position={self.position})"


class Stream:
    """Batches of a source, made one at a time; see `open_stream`.

    Iterating twice reads the source twice, where it allows that. The schema, once known, stays.
    """

    def __init__(
        self,
        source: Source,
        options: ReadOptions,
        batch_size: int,
        schema: Schema | None,
        start: int,
        means: Mapping[str, Array] | None,
        order: Callable[[], Shuffle] | None = None,
    ) -> None:
        self.source, self.batch_size, self.start, self._used = source, batch_size, start, False
        self._options, self._schema, self._means, self._order = options, schema, means, order
        self._reported: set[str] = set()  # columns with an unknown category
        self._begun: Iterator[StreamBatch] | None = None
        if source.rereadable:
            self._begin()  # what is wrong with a file is reported at once

    @property
    def schema(self) -> Schema:
        """How columns become features; asking waits for the first batch, if it was not read yet."""
        if self._schema is None or not self._schema.complete:
            self._begin()
        if self._schema is None:
            raise checks.refuse(
                self.source.name, "no rows after those to skip", "rows", "give the schema"
            )
        return self._schema

    @property
    def feature_names(self) -> Sequence[str]:
        """The names of the columns of X."""
        return self.schema.feature_names

    @property
    def target(self) -> str | int | None:
        """The name of the column to predict, None where there is none or it was given apart."""
        return self.schema.target

    @property
    def rows(self) -> int | None:
        """How many rows the source has, dropped ones included; None if that is not known."""
        return self.source.count()

    def __iter__(self) -> Iterator[StreamBatch]:
        if self._begun is None:
            self._begin()
        batches, self._begun = self._begun or iter(()), None
        return batches

    def _begin(self) -> None:
        """Read the first batch and keep it for the first iteration."""
        if self._begun is not None:
            return
        if self._used and not self.source.rereadable:
            raise checks.refuse(
                "source",
                f"{self.source.name}, which has been read and cannot be read again",
                "a source that can",
                "pass a list, a file, or a function that makes a new iterator",
            )
        self._used = True
        batches = self._batches()
        first = list(itertools.islice(batches, 1))
        if not first and self.start == 0:
            raise checks.refuse(self.source.name, "no rows", "at least one", "check the source")
        self._begun = itertools.chain(first, batches)

    def _batches(self) -> Iterator[StreamBatch]:
        needed = self._needed()
        pieces = self.source.pieces(self.start, needed)
        try:
            schema, read, head = self._recognised(pieces)
        except InvalidInputError:
            if needed is not None and self.source.rereadable:
                # Once more with all columns, so that the message can list those that there are.
                self._recognised(self.source.pieces(self.start, None))
            raise
        if schema is None:
            return
        unread, self._schema = self._schema is None, schema
        reader = Reader(schema, self._options, self._reported)
        mean = RunningMean(self._means) if self._options.missing == "mean" else None
        order = None if self._order is None else self._order()
        blocks = reader.blocks(itertools.chain(read, pieces), self.start)
        for block in rebatch(blocks if order is None else order.blocks(blocks), self.batch_size):
            targets = known_targets(head, schema) if head else None
            if unread and head:
                advise(schema, head)
            position, window = int(block.numbers[-1]) + 1, (0, 0)
            if order is not None:
                position, window = order.place(block.rows)
            yield StreamBatch(
                reader.features(block, None if mean is None else mean.filled),
                block.y.astype(str) if block.y is not None and schema.labels else block.y,
                position,
                schema,
                None if mean is None else (mean.count, mean.total),
                block.numbers,
                {name: block.texts[name] for name in self._options.keep},
                self.source.mark(position),
                window,
                targets,
            )
            head = []  # the rows of the first batches need not stay

    def _needed(self) -> Collection[str] | None:
        """The columns to read, where that is known before the source is opened."""
        target, names = self._options.target, self._options.columns
        if self._schema is not None and self._schema.columns:
            names = tuple(column.name for column in self._schema.columns)
        if names is None or isinstance(target, int) or any(isinstance(n, int) for n in names):
            return None
        return frozenset([*map(str, names), *filter(None, [target]), *self._options.keep])

    def _recognised(
        self, pieces: Iterator[Piece]
    ) -> tuple[Schema | None, list[Piece], list[Piece]]:
        """The schema, the pieces that were read to find it, and the rows that it is from.

        What a pipe delivers is not waited for: its first batch counts.
        """
        read: list[Piece] = []
        rows, enough = 0, max(self.batch_size, 0 if self._order is None else self._order().size)
        for piece in pieces:
            if piece.rows:
                read.append(piece)
                rows += piece.rows
            if self.source.rereadable:
                enough = max(enough, min(HEAD_ROWS, rows_per_piece(len(piece.names))))
            if rows >= enough:
                break
        if not read:
            return None, [], []
        head = [*read[:-1], read[-1].cut(0, read[-1].rows - max(0, rows - enough))]
        return schema_of(head, self._options, self._schema), read, head

    def __repr__(self) -> str:
        return f"Stream({self.source.name}, batch_size={self.batch_size})"


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
    """Open a source as a stream of batches of `batch_size` rows, in bounded memory.

    Parameters
    ----------
    source : str, path, array, frame, table or iterable
        A file of CSV, Parquet, Arrow IPC, NPY, NPZ, LIBSVM or JSON lines (text also compressed), a
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
        Columns to turn into one indicator feature per category, besides those where the first rows
        have text and no number, which "auto" takes alone. Dates, by type or as ISO text, become
        days since 2000, season, weekday and time of day where these vary, unless listed here.
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
    checks.choice("missing", missing, ("error", "mean", "drop"))
    checks.choice("unknown", unknown, ("error", "warn", "ignore"))
    checks.choice("labels", labels, (True, False, "auto"))
    size = checks.count("batch_size", batch_size)
    begin, known = checks.count("start", start, least=0), checked_schema(schema)
    means, mark, begun = None, None, (0, 0)
    if resume is not None:
        begin, known, means, mark, begun = _resumed(resume)
    named = column_name(target)
    found = source_of(source, named, None if named is not None else target, size, options)
    found.resume(begin, mark)
    kept = tuple(str(name) for name in _listed("keep", keep) or ())
    read = ReadOptions(
        target=named,
        columns=_listed("columns", columns),
        categorical=categorical
        if isinstance(categorical, str) and categorical == "auto"
        else frozenset(map(str, _listed("categorical", categorical) or ())),
        labels=labels,
        vocabularies=known if isinstance(known, dict) else {},
        keep=kept,
        left_out=kept if found.key is None else (*kept, found.key),
        hashed={
            name: checks.count(f"hashed, column {name!r}", bits, most=MOST_BITS)
            for name, bits in (hashed or {}).items()
        },
        reference=reference,
        missing=missing,
        unknown=unknown,
        dtype=_checked_dtype(dtype),
    )
    order = None
    if checks.count("shuffle", shuffle, least=0):
        order = partial(Shuffle, shuffle, checks.count("seed", seed, least=0), begin, begun)
    full = known if isinstance(known, Schema) else None
    return Stream(found, read, size, full, begin, means, order)


def _resumed(
    state: Mapping[str, Given],
) -> tuple[int, Schema, Mapping[str, Array] | None, Mark | None, tuple[int, int]]:
    schema = state.get("schema") if hasattr(state, "keys") else None
    if not isinstance(schema, (Schema, Mapping)) or not {"position", "means"} <= state.keys():
        raise checks.refuse("resume", f"{state!r:.60}", "what batch.state() gives", "pass that")
    known = schema if isinstance(schema, Schema) else Schema.from_dict(schema)
    begin = checks.count("resume: position", state["position"], least=0)
    skip, rows = cast("tuple[int, int]", state.get("shuffle", (0, 0)))
    mark = cast("Mark | None", state.get("mark"))
    return begin, known, cast("Mapping[str, Array] | None", state["means"]), mark, (skip, rows)


def _listed(name: str, given: Given) -> tuple[str | int, ...] | None:
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidTypeError(name, repr(given), "a list of columns", f"write [{given!r}]")
    return tuple(int(c) if isinstance(c, Integral) else str(c) for c in given)


def _checked_dtype(dtype: DTypeLike) -> np.dtype[np.float64]:
    with suppress(TypeError):
        if np.dtype(dtype) in (np.float64, np.float32):
            return cast("np.dtype[np.float64]", np.dtype(dtype))
    raise checks.refuse("dtype", repr(dtype), "float64 or float32", "choose one")
