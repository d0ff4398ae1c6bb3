"""Missing values: refused by default, or their rows dropped, or filled by the running mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from miniamp import checks
from miniamp.arrays import Array
from miniamp.errors import InvalidInputError
from miniamp.streams.encode import Block
from miniamp.streams.pieces import RowLocator
from miniamp.streams.schema import Schema

RULES = ("error", "mean", "drop")


def handle_missing(block: Block, rule: str, schema: Schema, locator: RowLocator) -> Block:
    """The block with its missing values refused, dropped, or left as NaN for the mean to fill.

    Infinite values are no missing values: they are refused under every rule.
    """
    gaps = _gaps(block)
    if gaps is None:
        return block
    _refuse_infinite(block, schema, locator)
    no_target = _missing(block.y) if block.y is not None else np.zeros(block.rows, dtype=bool)
    if rule == "drop":
        return block.at(~(gaps | no_target))
    fillable = rule == "mean" and isinstance(block.X, np.ndarray)
    hit = no_target if fillable else gaps | no_target
    if hit.any():
        raise _refused(block, int(np.argmax(hit)), rule, schema, locator)
    return block


class RunningMean:
    """Fills NaN by the mean of the values seen so far, this batch included.

    Batches, not rows, are the unit: the means do not depend on how the source was cut into pieces,
    so a resumed run fills exactly as the run that was never stopped.

    Parameters
    ----------
    state : dict, optional
        "count" and "total" of an earlier run, to continue from.

    Examples
    --------
    >>> mean = RunningMean()
    >>> mean.filled(np.array([[1.0], [3.0], [np.nan]]), ("a",)).ravel()
    array([1., 3., 2.])
    >>> mean.filled(np.array([[5.0], [np.nan]]), ("a",)).ravel()
    array([5., 3.])
    """

    def __init__(self, state: Mapping[str, Array] | None = None) -> None:
        self.count: Array = np.zeros(1) if state is None else np.asarray(state["count"])
        self.total: Array = np.zeros(1) if state is None else np.asarray(state["total"])

    def filled(self, X: Array, names: Sequence[str]) -> Array:
        """A copy of X without NaN."""
        gaps = np.isnan(X)
        N = X.shape[1]  # without features of hashed columns, for which a model may have means
        self.count = self.count[:N] + np.sum(~gaps, axis=0, dtype=np.float64)
        self.total = self.total[:N] + np.sum(np.where(gaps, 0.0, X), axis=0, dtype=np.float64)
        if not gaps.any():
            return X
        empty = gaps.any(axis=0) & (self.count == 0)
        if empty.any():
            raise checks.refuse(
                f"column {names[int(np.argmax(empty))]!r}",
                "no value so far",
                "some to take the mean of",
                "leave the column out, or take larger batches",
            )
        return np.where(gaps, self.total / np.maximum(self.count, 1.0), X).astype(X.dtype)


def _gaps(block: Block) -> NDArray[np.bool_] | None:
    """Rows with a feature that is not a finite number; None, found fast, if all is well."""
    values = block.X if isinstance(block.X, np.ndarray) else block.X.data
    # One pass without a temporary: the sum of finite numbers is finite (or overflows, which only
    # makes us look closer).
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(values.sum(dtype=np.float64))
    suspicious = suspicious or any(_missing(cells).any() for cells in block.texts.values())
    if not suspicious and (block.y is None or not (_missing(block.y) | _infinite(block.y)).any()):
        return None
    if isinstance(block.X, np.ndarray):
        gaps = np.asarray(np.isnan(block.X).any(axis=1))
    else:
        gaps = np.zeros(block.rows, dtype=bool)
        gaps[sp.coo_array(block.X).row[np.isnan(values)]] = True
    for cells in block.texts.values():
        gaps |= _missing(cells)
    return gaps


def _missing(cells: NDArray[np.generic]) -> NDArray[np.bool_]:
    if cells.dtype.kind == "f":
        return np.asarray(np.isnan(cells))
    return np.array([cell is None for cell in cells.tolist()], dtype=bool)


def _infinite(cells: NDArray[np.generic]) -> NDArray[np.bool_]:
    if cells.dtype.kind == "f":
        return np.asarray(np.isinf(cells))
    return np.zeros(len(cells), dtype=bool)


def _refuse_infinite(block: Block, schema: Schema, locator: RowLocator) -> None:
    if isinstance(block.X, np.ndarray):
        rows, columns = np.nonzero(np.isinf(block.X))
        values = block.X[rows, columns]
    else:
        entries = sp.coo_array(block.X)
        hit = np.isinf(entries.data)
        rows, columns, values = entries.row[hit], entries.col[hit], entries.data[hit]
    if len(rows):
        row, name, value = int(rows[0]), _numeric_names(schema)[int(columns[0])], values[0]
    elif block.y is not None and _infinite(block.y).any():
        row = int(np.argmax(_infinite(block.y)))
        name, value = str(schema.target), block.y[row]
    else:
        return
    raise checks.refuse(
        f"{locator.of(int(block.numbers[row]))}, column {name!r}",
        value,
        "a finite number",
        "correct the value, or leave the row or column out",
    )


def _refused(
    block: Block, row: int, rule: str, schema: Schema, locator: RowLocator
) -> InvalidInputError:
    names = _numeric_names(schema)
    X = block.X[[row]]
    dense = isinstance(block.X, np.ndarray)
    values = X if isinstance(X, np.ndarray) else X.toarray()
    empty = [names[int(j)] for j in np.flatnonzero(np.isnan(values[0]))]
    empty += [name for name, cells in block.texts.items() if cells[row] is None]
    no_target = block.y is not None and bool(_missing(block.y[[row]])[0])
    place = locator.of(int(block.numbers[row]))
    if no_target and (rule == "mean" or not empty):
        target = "target" if schema.target is None else f"target {schema.target!r}"
        remedy = "drop such rows with {missing=drop}"
        return checks.refuse(f"{place}, {target}", "a missing value", "a value", remedy)
    remedy = "drop such rows with {missing=drop}"
    if rule == "error" and dense:
        remedy = "fill it with {missing=mean} or drop such rows with {missing=drop}"
    place = f"{place}, column {empty[0]!r}"
    return checks.refuse(place, "a missing value", "a number or category", remedy)


def _numeric_names(schema: Schema) -> Sequence[str]:
    if not schema.columns:
        return schema.feature_names
    return tuple(column.name for column in schema.columns if not column.is_text)
