"""Run the benchmarks: one table on the screen, its numbers in CSV, a plot.

python -m benchmarks [names of cases] writes benchmarks/results/speed.csv and speed.png.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from benchmarks import growth, speed
from benchmarks.timing import Row
from miniamp.designs import threads

RESULTS = Path(__file__).parent / "results"


def main(wanted: list[str]) -> None:
    rows: list[Row] = []
    print(f"{threads.cores()} threads; least time of many, sides taken in turns\n")
    print(f"{'case':70s} {'ours':>10s} {'theirs':>10s}      {'figure':>8s}  target")
    for case in (*speed.CASES, *growth.CASES):
        if wanted and case.__name__ not in wanted:
            continue
        for row in case():
            rows.append(row)
            mark = "" if row.met else "  missed"
            print(
                f"{row.case:70s} {row.ours:10.3f} {row.theirs:10.3f} {row.unit:4s} "
                f"{row.figure:8.2f}  {row.target}{mark}",
                flush=True,
            )
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / "speed.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0].record()))
        writer.writeheader()
        writer.writerows(row.record() for row in rows)
    plot(rows, RESULTS / "speed.png")


def plot(rows: list[Row], path: Path) -> None:
    """A bar a case, green where the target is met."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 0.5 * len(rows) + 1.2), layout="constrained")
    axes = figure.subplots()
    colours = ["tab:green" if row.met else "tab:red" for row in rows]
    axes.barh(
        [f"{row.case} ({row.target})" for row in rows], [r.figure for r in rows], color=colours
    )
    axes.set_xscale("log")
    axes.set_xlabel("measured figure")
    axes.invert_yaxis()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main(sys.argv[1:])
