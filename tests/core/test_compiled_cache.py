"""A damaged, full or foreign cache of compiled code costs time, and nothing else."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba")

KERNELS = """
import sys
import numpy as np
from miniamp.compiled import compiled, fill_moments, moments_kernel

@moments_kernel
def doubled(A, B, parameters, mean, var):
    for i in range(len(A)):
        mean[i], var[i] = 2.0 * B[i], A[i]

@compiled
def run(address, A, parameters, mean, var):
    fill_moments(address, A, A, parameters, mean, var)

A, mean, var = np.ones(3), np.empty(3), np.empty(3)
run(doubled.address, A, np.ones((1, 1)), mean, var)
print(mean.sum(), run.stats.cache_hits and sum(run.stats.cache_hits.values()), doubled.cache_hits)
"""


def run(script: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    found = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"} | environment
    return subprocess.run(
        [sys.executable, str(script)], env=found, capture_output=True, text=True, check=True
    )


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    return path


@pytest.mark.parametrize("kept", [0, 20], ids=["empty files", "cut files"])
def test_a_damaged_cache_is_reported_once_and_replaced(script, tmp_path, kept):
    where = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert run(script, **where).stdout.split()[0] == "6.0"
    files = [path for path in (tmp_path / "cache").rglob("*.nb*") if path.is_file()]
    assert len(files) == 4  # an index and the code, for each of the two
    for path in files:
        path.write_bytes(path.read_bytes()[:kept])
    hurt = run(script, **where)
    assert hurt.stdout.split()[0] == "6.0"
    assert hurt.stderr.count("cannot be used") == 1
    healed = run(script, **where)
    assert healed.stdout.split() == ["6.0", "1", "1"]
    assert not healed.stderr


def test_the_cache_is_private(script, tmp_path):
    run(script, XDG_CACHE_HOME=str(tmp_path / "cache"))
    folder = tmp_path / "cache" / "miniamp" / "compiled"
    assert any(folder.rglob("*.nbi"))
    assert not list(tmp_path.rglob("__pycache__/*.nbi"))
    if os.name == "posix":
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_no_room_for_a_cache(tmp_path, monkeypatch, capsys):
    """The disk is full at the moment of writing."""
    from numba.core import caching

    from miniamp import compiled

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(caching.IndexDataCacheFile, "save", full)
    monkeypatch.setattr(compiled, "_private_folder", lambda: str(tmp_path))
    compiled._report_once.cache_clear()

    @compiled.compiled
    def tripled(x):
        for i in range(len(x)):
            x[i] *= 3.0

    x = np.ones(2)
    tripled(x)
    tripled(x.astype(np.float32))
    assert x.tolist() == [3.0, 3.0]
    assert capsys.readouterr().err.count("cannot be used") == 1
