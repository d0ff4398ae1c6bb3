"""Compiled sweeps over a dense block of rows.

A few rows at a time: each x_i that is loaded meets four or twelve entries of Phi, and each
accumulator is read and written once for them. With scalar variances twelve rows take 0.62 ms where
eight take 0.66 and four 0.73 at 1200 x 2000, and 0.0171, 0.0187 and 0.0210 at 1000 x 100.

While a group of rows goes back, the next one already goes forth in the same loop: so memory is read
without a pause, and a sweep takes as long as one product of BLAS with the same matrix. Forth and
back in turns was measured 1.3 times slower.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from miniamp.arrays import Array
from miniamp.compiled import compiled, fill_moments, fill_output

#: With vector and with scalar variances, which need half as many registers.
_GROUP, _LARGE_GROUP = 4, 12


@compiled
def forth(
    Phi: NDArray[np.floating], x: Array, v: Array | None, omega: Array, V: Array | None
) -> None:
    """omega = Phi x, and V = Phi^2 v unless that is None."""
    whole = len(Phi) - len(Phi) % _GROUP
    for m in range(0, whole, _GROUP):
        a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = 0.0
        p0, p1, p2, p3 = Phi[m], Phi[m + 1], Phi[m + 2], Phi[m + 3]
        for i in range(len(x)):
            # Widened before it is squared: the square of a small float32 would be lost.
            q0, q1 = np.float64(p0[i]), np.float64(p1[i])
            q2, q3 = np.float64(p2[i]), np.float64(p3[i])
            a0 += q0 * x[i]
            a1 += q1 * x[i]
            a2 += q2 * x[i]
            a3 += q3 * x[i]
            if v is not None:
                b0 += q0 * q0 * v[i]
                b1 += q1 * q1 * v[i]
                b2 += q2 * q2 * v[i]
                b3 += q3 * q3 * v[i]
        omega[m], omega[m + 1], omega[m + 2], omega[m + 3] = a0, a1, a2, a3
        if V is not None:
            V[m], V[m + 1], V[m + 2], V[m + 3] = b0, b1, b2, b3
    for m in range(whole, len(Phi)):
        p0, a0, b0 = Phi[m], 0.0, 0.0
        for i in range(len(x)):
            q0 = np.float64(p0[i])
            a0 += q0 * x[i]
            if v is not None:
                b0 += q0 * q0 * v[i]
        omega[m] = a0
        if V is not None:
            V[m] = b0


@compiled
def back(
    Phi: NDArray[np.floating], g: Array, response: Array, pull: Array, curvature: Array | None
) -> None:
    """pull += Phi' g, and curvature += (Phi^2)' response unless that is None."""
    for m in range(len(Phi)):
        row, here, there = Phi[m], g[m], response[m]
        for i in range(len(pull)):
            q = np.float64(row[i])
            pull[i] += here * q
            if curvature is not None:
                curvature[i] += there * q * q


@compiled
def through(
    ahead: NDArray[np.floating], behind: NDArray[np.floating], x: Array, g: Array, omega: Array,
    pull: Array,
) -> None:  # fmt: skip
    """omega = ahead x and pull += behind' g in one loop, for a group of twelve rows each."""
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = a8 = a9 = a10 = a11 = 0.0
    g0, g1, g2, g3, g4, g5 = g[0], g[1], g[2], g[3], g[4], g[5]
    g6, g7, g8, g9, g10, g11 = g[6], g[7], g[8], g[9], g[10], g[11]
    p0, p1, p2, p3, p4, p5 = ahead[0], ahead[1], ahead[2], ahead[3], ahead[4], ahead[5]
    p6, p7, p8, p9, p10, p11 = ahead[6], ahead[7], ahead[8], ahead[9], ahead[10], ahead[11]
    q0, q1, q2, q3, q4, q5 = behind[0], behind[1], behind[2], behind[3], behind[4], behind[5]
    q6, q7, q8, q9, q10, q11 = behind[6], behind[7], behind[8], behind[9], behind[10], behind[11]
    for i in range(len(x)):
        a0 += p0[i] * x[i]
        a1 += p1[i] * x[i]
        a2 += p2[i] * x[i]
        a3 += p3[i] * x[i]
        a4 += p4[i] * x[i]
        a5 += p5[i] * x[i]
        a6 += p6[i] * x[i]
        a7 += p7[i] * x[i]
        a8 += p8[i] * x[i]
        a9 += p9[i] * x[i]
        a10 += p10[i] * x[i]
        a11 += p11[i] * x[i]
        low = g0 * q0[i] + g1 * q1[i] + g2 * q2[i] + g3 * q3[i] + g4 * q4[i] + g5 * q5[i]
        high = g6 * q6[i] + g7 * q7[i] + g8 * q8[i] + g9 * q9[i] + g10 * q10[i] + g11 * q11[i]
        pull[i] += low + high
    omega[0], omega[1], omega[2], omega[3], omega[4], omega[5] = a0, a1, a2, a3, a4, a5
    omega[6], omega[7], omega[8], omega[9], omega[10], omega[11] = a6, a7, a8, a9, a10, a11


