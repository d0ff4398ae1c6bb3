"""AMP, compiled: the update of all coefficients in one pass over N, and the whole loop of a batch.

Loops over a group are functions of their own, from 0 to its length: an index that is a sum might be
negative for all that the compiler knows, and it would then do one coefficient at a time.
"""

from __future__ import annotations

import numpy as np

from miniamp.arrays import Array
from miniamp.compiled import compiled, fill_moments
from miniamp.designs.sequential import KernelRows
from miniamp.designs.shared_kernels import Team, sweep, sweep_together

#: Coordinates at a time: all that belongs to them stays in the first level of the cache.
_GROUP = 512


@compiled
def tilt(
    prior_A: Array, prior_B: Array, A: Array, pull: Array, x: Array, B: Array, total_A: Array,
    total_B: Array,
) -> None:  # fmt: skip
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
    prior_A: Array, prior_B: Array, A: Array, pull: Array, x: Array, parameters: Array,
    moments: int, B: Array, mean: Array, var: Array,
) -> tuple[float, float, float]:  # fmt: skip
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


@compiled
def met(trace: Array, t: int, uncertainty: float, stop: Array) -> bool:
    """`absorb.met` after iteration t; `stop` has tol, slack, STEADY and WATCHED."""
    tol, slack, steady, watched = stop[0], stop[1], stop[2], int(stop[3])
    if trace[t] < tol:
        return True
    if not uncertainty * slack > 0.0 or t < watched:
        return False
    rate = trace[t] / trace[t - 1]
    for k in range(1, watched):
        rate = max(rate, trace[t - k] / trace[t - k - 1])
    left = trace[t] * rate
    return bool(rate < steady and left < (1.0 - rate) * slack * uncertainty)


@compiled
def iterate(
    rows: KernelRows, y: Array, numbers: Array, output: int, prior_A: Array, prior_B: Array,
    parameters: Array, moments: int, mean_square: float, damping: float, resolution: float,
    silence: float, stop: Array, trace: Array, x: Array, v: Array, pull: Array, A: Array, B: Array,
    g: Array, figures: Array, team: Team | None,
) -> tuple[int, int]:  # fmt: skip
    """Iterate `Batch.refine` until `stop`: how many iterations were made, and where the last is.

    `x`, `v`, `pull`, `A`, `B`, `g` and `figures` have two rows, one for the iteration before and
    one for the latest, in turns; x and v start in row 0 and g is 0 there. `figures` are mean g^2,
    mean(-dg), the mean square of the coefficients and their mean variance. With `mean_square` > 0
    variances are scalar, as in `designs.Averaged`, and `A` has one column. What `refine` has to
    look at more closely (rows that may have become silent, or solved) is left to it: the loop ends
    before such an iteration. With a `team` other threads take part in the sweeps.
    """
    last, done, M, N = 0, 0, len(y), x.shape[1]
    response, shared = np.empty(M), np.empty((2, 1)) if team is None else team.V
    for t in range(len(trace)):
        new = 1 - last
        pull[new, :] = 0.0
        A[new, :] = 0.0
        shared[last, 0] = mean_square * v[last].sum()
        if team is None:
            sweep(
                rows, x[last], shared[last] if mean_square > 0.0 else v[last], y, g[last],
                mean_square == 0.0, t % 2 == 1, numbers, output, g[new], response, pull[new],
                A[new],
            )  # fmt: skip
        else:
            problem = (rows, y, numbers, output, mean_square == 0.0, x, v, g)
            sweep_together(t, problem, team, g[new], response, pull[new], A[new])
        if mean_square > 0.0:
            A[new, 0] *= mean_square
        square = total = 0.0
        for m in range(M):
            square += g[new, m] * g[new, m]
            total += response[m]
        figures[new, 0], figures[new, 1] = square / M, total / M
        silent = t > 0 and figures[new, 1] < silence * figures[last, 1]
        if resolution > 0.0 and silent:
            break
        moved, power, spread = update(
            prior_A,
            prior_B,
            A[new],
            pull[new],
            x[last],
            parameters,
            moments,
            B[new],
            x[new],
            v[new],
        )
        power, spread = power / N, spread / N
        if spread < resolution * power:
            break
        figures[new, 2], figures[new, 3] = power, spread
        trace[t] = moved / N / np.sqrt(power) if power > 0.0 else moved / N
        if damping > 0.0:
            for i in range(N):
                x[new, i] = (1.0 - damping) * x[new, i] + damping * x[last, i]
                v[new, i] = (1.0 - damping) * v[new, i] + damping * v[last, i]
        last, done = new, t + 1
        uncertainty = np.sqrt(spread / power) if power > 0.0 and spread >= 0.0 else 0.0
        if not np.isfinite(trace[t]) or met(trace, t, uncertainty, stop):
            break
    return done, last
