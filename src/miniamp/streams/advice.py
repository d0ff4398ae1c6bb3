"""Warnings about columns that are read as they are, but are rarely meant so."""

from __future__ import annotations

import warnings

import numpy as np

from miniamp.errors import MiniampWarning
from miniamp.streams.encode import Block
from miniamp.streams.schema import CATEGORY, NUMBER, Schema

#: Rows of the first batch that make these guesses safe; the share of different texts from which a
#: column is an identifier, and the number of categories from which it takes many features.
LEAST_ROWS, MOSTLY, MANY = 50, 0.9, 100


def advise(first: Block, schema: Schema) -> None:
    """Warn of identifiers and of categories that are many, by what the first batch has."""
    number = 0
    if first.rows < LEAST_ROWS or not isinstance(first.X, np.ndarray):
        return
    for column in schema.columns:
        if column.is_text:
            found = len(column.categories or ()) if column.kind == CATEGORY else 0
            if found > MOSTLY * first.rows:
                _warn(column.name, "is different in nearly every row, like an identifier")
            elif found > MANY:
                _warn(column.name, f"has {found} categories, one feature each")
            continue
        if column.kind == NUMBER and np.all(np.diff(first.X[:, number]) == 1.0):
            _warn(column.name, "counts the rows, like an identifier")
        number += 1


def _warn(name: str, what: str) -> None:
    text = f"column {name!r} {what}; leave it out with {{keep=['{name}']|{name}}}"
    if "counts" not in what:
        text += f", or hash its words with {{hashed=dict({name}=8)|{name}=8}}"
    warnings.warn(MiniampWarning(text), stacklevel=2)
