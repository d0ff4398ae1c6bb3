"""What all tests share: reference numbers, a seeded generator, Hypothesis without a clock."""

import json
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

# A shared machine makes a sound example slow now and then; the suite has a timeout of its own.
hypothesis.settings.register_profile("miniamp", deadline=None, print_blob=True)
hypothesis.settings.load_profile("miniamp")

REFERENCE = Path(__file__).parent / "reference"


@pytest.fixture(scope="session")
def glm() -> dict[str, Any]:
    """State evolution of the generalised linear models, to eleven digits."""
    return json.loads((REFERENCE / "glm.json").read_text())


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20170601)
