"""Missing values: refused by default, or their rows dropped, or filled by the running mean."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from miniamp import checks
from miniamp.arrays import Array
from miniamp.errors import InvalidInputError, MiniampWarning
from miniamp.streams.encode import Block, RowLocator, without
from miniamp.streams.pieces import Numbers
from miniamp.streams.schema import Schema

RULES = ("error", "mean", "drop")


def handle_missing(block: Block, rule: str, schema: Schema, locator: RowLocator) -> Block:
    """The block with its missing values refused, dropped, or left as NaN for the mean to fill.

    Infinite values are no missing values: they are refused under every rule.
    """
    no_target = np.zeros(block.rows, dtype=bool) if block.y is None else _missing(block.y)
    lacking = {name: _missing(cells) for name, cells in block.texts.items()}
    if _is_finite(block) and not any(gaps.any() for gaps in (no_target, *lacking.values())):
        return block
    names: Sequence[str] = schema.feature_names
    if schema.columns:
        names = [column.name for column in schema.columns if not column.is_text]
    rows, columns, values = _not_finite(block.X)
    for i in np.flatnonzero(np.isinf(values))[:1]:
        raise _infinite(locator.of(int(block.numbers[rows[i]])), names[int(columns[i])], values[i])
    if block.y is not None and block.y.dtype.kind == "f":
        for i in np.flatnonzero(np.isinf(block.y))[:1]:
            raise _infinite(locator.of(int(block.numbers[i])), str(schema.target), block.y[i])
    gaps = np.zeros(block.rows, dtype=bool)
    gaps[rows] = True
    for cells in lacking.values():
        gaps |= cells
    if rule == "drop":
        return block.at(~(gaps | no_target))
    dense = isinstance(block.X, np.ndarray)
    hit = no_target if rule == "mean" and dense else gaps | no_target
    if not hit.any():
        return block
    row = int(np.argmax(hit))
    empty = [names[int(j)] for j in columns[rows == row]]
    empty += [name for name, cells in lacking.items() if cells[row]]
    place, expected = locator.of(int(block.numbers[row])), "a number or category"
    remedy = "drop such rows with {missing=drop}"
    if no_target[row] and (rule == "mean" or not empty):
        place += ", target" if schema.target is None else f", target {schema.target!r}"
        expected = "a value"
    else:
        place += f", column {empty[0]!r}"
        if rule == "error" and dense:
            remedy = "fill it with {missing=mean} or " + remedy
    raise checks.refuse(place, "a missing value", expected, remedy)


def _is_finite(block: Block) -> bool:
    """Whether all numbers are, found fast; a sum that overflows only makes us look closer."""
    values = block.X if isinstance(block.X, np.ndarray) else block.X.data
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum(dtype=np.float64)  # one pass without a temporary
    y = block.y
    return bool(np.isfinite(total) and (y is None or y.dtype.kind != "f" or np.isfinite(y).all()))


def _not_finite(X: Numbers) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Rows, columns and values of the numbers that are not finite, row by row."""
    if isinstance(X, np.ndarray):
        rows, columns = np.nonzero(~np.isfinite(X))
        return rows, columns, X[rows, columns]
    entries = sp.coo_array(X)
    hit = ~np.isfinite(entries.data)
    return entries.row[hit], entries.col[hit], entries.data[hit]


def _missing(cells: NDArray[np.generic]) -> NDArray[np.bool_]:
    if cells.dtype.kind == "f":
        return np.asarray(np.isnan(cells))
    return np.array([cell is None for cell in cells.tolist()], dtype=bool)


def _infinite(place: str, name: str, value: object) -> InvalidInputError:
    remedy = "correct the value, or leave the row or column out"
    return checks.refuse(f"{place}, column {name!r}", value, "a finite number", remedy)


class RunningMean:
    """Fills NaN by the mean of the values seen so far, this batch included; by 0 without any.

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
        self._warned = False

    def filled(self, X: Array, names: Sequence[str]) -> Array:
        """A copy of X without NaN."""
        gaps = np.isnan(X)
        N = X.shape[1]  # without features of hashed columns, for which a model may have means
        self.count = self.count[:N] + np.sum(~gaps, axis=0, dtype=np.float64)
        self.total = self.total[:N] + np.sum(np.where(gaps, 0.0, X), axis=0, dtype=np.float64)
        if not gaps.any():
            return X
        empty = np.flatnonzero(gaps.any(axis=0) & (self.count == 0))
        if len(empty) and not self._warned:
            name, others = names[empty[0]], f" and {len(empty) - 1} more" * (len(empty) > 1)
            about = f"column {name!r}{others}: no value so far, read as 0 until there is one"
            warnings.warn(MiniampWarning(f"{about}; {without(name, words=False)}"), stacklevel=2)
            self._warned = True
        return np.where(gaps, self.total / np.maximum(self.count, 1.0), X).astype(X.dtype)
