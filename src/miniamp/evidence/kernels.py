"""The second half of an iteration, compiled: tilt, moments and convergence in one pass over N."""

from __future__ import annotations

from typing import Any

import numpy as np

from miniamp.arrays import Array
from miniamp.compiled import compiled

#: Coordinates at a time: all that belongs to them stays in the first level of the cache.
_GROUP = 512


@compiled
def update(
    prior_A: Array,
    prior_B: Array,
    A: Array,
    pull: Array,
    x: Array,
    parameters: Array,
    moments: Any,
    B: Array,
    mean: Array,
    var: Array,
) -> tuple[float, float, float]:
    """Sums of |change of the mean|, of mean^2 + var, and of var; `B`, `mean`, `var` are filled.

    `prior_A` and `A` have one entry, or one a coordinate.
    """
    moved = power = spread = 0.0
    total_A, total_B = np.empty(_GROUP), np.empty(_GROUP)
    for start in range(0, len(x), _GROUP):
        stop = min(start + _GROUP, len(x))
        n = stop - start
        for k in range(n):
            i = start + k
            a = A[i] if len(A) > 1 else A[0]
            B[i] = pull[i] + a * x[i]
            total_A[k] = a + (prior_A[i] if len(prior_A) > 1 else prior_A[0])
            total_B[k] = B[i] + prior_B[i]
        own = parameters if len(parameters) == 1 else parameters[start:stop]
        moments(total_A[:n], total_B[:n], own, mean[start:stop], var[start:stop])
        for i in range(start, stop):
            moved += abs(mean[i] - x[i])
            power += mean[i] * mean[i] + var[i]
            spread += var[i]
    return moved, power, spread
