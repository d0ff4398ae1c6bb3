"""The schema: which columns are features and how each is read; given, or from the first rows."""

from __future__ import annotations

import difflib
import itertools
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self, TypeAlias

import numpy as np

from miniamp import checks
from miniamp.errors import InvalidInputError, InvalidTypeError, MiniampWarning, printable
from miniamp.streams.cells import DATE_KINDS, are_dates, date_kind, mostly_text, refuse_unclear
from miniamp.streams.pieces import Cells, MatrixPiece, NumberedNames, Piece, TablePiece

NUMBER, CATEGORY, HASHED = "number", "category", "hashed"
KINDS = (NUMBER, CATEGORY, HASHED, *DATE_KINDS)
#: Bits of a hash at most: 2^20 features.
MOST_BITS = 20
#: Categories without an indicator, by column; or "first": the first in order, of each column.
Reference: TypeAlias = Mapping[str, str] | str | None
#: Names among which a misspelled one is searched: comparing is slow.
SEARCHED_NAMES = 10_000


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

    def with_categories(self, found: Mapping[str, Iterable[str]], reference: Reference) -> Self:
        """The schema with vocabularies, and references, for the columns that had none yet."""
        fixed = (
            _with_reference(replace(c, categories=tuple(found[c.name])), reference)
            if c.kind == CATEGORY and c.categories is None
            else c
            for c in self.columns
        )
        return replace(self, columns=tuple(fixed))

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
        width, target, labels = (given.get(name) for name in ("width", "target", "labels"))
        columns = given.get("columns")
        if not (
            isinstance(columns, (list, tuple))
            and isinstance(width, int)
            and isinstance(target, (str, int, type(None)))
            and isinstance(labels, bool)
            and width >= 0
        ):
            raise _no_schema(given)
        return cls(tuple(_column_of(column) for column in columns), width, target, labels)


def _column_of(given: object) -> Column:
    if not isinstance(given, Mapping):
        raise _no_schema(given)
    parts = ("name", "kind", "categories", "reference")
    name, kind, categories, reference = (given.get(part) for part in parts)
    bits = given.get("bits", 0)
    texts = categories is None or (
        isinstance(categories, (list, tuple)) and all(isinstance(c, str) for c in categories)
    )
    good = kind in KINDS and texts and isinstance(reference, (str, type(None)))
    if not (good and isinstance(name, str) and isinstance(kind, str) and isinstance(bits, int)):
        raise _no_schema(given)
    if not 0 <= bits <= MOST_BITS or (kind == HASHED and not bits):
        raise _no_schema(given)
    words = None if categories is None else tuple(categories)
    return Column(name, kind, words, reference, bits)


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
    #: Columns that are categories; "auto" takes those that hold text.
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


def infer_schema(head: Sequence[Piece], options: ReadOptions, source: str) -> Schema:
    """The schema that the first rows suggest; vocabularies are left to the first batch."""
    first = head[0]
    target = None if first.y is not None else _target(options.target, first.names, source)
    if isinstance(first, MatrixPiece):
        columns = _number_columns(first, options, target, source)
        width = int(first.X.shape[1])
        cells = [piece.y for piece in head if piece.y is not None]
    else:
        names = [name for name in first.names if name not in options.left_out]
        if options.columns is None and names[:1] == [""]:  # as R and pandas write the rows' names
            names = names[1:]
            text = "the first column has no name and is left out, as the names of the rows"
            warnings.warn(MiniampWarning(f"{text}; name it to use it"), stacklevel=2)
        chosen = _chosen(options.columns, first.names if options.columns else names, target, source)
        _refuse_unknown("categorical", options.categorical, chosen, source)
        _refuse_unknown("schema", options.vocabularies, chosen, source)
        _refuse_unknown("hashed", options.hashed, chosen, source)
        _refuse_unknown("reference", options.reference or (), chosen, source)
        tables = [piece for piece in head if isinstance(piece, TablePiece)]
        columns = tuple(_column(column, tables, options) for column in chosen)
        width = 0
        cells = [
            c for t in tables if (c := t.y if target is None else t.columns.get(target)) is not None
        ]
    return Schema(columns, width, target, _labels(cells, options.labels) if cells else False)


def with_target(schema: Schema, options: ReadOptions, head: Sequence[Piece]) -> Schema:
    """A known schema with the target that this stream is asked for."""
    first = head[0]
    target = None if first.y is not None else _target(options.target, first.names, first.origin)
    if target is None and first.y is None:
        return replace(schema, target=None, labels=False)
    if schema.target == target and not isinstance(options.labels, bool):
        return schema
    cells = [
        p.y if target is None or isinstance(p, MatrixPiece) else p.columns[target] for p in head
    ]
    known = [c for c in cells if c is not None]
    return replace(schema, target=target, labels=_labels(known, options.labels))


