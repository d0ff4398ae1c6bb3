"""How time and memory grow: with rows (slope 1), with N (slope 2), with the stream (slope 0)."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator

import numpy as np

from benchmarks.speed import PRIOR, iteration, problem
from benchmarks.timing import Row, best
from miniamp import Posterior, channels, evidence, stream


def fitted(case: str, sizes: list[int], figures: list[float], unit: str, expected: float) -> Row:
    slope = float(np.polyfit(np.log(sizes), np.log(figures), 1)[0])
    near = abs(slope - expected) < (0.25 if expected else 0.02)
    return Row(case, figures[-1], figures[0], unit, slope, f"slope {expected:g}", near)


def of_time() -> Iterator[Row]:
    """Seconds of CPU, all threads together; as ours the largest size, as theirs the smallest."""

    def milliseconds(shapes: list[tuple[int, int]]) -> list[float]:
        works = [iteration(Phi, y) for Phi, _, y in (problem(*shape) for shape in shapes)]
        return [1e3 * t for t in best(*works, repeats=3, clock=time.process_time)]

    rows = [2000, 4000, 8000]
    times = milliseconds([(m, 2000) for m in rows])
    yield fitted("time of a GAMP iteration against rows, N = 2000", rows, times, "ms", 1.0)
    sizes = [2000, 4000, 8000]
    times = milliseconds([(n // 2, n) for n in sizes])
    yield fitted("time of a GAMP iteration against N, alpha_b = 0.5", sizes, times, "ms", 2.0)


def of_memory() -> Iterator[Row]:
    """Peak of what is allocated while batches of 100 rows of N = 500 are absorbed."""
    lengths = [10, 40, 160]

    def peak(length: int) -> float:
        rng, channel = np.random.default_rng(0), channels.Gaussian(1e-2)
        x = PRIOR.sample(rng, 500)

        def batch() -> evidence.Batch:
            Phi = rng.standard_normal((100, 500)) / np.sqrt(500)
            return evidence.Batch(Phi, channel.sample(rng, Phi @ x), channel)

        tracemalloc.start()
        for _ in stream(Posterior(PRIOR, 500), (batch() for _ in range(length))):
            pass
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most / 1e6

    peak(2)  # what is compiled and imported on the way
    peaks = [peak(length) for length in lengths]
    yield fitted("peak memory against the length of the stream", lengths, peaks, "MB", 0.0)


CASES = (of_time, of_memory)
