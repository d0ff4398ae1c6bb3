"""Thresholds of the clustering, continuous and first order."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from miniamp import priors
from miniamp.theory import lowrank

REFERENCE = json.loads(
    (Path(__file__).parents[2] / "reference" / "lowrank.json").read_text(encoding="utf-8")
)


def found(R: int, noise: float) -> lowrank.Transitions:
    return lowrank.transitions(priors.GaussianRows(R), priors.OneHot(R), noise)


@pytest.mark.parametrize("row", REFERENCE["thresholds"], ids=str)
def test_reference(row: dict[str, float]) -> None:
    ours = found(int(row["R"]), row["Delta"])
    assert ours.weak_recovery == pytest.approx(row["alpha_c"], rel=1e-12)
    assert ours.spinodal == pytest.approx(row["alpha_spinodal"], rel=1e-8)
    assert ours.information == pytest.approx(row["alpha_IT"], rel=1e-8)
    assert ours.first_order == row["first_order"]


def test_first_order_depends_on_the_noise() -> None:
    """Errata L12: first order iff Delta < (R - 4)/(2 R)."""
    narrow = found(5, 0.05)
    assert narrow.first_order
    assert narrow.spinodal == pytest.approx(0.06223, abs=1e-5)
    assert narrow.information == pytest.approx(0.06226, abs=1e-5)
    assert not found(5, 0.12).first_order
    assert not found(4, 0.05).first_order
    assert found(8, 0.2).first_order
    assert not found(8, 0.26).first_order


def test_verdicts() -> None:
    model = priors.GaussianRows(8), priors.OneHot(8), 0.05
    assert lowrank.verdict(*model, alpha_b=0.2).phase == "easy"
    assert lowrank.verdict(*model, alpha_b=0.15).phase == "hard"
    slow = lowrank.verdict(*model, alpha_b=0.04, size=1000)
    assert slow.phase == "impossible"
    assert slow.growth == pytest.approx(1.0 / (1.0 - 0.04 / 0.16))
    assert lowrank.verdict(*model, alpha_b=0.04, size=10**6).escape > slow.escape


def test_state_evolution_knows_the_same_thresholds() -> None:
    R, noise = 8, 0.05
    model = priors.GaussianRows(R), priors.OneHot(R), noise
    edges = found(R, noise)
    inside = lowrank.offline_curve(
        *model, edges.spinodal * np.array([1.0 - 1e-3, 1.0 + 1e-3]), informed=True
    )
    assert inside.overlap[0] == 0.0
    assert inside.overlap[1] > 1e-3
    amp = lowrank.offline_curve(*model, edges.weak_recovery * np.array([0.999, 1.001]))
    assert amp.overlap[0] == 0.0
    assert amp.overlap[1] > 1e-3
