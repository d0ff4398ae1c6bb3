"""The schema of a source, read off its first batch."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from miniamp import checks
from miniamp.errors import InvalidInputError
from miniamp.streams.cells import first_texts, is_text
from miniamp.streams.pieces import Cells, Matrix, Piece, Table
from miniamp.streams.schema import CATEGORY, NUMBER, Column, Schema


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user said of the columns.

    Attributes
    ----------
    target : str, int or None
        The column to predict.
    columns : tuple, optional
        The features, all other columns if None.
    categorical : "auto" or a collection of names
        Columns that are categories; "auto" takes those that hold text.
    labels : bool or "auto"
        Whether the target is text.
    words : dict
        Vocabularies that are known already.
    """

    target: str | int | None
    columns: tuple[str | int, ...] | None
    categorical: str | frozenset[str]
    labels: bool | str
    words: dict[str, tuple[str, ...]]


def inferred(head: Sequence[Piece], wishes: Wishes, name: str) -> Schema:
    """The schema that the first rows suggest; vocabularies are left to the first batch."""
    first = head[0]
    if isinstance(first, Matrix):
        return _of_matrix(head, first, wishes, name)
    names = list(first.columns)
    target = None if first.y is not None else _target(wishes.target, names, name)
    chosen = _chosen(wishes.columns, names, target, name)
    _known("categorical", wishes.categorical, chosen, name)
    _known("schema", wishes.words, chosen, name)
    tables = [piece for piece in head if isinstance(piece, Table)]
    columns = tuple(_column(column, tables, wishes) for column in chosen)
    cells = [t.y if target is None else t.columns[target] for t in tables]
    labels = _labels(cells, wishes.labels) if cells[0] is not None else False
    return Schema(columns, 0, target, labels)


def _of_matrix(head: Sequence[Piece], first: Matrix, wishes: Wishes, name: str) -> Schema:
    width = first.X.shape[1]
    names = [f"x{j}" for j in range(width)]
    if (wishes.categorical != "auto" and wishes.categorical) or wishes.words:
        raise checks.refuse(
            "categorical", "column names", "none for a plain array", "give a DataFrame or a table"
        )
    target = None if first.y is not None else _target(wishes.target, names, name)
    columns: tuple[Column, ...] = ()
    if target is not None or wishes.columns is not None:
        columns = tuple(Column(c) for c in _chosen(wishes.columns, names, target, name))
    cells = [piece.y for piece in head if piece.y is not None]
    return Schema(columns, width, target, _labels(cells, wishes.labels) if cells else False)


def _target(target: str | int | None, names: list[str], source: str) -> str | None:
    if target is None:
        return None
    if isinstance(target, int):
        if not -len(names) <= target < len(names):
            raise checks.refuse(
                "target",
                f"column number {target}",
                f"one below {len(names)}",
                f"{source} has {len(names)} columns",
            )
        return names[target]
    if target not in names:
        raise absent("target", target, names, source)
    return target


def _chosen(
    columns: tuple[str | int, ...] | None, names: list[str], target: str | None, source: str
) -> list[str]:
    if columns is None:
        chosen = [name for name in names if name != target]
    else:
        chosen = []
        there, taken_already = set(names), {target}
        for column in columns:
            name = names[column] if isinstance(column, int) and column < len(names) else column
            if name not in there:
                raise absent("columns", str(name), names, source)
            if name in taken_already:
                raise checks.refuse(
                    "columns",
                    f"{name!r}" + (", which is the target" if name == target else " twice"),
                    "feature columns, each once",
                    "remove it",
                )
            chosen.append(str(name))
            taken_already.add(str(name))
    if not chosen:
        raise InvalidInputError(f"{source}: no column is left as a feature; choose at least one")
    return chosen


def absent(argument: str, name: str, names: Collection[str], source: str) -> InvalidInputError:
    """The error for a column that is not there, with the nearest name."""
    near = difflib.get_close_matches(name, names, n=1)
    shown = ", ".join(list(names)[:8]) + (", ..." if len(names) > 8 else "")
    remedy = f"did you mean {near[0]!r}?" if near else "check the spelling"
    return InvalidInputError(
        f"{argument}: {source} has no column {name!r}, expected one of {shown}; {remedy}"
    )


def _known(argument: str, given: Collection[str] | str, chosen: list[str], source: str) -> None:
    for name in () if isinstance(given, str) else sorted(given):
        if name not in chosen:
            raise absent(argument, name, chosen, source)


def _column(name: str, tables: list[Table], wishes: Wishes) -> Column:
    if name in wishes.words:
        return Column(name, CATEGORY, wishes.words[name])
    if wishes.categorical != "auto":
        return Column(name, CATEGORY if name in wishes.categorical else NUMBER)
    return Column(name, CATEGORY if _all_text([t.columns[name] for t in tables]) else NUMBER)


#: A number as it is written in half of the world.
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*")


def _all_text(columns: list[Cells]) -> bool:
    """Whether the column has values, and none of them is a number.

    A column where only some values are no numbers is a number column with mistakes, and is left for
    the reader to complain about with row and value.
    """
    texts = False
    commas = True  # whether all of them look like 1,5
    for cells in columns:
        if not is_text(cells):
            return False
        for found in first_texts(cells):
            if not isinstance(found, str):
                return False
            texts = True
            commas = commas and _DECIMAL_COMMA.fullmatch(found) is not None
    # Numbers with a comma are no words: left for the reader to complain about.
    return texts and not commas


def _labels(columns: list[Cells], labels: bool | str) -> bool:
    if isinstance(labels, bool):
        return labels
    return any(
        is_text(cells) and any(f is not True for f in first_texts(cells)) for cells in columns
    )


def taken(pieces: list[Piece], rows: int) -> list[Piece]:
    """The first `rows` rows of the pieces, however they were cut."""
    head = []
    for piece in pieces:
        if rows > 0:
            head.append(piece.cut(0, rows) if piece.rows > rows else piece)
        rows -= piece.rows
    return head


def aimed(
    schema: Schema, target: str | int | None, labels: bool | str, head: list[Piece]
) -> Schema:
    """A known schema with the target that this stream is asked for."""
    first = head[0]
    names = (
        list(first.columns)
        if isinstance(first, Table)
        else [f"x{j}" for j in range(int(np.shape(first.X)[1]))]
    )
    found = None if first.y is not None else _target(target, names, first.origin)
    if found is None and first.y is None:
        return replace(schema, target=None, labels=False)
    if schema.target == found and not isinstance(labels, bool):
        return schema
    cells = [p.y if found is None or isinstance(p, Matrix) else p.columns[found] for p in head]
    known = [c for c in cells if c is not None]
    return replace(schema, target=found, labels=_labels(known, labels))
