"""Compiled sweeps over a dense block of rows.

Eight rows at a time go forth and, with the channel's response, at once back, while most of them are
in the second level of the cache: each x_i that is loaded meets eight entries of Phi, and each sum
is read and written once for them. On a core with vectors of eight numbers a sweep then takes .35 ms
at 1200 x 2000 and 10 ms at 4000 x 10,000 (two products of BLAS: .44 and 20); while a group went
back as the next one went forth, in one loop over twelve rows, it took .45 and 17, and with squares
by four rows .033 ms at 1000 x 100 in the place of .019. With vectors of four numbers the order is
the same. In a loop every second sweep goes from the last rows to the first: per sweep .36 ms in the
place of .42 at 1200 x 2000, .16 for .18 at 600 x 2000 and 1.22 for 1.31 at 3000 x 2000.

Vectors that are swept with the rows begin a line of the cache: where they lay across two lines, a
sweep of 1200 x 2000 took .45 ms instead of .38. Of rows in a frame only the centre is subtracted;
their units are in these vectors. To bring eight rows at a time to their frame took twice as long as
the sweep itself, 1.1 ms of 1200 x 2000.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from miniamp.arrays import Array
from miniamp.compiled import compiled, fill_moments, fill_output

#: Rows that are swept together, and bytes of those that go forth before they go back: of short
#: rows several groups, so that the channel is called for more than eight.
_GROUP, _BLOCK = 8, 1 << 15
#: Numbers in a line of the cache.
_LINE = 8


def shifted(entry: np.floating, centre: Array | None, i: int) -> float:
    """The entry of column i in float64, less its centre where there is one; in compiled code."""
    raise NotImplementedError


def _shifted_by(entry: object, centre: object, i: int) -> Callable[..., float]:  # noqa: ARG001
    if isinstance(centre, types.Array):
        return lambda entry, centre, i: np.float64(entry) - centre[i]
    return lambda entry, centre, i: np.float64(entry)  # noqa: ARG005


overload(shifted, strict=False)(_shifted_by)


@compiled
def forth(
    Phi: NDArray[np.floating], x: Array, v: Array | None, omega: Array, V: Array | None,
    centre: Array | None = None,
) -> None:  # fmt: skip
    """omega = Phi x, and V = Phi^2 v unless that is None; of Phi - centre where that is given."""
    whole = len(Phi) - len(Phi) % _GROUP
    for m in range(0, whole, _GROUP):
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = b0 = b1 = b2 = b3 = b4 = b5 = b6 = b7 = 0.0
        p0, p1, p2, p3 = Phi[m], Phi[m + 1], Phi[m + 2], Phi[m + 3]
        p4, p5, p6, p7 = Phi[m + 4], Phi[m + 5], Phi[m + 6], Phi[m + 7]
        for i in range(len(x)):
            # Widened before it is squared: the square of a small float32 would be lost.
            q0, q1 = shifted(p0[i], centre, i), shifted(p1[i], centre, i)
            q2, q3 = shifted(p2[i], centre, i), shifted(p3[i], centre, i)
            q4, q5 = shifted(p4[i], centre, i), shifted(p5[i], centre, i)
            q6, q7 = shifted(p6[i], centre, i), shifted(p7[i], centre, i)
            a0 += q0 * x[i]
            a1 += q1 * x[i]
            a2 += q2 * x[i]
            a3 += q3 * x[i]
            a4 += q4 * x[i]
            a5 += q5 * x[i]
            a6 += q6 * x[i]
            a7 += q7 * x[i]
            if v is not None:
                b0 += q0 * q0 * v[i]
                b1 += q1 * q1 * v[i]
                b2 += q2 * q2 * v[i]
                b3 += q3 * q3 * v[i]
                b4 += q4 * q4 * v[i]
                b5 += q5 * q5 * v[i]
                b6 += q6 * q6 * v[i]
                b7 += q7 * q7 * v[i]
        omega[m], omega[m + 1], omega[m + 2], omega[m + 3] = a0, a1, a2, a3
        omega[m + 4], omega[m + 5], omega[m + 6], omega[m + 7] = a4, a5, a6, a7
        if V is not None:
            V[m], V[m + 1], V[m + 2], V[m + 3] = b0, b1, b2, b3
            V[m + 4], V[m + 5], V[m + 6], V[m + 7] = b4, b5, b6, b7
    for m in range(whole, len(Phi)):
        p0, a0, b0 = Phi[m], 0.0, 0.0
        for i in range(len(x)):
            q0 = shifted(p0[i], centre, i)
            a0 += q0 * x[i]
            if v is not None:
                b0 += q0 * q0 * v[i]
        omega[m] = a0
        if V is not None:
            V[m] = b0


@compiled
def back(
    Phi: NDArray[np.floating], g: Array, response: Array, pull: Array, curvature: Array | None,
    centre: Array | None = None,
) -> None:  # fmt: skip
    """pull += Phi' g, and curvature += (Phi^2)' response unless that is None; the same."""
    whole = len(Phi) - len(Phi) % _GROUP
    for m in range(0, whole, _GROUP):
        g0, g1, g2, g3 = g[m], g[m + 1], g[m + 2], g[m + 3]
        g4, g5, g6, g7 = g[m + 4], g[m + 5], g[m + 6], g[m + 7]
        c0, c1, c2, c3 = response[m], response[m + 1], response[m + 2], response[m + 3]
        c4, c5, c6, c7 = response[m + 4], response[m + 5], response[m + 6], response[m + 7]
        p0, p1, p2, p3 = Phi[m], Phi[m + 1], Phi[m + 2], Phi[m + 3]
        p4, p5, p6, p7 = Phi[m + 4], Phi[m + 5], Phi[m + 6], Phi[m + 7]
        for i in range(len(pull)):
            q0, q1 = shifted(p0[i], centre, i), shifted(p1[i], centre, i)
            q2, q3 = shifted(p2[i], centre, i), shifted(p3[i], centre, i)
            q4, q5 = shifted(p4[i], centre, i), shifted(p5[i], centre, i)
            q6, q7 = shifted(p6[i], centre, i), shifted(p7[i], centre, i)
            low, high = g0 * q0 + g1 * q1 + g2 * q2 + g3 * q3, g4 * q4 + g5 * q5 + g6 * q6 + g7 * q7
            pull[i] += low + high
            if curvature is not None:
                low = c0 * q0 * q0 + c1 * q1 * q1 + c2 * q2 * q2 + c3 * q3 * q3
                high = c4 * q4 * q4 + c5 * q5 * q5 + c6 * q6 * q6 + c7 * q7 * q7
                curvature[i] += low + high
    for m in range(whole, len(Phi)):
        row, here, there = Phi[m], g[m], response[m]
        for i in range(len(pull)):
            q = shifted(row[i], centre, i)
            pull[i] += here * q
            if curvature is not None:
                curvature[i] += there * q * q


@compiled
def zeros(size: int) -> Array:
    """A vector of zeros that begins a line of the cache."""
    room = np.zeros(size + _LINE)
    first = -(room.ctypes.data // room.itemsize) % _LINE
    return room[first : first + size]


@compiled
def lined_up(vector: Array, unit: Array | None, power: int, size: int) -> Array:
    """The first entries of the vector, times a power of their units, at a line of the cache."""
    found = zeros(size)
    for i in range(size):
        found[i] = vector[i] if unit is None else vector[i] * unit[i] ** power
    return found


@compiled
def add_columns(
    X: NDArray[np.floating], centre: Array, low: Array, high: Array, total: Array, power: Array
) -> None:
    """The rows of X added to the ranges and sums of its columns, and those of (X - centre)^2.

    A row at a time, into vectors that begin anywhere, took 2.5 times as long.
    """
    whole = len(X) - len(X) % _GROUP
    for m in range(0, whole, _GROUP):
        p0, p1, p2, p3 = X[m], X[m + 1], X[m + 2], X[m + 3]
        p4, p5, p6, p7 = X[m + 4], X[m + 5], X[m + 6], X[m + 7]
        for i in range(len(centre)):
            q0, q1 = np.float64(p0[i]), np.float64(p1[i])
            q2, q3 = np.float64(p2[i]), np.float64(p3[i])
            q4, q5 = np.float64(p4[i]), np.float64(p5[i])
            q6, q7 = np.float64(p6[i]), np.float64(p7[i])
            low[i] = min(low[i], q0, q1, q2, q3, q4, q5, q6, q7)
            high[i] = max(high[i], q0, q1, q2, q3, q4, q5, q6, q7)
            total[i] += q0 + q1 + q2 + q3 + q4 + q5 + q6 + q7
            c = centre[i]
            first = (q0 - c) * (q0 - c) + (q1 - c) * (q1 - c) + (q2 - c) * (q2 - c)
            second = (q3 - c) * (q3 - c) + (q4 - c) * (q4 - c) + (q5 - c) * (q5 - c)
            power[i] += first + second + (q6 - c) * (q6 - c) + (q7 - c) * (q7 - c)
    for m in range(whole, len(X)):
        row = X[m]
        for i in range(len(centre)):
            q = np.float64(row[i])
            low[i], high[i] = min(low[i], q), max(high[i], q)
            total[i] += q
            power[i] += (q - centre[i]) * (q - centre[i])


@compiled
def sum_of_squares(X: NDArray[np.floating]) -> float:
    """The sum of the squares of all entries."""
    total = 0.0
    for m in range(len(X)):
        row = X[m]
        for i in range(len(row)):
            total += np.float64(row[i]) * np.float64(row[i])
    return total


@compiled
def framed_forth(
    X: NDArray[np.floating], centre: Array, unit: Array, x: Array, v: Array, omega: Array, V: Array
) -> None:
    """`forth` of rows in their frame; where x is longer, a last column of ones."""
    size = len(centre)
    forth(X, lined_up(x, unit, 1, size), lined_up(v, unit, 2, size), omega, V, centre)
    for i in range(size, len(x)):
        omega += x[i]
        V += v[i]


@compiled
def sweep(
    Phi: NDArray[np.floating], x: Array, v: Array, y: Array, memory: Array, squares: bool,
    upwards: bool, parameters: Array, output: int, g: Array, response: Array, pull: Array,
    curvature: Array, centre: Array | None = None, unit: Array | None = None,
) -> None:  # fmt: skip
    """The whole of a sandwich: `g` and `response` filled, `pull` and `curvature` added to.

    With `squares`, v has one variance per column; without, the one V of every row, and `curvature`,
    of length one, gets the sum of the responses. With `upwards`, the last rows come first: a loop
    that sweeps in both directions in turns finds the rows it swept last still in the cache. With a
    `centre`, rows are (Phi - centre) unit, and have a last column of ones where x is longer than
    they are.
    """
    rows, size = Phi.shape
    block = max(1, _BLOCK // (8 * _GROUP * size)) * _GROUP
    omega, V, own_x = np.empty(block), np.full(block, v[0]), lined_up(x, unit, 1, size)
    own_v = lined_up(v, unit, 2, size) if squares else v
    own_pull, own_curvature = zeros(size), zeros(size if squares else 0)
    blocks = -(-rows // block)
    for turn in range(blocks):
        start = block * (blocks - 1 - turn if upwards else turn)
        here = slice(start, min(start + block, rows))
        some, n = Phi[here], here.stop - start
        if squares:
            forth(some, own_x, own_v, omega, V, centre)
        else:
            forth(some, own_x, None, omega, None, centre)
        for k in range(n):
            for i in range(size, len(x)):
                omega[k] += x[i]
                if squares:
                    V[k] += v[i]
            omega[k] -= V[k] * memory[start + k]
        own = parameters if len(parameters) == 1 else parameters[here]
        fill_output(output, y[here], omega[:n], V[:n], own, g[here], response[here])
        if squares:
            back(some, g[here], response[here], own_pull, own_curvature, centre)
        else:
            back(some, g[here], response[here], own_pull, None, centre)
    for i in range(size):
        scale = 1.0 if unit is None else unit[i]
        pull[i] += own_pull[i] * scale
        if squares:
            curvature[i] += own_curvature[i] * scale * scale
    for m in range(rows):
        for i in range(size, len(x)):
            pull[i] += g[m]
            if squares:
                curvature[i] += response[m]
        if not squares:
            curvature[0] += response[m]


@compiled
def tilt_by(
    row: NDArray[np.floating], g: float, response: float, x: Array, A: Array, B: Array
) -> None:
    """The tilt of one row, added to A and B."""
    for i in range(len(x)):
        q = np.float64(row[i])
        a = response * q * q
        A[i] += a
        B[i] += g * q + a * x[i]


@compiled
def online(
    Phi: NDArray[np.floating], y: Array, numbers: Array, output: int, parameters: Array,
    moments: int, A: Array, B: Array, x: Array, v: Array, omega: Array, V: Array, g: Array,
    response: Array,
) -> None:  # fmt: skip
    """Each row in turn, once: `A`, `B`, `x`, `v` go from before the rows to after them."""
    for m in range(len(y)):
        row, here = Phi[m : m + 1], slice(m, m + 1)
        forth(row, x, v, omega[here], V[here])
        own = numbers if len(numbers) == 1 else numbers[here]
        fill_output(output, y[here], omega[here], V[here], own, g[here], response[here])
        tilt_by(Phi[m], g[m], response[m], x, A, B)
        fill_moments(moments, A, B, parameters, x, v)


@compiled
def descend(
    columns: NDArray[np.floating], power: Array, parameters: Array, moments: int, prior_A: Array,
    prior_B: Array, noise: float, A: Array, B: Array, x: Array, v: Array, residual: Array,
) -> None:  # fmt: skip
    """One coefficient after the other, given all others; row i of `columns` is column i of Phi.

    `A`, `B` are filled, `x`, `v` and `residual` = y - Phi x updated.
    """
    total_A, total_B, mean, var = np.empty(1), np.empty(1), np.empty(1), np.empty(1)
    for i in range(len(x)):
        column, along = columns[i], 0.0
        for m in range(len(residual)):
            along += column[m] * residual[m]
        A[i] = power[i] / noise
        B[i] = along / noise + A[i] * x[i]
        total_A[0], total_B[0] = prior_A[i] + A[i], prior_B[i] + B[i]
        own = parameters if len(parameters) == 1 else parameters[i : i + 1]
        fill_moments(moments, total_A, total_B, own, mean, var)
        step = mean[0] - x[i]
        for m in range(len(residual)):
            residual[m] -= step * column[m]
        x[i], v[i] = mean[0], var[0]
