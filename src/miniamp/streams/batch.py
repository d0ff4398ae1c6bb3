"""The batch: k rows, ready to be absorbed, and where in the stream they end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miniamp.arrays import Array
from miniamp.streams.pieces import Numbers
from miniamp.streams.schema import Schema


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Exactly k rows of a stream; only the last batch may be shorter.

    Attributes
    ----------
    X : (k, N) array or scipy CSR array
        The features.
    y : (k,) array or None
        The targets: float64, or text for a target of labels; None without a target.
    position : int
        Rows of the source consumed so far, dropped ones included: go on from here.
    schema : Schema
        How the columns became features.
    means : tuple of two (N,) arrays, or None
        Counts and totals behind the running means, where missing values are filled by those.
    """

    X: Numbers
    y: NDArray[Any] | None
    position: int
    schema: Schema
    means: tuple[Array, Array] | None = None

    @property
    def rows(self) -> int:
        """The number k of rows."""
        return int(self.X.shape[0])

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the columns of X."""
        return self.schema.feature_names

    def state(self) -> dict[str, Any]:
        """All that `open_stream(..., resume=state)` needs to go on after this batch, exactly."""
        means = None if self.means is None else {"count": self.means[0], "total": self.means[1]}
        return {"position": self.position, "schema": self.schema.to_dict(), "means": means}

    def __repr__(self) -> str:
        return f"Batch({self.rows} rows x {self.X.shape[1]} features, position={self.position})"


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Rows on their way to a batch: numbers done, categories still as text.

    Attributes
    ----------
    numbers : (k,) int array
        The stream's number of each row, counted from 0.
    X : (k, n) array or CSR
        The columns that are numbers.
    texts : dict
        The columns that are categories, (k,) objects each.
    y : (k,) array or None
        The targets.
    """

    numbers: NDArray[np.int64]
    X: Numbers
    texts: dict[str, NDArray[np.object_]]
    y: NDArray[Any] | None

    @property
    def rows(self) -> int:
        """How many rows."""
        return len(self.numbers)

    def at(self, where: Any) -> Block:
        """Some of the rows: a slice or a mask."""
        return Block(
            self.numbers[where],
            self.X[where],
            {name: cells[where] for name, cells in self.texts.items()},
            None if self.y is None else self.y[where],
        )
