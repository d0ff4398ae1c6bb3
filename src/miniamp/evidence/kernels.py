"""The second half of an iteration, compiled: tilt, moments and convergence in one pass over N.

Loops over a group are functions of their own, from 0 to its length: an index that is a sum might be
negative for all that the compiler knows, and it would then do one coordinate at a time.
"""

from __future__ import annotations

import numpy as np

from miniamp.arrays import Array
from miniamp.compiled import compiled, fill_moments

#: Coordinates at a time: all that belongs to them stays in the first level of the cache.
_GROUP = 512


@compiled
def tilt(
    prior_A: Array,
    prior_B: Array,
    A: Array,
    pull: Array,
    x: Array,
    B: Array,
    total_A: Array,
    total_B: Array,
) -> None:
    """B = pull + A x, and the sums of (A, B) and the prior's; fills the last three."""
    for i in range(len(x)):
        a = A[i] if len(A) > 1 else A[0]
        B[i] = pull[i] + a * x[i]
        total_A[i] = a + (prior_A[i] if len(prior_A) > 1 else prior_A[0])
        total_B[i] = B[i] + prior_B[i]


@compiled
def sums(mean: Array, var: Array, x: Array) -> tuple[float, float, float]:
    """Sums of |mean - x|, of mean^2 + var, and of var."""
    moved = power = spread = 0.0
    for i in range(len(x)):
        moved += abs(mean[i] - x[i])
        power += mean[i] * mean[i] + var[i]
        spread += var[i]
    return moved, power, spread


@compiled
def update(
    prior_A: Array,
    prior_B: Array,
    A: Array,
    pull: Array,
    x: Array,
    parameters: Array,
    moments: int,
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
        here = slice(start, min(start + _GROUP, len(x)))
        n = here.stop - start
        own_prior = prior_A[here] if len(prior_A) > 1 else prior_A
        own_A = A[here] if len(A) > 1 else A
        tilt(
            own_prior, prior_B[here], own_A, pull[here], x[here], B[here], total_A[:n], total_B[:n]
        )
        own = parameters if len(parameters) == 1 else parameters[here]
        fill_moments(moments, total_A[:n], total_B[:n], own, mean[here], var[here])
        some_moved, some_power, some_spread = sums(mean[here], var[here], x[here])
        moved += some_moved
        power += some_power
        spread += some_spread
    return moved, power, spread
