"""`open_stream`: batches of exactly k rows from whatever holds rows."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from numbers import Integral
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike

from miniamp import checks
from miniamp.arrays import Given
from miniamp.errors import InvalidInputError, InvalidTypeError
from miniamp.streams import missing as gaps
from miniamp.streams.batch import Batch
from miniamp.streams.categories import features, with_vocabulary
from miniamp.streams.encode import Encoder
from miniamp.streams.infer import Wishes, aimed, inferred, taken
from miniamp.streams.pieces import Piece, Places, Source, is_sparse, row_count
from miniamp.streams.rebatch import rebatch
from miniamp.streams.schema import Schema, checked_schema
from miniamp.streams.sources import source_of


def open_stream(
    source: Given,
    target: Given = None,
    batch_size: int = 1000,
    *,
    columns: Collection[str | int] | None = None,
    categorical: str | Collection[str] = "auto",
    missing: str = "error",
    unknown: str = "error",
    schema: Schema | Mapping[str, Any] | None = None,
    labels: bool | str = "auto",
    start: int = 0,
    resume: Mapping[str, Any] | None = None,
    dtype: Given = np.float64,
    **options: Any,
) -> Stream:
    """A stream of batches of exactly `batch_size` rows, in bounded memory; the last may be shorter.

    Parameters
    ----------
    source : str, path, array, frame, table or iterable
        A file of CSV, Parquet, Arrow IPC, NPY, NPZ, LIBSVM or JSON lines (text also gzipped), a
        folder or glob pattern or list of such files, "-" for standard input (CSV or JSON lines), a
        pandas or polars DataFrame, a pyarrow Table, a dense or scipy sparse array, a pair (X, y),
        or any iterable of (X, y), of rows, of dicts or of frames; a function without arguments that
        returns such an iterable makes it readable more than once.
    target : str, int, array or None
        The column to predict, by name or number; the targets themselves, for an array or frame; or
        None to read features only.
    batch_size : int
        The number k of rows a batch.
    columns : list of str or int, optional
        The feature columns, in this order; all but the target by default. Columns are found by name
        in every file, whatever their order there, and further ones are ignored.
    categorical : "auto" or list of str
        Columns to turn into one indicator feature a category. "auto" takes those where the first
        batch holds text and no number.
    missing : "error", "mean" or "drop"
        What to do where a value is missing: stop, naming row and column; fill in the running mean
        of the column; or leave the row out.
    unknown : "error" or "ignore"
        What to do with a category that is not in the vocabulary: stop, naming row, column and
        value; or set all indicators of the column to zero.
    schema : Schema, its dict, or dict of column name to categories, optional
        Fixes the vocabularies, or all of the reading; by default the first batch does.
    labels : bool or "auto"
        Whether to keep the target as text; "auto" does where the first batch has one that is no
        number.
    start : int
        Rows to skip at the beginning.
    resume : dict, optional
        What `batch.state()` gave: go on after that batch, bit for bit as if never stopped.
    dtype : float64 or float32
        Type of X.
    **options
        `format` ("csv", "parquet", ...) where the name does not tell; `delimiter` and `header` for
        CSV; `n_features` and `zero_based` for LIBSVM.

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
    if missing not in gaps.RULES:
        raise checks.refuse("missing", repr(missing), "'error', 'mean' or 'drop'", "choose one")
    if unknown not in ("error", "ignore"):
        raise checks.refuse("unknown", repr(unknown), "'error' or 'ignore'", "choose one")
    if not (isinstance(labels, bool) or labels == "auto"):
        raise checks.refuse("labels", repr(labels), "True, False or 'auto'", "choose one")
    size = checks.count("batch_size", batch_size)
    known = checked_schema(schema)
    begin = checks.count("start", start, least=0)
    means = None
    if resume is not None:
        begin, known, means = _resumed(resume)
    named = _column_name(target)
    wishes = Wishes(
        target=named,
        columns=_listed("columns", columns),
        categorical="auto"
        if isinstance(categorical, str) and categorical == "auto"
        else frozenset(str(c) for c in _listed("categorical", categorical) or ()),
        labels=labels,
        words=known if isinstance(known, dict) else {},
    )
    found = source_of(source, named, None if named is not None else target, size, options)
    full = known if isinstance(known, Schema) else None
    return Stream(found, wishes, size, missing, unknown, full, begin, means, _checked_dtype(dtype))


