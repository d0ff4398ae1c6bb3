"""Compiled sweeps over rows in compressed sparse row form.

`ends` are the row pointers of the rows in question (one more than rows), `places` the columns of
the stored entries and `entries` their values, of the whole matrix.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from miniamp.arrays import Array
from miniamp.compiled import (
    boolean,
    compiled,
    filled,
    float32,
    float64,
    given,
    int32,
    nothing,
    output_function,
    reading,
    table,
)

_ROWS = tuple((reading(entry), reading(int32), reading(int32)) for entry in (float64, float32))
#: Rows that go forth together before they come back: their entries stay in the cache.
_GROUP = 32


@compiled(*(nothing(*rows, given, filled) for rows in _ROWS))
def forth(
    entries: NDArray[np.floating],
    places: NDArray[np.int32],
    ends: NDArray[np.int32],
    x: Array,
    omega: Array,
) -> None:
    """omega = Phi x."""
    for m in range(len(ends) - 1):
        a = 0.0
        for k in range(ends[m], ends[m + 1]):
            a += entries[k] * x[places[k]]
        omega[m] = a


@compiled(*(nothing(*rows, given, filled) for rows in _ROWS))
def back(
    entries: NDArray[np.floating],
    places: NDArray[np.int32],
    ends: NDArray[np.int32],
    g: Array,
    pull: Array,
) -> None:
    """pull += Phi' g."""
    for m in range(len(ends) - 1):
        for k in range(ends[m], ends[m + 1]):
            pull[places[k]] += g[m] * entries[k]


@compiled(*(nothing(*rows, given, given, filled, filled) for rows in _ROWS))
def forth_squares(
    entries: NDArray[np.floating],
    places: NDArray[np.int32],
    ends: NDArray[np.int32],
    x: Array,
    v: Array,
    omega: Array,
    V: Array,
) -> None:
    """omega = Phi x and V = Phi^2 v."""
    for m in range(len(ends) - 1):
        a = b = 0.0
        for k in range(ends[m], ends[m + 1]):
            q, i = np.float64(entries[k]), places[k]
            a += q * x[i]
            b += q * q * v[i]
        omega[m], V[m] = a, b


@compiled(*(nothing(*rows, given, given, filled, filled) for rows in _ROWS))
def back_squares(
    entries: NDArray[np.floating],
    places: NDArray[np.int32],
    ends: NDArray[np.int32],
    g: Array,
    answer: Array,
    pull: Array,
    curvature: Array,
) -> None:
    """pull += Phi' g and curvature += (Phi^2)' answer."""
    for m in range(len(ends) - 1):
        for k in range(ends[m], ends[m + 1]):
            q, i = np.float64(entries[k]), places[k]
            pull[i] += g[m] * q
            curvature[i] += answer[m] * q * q


@compiled(
    *(
        nothing(*rows, given, given, boolean, given, given, table, output_function, *4 * (filled,))
        for rows in _ROWS
    )
)
def sweep(
    entries: NDArray[np.floating],
    places: NDArray[np.int32],
    ends: NDArray[np.int32],
    x: Array,
    v: Array,
    squares: bool,
    y: Array,
    memory: Array,
    parameters: Array,
    output: object,
    g: Array,
    answer: Array,
    pull: Array,
    curvature: Array,
) -> None:
    """The whole of a sandwich, as in the dense kernel of this name."""
    omega, V = np.empty(_GROUP), np.empty(_GROUP)
    if not squares:
        V[:] = v[0]
    for start in range(0, len(y), _GROUP):
        stop = min(start + _GROUP, len(y))
        own_ends, n = ends[start : stop + 1], stop - start
        if squares:
            forth_squares(entries, places, own_ends, x, v, omega, V)
        else:
            forth(entries, places, own_ends, x, omega)
        for k in range(n):
            omega[k] -= V[k] * memory[start + k]
        own = parameters if len(parameters) == 1 else parameters[start:stop]
        output(y[start:stop], omega[:n], V[:n], own, g[start:stop], answer[start:stop])  # type: ignore[operator]
        if squares:
            back_squares(
                entries, places, own_ends, g[start:stop], answer[start:stop], pull, curvature
            )
        else:
            back(entries, places, own_ends, g[start:stop], pull)
            for k in range(n):
                curvature[0] += answer[start + k]
