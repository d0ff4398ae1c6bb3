"""Categories as indicator features, one for each word of a vocabulary that is fixed."""

from __future__ import annotations

import numpy as np

from miniamp.errors import InvalidInputError
from miniamp.streams.batch import Block
from miniamp.streams.pieces import Numbers, Places, is_sparse
from miniamp.streams.schema import CATEGORY, Schema

#: More different texts than this in one column are rather identifiers or prose than categories, and
#: each would cost a feature.
MOST_CATEGORIES = 1000


def with_vocabulary(schema: Schema, first: Block) -> Schema:
    """The schema with its open vocabularies fixed by the first batch, sorted."""
    found: dict[str, list[str]] = {}
    for column in schema.columns:
        if column.kind == CATEGORY and column.categories is None:
            words = sorted({cell for cell in first.texts[column.name].tolist() if cell is not None})
            if len(words) > MOST_CATEGORIES:
                raise InvalidInputError(
                    f"column {column.name!r}: got {len(words)} different texts in the first batch, "
                    f"expected at most {MOST_CATEGORIES} categories; leave the column out with "
                    "columns=[...], or give its categories in schema={...}"
                )
            found[column.name] = words
    return schema.with_categories(found)


def features(block: Block, schema: Schema, unknown: str, places: Places) -> Numbers:
    """The numbers and the indicators of every category side by side, in the schema's order.

    A missing category is NaN in all its indicators, so that filling by the mean puts the
    frequencies seen so far there.
    """
    if not block.texts:
        return block.X
    if is_sparse(block.X):
        raise InvalidInputError(
            "categorical: got sparse rows, expected a table; encode them beforehand"
        )
    X = np.zeros((block.rows, len(schema.feature_names)), dtype=block.X.dtype)
    at = number = 0
    for column in schema.columns:
        if column.kind != CATEGORY:
            X[:, at] = block.X[:, number]
            at, number = at + 1, number + 1
            continue
        index = {word: j for j, word in enumerate(column.categories or ())}
        for i, cell in enumerate(block.texts[column.name].tolist()):
            j = index.get(cell)
            if j is not None:
                X[i, at + j] = 1.0
            elif cell is None:
                X[i, at : at + len(index)] = np.nan
            elif unknown == "error":
                raise InvalidInputError(
                    f"{places.of(int(block.numbers[i]))}, column {column.name!r}: got the category "
                    f"{cell!r}, expected one of {_some(column.categories or ())}; name all "
                    "categories in schema={...}, or count strange ones as none: unknown='ignore'"
                )
        at += len(index)
    return X


def _some(words: tuple[str, ...]) -> str:
    told = ", ".join(repr(word) for word in words[:5])
    return told if len(words) <= 5 else f"{told} and {len(words) - 5} more"
