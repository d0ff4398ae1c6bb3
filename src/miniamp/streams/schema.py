"""The schema: which columns are features and how each is read; given, or from the first rows."""

from __future__ import annotations

import difflib
import itertools
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self, TypeAlias, cast

import numpy as np

from miniamp import checks
from miniamp.errors import InvalidInputError, InvalidTypeError, MiniampWarning, printable, verbatim
from miniamp.streams.base import Cells, NumberedNames, Piece
from miniamp.streams.cells import (
    MANY_VALUES,
    CellError,
    ColumnTypeError,
    about_identifier,
    as_numbers,
    as_texts,
    date_kind,
    leave_out,
    likely_type,
    unclear_kind,
)
from miniamp.streams.dates import DATE_KINDS

NUMBER, CATEGORY, HASHED = "number", "category", "hashed"
KINDS = (NUMBER, CATEGORY, HASHED, *DATE_KINDS)
#: Bits of a hash at most: 2^20 features.
MOST_BITS = 20
#: Categories without an indicator, by column; or "first": the first in order, of each column.
Reference: TypeAlias = Mapping[str, str] | str | None
#: Names among which a misspelled one is searched: comparing is slow.
SEARCHED_NAMES = 10_000
#: Rows at the head that make these guesses safe: in 30 of them 50 equally frequent categories look
#: like an identifier once in 300 files. A column is one where its texts are more than a share of
#: the rows and some: without such columns R2 of 15 regressions rose by .2 on average (at worst it
#: fell by .04), and coverage from .77 to .91. Categories that are many features.
LEAST_ROWS, MOSTLY, SOME, MANY = 30, 0.7, 6, 100
#: More different texts than this in one column are rather identifiers or prose than categories, and
#: each would cost a feature.
MOST_CATEGORIES = 1000


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the source, and how it becomes features.

    Examples
    --------
    >>> Column("city", "category", ("Oslo", "Rome"), reference="Oslo").features
    ('city=Rome',)
    """

    name: str  #: its name in the source
    #: How it is read: as it is; as one indicator per category; as the trend, season and weekday of
    #: a date, and the time of day; or as signed counts of its words in 2^bits places.
    kind: str = NUMBER
    #: The vocabulary, one indicator feature each; None until the first batch has fixed it.
    categories: tuple[str, ...] | None = None
    #: The category that has no indicator, with which the others are compared.
    reference: str | None = None
    bits: int = 0  #: of a hashed column

    def __post_init__(self) -> None:
        texts = (self.name, *(self.categories or ()), self.reference or "")
        good = self.kind in KINDS and (self.kind == HASHED) <= self.bits <= MOST_BITS
        if not (good and all(issubclass(type(text), str) for text in texts)):
            raise _no_schema(self)

    @property
    def is_text(self) -> bool:
        """Whether its cells stay text until there is a batch."""
        return self.kind in (CATEGORY, HASHED)

    @property
    def parts(self) -> tuple[str, ...]:
        """What its features are called behind its name; "" is the name alone."""
        if self.kind == CATEGORY:
            return tuple(f"={c}" for c in self.categories or () if c != self.reference)
        if self.kind == HASHED:
            return tuple(f"#{j}" for j in range(1 << self.bits))
        dates = DATE_KINDS.get(self.kind)
        return ("",) if dates is None else tuple(f":{part}" for part in dates)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features that it becomes."""
        return tuple(self.name + part for part in self.parts)

    def to_dict(self) -> dict[str, object]:
        """The column as plain values; what only some kinds have is left out by the others."""
        categories = self.categories and list(self.categories)
        found = {"reference": self.reference, "bits": self.bits or None}
        chosen = {name: value for name, value in found.items() if value is not None}
        return {"name": self.name, "kind": self.kind, "categories": categories, **chosen}

    @classmethod
    def from_dict(
        cls, name: str, kind: str, categories: object, reference: str | None = None, bits: int = 0
    ) -> Self:
        """The column that `to_dict` described."""
        if not isinstance(categories, (list, tuple, type(None))):
            raise TypeError(categories)
        words = None if categories is None else tuple(categories)
        return cls(name, kind, words, reference, bits)


