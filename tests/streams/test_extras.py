"""Optional dependencies are asked for by the name of their extra, and only when needed."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
for name in ("pyarrow", "pandas", "polars"):
    sys.modules[name] = None  # importing it fails, as if it were not there
import numpy as np
from miniamp.errors import MissingExtraError
from miniamp.streams import open_stream
for path in sys.argv[1:]:
    try:
        print(next(iter(open_stream(path, "y", 1))).rows)
    except MissingExtraError as error:
        print(error)
print(next(iter(open_stream((np.ones((3, 2)), np.ones(3)), None, 2))).rows)
"""


def test_only_what_needs_pyarrow_asks_for_it(write):
    paths = [
        write("t.csv", "a,y\n1,2\n"),
        write("t.parquet", b"PAR1" + bytes(20) + b"PAR1"),
        write("t.arrow", b"ARROW1" + bytes(20)),
        write("t.jsonl", '{"a": 1, "y": 2}\n'),
    ]
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *paths], capture_output=True, text=True, check=True
    )
    csv, parquet, arrow, json_lines, arrays = run.stdout.splitlines()
    for message in (csv, parquet, arrow):
        assert message.endswith('expected the package pyarrow; pip install "miniamp[streams]"')
    assert (json_lines, arrays) == ("1", "2")


def test_importing_streams_imports_nothing_heavy():
    program = "import sys, miniamp.streams; print([m for m in sys.modules if m in sys.argv[1:]])"
    heavy = ["pyarrow", "pandas", "polars", "sklearn", "matplotlib", "numba"]
    run = subprocess.run(
        [sys.executable, "-c", program, *heavy], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"
