"""Softmax averages: the reference to 1e-12, and the limits that can be written down."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from miniamp.errors import InvalidInputError
from miniamp.theory.lowrank import label_error, softmax_averages

REFERENCE = json.loads(
    (Path(__file__).parents[2] / "reference" / "lowrank.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("row", REFERENCE["softmax expectations"], ids=str)
def test_reference(row: dict[str, float]) -> None:
    found = softmax_averages(int(row["R"]), row["gamma"])
    assert abs(found.p - row["p"]) < 1e-12
    assert abs(found.log_sum - row["E_logsumexp"]) < 1e-12
    assert abs(found.label_error - row["label_error"]) < 1e-12
    assert abs(found.doubt - (1.0 - row["p"])) < 1e-12


@pytest.mark.parametrize("R", [2, 3, 5, 20])
@pytest.mark.parametrize("gamma", [1e-12, 1e-9, 1e-6])
def test_small_signals_to_relative_precision(R: int, gamma: float) -> None:
    # q = g/R + g^2 (R-4)/(2 R^2) + ...: what decides whether a seed grows (errata L12).
    series = gamma / R + gamma**2 * (R - 4) / (2 * R**2)
    assert softmax_averages(R, gamma).excess == pytest.approx(series, rel=1e-9)


@pytest.mark.parametrize("R", [2, 7])
def test_the_two_quadratures_meet(R: int) -> None:
    below, above = softmax_averages(R, 1.0 - 1e-9), softmax_averages(R, 1.0)
    for name in ("p", "log_sum", "doubt", "label_error"):
        assert abs(getattr(above, name) - getattr(below, name)) < 3e-9


def test_log_sum_has_the_overlap_as_derivative() -> None:
    """I-MMSE for labels: d/dgamma (E log sum) = 1 - (1 - p)/2."""
    for R, gamma in ((3, 0.4), (5, 6.0), (10, 40.0)):
        step = 1e-3 * gamma
        slope = (
            softmax_averages(R, gamma + step).log_sum - softmax_averages(R, gamma - step).log_sum
        ) / (2 * step)
        assert slope == pytest.approx(0.5 + 0.5 * softmax_averages(R, gamma).p, abs=1e-6)


def test_certainty_and_ignorance() -> None:
    assert softmax_averages(5, 0.0).excess == pytest.approx(0.0, abs=1e-15)
    assert softmax_averages(5, 1000.0).p == pytest.approx(1.0, abs=1e-14)
    assert label_error(4, 0.0) == pytest.approx(0.75, abs=1e-14)


def test_against_plain_sampling() -> None:
    rng = np.random.default_rng(0)
    R, gamma, n = 4, 3.0, 200_000
    h = np.sqrt(gamma) * rng.normal(size=(n, R))
    h[:, 0] += gamma
    e = np.exp(h - h.max(axis=1, keepdims=True))
    p = e[:, 0] / e.sum(axis=1)
    assert abs(p.mean() - softmax_averages(R, gamma).p) < 5 * p.std() / np.sqrt(n)


def test_bad_input() -> None:
    with pytest.raises(InvalidInputError, match=r"^R: "):
        softmax_averages(1, 1.0)
    with pytest.raises(InvalidInputError, match=r"^gamma: "):
        softmax_averages(3, -1.0)