@dataclass(frozen=True)
class Schema:
    """How rows become features; it can be kept in a checkpoint and given to another stream.

    Examples
    --------
    >>> schema = Schema((Column("age"), Column("city", "category", ("Oslo", "Rome"))), target="y")
    >>> schema.feature_names
    ('age', 'city=Oslo', 'city=Rome')
    >>> Schema.from_dict(schema.to_dict()) == schema
    True
    """

    #: The feature columns, in the order of the features. Empty for a source without names.
    columns: tuple[Column, ...] = ()
    width: int = 0  #: for a source without names, how many columns of numbers it has
    #: The column to predict, None where there is none or it was given apart.
    target: str | int | None = None
    labels: bool = False  #: whether the target is kept as text rather than read as numbers

    @cached_property
    def feature_names(self) -> Sequence[str]:
        """The names of the columns of X; those of a plain array are made when asked for."""
        if not self.columns:
            return NumberedNames(self.width)
        # Hashed ones last, as they may be sparse.
        ordered = sorted(self.columns, key=lambda column: column.kind == HASHED)
        return tuple(name for column in ordered for name in column.features)

    @property
    def complete(self) -> bool:
        """Whether every vocabulary is fixed."""
        return all(c.kind != CATEGORY or c.categories is not None for c in self.columns)

    def to_dict(self) -> dict[str, object]:
        """The schema as plain dicts and lists, fit for JSON."""
        return {
            "columns": [column.to_dict() for column in self.columns],
            "width": self.width,
            "target": self.target,
            "labels": self.labels,
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, object]) -> Self:
        """The schema that `to_dict` described."""
        columns, width, target, labels = (given.get(f.name) for f in fields(cls))
        good = isinstance(columns, (list, tuple)) and isinstance(target, (str, int, type(None)))
        if not (good and isinstance(width, int) and width >= 0 and isinstance(labels, bool)):
            raise _no_schema(given)
        try:
            read = tuple(Column.from_dict(**column) for column in cast("list[Any]", columns))
        except TypeError:  # other fields, or of other types
            raise _no_schema(given) from None
        return cls(read, width, cast("str | int | None", target), labels)


def _no_schema(given: object) -> InvalidInputError:
    remedy = "pass a Schema, or a dict of column name to categories"
    return checks.refuse("schema", f"{given!r:.80}", "what Schema.to_dict() gives", remedy)


