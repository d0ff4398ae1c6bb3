"""Rows that are swept as they come say what a copy in their frame says."""

from __future__ import annotations

import numpy as np
import pytest

from miniamp import MiniAMPRegressor, channels, designs, evidence
from miniamp.designs.dense import column_sums
from miniamp.designs.swept import Swept
from miniamp.errors import InvalidInputError

ROWS, COLUMNS = 203, 61  # neither a multiple of the kernels' groups of rows


def problem(rng, offset=0.0, dtype=np.float64):
    scale = 10.0 ** rng.uniform(-3, 3, COLUMNS)
    X = (offset + scale * rng.normal(size=(ROWS, COLUMNS))).astype(dtype)
    unit = 1.0 / scale
    unit[7] = 0.0  # a feature that has not varied
    return X, X.mean(axis=0, dtype=np.float64), unit


def copied(X, centre, unit):
    return designs.Fused(np.column_stack([(X - centre) * unit, np.ones(len(X))]))


def assert_close(ours, plain, rtol=1e-11):
    for one, other in zip(ours, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * np.max(np.abs(other)))


@pytest.mark.parametrize("offset", [0.0, -1e9])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("averaged", [False, True], ids=["vector", "scalar"])
def test_sweeps_equal_those_of_a_copy(offset, dtype, averaged, rng, monkeypatch):
    """An entry far from zero less its centre has all the digits that the copy has."""
    X, centre, unit = problem(rng, offset, dtype)
    monkeypatch.setattr(designs.Fused, "IN_CACHE", 0)
    plain = copied(X, centre, unit)
    ours = designs.Framed(X, centre, unit, mean_square=plain.mean_square)
    assert ours.shape == plain.shape
    x, v = rng.normal(size=COLUMNS + 1), rng.random(COLUMNS + 1)
    y, channel, mine, theirs = rng.normal(size=ROWS), channels.Gaussian(0.3), None, None
    assert_close(ours.forecast(x, v), plain.forecast(x, v))
    if averaged:
        ours, plain = ours.averaged(), plain.averaged()
    for _ in range(3):
        one = ours.sandwich(x, v, y, channel, mine)
        other = plain.sandwich(x, v, y, channel, theirs)
        mine, theirs = one.memory, other.memory
        assert_close(one, other)
    assert "Phi" not in vars(getattr(ours, "inner", ours)), "a copy was made"


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 17])
@pytest.mark.parametrize("averaged", [False, True], ids=["vector", "scalar"])
def test_groups_of_rows_and_what_is_left_of_them_equal_plain_products(rows, averaged, rng):
    X, centre, unit = problem(rng)
    X = X[:rows]
    plain = designs.Dense(copied(X, centre, unit).toarray())
    x, v, y = rng.normal(size=COLUMNS + 1), rng.random(COLUMNS + 1), rng.normal(size=rows)
    batch = x, np.array(0.7) if averaged else v, y, channels.Gaussian(0.3), rng.normal(size=rows)
    ours = designs.Framed(X, centre, unit)
    assert_close(Swept.sandwich(ours, *batch), plain.sandwich(*batch), 1e-9)
    low, high, total, power = column_sums(X, centre)
    assert_close((low, high, total), (X.min(axis=0), X.max(axis=0), X.sum(axis=0)), 1e-9)
    assert_close((power,), (np.square(X - centre).sum(axis=0),), 1e-9)


def test_entries_that_are_asked_for_are_swept_from_then_on(rng):
    X, centre, unit = problem(rng)
    design, plain = designs.Framed(X, centre, unit), copied(X, centre, unit)
    np.testing.assert_allclose(design.gram(np.ones(COLUMNS + 1)), plain.gram(np.ones(COLUMNS + 1)))
    rows = design.loop_rows().rows
    assert len(rows) == 1
    assert np.shares_memory(rows[0], design.toarray())
    x, v = rng.normal(size=COLUMNS + 1), rng.random(COLUMNS + 1)
    assert_close(design.forecast(x, v), plain.forecast(x, v))


@pytest.mark.parametrize(
    ("X", "centre"),
    [
        (np.asfortranarray(np.ones((4, 3))), np.zeros(3)),
        (np.ones((4, 3), dtype=np.int64), np.zeros(3)),
        (np.ones((4, 3)), np.zeros(2)),
    ],
    ids=["by columns", "integers", "too few centres"],
)
def test_compiled_code_never_reads_past_the_end(X, centre):
    with pytest.raises(InvalidInputError):
        designs.Framed(X, centre, np.ones(3))
    with pytest.raises(InvalidInputError):
        designs.Framed(np.ones((4, 3)), np.zeros(3), np.ones(3)).forecast(np.ones(3), np.ones(3))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_amp_learns_the_same_without_a_copy(dtype, offset, rng, monkeypatch):
    """Tall batches of the solver "amp" are not copied, and the model is that of the copies."""
    x = rng.normal(size=20) * (rng.random(20) < 0.5)
    X = (offset + rng.normal(size=(4 * 2000, 20))).astype(dtype)
    y = (X - offset) @ x + 0.1 * rng.normal(size=len(X))
    made = []

    def fitted():
        model = MiniAMPRegressor("sparse", solver="amp")
        for k in range(0, len(X), 2000):
            model.partial_fit(X[k : k + 2000], y[k : k + 2000])
        return model

    def counted(self, *arguments, **options):
        made.append(self)
        init(self, *arguments, **options)

    init = designs.Framed.__init__
    monkeypatch.setattr(designs.Framed, "__init__", counted)
    ours = fitted()
    assert len(made) == 3  # the first batch takes many sweeps
    assert not any("Phi" in vars(design) for design in made)
    for design in made:
        mean_square = np.mean(np.square(design.toarray()))
        assert design.mean_square == pytest.approx(mean_square, rel=1e-10)
    monkeypatch.setattr(evidence.frame, "TALL", np.inf)
    plain = fitted()
    np.testing.assert_allclose(ours.coef_, plain.coef_, rtol=1e-9, atol=1e-12)
    assert ours.noise_ == pytest.approx(plain.noise_, rel=1e-9)
    assert len(made) == 3
