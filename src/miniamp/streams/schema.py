"""The schema: which columns are features, how each is read, and what they are called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from miniamp import checks
from miniamp.errors import InvalidInputError, InvalidTypeError

NUMBER = "number"
CATEGORY = "category"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the source: a number, or a category out of a fixed vocabulary.

    Parameters
    ----------
    name : str
        Its name in the source.
    kind : "number" or "category"
        How it is read.
    categories : tuple of str, optional
        The vocabulary, one indicator feature each; None until the first batch has fixed it.
    """

    name: str
    kind: str = NUMBER
    categories: tuple[str, ...] | None = None

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features it becomes: itself, or one for each category."""
        if self.kind == NUMBER:
            return (self.name,)
        return tuple(f"{self.name}={category}" for category in self.categories or ())


@dataclass(frozen=True)
class Schema:
    """How rows become features; it can be kept in a checkpoint and given to another stream.

    Parameters
    ----------
    columns : tuple of Column
        The feature columns, in the order of the features. Empty for a source without names.
    width : int
        For a source without names, how many columns of numbers it has.
    target : str, int or None
        The column to predict, None where there is none or it was given apart.
    labels : bool
        Whether the target is kept as text rather than read as numbers.

    Examples
    --------
    >>> schema = Schema((Column("age"), Column("city", "category", ("Oslo", "Rome"))), target="y")
    >>> schema.feature_names
    ('age', 'city=Oslo', 'city=Rome')
    >>> Schema.from_dict(schema.to_dict()) == schema
    True
    """

    columns: tuple[Column, ...] = ()
    width: int = 0
    target: str | int | None = None
    labels: bool = False

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the columns of X."""
        if not self.columns:
            return tuple(f"x{j}" for j in range(self.width))
        return tuple(name for column in self.columns for name in column.features)

    @property
    def complete(self) -> bool:
        """Whether every vocabulary is fixed."""
        return all(c.kind == NUMBER or c.categories is not None for c in self.columns)

    def with_categories(self, found: Mapping[str, Iterable[str]]) -> Self:
        """The schema with vocabularies for the columns that had none yet."""
        return replace(
            self,
            columns=tuple(
                replace(c, categories=tuple(found[c.name]))
                if c.kind == CATEGORY and c.categories is None
                else c
                for c in self.columns
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """The schema as plain dicts and lists, fit for JSON."""
        columns = [
            {"name": c.name, "kind": c.kind, "categories": c.categories and list(c.categories)}
            for c in self.columns
        ]
        return {
            "columns": columns,
            "width": self.width,
            "target": self.target,
            "labels": self.labels,
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """The schema that `to_dict` described."""
        try:
            columns = tuple(
                Column(c["name"], c["kind"], c["categories"] and tuple(c["categories"]))
                for c in given["columns"]
            )
            return cls(columns, given["width"], given["target"], given["labels"])
        except (KeyError, TypeError) as error:
            raise InvalidInputError(
                f"schema: got {given!r:.80}, expected what Schema.to_dict() gives ({error}); "
                "pass a Schema, or a dict of column name to categories"
            ) from None


def checked_schema(schema: object) -> Schema | dict[str, tuple[str, ...]] | None:
    """A schema as a user may give it: a Schema, its dict, or only vocabularies by column."""
    if schema is None or isinstance(schema, Schema):
        return schema
    if not isinstance(schema, Mapping):
        raise InvalidTypeError(
            f"schema: got {type(schema).__name__}, expected a Schema or a dict of column name to "
            "categories; take stream.schema of another stream"
        )
    if {"columns", "width"} <= schema.keys():
        return Schema.from_dict(schema)
    words: dict[str, tuple[str, ...]] = {}
    for name, categories in schema.items():
        if isinstance(categories, str) or not isinstance(categories, Iterable):
            raise checks.refuse(
                "schema", f"{name!r}: {categories!r}", "a list of categories", "write ['a', 'b']"
            )
        words[str(name)] = tuple(str(c) for c in categories)
        if len(set(words[str(name)])) != len(words[str(name)]):
            raise checks.refuse(
                "schema", f"a category twice for {name!r}", "each once", "remove the double"
            )
    return words