def _number_columns(
    first: MatrixPiece, options: ReadOptions, target: str | None, source: str
) -> tuple[Column, ...]:
    if (options.categorical != "auto" and options.categorical) or options.vocabularies:
        raise checks.refuse(
            "categorical", "column names", "none for a plain array", "give a DataFrame or a table"
        )
    if target is None and options.columns is None:
        return ()
    return tuple(Column(c) for c in _chosen(options.columns, first.names, target, source))


def _numbered(argument: str, number: int, names: Sequence[str], source: str) -> str:
    """The name of the column with this number, which counts from the end where negative."""
    if not -len(names) <= number < len(names):
        raise checks.refuse(
            argument,
            f"column number {number}",
            f"{-len(names)} to {len(names) - 1}",
            f"{source} has {len(names)} columns",
        )
    return names[number]


def _target(target: str | int | None, names: Sequence[str], source: str) -> str | None:
    if isinstance(target, int):
        return _numbered("target", target, names, source)
    if target is not None and target not in names:
        raise absent("target", target, names, source)
    return target


def _chosen(
    columns: tuple[str | int, ...] | None, names: Sequence[str], target: str | None, source: str
) -> list[str]:
    if columns is None:
        chosen = [name for name in names if name != target]
    else:
        chosen = []
        there, chosen_before = set(names), {target}
        for column in columns:
            name = column
            if isinstance(name, int):
                name = _numbered("columns", name, names, source)
            if name not in there:
                raise absent("columns", name, names, source)
            if name in chosen_before:
                raise checks.refuse(
                    "columns",
                    f"{name!r}" + (", which is the target" if name == target else " twice"),
                    "feature columns, each once",
                    "remove it",
                )
            chosen.append(name)
            chosen_before.add(name)
    if not chosen:
        raise checks.refuse(source, "no column besides the target", "a feature", "choose one")
    return chosen


def absent(argument: str, name: str, names: Sequence[str], source: str) -> InvalidInputError:
    """The error for a column that is not there, with the nearest name."""
    first = list(itertools.islice(names, SEARCHED_NAMES))
    near = difflib.get_close_matches(name, first, n=1)
    shown = ", ".join(printable(one) for one in first[:8]) + (", ..." if len(names) > 8 else "")
    remedy = f"did you mean {near[0]!r}?" if near else "check the spelling"
    return checks.refuse(argument, f"no column {name!r} in {source}", f"one of {shown}", remedy)


def _refuse_unknown(
    argument: str, given: Collection[str], chosen: Sequence[str], source: str
) -> None:
    for name in () if isinstance(given, str) else sorted(given):
        if name not in chosen:
            raise absent(argument, name, chosen, source)


def _column(name: str, tables: Sequence[TablePiece], options: ReadOptions) -> Column:
    cells = [t.columns[name] for t in tables if name in t.columns]  # a file may lack it
    if name in options.hashed:
        return Column(name, HASHED, bits=options.hashed[name])
    if name in options.vocabularies:
        column = Column(name, CATEGORY, options.vocabularies[name])
        return _with_reference(column, options.reference)
    if options.categorical != "auto" and name in options.categorical:
        return Column(name, CATEGORY)
    if are_dates(cells):
        return Column(name, date_kind(cells))
    refuse_unclear(name, cells)
    return Column(
        name, CATEGORY if options.categorical == "auto" and mostly_text(cells) else NUMBER
    )


def _with_reference(column: Column, reference: Reference) -> Column:
    """The column without an indicator for its reference, where one is wanted."""
    words = column.categories or ()
    if reference == "first":
        return replace(column, reference=words[0] if words else None)
    chosen = (reference or {}).get(column.name) if not isinstance(reference, str) else None
    if chosen is not None and chosen not in words:
        raise checks.refuse(
            "reference",
            f"{chosen!r} for column {column.name!r}",
            f"one of {', '.join(map(repr, words[:8]))}",
            "choose one that is in the first batch",
        )
    return replace(column, reference=chosen)


def _labels(columns: Sequence[Cells], labels: bool | str) -> bool:
    # Classes may well be "-1" and "other"; of numbers, a third are no mistakes.
    return labels if isinstance(labels, bool) else mostly_text(columns, 1.0 / 3.0)


def first_rows(pieces: Sequence[Piece], rows: int) -> list[Piece]:
    """The first `rows` rows of the pieces, however they were cut."""
    head = []
    for piece in pieces:
        if rows > 0:
            head.append(piece.cut(0, rows) if piece.rows > rows else piece)
        rows -= piece.rows
    return head
