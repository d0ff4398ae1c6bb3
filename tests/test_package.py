"""The package as a whole: quick to import and lean."""

import json
import subprocess
import sys

import miniamp

HEAVY = ["dask", "matplotlib", "numba", "pandas", "plotly", "pyarrow", "rich", "sklearn", "typer"]
HEAVY += ["scipy.signal", "scipy.stats"]


def test_import_leaves_heavy_dependencies_for_later():
    code = f"import miniamp, json, sys; print(json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == []


def test_everything_that_is_promised_is_there():
    for name in miniamp.__all__:
        assert hasattr(miniamp, name), name