def checked_schema(schema: object) -> Schema | dict[str, tuple[str, ...]] | None:
    """A schema as a user may give it: a Schema, its dict, or only vocabularies by column."""
    if schema is None or isinstance(schema, Schema):
        return schema
    if not isinstance(schema, Mapping):
        expected = "a Schema or a dict of column name to categories"
        remedy = "take stream.schema of another stream"
        raise InvalidTypeError("schema", type(schema).__name__, expected, remedy)
    if {"columns", "width"} <= schema.keys():
        return Schema.from_dict(schema)
    vocabularies: dict[str, tuple[str, ...]] = {}
    for name, categories in schema.items():
        if isinstance(categories, str) or not isinstance(categories, Iterable):
            raise checks.refuse(
                "schema", f"{name!r}: {categories!r}", "a list of categories", "write ['a', 'b']"
            )
        words = tuple(str(c) for c in categories)
        if len(set(words)) != len(words):
            raise checks.refuse(
                "schema", f"a category twice for {name!r}", "each once", "remove the duplicate"
            )
        vocabularies[str(name)] = words
    return vocabularies


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How the user wants the columns to be read."""

    target: str | int | None  #: the column to predict
    columns: tuple[str | int, ...] | None  #: the features, all other columns if None
    #: Columns that are categories, besides those that hold text.
    categorical: str | frozenset[str]
    labels: bool | str  #: whether the target is text
    vocabularies: dict[str, tuple[str, ...]]  #: categories that are known already, by column
    keep: tuple[str, ...] = ()  #: columns that are carried along as text
    left_out: tuple[str, ...] = ()  #: columns that are features only where `columns` lists them
    hashed: Mapping[str, int] = field(default_factory=dict)  #: bits of the columns that are hashed
    reference: Reference = None  #: the categories that have no indicator, by column
    missing: str = "error"  #: what to do where a value is missing
    unknown: str = "error"  #: what to do with a category that is not in the vocabulary
    dtype: np.dtype[np.float64] = field(default_factory=lambda: np.dtype(np.float64))  #: of X


def schema_of(head: Sequence[Piece], options: ReadOptions, known: Schema | None) -> Schema:
    """The schema that the first rows suggest, or a known one with this stream's target.

    Vocabularies that are open are fixed by these rows, sorted.
    """
    first, target = head[0], None
    if first.y is None and options.target is not None:
        target = _named("target", options.target, first.names, first.origin)
    cells = [c for piece in head if (c := piece.targets(target)) is not None]
    if known is not None and known.target == target and not isinstance(options.labels, bool):
        labels = known.labels and (target is not None or bool(cells))
    else:
        # Classes may well be "-1" and "other"; of numbers, a third are no mistakes.
        auto = not isinstance(options.labels, bool)
        kind = likely_type(cells, 1.0 / 3.0) if auto and cells else ""
        if kind in ("date", "unclear"):
            name = "target" if target is None else f"target {target!r}"
            remedy = "convert it to a number first, such as days since the first date"
            raise checks.refuse(name, "dates", "numbers, or text for classes", remedy)
        text = kind != "number" if kind else options.labels
        labels = bool(cells) and bool(text)
    if known is not None:
        schema = replace(known, target=target, labels=labels)
    elif first.X is not None:
        columns = _number_columns(first, options, target)
        schema = Schema(columns, int(first.X.shape[1]), target, labels)
    else:
        schema = Schema(_table_columns(head, options, target), 0, target, labels)
    found = (_with_vocabulary(column, head, options) for column in schema.columns)
    columns = tuple(column for column in found if column is not None)
    if schema.columns and not columns:
        received, remedy = "only identifiers besides the target", "add one, or name it in {columns}"
        raise checks.refuse(first.origin, received, "a feature", remedy)
    return replace(schema, columns=columns)


def _table_columns(
    head: Sequence[Piece], options: ReadOptions, target: str | None
) -> tuple[Column, ...]:
    first, source = head[0], head[0].origin
    names = [name for name in first.names if name not in options.left_out]
    index = [one for one in names if one.startswith("__index_level_") or not one]
    if options.columns is None and index:  # written by R, pandas and spreadsheets
        names = [name for name in names if name not in index]
        about = f"column {index[0]!r}" if index[0] else "a column without a name"
        warn(f"{about} is left out, like the names of the rows; name it to use it")
    chosen = _chosen(options.columns, first.names if options.columns else names, target, source)
    given: dict[str, Collection[str]] = {"categorical": options.categorical}
    given |= {"schema": options.vocabularies, "hashed": options.hashed}
    for argument, columns in (given | {"reference": options.reference or ()}).items():
        for name in () if isinstance(columns, str) else sorted(columns):
            if name not in chosen:
                raise absent(argument, name, chosen, source)
    return tuple(_column(name, _cells(name, head), options) for name in chosen)


def _cells(name: str, head: Sequence[Piece]) -> list[Cells]:
    """The cells of a column in the first rows; a file may lack it."""
    if head[0].X is not None:
        return [piece.X[:, int(name[1:])] for piece in head if isinstance(piece.X, np.ndarray)]
    return [piece.columns[name] for piece in head if name in piece.columns]


def _number_columns(first: Piece, options: ReadOptions, target: str | None) -> tuple[Column, ...]:
    if (options.categorical != "auto" and options.categorical) or options.vocabularies:
        raise checks.refuse(
            "categorical", "column names", "none for a plain array", "give a DataFrame or a table"
        )
    if target is None and options.columns is None:
        return ()
    return tuple(Column(c) for c in _chosen(options.columns, first.names, target, first.origin))


def _named(argument: str, column: str | int, names: Sequence[str], source: str) -> str:
    """The name of a column, which may be given by its number, from the end where negative."""
    if isinstance(column, str):
        if column not in names:
            raise absent(argument, column, names, source)
        return column
    if not -len(names) <= column < len(names):
        received, expected = f"column number {column}", f"{-len(names)} to {len(names) - 1}"
        raise checks.refuse(argument, received, expected, f"{source} has {len(names)} columns")
    return names[column]


def _chosen(
    columns: tuple[str | int, ...] | None, names: Sequence[str], target: str | None, source: str
) -> list[str]:
    chosen = [name for name in names if name != target] if columns is None else []
    there = names if isinstance(names, NumberedNames) else frozenset(names)
    before = {target}
    for column in columns or ():
        known = isinstance(column, str) and column in there
        name = str(column) if known else _named("columns", column, names, source)
        if name in before:
            received = f"{name!r}" + (", which is the target" if name == target else " twice")
            raise checks.refuse("columns", received, "feature columns, each once", "remove it")
        chosen.append(name)
        before.add(name)
    if not chosen:
        raise checks.refuse(source, "no column besides the target", "a feature", "choose one")
    return chosen


def absent(argument: str, name: str, names: Sequence[str], source: str) -> InvalidInputError:
    """The error for a column that is not there, with the nearest name."""
    first = list(itertools.islice(names, SEARCHED_NAMES))
    near = difflib.get_close_matches(name, first, n=1)
    shown = ", ".join(printable(one) for one in first[:8]) + (", ..." if len(names) > 8 else "")
    remedy = f"did you mean {near[0]!r}?" if near else "check the spelling"
    if len(names) == 1:  # the cells of a line may have been taken for one
        shown, remedy = f"{first[0]!r}", "check the {delimiter} and the {format} of the file"
    return checks.refuse(argument, f"no column {name!r} in {source}", f"one of {shown}", remedy)


def _column(name: str, cells: Sequence[Cells], options: ReadOptions) -> Column:
    if name in options.hashed:
        return Column(name, HASHED, bits=options.hashed[name])
    if name in options.vocabularies:
        column = Column(name, CATEGORY, options.vocabularies[name])
        return _with_reference(column, options.reference)
    if options.categorical != "auto" and name in options.categorical:
        return Column(name, CATEGORY)
    kind = likely_type(cells)
    if kind in ("date", "unclear"):
        return Column(name, date_kind(cells) if kind == "date" else unclear_kind(name, cells))
    return Column(name, CATEGORY if kind == "text" else NUMBER)


def _with_vocabulary(column: Column, head: Sequence[Piece], options: ReadOptions) -> Column | None:
    """The column with the categories of these rows; None for an identifier that nobody named."""
    if column.kind != CATEGORY or column.categories is not None:
        return column
    name, rows = column.name, sum(piece.rows for piece in head)
    cells = [as_texts(part) for part in _cells(name, head)]
    words = sorted({word for part in cells for word in part.tolist() if word is not None})
    named = options.columns or (options.categorical != "auto" and name in options.categorical)
    if not named and rows >= LEAST_ROWS and len(words) > MOSTLY * rows + SOME:
        warn(about_identifier(name))
        return None
    if len(words) > MOST_CATEGORIES:
        received = f"{len(words)} different texts in {rows} rows"
        expected = f"at most {MOST_CATEGORIES} categories"
        raise checks.refuse(f"column {name!r}", received, expected, leave_out(name, words=True))
    return _with_reference(replace(column, categories=tuple(words)), options.reference)


def _with_reference(column: Column, reference: Reference) -> Column:
    """The column without an indicator for its reference, where one is wanted."""
    words = column.categories or ()
    if reference == "first":
        return replace(column, reference=words[0] if words else None)
    chosen = None if isinstance(reference, str) else (reference or {}).get(column.name)
    if chosen is not None and chosen not in words:
        received, remedy = f"{chosen!r} for column {column.name!r}", "choose one of the first batch"
        expected = f"one of {', '.join(map(repr, words[:8]))}"
        raise checks.refuse("reference", received, expected, remedy)
    return replace(column, reference=chosen)


def advise(schema: Schema, head: Sequence[Piece]) -> None:
    """Warn of identifiers and of categories that are many, by the rows that the schema is from."""
    rows = sum(piece.rows for piece in head)
    for column in schema.columns if rows >= LEAST_ROWS else ():
        found, what = len(column.categories or ()), ""
        if found > MANY:
            what = f"has {found} categories, one feature each"
        elif column.kind == NUMBER:
            with suppress(CellError, ColumnTypeError):  # which the reader refuses with its row
                cells = [as_numbers(part[:MANY_VALUES]) for part in _cells(column.name, head[:1])]
                if any(len(part) >= LEAST_ROWS and np.all(np.diff(part) == 1.0) for part in cells):
                    what = "counts the rows, like an identifier"
        if what:
            name = verbatim(repr(column.name))
            warn(f"column {name} {what}; {leave_out(column.name, words=found > 0)}")


def warn(text: str) -> None:
    """Warn of what was read."""
    warnings.warn(MiniampWarning(text), stacklevel=3)