@compiled
def through_squares(
    ahead: NDArray[np.floating], behind: NDArray[np.floating], x: Array, v: Array, g: Array,
    response: Array, omega: Array, V: Array, pull: Array, curvature: Array,
) -> None:  # fmt: skip
    """The same for four rows each, with V = ahead^2 v and curvature += (behind^2)' response."""
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = 0.0
    g0, g1, g2, g3 = g[0], g[1], g[2], g[3]
    c0, c1, c2, c3 = response[0], response[1], response[2], response[3]
    p0, p1, p2, p3 = ahead[0], ahead[1], ahead[2], ahead[3]
    q0, q1, q2, q3 = behind[0], behind[1], behind[2], behind[3]
    for i in range(len(x)):
        r0, r1 = np.float64(p0[i]), np.float64(p1[i])
        r2, r3 = np.float64(p2[i]), np.float64(p3[i])
        a0 += r0 * x[i]
        a1 += r1 * x[i]
        a2 += r2 * x[i]
        a3 += r3 * x[i]
        b0 += r0 * r0 * v[i]
        b1 += r1 * r1 * v[i]
        b2 += r2 * r2 * v[i]
        b3 += r3 * r3 * v[i]
        s0, s1 = np.float64(q0[i]), np.float64(q1[i])
        s2, s3 = np.float64(q2[i]), np.float64(q3[i])
        pull[i] += g0 * s0 + g1 * s1 + g2 * s2 + g3 * s3
        curvature[i] += c0 * s0 * s0 + c1 * s1 * s1 + c2 * s2 * s2 + c3 * s3 * s3
    omega[0], omega[1], omega[2], omega[3] = a0, a1, a2, a3
    V[0], V[1], V[2], V[3] = b0, b1, b2, b3


@compiled
def framed(X: NDArray[np.floating], centre: Array, unit: Array, room: Array) -> Array:
    """(X - centre) unit, in the first columns and rows of `room`: those rows of it."""
    for m in range(len(X)):
        row, own = X[m], room[m]
        for i in range(len(centre)):
            own[i] = (np.float64(row[i]) - centre[i]) * unit[i]
    return room[: len(X)]


@compiled
def add_columns(
    X: NDArray[np.floating], centre: Array, low: Array, high: Array, total: Array, power: Array
) -> None:
    """The rows of X added to the ranges and sums of its columns, and those of (X - centre)^2.

    A row at a time: by four it takes 0.95 times as long at 1000 x 100, and 1.6 at 10,000 x 100.
    """
    for m in range(len(X)):
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


def taken(X: NDArray[np.floating], centre: object, unit: object, room: Array) -> Array:
    """The rows as they are, or, where there is a centre, `framed`; for compiled callers only."""
    raise NotImplementedError


def _taken_as(_X: object, centre: object, _unit: object, _room: object) -> Callable[..., Array]:
    if isinstance(centre, types.Array):
        return lambda X, centre, unit, room: framed(X, centre, unit, room)  # noqa: PLW0108
    return lambda X, centre, unit, room: X  # noqa: ARG005


overload(taken, strict=False)(_taken_as)


@compiled
def framed_forth(
    X: NDArray[np.floating], centre: Array, unit: Array, x: Array, v: Array, omega: Array, V: Array
) -> None:
    """`forth` of rows in their frame; where x is longer, a last column of ones."""
    room = np.ones((_GROUP, len(x)))
    for start in range(0, len(X), _GROUP):
        here = slice(start, min(start + _GROUP, len(X)))
        forth(framed(X[here], centre, unit, room), x, v, omega[here], V[here])


@compiled
def sweep(
    Phi: NDArray[np.floating],
    x: Array,
    v: Array,
    y: Array,
    memory: Array,
    squares: bool,
    parameters: Array,
    output: int,
    g: Array,
    response: Array,
    pull: Array,
    curvature: Array,
    centre: Array | None = None,
    unit: Array | None = None,
) -> None:
    """The whole of a sandwich: `g` and `response` filled, `pull` and `curvature` added to.

    With `squares`, v has one variance per column; without, the one V of every row, and `curvature`,
    of length one, gets the sum of the responses. With a `centre` a few rows of `Phi` at a time are
    brought to their frame, and get a last column of ones where x is longer than they are.
    """
    rows = len(y)
    group = _GROUP if squares else _LARGE_GROUP
    omega, V = np.empty(group), np.full(group, v[0])
    room = np.ones((2, group, 0 if centre is None else len(x)))  # ahead and behind in turns
    before = slice(0, 0)
    behind = taken(Phi[before], centre, unit, room[0])
    for start in range(0, rows, group):
        here = slice(start, min(start + group, rows))
        ahead = taken(Phi[here], centre, unit, room[start // group % 2])
        n = len(ahead)
        if n == group and start > 0 and squares:
            through_squares(
                ahead, behind, x, v, g[before], response[before], omega, V, pull, curvature
            )
        elif n == group and start > 0:
            through(ahead, behind, x, g[before], omega, pull)
        elif squares:
            back(behind, g[before], response[before], pull, curvature)
            forth(ahead, x, v, omega, V)
        else:
            back(behind, g[before], response[before], pull, None)
            forth(ahead, x, None, omega, None)
        for k in range(n):
            omega[k] -= V[k] * memory[start + k]
        own = parameters if len(parameters) == 1 else parameters[here]
        fill_output(output, y[here], omega[:n], V[:n], own, g[here], response[here])
        behind, before = ahead, here
    if squares:
        back(behind, g[before], response[before], pull, curvature)
    else:
        back(behind, g[before], response[before], pull, None)
        for m in range(rows):
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
    Phi: NDArray[np.floating],
    y: Array,
    numbers: Array,
    output: int,
    parameters: Array,
    moments: int,
    A: Array,
    B: Array,
    x: Array,
    v: Array,
    omega: Array,
    V: Array,
    g: Array,
    response: Array,
) -> None:
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
    columns: NDArray[np.floating],
    power: Array,
    parameters: Array,
    moments: int,
    prior_A: Array,
    prior_B: Array,
    noise: float,
    A: Array,
    B: Array,
    x: Array,
    v: Array,
    residual: Array,
) -> None:
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
