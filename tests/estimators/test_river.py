"""The adapters for river, by river's own checks and by what they promise."""

import numpy as np
import pytest

pytest.importorskip("river")

from river import checks as river_checks

from miniamp.compat.river import RiverClassifier, RiverRegressor
from miniamp.errors import InvalidInput

MODELS = [RiverRegressor(), RiverClassifier()]


@pytest.mark.parametrize(
    ("model", "check"),
    [
        pytest.param(model, check, id=f"{type(model).__name__}-{k}-{check.__name__}")
        for model in MODELS
        for k, check in enumerate(river_checks.yield_checks(model))
    ],
)
def test_every_check_of_river(model, check):
    check(model.clone())
