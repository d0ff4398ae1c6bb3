"""Run the benchmarks of speed: one table on the screen, its numbers in CSV, plots.

    python -m benchmarks [--out FOLDER] [names of cases]

First what users call, against goals and peers (`benchmarks.goals`, each case in a process of its
own); then iterations, growth and waiting times. Writes goals.csv, speed.csv, speed.png, growth.csv
and growth.png to benchmarks/results, or to the folder that is named.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

from benchmarks import goals, growth, peers, speed, startup
from benchmarks.timing import RESULTS, Row, write_csv
from miniamp.designs import threads

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
    known = [*goals.CASES, *CASES]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="case", help=", ".join(known))
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    unknown = sorted(set(given.names) - set(known))
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}; there are {', '.join(known)}")
    names = given.names or known
    said = f"{machine()}; least time of many, sides in turns"
    print(f"{said}\n\n{'case':76s} {'ours':>10s} {'theirs':>10s} {'':9s} {'figure':>8s}  goal")
    first = [name for name in names if name in goals.CASES]
    rows = goals.table(first, given.out) if first else []
    for name in [name for name in names if name in CASES]:
        for row in CASES[name]():
            rows.append(row)
            print(row, flush=True)
    missed = [f"{row.case}: {row.figure:.3g}, {row.target}" for row in rows if row.met is False]
    print("\nAll goals are met." if not missed else "\nMissed:\n  " + "\n  ".join(missed))
    note = Row(f"measured with {said}", np.nan, np.nan, "", np.nan, "", None)
    write_csv(given.out / "speed.csv", [row.record() for row in (*rows, note)])
    plot(rows, given.out / "speed.png")
    growth.write(given.out)


def plot(rows: list[Row], path: Path) -> None:
    """One bar per case: green where the goal is met, red where not, grey where there is none."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 0.36 * len(rows) + 1.2), layout="constrained")
    axes = figure.subplots()
    colours = {True: "tab:green", False: "tab:red", None: "tab:gray"}
    axes.barh(
        [f"{row.case} ({row.target})" for row in rows],
        [max(np.nan_to_num(row.figure), 1e-3) for row in rows],
        color=[colours[row.met] for row in rows],
    )
    axes.set_xscale("log")
    axes.set_xlabel("figure: ratio of times, share of the limit, or slope")
    axes.tick_params(axis="y", labelsize=7)
    axes.invert_yaxis()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
