"""Resident memory while a large file is streamed.

    python -m benchmarks.streams_memory [gigabytes] [--out FOLDER]

Writes Parquet files with one huge row group, with many, and with dictionaries as pandas writes
them, and a CSV file, each of the size asked for (2 GB by default) and 101 columns, into a temporary
folder; streams each in a process of its own; and prints the peak of resident memory above what the
imports (miniamp.streams, and pyarrow, which it imports when needed) took.
The limit of the project is 300 MB. With --out the table is written to streams_memory.csv.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.timing import write_csv

LIMIT_MB = 300.0
COLUMNS = 101
BATCH = 1000

CHILD = """
import json, sys, time
import miniamp.streams
import pyarrow.csv, pyarrow.parquet

def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key)) / 1024

before = status("VmRSS")
begin = time.perf_counter()
total = rows = 0
for batch in miniamp.streams.open_stream(sys.argv[1], "y", int(sys.argv[2])):
    rows += batch.rows
    total += float(batch.X[0, 0])
seconds = time.perf_counter() - begin
print(json.dumps({"rows": rows, "seconds": seconds, "import_mb": before,
                  "peak_mb": status("VmHWM") - before}))
"""


def write_parquet(path: Path, size: float, rows_a_group: int, *, dictionary: bool = False) -> None:
    """Random numbers, which no encoding makes smaller, in row groups as large as asked for."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [*(f"x{j}" for j in range(COLUMNS - 1)), "y"]
    rows = int(size / (8 * COLUMNS))
    rng = np.random.default_rng(0)
    schema = pa.schema([(name, pa.float64()) for name in names])
    with pq.ParquetWriter(path, schema, use_dictionary=dictionary) as writer:
        for begin in range(0, rows, rows_a_group):
            k = min(rows_a_group, rows - begin)
            columns = [rng.normal(size=k) for _ in names]
            writer.write_table(pa.table(columns, names=names), row_group_size=rows_a_group)


def write_text(path: Path, size: float) -> None:
    """Random numbers with all their digits; the same thousand lines again and again."""
    names = [*(f"x{j}" for j in range(COLUMNS - 1)), "y"]
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(1000, COLUMNS)).tolist()
    lines = "".join(",".join(map(repr, row)) + "\n" for row in numbers)
    with path.open("w") as file:
        file.write(",".join(names) + "\n")
        while file.tell() < size:
            file.write(lines)


def measured(path: Path, batch_size: int = BATCH) -> dict[str, float]:
    """Rows, seconds and megabytes of streaming the file in a fresh process."""
    run = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), str(batch_size)],
        check=True,
        capture_output=True,
        text=True,
    )
    figures: dict[str, float] = json.loads(run.stdout)
    return figures


def main() -> int:
    """Measure all four; the exit code is 1 if one is above the limit."""
    ask = argparse.ArgumentParser(description="resident memory while a large file is streamed")
    ask.add_argument("gigabytes", nargs="?", type=float, default=2.0)
    ask.add_argument("--out", type=Path, help="folder for streams_memory.csv")
    given = ask.parse_args()
    table = []
    with tempfile.TemporaryDirectory() as folder:
        for name, rows_a_group in (
            ("one huge row group.parquet", 1 << 40),
            ("many row groups.parquet", 100_000),
            ("dictionaries.parquet", 1 << 20),
            ("text.csv", 0),
        ):
            path = Path(folder) / name
            size = given.gigabytes * 1e9
            if rows_a_group:
                write_parquet(path, size, rows_a_group, dictionary="dictionaries" in name)
            else:
                write_text(path, size)
            figures = measured(path)
            gigabytes = path.stat().st_size / 1e9
            row = {
                "file": name,
                "GB": f"{gigabytes:.2f}",
                "rows": f"{figures['rows']:.0f}",
                "columns": COLUMNS,
                "rows a batch": BATCH,
                "MB/s": f"{gigabytes * 1e3 / figures['seconds']:.0f}",
                "MB of imports": f"{figures['import_mb']:.0f}",
                "MB above imports": f"{figures['peak_mb']:.0f}",
            }
            print(", ".join(f"{key}: {value}" for key, value in row.items()), flush=True)
            table.append(row)
            path.unlink()
    if given.out is not None:
        write_csv(given.out / "streams_memory.csv", table)
    return int(max(float(row["MB above imports"]) for row in table) > LIMIT_MB)


if __name__ == "__main__":
    sys.exit(main())
