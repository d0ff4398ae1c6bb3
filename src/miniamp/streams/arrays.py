"""Arrays in hand: dense or scipy sparse."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from miniamp import checks
from miniamp.arrays import Given
from miniamp.errors import InvalidTypeError
from miniamp.streams.pieces import (
    Cells,
    Matrix,
    Numbers,
    Piece,
    is_sparse,
    rows_a_piece,
    skipping,
    too_short,
)


class Arrays:
    """The rows of a matrix, and where given a target for each.

    Parameters
    ----------
    X : (M, N) array or scipy sparse
        The rows.
    y : (M,) array, optional
        Their targets.
    """

    again = True
    name = "array"

    def __init__(self, X: Given, y: Given = None) -> None:
        self._X = matrix_of(X, "source")
        self._y = None if y is None else targets_of(y, self._X.shape[0])

    def count(self) -> int:
        """The number of rows."""
        return int(self._X.shape[0])

    def pieces(self, start: int, only: Collection[str] | None) -> Iterator[Piece]:
        """The rows from number `start` on, as views."""
        return skipping(self._matrices(start), 0, self.name)

    def _matrices(self, start: int) -> Iterator[Piece]:
        rows = self._X.shape[0]
        if start > rows:
            raise too_short(self.name, rows, start)
        step = rows_a_piece(self._X.shape[1] if not is_sparse(self._X) else 1)
        for begin in range(start, rows, step):
            y = None if self._y is None else self._y[begin : begin + step]
            yield Matrix(self.name, begin, self._X[begin : begin + step], y)


def matrix_of(X: Given, name: str) -> Numbers:
    """X as a two-dimensional block of real numbers: dense, or CSR."""
    if is_sparse(X):
        matrix: Any = sp.csr_array(X)
    else:
        matrix = np.asarray(X)
        if matrix.dtype.kind not in "fiubc":
            try:
                matrix = np.asarray(X, dtype=np.float64)
            except (TypeError, ValueError):
                raise InvalidTypeError(
                    f"{name}: got an array of dtype {matrix.dtype}, expected real numbers; convert "
                    "text to numbers, or give a DataFrame whose text columns are categories"
                ) from None
    if matrix.dtype.kind == "c" or matrix.ndim != 2:
        raise checks.refuse(
            name,
            f"an array of shape {matrix.shape} and dtype {matrix.dtype}",
            "a two-dimensional array of real numbers, one row for each observation",
            "reshape it",
        )
    return matrix


def targets_of(y: Given, rows: int) -> Cells:
    """y as one cell for each of `rows` rows, numbers or labels."""
    targets: Any = np.asarray(y)
    if targets.ndim == 2 and targets.shape[1] == 1:
        targets = targets[:, 0]
    if targets.ndim != 1 or targets.shape[0] != rows:
        raise checks.refuse(
            "target", f"shape {targets.shape}", f"({rows},)", "give one value for each row"
        )
    return targets