class Stream:
    """Batches of a source, made one at a time; see `open_stream`.

    Iterating twice reads the source twice, where it allows that. The schema, once known, stays.
    """

    def __init__(
        self,
        source: Source,
        wishes: Wishes,
        batch_size: int,
        missing: str,
        unknown: str,
        schema: Schema | None,
        start: int,
        means: dict[str, Any] | None,
        dtype: np.dtype[Any],
    ) -> None:
        self.source = source
        self.batch_size = batch_size
        self.start = start
        self._wishes = wishes
        self._missing = missing
        self._unknown = unknown
        self._schema = schema
        self._means = means
        self._dtype = dtype
        self._begun: Iterator[Batch] | None = None
        self._spent = False
        if source.again:
            self._begin()  # what is wrong with a file is said at once

    @property
    def schema(self) -> Schema:
        """How columns become features; asking waits for the first batch, if it was not read yet."""
        if self._schema is None or not self._schema.complete:
            self._begin()
        if self._schema is None:
            raise InvalidInputError(
                f"{self.source.name}: no rows are left to read the columns from"
            )
        return self._schema

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the columns of X."""
        return self.schema.feature_names

    @property
    def target(self) -> str | int | None:
        """The name of the column to predict, None where there is none or it was given apart."""
        return self.schema.target

    @property
    def rows(self) -> int | None:
        """How many rows the source has, dropped ones included; None if it cannot tell."""
        return row_count(self.source)

    def __iter__(self) -> Iterator[Batch]:
        if self._begun is None:
            self._begin()
        batches, self._begun = self._begun, None
        return batches if batches is not None else iter(())

    def _begin(self) -> None:
        """Read the first batch and keep it for whoever iterates first."""
        if self._begun is not None:
            return
        if self._spent and not self.source.again:
            raise InvalidInputError(
                f"source: {self.source.name} has been read already and cannot be read again; pass "
                "a list, a file, or a function that makes a new iterator"
            )
        self._spent = True
        batches = self._batches()
        first = list(itertools.islice(batches, 1))
        if not first and self.start == 0:
            raise InvalidInputError(f"{self.source.name}: has no rows; give at least one")
        self._begun = itertools.chain(first, batches)

    def _batches(self) -> Iterator[Batch]:
        places = Places()
        needed = self._needed()
        pieces = self.source.pieces(self.start, needed)
        try:
            schema, head, pieces = self._recognised(pieces)
        except InvalidInputError:
            if needed is not None and self.source.again:
                # Once more with all columns, so that the message can list those that there are.
                self._recognised(self.source.pieces(self.start, None))
            raise
        if schema is None:
            return
        encoder = Encoder(schema, self._dtype, places)
        blocks = (
            gaps.settled(encoder.block(first, piece), self._missing, schema, places)
            for first, piece in places.numbered(itertools.chain(head, pieces), self.start)
        )
        mean = gaps.RunningMean(self._means) if self._missing == "mean" else None
        for block in rebatch(blocks, self.batch_size):
            if not schema.complete:
                schema = with_vocabulary(schema, block)
            self._schema = schema
            X = features(block, schema, self._unknown, places)
            if mean is not None and not is_sparse(X):
                X = mean.filled(X, schema.feature_names)
            y = block.y.astype(str) if block.y is not None and schema.labels else block.y
            state = None if mean is None else (mean.count, mean.total)
            yield Batch(X, y, int(block.numbers[-1]) + 1, schema, state)

    def _needed(self) -> Collection[str] | None:
        """The columns to read, where that is known before the source is opened."""
        target = self._wishes.target
        names = self._wishes.columns
        if self._schema is not None and self._schema.columns:
            names = tuple(column.name for column in self._schema.columns)
        if names is None or not all(isinstance(name, str) for name in names):
            return None
        if isinstance(target, int):
            return None
        return frozenset(str(n) for n in names) | ({target} if target is not None else frozenset())

    def _recognised(
        self, pieces: Iterator[Piece]
    ) -> tuple[Schema | None, list[Piece], Iterator[Piece]]:
        """The schema, and the pieces that were read to find it."""
        read: list[Piece] = []
        rows = 0
        wanted = self.batch_size
        for piece in pieces:
            if piece.rows:
                read.append(piece)
                rows += piece.rows
            if rows >= wanted:
                break
        if not read:
            return None, [], pieces
        head = taken(read, wanted)
        if self._schema is None:
            return inferred(head, self._wishes, head[0].origin), read, pieces
        return aimed(self._schema, self._wishes.target, self._wishes.labels, head), read, pieces

    def __repr__(self) -> str:
        return f"Stream({self.source.name}, batch_size={self.batch_size})"


def _resumed(state: Mapping[str, Any]) -> tuple[int, Schema, dict[str, Any] | None]:
    try:
        position, schema, means = state["position"], state["schema"], state["means"]
    except (KeyError, TypeError):
        raise checks.refuse(
            "resume", f"{state!r:.60}", "what batch.state() gives", "pass that"
        ) from None
    known = schema if isinstance(schema, Schema) else Schema.from_dict(schema)
    return checks.count("resume: position", position, least=0), known, means


def _column_name(target: Given) -> str | int | None:
    """The target where it is a column's name or number; None where it is none, or the targets."""
    if isinstance(target, bool):
        return None
    if isinstance(target, Integral):
        return int(target)
    return target if isinstance(target, str) else None


def _listed(name: str, given: Any) -> tuple[Any, ...] | None:
    if given is None:
        return None
    if isinstance(given, (str, int)):
        raise InvalidTypeError(
            f"{name}: got {given!r}, expected a list of columns; write [{given!r}]"
        )
    return tuple(int(c) if isinstance(c, Integral) else c for c in given)


def _checked_dtype(dtype: Given) -> np.dtype[Any]:
    try:
        kind: np.dtype[Any] = np.dtype(cast(DTypeLike, dtype))
    except TypeError:
        kind = np.dtype(object)
    if kind not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise checks.refuse("dtype", repr(dtype), "float64 or float32", "choose one")
    return kind
