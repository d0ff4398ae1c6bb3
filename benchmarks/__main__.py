"""Run the benchmarks of speed: one table on the screen, its numbers in CSV, a plot.

    python -m benchmarks [--out FOLDER] [names of cases]

writes speed.csv and speed.png to benchmarks/results, or to the folder that is named.
"""

from __future__ import annotations

import argparse
import csv
import os
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

from benchmarks import growth, peers, speed, startup
from benchmarks.timing import Row
from miniamp.designs import threads

RESULTS = Path(__file__).parent / "results"
CASES = {
    case.__name__: case for case in (*speed.CASES, *peers.CASES, *growth.CASES, *startup.CASES)
}


def machine() -> str:
    """Cores and threads, of ours and of BLAS."""
    np.ones((2, 2)) @ np.ones(2)
    blas = ", ".join(
        f"{pool['internal_api']} {pool['version']} with {pool['num_threads']} threads"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    )
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return f"{os.cpu_count()} cores, miniamp with {threads.cores()} threads, {blas}{load}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="case", help=", ".join(CASES))
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    unknown = sorted(set(given.names) - set(CASES))
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}; there are {', '.join(CASES)}")
    said = f"{machine()}; least time of many, sides in turns"
    print(f"{said}\n\n{'case':76s} {'ours':>10s} {'theirs':>10s} {'':9s} {'figure':>8s}  target")
    rows: list[Row] = []
    for name in given.names or CASES:
        for row in CASES[name]():
            rows.append(row)
            print(row, flush=True)
    given.out.mkdir(parents=True, exist_ok=True)
    with (given.out / "speed.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0].record()), lineterminator="\n")
        writer.writeheader()
        writer.writerows(row.record() for row in rows)
        writer.writerow({"case": f"measured with {said}"})
    plot(rows, given.out / "speed.png")


def plot(rows: list[Row], path: Path) -> None:
    """A bar a case: green where the target is met, red where not, grey where there is none."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 0.36 * len(rows) + 1.2), layout="constrained")
    axes = figure.subplots()
    colours = {True: "tab:green", False: "tab:red", None: "tab:gray"}
    axes.barh(
        [f"{row.case} ({row.target})" for row in rows],
        [max(row.figure, 1e-3) for row in rows],
        color=[colours[row.met] for row in rows],
    )
    axes.set_xscale("log")
    axes.set_xlabel("figure: ratio of times, share of the limit, or slope")
    axes.tick_params(axis="y", labelsize=7)
    axes.invert_yaxis()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
