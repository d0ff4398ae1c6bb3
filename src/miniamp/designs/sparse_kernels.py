"""Compiled sweeps over rows in compressed sparse row form.

`ends` are the row pointers of the rows in question (one more than rows), `places` the columns of
the stored entries and `entries` their values, of the whole matrix.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from miniamp.arrays import Array
from miniamp.compiled import compiled_in_order, fill_moments, fill_output

#: Rows that go forth together before they come back. Many: x and the sums would compete for the
#: second level of the cache, while the entries themselves are read in order and may come from
#: memory. At 50000 columns and 500 entries per
#: row, 32 rows took 134 ms, 256 108, 1024 103, 4096 100, all of them at once 91.
_GROUP = 2048


@compiled_in_order
def forth(
    entries: NDArray[np.floating],
    places: NDArray[np.uint32],
    ends: NDArray[np.uint32],
    x: Array,
    v: Array | None,
    omega: Array,
    V: Array | None,
) -> None:
    """omega = Phi x, and V = Phi^2 v unless that is None."""
    for m in range(len(ends) - 1):
        a = b = 0.0
        for k in range(ends[m], ends[m + 1]):
            q, i = np.float64(entries[k]), places[k]
            a += q * x[i]
            if v is not None:
                b += q * q * v[i]
        omega[m] = a
        if V is not None:
            V[m] = b


@compiled_in_order
def back(
    entries: NDArray[np.floating],
    places: NDArray[np.uint32],
    ends: NDArray[np.uint32],
    g: Array,
    response: Array,
    pull: Array,
    curvature: Array | None,
) -> None:
    """pull += Phi' g, and curvature += (Phi^2)' response unless that is None."""
    for m in range(len(ends) - 1):
        here, there = g[m], response[m]
        for k in range(ends[m], ends[m + 1]):
            q, i = np.float64(entries[k]), places[k]
            pull[i] += here * q
            if curvature is not None:
                curvature[i] += there * q * q


@compiled_in_order
def sweep(
    entries: NDArray[np.floating], places: NDArray[np.uint32], ends: NDArray[np.uint32], x: Array,
    v: Array, y: Array, memory: Array, squares: bool, upwards: bool, parameters: Array, output: int,
    g: Array, response: Array, pull: Array, curvature: Array,
) -> None:  # fmt: skip
    """The whole of a sandwich, as in the dense kernel of this name.

    The two numbers of a column lie side by side, so that an entry is looked up once for both of its
    sums: vector variances then take little longer than scalar ones.
    """
    omega, V = np.empty(_GROUP), np.full(_GROUP, v[0])
    pairs, sums = np.empty((len(v), 2)), np.zeros((len(curvature), 2))
    if squares:
        for i in range(len(x)):  # assigning whole columns would take three seconds more to compile
            pairs[i, 0], pairs[i, 1] = x[i], v[i]
    groups = -(-len(y) // _GROUP)
    for turn in range(groups):
        start = _GROUP * (groups - 1 - turn if upwards else turn)
        stop = min(start + _GROUP, len(y))
        own_ends, n = ends[start : stop + 1], stop - start
        if squares:
            forth(entries, places, own_ends, pairs[:, 0], pairs[:, 1], omega, V)
        else:
            forth(entries, places, own_ends, x, None, omega, None)
        for k in range(n):
            omega[k] -= V[k] * memory[start + k]
        own = parameters if len(parameters) == 1 else parameters[start:stop]
        fill_output(
            output, y[start:stop], omega[:n], V[:n], own, g[start:stop], response[start:stop]
        )
        if squares:
            back(
                entries, places, own_ends, g[start:stop], response[start:stop],
                sums[:, 0], sums[:, 1],
            )  # fmt: skip
        else:
            back(entries, places, own_ends, g[start:stop], response[start:stop], pull, None)
            for k in range(n):
                curvature[0] += response[start + k]
    if squares:
        for i in range(len(pull)):
            pull[i] += sums[i, 0]
            curvature[i] += sums[i, 1]


@compiled_in_order
def online(
    entries: NDArray[np.floating], places: NDArray[np.uint32], ends: NDArray[np.uint32], y: Array,
    numbers: Array, output: int, parameters: Array, moments: int, A: Array, B: Array, x: Array,
    v: Array, omega: Array, V: Array, g: Array, response: Array,
) -> None:  # fmt: skip
    """Each row in turn, as in the dense kernel; only coefficients with an entry are touched."""
    longest = np.uint32(0)
    for m in range(len(y)):
        longest = max(longest, ends[m + 1] - ends[m])
    held = np.empty((4, longest))
    some_A, some_B, mean, var = held[0], held[1], held[2], held[3]
    some_parameters = parameters.copy() if len(parameters) == 1 else parameters[:longest].copy()
    for m in range(len(y)):
        here, n = slice(m, m + 1), ends[m + 1] - ends[m]
        forth(entries, places, ends[m : m + 2], x, v, omega[here], V[here])
        own = numbers if len(numbers) == 1 else numbers[here]
        fill_output(output, y[here], omega[here], V[here], own, g[here], response[here])
        for k in range(n):
            q, i = np.float64(entries[ends[m] + k]), places[ends[m] + k]
            a = response[m] * q * q
            A[i] += a
            B[i] += g[m] * q + a * x[i]
            some_A[k], some_B[k] = A[i], B[i]
            if len(parameters) > 1:
                for c in range(parameters.shape[1]):
                    some_parameters[k, c] = parameters[i, c]
        theirs = some_parameters if len(parameters) == 1 else some_parameters[:n]
        fill_moments(moments, some_A[:n], some_B[:n], theirs, mean[:n], var[:n])
        for k in range(n):
            i = places[ends[m] + k]
            x[i], v[i] = mean[k], var[k]


@compiled_in_order
def descend(
    entries: NDArray[np.floating], places: NDArray[np.uint32], ends: NDArray[np.uint32],
    power: Array, parameters: Array, moments: int, prior_A: Array, prior_B: Array, noise: float,
    A: Array, B: Array, x: Array, v: Array, residual: Array,
) -> None:  # fmt: skip
    """One coefficient after the other, as in the dense kernel, on compressed columns."""
    total_A, total_B, mean, var = np.empty(1), np.empty(1), np.empty(1), np.empty(1)
    for i in range(len(x)):
        along = 0.0
        for k in range(ends[i], ends[i + 1]):
            along += entries[k] * residual[places[k]]
        A[i] = power[i] / noise
        B[i] = along / noise + A[i] * x[i]
        total_A[0], total_B[0] = prior_A[i] + A[i], prior_B[i] + B[i]
        own = parameters if len(parameters) == 1 else parameters[i : i + 1]
        fill_moments(moments, total_A, total_B, own, mean, var)
        step = mean[0] - x[i]
        for k in range(ends[i], ends[i + 1]):
            residual[places[k]] -= step * entries[k]
        x[i], v[i] = mean[0], var[0]
