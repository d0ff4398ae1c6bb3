"""Compiled sweeps over a dense block of rows.

Four rows at a time: each x_i that is loaded meets four entries of Phi, and each accumulator is read
and written once for four. Larger groups were measured slower, because the rows have to be in the
first or second level of the cache for the way back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from miniamp.arrays import Array
from miniamp.compiled import compiled

_GROUP = 4


@compiled
def forth(Phi: NDArray[np.floating], x: Array, omega: Array) -> None:
    """omega = Phi x."""
    rows, columns = Phi.shape
    whole = rows - rows % _GROUP
    for m in range(0, whole, _GROUP):
        a0 = a1 = a2 = a3 = 0.0
        p0, p1, p2, p3 = Phi[m], Phi[m + 1], Phi[m + 2], Phi[m + 3]
        for i in range(columns):
            a0 += p0[i] * x[i]
            a1 += p1[i] * x[i]
            a2 += p2[i] * x[i]
            a3 += p3[i] * x[i]
        omega[m], omega[m + 1], omega[m + 2], omega[m + 3] = a0, a1, a2, a3
    for m in range(whole, rows):
        p0, a0 = Phi[m], 0.0
        for i in range(columns):
            a0 += p0[i] * x[i]
        omega[m] = a0


@compiled
def back(Phi: NDArray[np.floating], g: Array, pull: Array) -> None:
    """pull += Phi' g."""
    rows, columns = Phi.shape
    whole = rows - rows % _GROUP
    for m in range(0, whole, _GROUP):
        g0, g1, g2, g3 = g[m], g[m + 1], g[m + 2], g[m + 3]
        p0, p1, p2, p3 = Phi[m], Phi[m + 1], Phi[m + 2], Phi[m + 3]
        for i in range(columns):
            pull[i] += g0 * p0[i] + g1 * p1[i] + g2 * p2[i] + g3 * p3[i]
    for m in range(whole, rows):
        p0, g0 = Phi[m], g[m]
        for i in range(columns):
            pull[i] += g0 * p0[i]


@compiled
def forth_squares(Phi: NDArray[np.floating], x: Array, v: Array, omega: Array, V: Array) -> None:
    """omega = Phi x and V = Phi^2 v."""
    rows, columns = Phi.shape
    whole = rows - rows % _GROUP
    for m in range(0, whole, _GROUP):
        a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = 0.0
        p0, p1, p2, p3 = Phi[m], Phi[m + 1], Phi[m + 2], Phi[m + 3]
        for i in range(columns):
            # Widened before it is squared: the square of a small float32 would be lost.
            q0, q1 = np.float64(p0[i]), np.float64(p1[i])
            q2, q3 = np.float64(p2[i]), np.float64(p3[i])
            a0 += q0 * x[i]
            a1 += q1 * x[i]
            a2 += q2 * x[i]
            a3 += q3 * x[i]
            b0 += q0 * q0 * v[i]
            b1 += q1 * q1 * v[i]
            b2 += q2 * q2 * v[i]
            b3 += q3 * q3 * v[i]
        omega[m], omega[m + 1], omega[m + 2], omega[m + 3] = a0, a1, a2, a3
        V[m], V[m + 1], V[m + 2], V[m + 3] = b0, b1, b2, b3
    for m in range(whole, rows):
        p0, a0, b0 = Phi[m], 0.0, 0.0
        for i in range(columns):
            q0 = np.float64(p0[i])
            a0 += q0 * x[i]
            b0 += q0 * q0 * v[i]
        omega[m], V[m] = a0, b0


@compiled
def back_squares(
    Phi: NDArray[np.floating], g: Array, answer: Array, pull: Array, curvature: Array
) -> None:
    """pull += Phi' g and curvature += (Phi^2)' answer."""
    rows, columns = Phi.shape
    whole = rows - rows % _GROUP
    for m in range(0, whole, _GROUP):
        g0, g1, g2, g3 = g[m], g[m + 1], g[m + 2], g[m + 3]
        c0, c1, c2, c3 = answer[m], answer[m + 1], answer[m + 2], answer[m + 3]
        p0, p1, p2, p3 = Phi[m], Phi[m + 1], Phi[m + 2], Phi[m + 3]
        for i in range(columns):
            q0, q1 = np.float64(p0[i]), np.float64(p1[i])
            q2, q3 = np.float64(p2[i]), np.float64(p3[i])
            pull[i] += g0 * q0 + g1 * q1 + g2 * q2 + g3 * q3
            curvature[i] += c0 * q0 * q0 + c1 * q1 * q1 + c2 * q2 * q2 + c3 * q3 * q3
    for m in range(whole, rows):
        p0, g0, c0 = Phi[m], g[m], answer[m]
        for i in range(columns):
            q0 = np.float64(p0[i])
            pull[i] += g0 * q0
            curvature[i] += c0 * q0 * q0


@compiled
def sweep(
    Phi: NDArray[np.floating],
    x: Array,
    v: Array,
    squares: bool,
    y: Array,
    memory: Array,
    parameters: Array,
    output: Any,
    g: Array,
    answer: Array,
    pull: Array,
    curvature: Array,
) -> None:
    """The whole of a sandwich: `g` and `answer` filled, `pull` and `curvature` added to.

    With `squares`, v has one variance a column; without, the one V of every row, and `curvature`,
    of length one, gets the sum of the answers.
    """
    omega, V = np.empty(_GROUP), np.empty(_GROUP)
    if not squares:
        V[:] = v[0]
    for start in range(0, len(y), _GROUP):
        stop = min(start + _GROUP, len(y))
        block, n = Phi[start:stop], stop - start
        if squares:
            forth_squares(block, x, v, omega, V)
        else:
            forth(block, x, omega)
        for k in range(n):
            omega[k] -= V[k] * memory[start + k]
        own = parameters if len(parameters) == 1 else parameters[start:stop]
        output(y[start:stop], omega[:n], V[:n], own, g[start:stop], answer[start:stop])
        if squares:
            back_squares(block, g[start:stop], answer[start:stop], pull, curvature)
        else:
            back(block, g[start:stop], pull)
            for k in range(n):
                curvature[0] += answer[start + k]


@compiled
def online(
    Phi: NDArray[np.floating],
    y: Array,
    numbers: Array,
    output: Any,
    parameters: Array,
    moments: Any,
    A: Array,
    B: Array,
    x: Array,
    v: Array,
    g: Array,
    answer: Array,
) -> None:
    """Each row in turn, once: `A`, `B`, `x`, `v` go from before the rows to after them."""
    omega, V = np.empty(1), np.empty(1)
    for m in range(len(y)):
        row, here = Phi[m : m + 1], slice(m, m + 1)
        forth_squares(row, x, v, omega, V)
        own = numbers if len(numbers) == 1 else numbers[here]
        output(y[here], omega, V, own, g[here], answer[here])
        for i in range(len(x)):
            q = np.float64(row[0, i])
            a = answer[m] * q * q
            A[i] += a
            B[i] += g[m] * q + a * x[i]
        moments(A, B, parameters, x, v)


@compiled
def descend(
    columns: NDArray[np.floating],
    power: Array,
    parameters: Array,
    moments: Any,
    prior_A: Array,
    prior_B: Array,
    noise: float,
    A: Array,
    B: Array,
    x: Array,
    v: Array,
    residual: Array,
) -> None:
    """One coordinate after the other, each given all others; `columns` has one column of Phi a row.

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
        moments(total_A, total_B, own, mean, var)
        step = mean[0] - x[i]
        for m in range(len(residual)):
            residual[m] -= step * column[m]
        x[i], v[i] = mean[0], var[0]
