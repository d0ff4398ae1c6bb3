"""Rows that count more than once, or less."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from miniamp import checks
from miniamp.arrays import Array

#: Whole weights repeat rows until there would be so many times as many.
MOST_COPIES = 8


def copies(weights: Array) -> tuple[NDArray[np.intp], Array | None]:
    """Which rows to take, repeated by whole weights, and the weights that then remain."""
    if not weights.any():
        raise checks.refuse(
            "sample_weight", "zeros only", "a weight > 0", "drop the batch, or leave weights out"
        )
    times = np.rint(weights).astype(np.int64)
    few = times.sum() <= MOST_COPIES * len(weights) + 1000
    if few and np.array_equal(times, weights):
        return np.repeat(np.arange(len(weights)), times), None
    taken = np.flatnonzero(weights)
    return taken, weights[taken]
