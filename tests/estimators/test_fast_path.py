"""Batches that need no conversion: read once, and refused and learned from as all others are."""

from __future__ import annotations

import gc

import numpy as np
import pytest

pytest.importorskip("sklearn")

from scipy.special import gammaln

from miniamp.estimators import MiniAMPClassifier, MiniAMPRegressor, history
from miniamp.estimators.clusterer import measurable
from miniamp.estimators.rows import ready
from miniamp.estimators.scoring import EXPANDED, student_excess
from miniamp.evidence.frame import Ranges, sweeps_pay


def stream(batches, rows, features, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=features)
    for _ in range(batches):
        X = 3.0 + rng.normal(size=(rows, features))
        yield X, X @ x + rng.normal(size=rows)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_compiled_pass_equals_numpy(dtype):
    X = np.random.default_rng(0).normal(3.0, 2.0, size=(1000, 101)).astype(dtype)
    centre = np.linspace(-1.0, 5.0, 101)
    assert sweeps_pay(X)
    once, plain = Ranges.of(X, centre), Ranges.of(X)
    for one, other in zip(once[:3], plain[:3], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    power = np.square(X.astype(np.float64) - centre).sum(axis=0)
    np.testing.assert_allclose(once.power, power, rtol=1e-12)
    assert plain.power is None


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, object])
@pytest.mark.parametrize("entry", [1.0, np.nan, np.inf, -np.inf, 1e-200, -1e30, 0.0])
@pytest.mark.parametrize("shape", [(5, 3), (5, 2), (5,), (0, 3)])
def test_rows_without_their_ranges_are_accepted_alike(dtype, entry, shape):
    X = np.zeros(shape, dtype=np.float64)
    X[3:4] = entry
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        X = X.astype(dtype)
    assert measurable(X, 3) == (ready(X, 3) is not None)


@pytest.mark.parametrize("solver", ["auto", "amp"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
def test_later_batches_are_refused_as_the_first_is(solver, bad):
    (X, y), (later, _) = stream(2, 400, 100)
    model = MiniAMPRegressor(solver=solver).partial_fit(X, y)
    later[17, 3] = bad
    messages = []
    for one in (MiniAMPRegressor(solver=solver), model):
        with pytest.raises(ValueError, match=r".") as error:
            one.partial_fit(later, y)
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    assert model.n_samples_seen_ == 400


@pytest.mark.parametrize("first", [10, 40])
def test_rows_that_wait_are_not_those_of_the_caller(first):
    models = MiniAMPRegressor(), MiniAMPRegressor()
    room, target = np.empty((first, 3)), np.empty(first)
    for k, (X, y) in enumerate(stream(5, first, 3)):
        count = first if k == 0 else 10
        models[0].partial_fit(X[:count], y[:count])
        room[:count], target[:count] = X[:count], y[:count]
        models[1].partial_fit(room[:count], target[:count])
        room[:], target[:] = 1e6, -1e6
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


def test_thinned_histories_keep_the_theory_of_what_is_left(monkeypatch):
    models = MiniAMPRegressor("sparse", solver="amp"), MiniAMPRegressor("sparse", solver="amp")
    for X, y in stream(8, 40, 20):
        models[0].partial_fit(X, y)
    monkeypatch.setattr(history, "KEPT_BATCHES", 6)
    for X, y in stream(8, 40, 20):
        models[1].partial_fit(X, y)
    whole = {entry["batch"]: entry for entry in models[0].history_}
    thin = models[1].history_
    assert [entry["batch"] for entry in thin] == [0, 3, 4, 5, 6, 7]  # thinned twice
    for entry in thin:
        for name in ("precision", "variance", "error", "gained", "discarded"):
            assert entry[f"theory_{name}"] == whole[entry["batch"]][f"theory_{name}"]


def test_the_series_of_a_student_t_meets_its_gamma_functions():
    df, ratio = np.full(5, EXPANDED), np.array([0.0, 0.5, 1.0, 4.0, 30.0])
    norm = gammaln(0.5 * df + 0.5) - gammaln(0.5 * df) - 0.5 * np.log(0.5 * df)
    exact = norm - 0.5 * (df + 1.0) * np.log1p(ratio / df) + 0.5 * ratio
    np.testing.assert_allclose(student_excess(ratio, df), exact, atol=1e-12)


@pytest.mark.parametrize(
    ("model", "classes"),
    [
        (MiniAMPRegressor(), 0),
        (MiniAMPRegressor("sparse"), 0),
        (MiniAMPRegressor("sparse", solver="amp"), 0),
        (MiniAMPClassifier(), 2),
        (MiniAMPClassifier(solver="robust"), 2),
        (MiniAMPClassifier(), 3),
    ],
)
def test_batches_leave_no_cycles_behind(model, classes):
    """They keep rows and N x N matrices in memory until Python collects them.

    Labels of 1000 correlated features by 1000 left 40 MB per batch, and new pages took a fifth of
    the time.
    """
    try:
        for k, (X, y) in enumerate(stream(4, 120, 20)):
            y = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes)) if classes else y
            model.partial_fit(X, y)
            if k == 0:  # what is compiled and imported leaves some
                gc.collect()
                gc.disable()
                gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = [type(one).__name__ for one in gc.garbage if "miniamp" in type(one).__module__]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert left == []
