"""How time grows: with rows (slope 1), with N at fixed alpha_b (slope 2)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.speed import iteration, problem
from benchmarks.timing import Row, best


def slope(case: str, sizes: list[int], shapes: list[tuple[int, int]], expected: float) -> Row:
    seconds = []
    for shape in shapes:
        Phi, _, y = problem(*shape)
        seconds.append(best(iteration(Phi, y), repeats=5, turns=3)[0])
    fitted = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    near = abs(fitted - expected) < 0.25
    return Row(case, 1e3 * seconds[-1], 1e3 * seconds[0], "ms", fitted, f"slope {expected:g}", near)


def slopes() -> Iterator[Row]:
    rows = [1000, 2000, 4000, 8000]
    yield slope("GAMP iteration against rows, N = 2000", rows, [(m, 2000) for m in rows], 1.0)
    sizes = [2000, 4000, 8000]
    yield slope("GAMP iteration against N, alpha_b = 0.5", sizes, [(n // 2, n) for n in sizes], 2.0)


CASES = (slopes,)
