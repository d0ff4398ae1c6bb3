"""What users call, against its goal and against peers: speed, and accuracy beside every speed.

    python -m benchmarks.goals [--out FOLDER] [names of cases]

Every case runs in a process of its own with one thread, so that its peak of memory is its own and a
failure is a line of the table. Speeds are in CPU seconds; peers are measured in the same process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks import users
from benchmarks.timing import RESULTS, Row, write_csv

#: No case may take longer, in seconds.
PATIENCE = 240
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
#: Cases by name: the function, its arguments, and the threads it is given.
CASES: dict[str, tuple[Callable[..., Iterator[users.Found]], dict[str, float], int]] = {
    "sparse-1e5": (users.sparse_stream, {"p": 1e5, "labels": 0}, 1),
    "sparse-1e5-labels": (users.sparse_stream, {"p": 1e5, "labels": 1}, 1),
    "sparse-1e6": (users.sparse_stream, {"p": 1e6, "labels": 0}, 1),
    "sparse-1e6-labels": (users.sparse_stream, {"p": 1e6, "labels": 1}, 1),
    "correlated-100": (
        users.correlated_regression,
        {"p": 100, "step": 1000, "batches": 50, "goal": 5e5},
        1,
    ),
    "correlated-1000": (
        users.correlated_regression,
        {"p": 1000, "step": 1000, "batches": 10, "goal": 1e4},
        1,
    ),
    "correlated-2000": (
        users.correlated_regression,
        {"p": 2000, "step": 1000, "batches": 5, "goal": 2e3},
        1,
    ),
    "correlated-labels": (users.correlated_classification, {}, 1),
    "ten-classes": (users.ten_classes, {}, 1),
    "fixed-cost": (users.fixed_cost, {}, 1),
    "around-the-sweep": (users.around_the_sweep, {}, 1),
    "converged-amp": (users.converged_amp, {"threads": 1}, 1),
    "converged-amp-threads": (users.converged_amp, {"threads": 2}, 2),
    "float32": (users.narrow_rows, {}, 1),
    "clusters": (users.clusters, {}, 1),
    "files": (users.files, {}, 1),
    "dask": (users.distributed_rows, {}, 1),
}


def measured(name: str) -> Iterator[Row]:
    """The rows of a case, measured in a process of its own; a failure is a row too."""
    _, _, threads = CASES[name]
    environment = os.environ | {k: str(threads) for k in ONE_THREAD}
    command = [sys.executable, "-m", "benchmarks.goals", "--child", name]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        yield Row(name, np.nan, np.nan, "", np.nan, "", False, f"not done in {PATIENCE} s")
        return
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            yield Row(**json.loads(line))
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"ended by signal {-done.returncode}"]
        yield Row(name, np.nan, np.nan, "", np.nan, "", False, last[0][:160])


def table(names: list[str], out: Path) -> list[Row]:
    """Measure, print and write the cases that are named."""
    rows = []
    for name in names:
        for found in measured(name):
            rows.append(found)
            print(found, flush=True)
    write_csv(out / "goals.csv", [found.record() for found in rows])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.goals", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="case", help=", ".join(CASES))
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--child", choices=list(CASES), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is None:
        missed = [
            one.case for one in table(given.names or list(CASES), given.out) if one.met is False
        ]
        print("\nAll goals are met." if not missed else "\nMissed:\n  " + "\n  ".join(missed))
        return
    work, arguments, _ = CASES[given.child]
    warnings.simplefilter("ignore")
    for found in work(**arguments):
        print(json.dumps(found, default=bool), flush=True)


if __name__ == "__main__":
    main()
