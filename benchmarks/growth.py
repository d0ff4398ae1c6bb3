"""How time and memory grow: fitted exponents, and a log-log plot of `partial_fit` (growth.png)."""

from __future__ import annotations

import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.speed import PRIOR, iteration, problem
from benchmarks.timing import Row, best, write_csv
from benchmarks.users import correlated_rows
from miniamp import Posterior, channels, evidence, stream
from miniamp.estimators import MiniAMPRegressor


def exponent(sizes: list[int], figures: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(figures), 1)[0])


def fitted(case: str, sizes: list[int], figures: list[float], unit: str, expected: float) -> Row:
    slope = exponent(sizes, figures)
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


def batch_seconds(p: int, rows: int, batches: int, solver: str, memory: int | str) -> list[float]:
    """CPU seconds of each `partial_fit` on correlated rows."""
    rng = np.random.default_rng(0)
    x, times = rng.standard_normal(p), []
    model = MiniAMPRegressor(solver=solver, memory=memory)
    for _ in range(batches):
        X = correlated_rows(rows, p, rng)
        y = X @ x + rng.standard_normal(rows)
        begin = time.process_time()
        model.partial_fit(X, y)
        times.append(time.process_time() - begin)
    return times


def later(times: list[float]) -> float:
    """Milliseconds of a batch that is not the first, at best."""
    return 1e3 * min(times[1:])


#: What is varied, its values, the milliseconds of one value, and the largest exponent that is fine.
GROWTH: dict[str, tuple[list[int], Callable[[int], float], float]] = {
    "N (default solver, batches of 500)": (
        [100, 200, 400, 800, 1600],
        lambda n: later(batch_seconds(n, 500, 4, "auto", "auto")),
        3.0,
    ),
    "rows (N = 100, by 500, whole stream)": (
        [2000, 4000, 8000, 16000, 32000],
        lambda n: 1e3 * sum(batch_seconds(100, 500, n // 500, "auto", "auto")),
        1.1,
    ),
    "rows per batch (N = 400, default solver)": (
        [125, 250, 500, 1000, 2000],
        lambda m: later(batch_seconds(400, m, 4, "auto", "auto")),
        1.1,
    ),
    "remembered rows (N = 400, by 200, robust solver)": (
        [25, 50, 100, 200, 400],
        lambda r: later(batch_seconds(400, 200, 5, "robust", r)),
        2.0,
    ),
}


#: Milliseconds that `of_estimators` has measured, for the plot.
MEASURED: dict[str, list[float]] = {}


def of_estimators() -> Iterator[Row]:
    """`partial_fit` against N, rows, batch size and remembered rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (sizes, measure, _) in GROWTH.items():
            measure(sizes[0])  # what is compiled and imported on the way
            MEASURED[name] = [measure(size) for size in sizes]
    for name, times in MEASURED.items():
        sizes, _, most = GROWTH[name]
        slope = exponent(sizes, times)
        case = f"time of partial_fit against {name}"
        yield Row(case, times[-1], times[0], "ms", slope, f"slope <= {most:g}", slope <= most)


def write(out: Path) -> None:
    """growth.csv and growth.png, if growth was measured."""
    from matplotlib.figure import Figure

    if not MEASURED:
        return
    write_csv(
        out / "growth.csv",
        [
            {"against": name, "size": size, "ms": one}
            for name, times in MEASURED.items()
            for size, one in zip(GROWTH[name][0], times, strict=True)
        ],
    )

    figure = Figure(figsize=(11, 7), layout="constrained")
    for axes, (name, times) in zip(figure.subplots(2, 2).flat, MEASURED.items(), strict=True):
        sizes = GROWTH[name][0]
        slope = exponent(sizes, times)
        line = np.exp(np.mean(np.log(times)) + slope * (np.log(sizes) - np.mean(np.log(sizes))))
        axes.loglog(sizes, times, "o", sizes, line, "-")
        axes.set_title(f"{name}: exponent {slope:.2f}", fontsize=9)
        axes.set_xlabel(name.split(" (")[0])
        axes.set_ylabel("CPU milliseconds")
    figure.savefig(out / "growth.png", dpi=120)


CASES = (of_time, of_memory, of_estimators)
