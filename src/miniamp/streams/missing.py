"""Missing values: refused by default, or their rows dropped, or filled by the running mean."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from miniamp.arrays import Array
from miniamp.errors import InvalidInputError
from miniamp.streams.batch import Block
from miniamp.streams.pieces import Places, is_sparse
from miniamp.streams.schema import NUMBER, Schema

RULES = ("error", "mean", "drop")


def settled(block: Block, rule: str, schema: Schema, places: Places) -> Block:
    """The block with its missing values refused, dropped, or left as NaN for the mean to fill.

    Infinite values are no missing values: they are refused under every rule.
    """
    gaps = _gaps(block)
    if gaps is None:
        return block
    _refuse_infinite(block, schema, places)
    no_target = _missing(block.y) if block.y is not None else np.zeros(block.rows, dtype=bool)
    if rule == "drop":
        return block.at(~(gaps | no_target))
    if rule == "error" or no_target.any() or is_sparse(block.X):
        hit = no_target if rule == "mean" and not is_sparse(block.X) else gaps | no_target
        if hit.any():
            raise _refused(block, int(np.argmax(hit)), rule, schema, places)
    return block


class RunningMean:
    """Fills NaN by the mean of the values seen so far, this batch included; two numbers a feature.

    Batches, not rows, are the unit: the means do not depend on how the source was cut into pieces,
    so a resumed run fills exactly as the run that was never stopped.

    Parameters
    ----------
    state : dict, optional
        "count" and "total" of an earlier run, to go on from.

    Examples
    --------
    >>> mean = RunningMean()
    >>> mean.filled(np.array([[1.0], [3.0], [np.nan]]), ("a",)).ravel()
    array([1., 3., 2.])
    >>> mean.filled(np.array([[5.0], [np.nan]]), ("a",)).ravel()
    array([5., 3.])
    """

    def __init__(self, state: dict[str, Array] | None = None) -> None:
        self.count: Array = np.zeros(()) if state is None else np.asarray(state["count"])
        self.total: Array = np.zeros(()) if state is None else np.asarray(state["total"])

    def filled(self, X: Any, names: tuple[str, ...]) -> Any:
        """A copy of X without NaN."""
        gaps = np.isnan(X)
        self.count = self.count + np.sum(~gaps, axis=0, dtype=np.float64)
        self.total = self.total + np.sum(np.where(gaps, 0.0, X), axis=0, dtype=np.float64)
        if not gaps.any():
            return X
        unseen = gaps.any(axis=0) & (self.count == 0)
        if unseen.any():
            raise InvalidInputError(
                f"column {names[int(np.argmax(unseen))]!r}: no value has been seen yet, so there "
                "is no mean to fill missing ones with; leave the column out, or take larger batches"
            )
        return np.where(gaps, self.total / np.maximum(self.count, 1.0), X).astype(X.dtype)


def _gaps(block: Block) -> NDArray[np.bool_] | None:
    """Rows with a feature that is not a finite number; None, found fast, if all is well."""
    X: Any = block.X
    values = X.data if is_sparse(block.X) else block.X
    # One pass without a temporary: the sum of finite numbers is finite (or overflows, which only
    # makes us look closer).
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(values.sum(dtype=np.float64))
    suspicious = suspicious or any(_missing(cells).any() for cells in block.texts.values())
    if not suspicious and (block.y is None or not _strange(block.y)):
        return None
    if is_sparse(block.X):
        gaps = np.zeros(block.rows, dtype=bool)
        gaps[X.tocoo().row[np.isnan(values)]] = True
    else:
        gaps = np.asarray(np.isnan(X).any(axis=1))
    for cells in block.texts.values():
        gaps |= _missing(cells)
    return gaps


def _strange(y: NDArray[Any]) -> bool:
    return bool(_missing(y).any() or (y.dtype.kind == "f" and np.isinf(y).any()))


def _missing(cells: NDArray[Any]) -> NDArray[np.bool_]:
    if cells.dtype.kind == "f":
        return np.asarray(np.isnan(cells))
    return np.array([cell is None for cell in cells.tolist()], dtype=bool)


def _refuse_infinite(block: Block, schema: Schema, places: Places) -> None:
    X: Any = block.X
    coo = X.tocoo() if is_sparse(X) else None
    values = X if coo is None else coo.data
    where = np.argwhere(np.isinf(values))
    if len(where):
        row, column = where[0] if coo is None else (coo.row[where[0, 0]], coo.col[where[0, 0]])
        name: str | int | None = _numeric_names(schema)[int(column)]
        value = X[int(row), int(column)]
    elif block.y is not None and block.y.dtype.kind == "f" and np.isinf(block.y).any():
        row = int(np.argmax(np.isinf(block.y)))
        name, value = schema.target, block.y[row]
    else:
        return
    raise InvalidInputError(
        f"{places.of(int(block.numbers[int(row)]))}, column {name!r}: got {value}, expected a "
        "finite number; correct the value, or leave the row or column out"
    )


def _refused(
    block: Block, row: int, rule: str, schema: Schema, places: Places
) -> InvalidInputError:
    names = _numeric_names(schema)
    X: Any = block.X[[row]]
    X = X.toarray() if is_sparse(X) else X
    empty = [names[j] for j in np.flatnonzero(np.isnan(X[0]))]
    empty += [name for name, cells in block.texts.items() if cells[row] is None]
    target = block.y is not None and bool(_missing(block.y[[row]])[0])
    at = places.of(int(block.numbers[row]))
    if target and (rule == "mean" or not empty):
        what = "the target" if schema.target is None else f"the target {schema.target!r}"
        return InvalidInputError(
            f"{at}: {what} is missing, expected a value; drop such rows with missing='drop'"
        )
    remedy = "drop such rows with missing='drop'"
    if rule == "error" and not is_sparse(block.X):
        remedy = "fill it with missing='mean' or drop such rows with missing='drop'"
    return InvalidInputError(f"{at}, column {empty[0]!r}: the value is missing; {remedy}")


def _numeric_names(schema: Schema) -> tuple[str, ...]:
    if not schema.columns:
        return schema.feature_names
    return tuple(column.name for column in schema.columns if column.kind == NUMBER)
