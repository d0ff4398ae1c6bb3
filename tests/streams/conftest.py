"""One small table, and ways to write it down."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROWS = 1050


@pytest.fixture(scope="session")
def frame() -> pd.DataFrame:
    """Numbers, whole numbers, a category and a target; floats with all their digits."""
    rng = np.random.default_rng(7)
    return pd.DataFrame(
        {
            "a": rng.normal(size=ROWS),
            "n": rng.integers(-5, 9, ROWS),
            "city": rng.choice(["Oslo", "Rome", "Łódź, PL"], ROWS),
            "b": rng.normal(size=ROWS) * 1e-7,
            "y": rng.normal(size=ROWS),
        }
    )


@pytest.fixture
def write(tmp_path: Path):
    """A function that writes text or bytes to a file and returns its path."""

    def written(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return written
