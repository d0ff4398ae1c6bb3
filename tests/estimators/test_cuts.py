"""How a stream is cut into batches does not matter, at any noise and for any prior."""

from __future__ import annotations

import numpy as np
import pytest

from miniamp import MiniAMPClassifier, MiniAMPRegressor


def regression(rows, features, noise, seed, correlation=0.0):
    """Standardised signal of power 1, rows to learn from and 400 to test."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows + 400, features))
    for j in range(1, features if correlation else 0):
        X[:, j] = correlation * X[:, j - 1] + np.sqrt(1.0 - correlation**2) * X[:, j]
    x = rng.laplace(size=features)
    y = 3.0 + X @ x / np.linalg.norm(x) + np.sqrt(noise) * rng.standard_normal(len(X))
    return X[:rows], y[:rows], X[rows:], y[rows:]


def error_and_coverage(model, size, X, y, X_test, y_test):
    for k in range(0, len(y), size):
        model.partial_fit(X[k : k + size], y[k : k + size])
    low, high = model.predict_interval(X_test, level=0.9)
    inside = np.mean((low <= y_test) & (y_test <= high))
    return float(np.mean((model.predict(X_test) - y_test) ** 2)), float(inside)


@pytest.mark.parametrize("noise", [1e-6, 1e-2, 1.0])
@pytest.mark.parametrize("seed", [11, 12])
def test_independent_features_in_batches_of_fewer_rows(noise, seed):
    """With defaults; by AMP, which keeps marginals, 4 to 30,000 times the error of all at once."""
    data = regression(1000, 520, noise, seed)
    whole, _ = error_and_coverage(MiniAMPRegressor(), 1000, *data)
    pieces, covered = error_and_coverage(MiniAMPRegressor(), 100, *data)
    assert pieces == pytest.approx(whole, rel=0.05)
    assert 0.84 < covered < 0.95  # 400 rows: a standard deviation of .015


@pytest.mark.parametrize("noise", [1e-4, 1e-2])
@pytest.mark.parametrize("prior", ["laplace", "sparse"])
@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_other_priors_in_batches_of_fewer_rows(noise, prior, correlation):
    data = regression(400, 100, noise, 13, correlation)
    found = [error_and_coverage(MiniAMPRegressor(prior), size, *data) for size in (7, 50, 400)]
    errors, covered = np.transpose(found)
    assert errors.max() < 1.1 * errors.min()
    assert np.ptp(covered) < 0.08


@pytest.mark.parametrize("prior", ["gaussian", "laplace"])
@pytest.mark.parametrize("solver", ["robust", "amp"])
def test_noise_of_one_batch_with_few_rows_per_coefficient(prior, solver):
    """It swung from 0.5 to 2.5 times the truth and back, and ended at 0.3 to 0.5."""
    data = regression(450, 300, 1e-2, 14)
    model = MiniAMPRegressor(prior, solver=solver)
    _, covered = error_and_coverage(model, 450, *data)
    assert 0.6 < model.noise_ / 1e-2 < 1.6  # 150 free rows: a standard deviation of .12
    assert 0.83 < covered < 0.96


def test_labels_of_independent_features_are_learned_jointly():
    """By AMP the log loss was 6 % higher, in batches of any size."""
    rng = np.random.default_rng(15)
    X = rng.standard_normal((3000, 200))
    z = X @ rng.standard_normal(200) * 3.0 / np.sqrt(200)
    y = z + rng.standard_normal(3000) > 0.0
    losses = []
    for solver in ("auto", "amp"):
        model = MiniAMPClassifier(solver=solver)
        for k in range(0, 2000, 500):
            model.partial_fit(X[k : k + 500], y[k : k + 500], classes=[False, True])
        chances = model.predict_proba(X[2000:])[np.arange(1000), y[2000:].astype(int)]
        losses.append(-np.mean(np.log(chances)))
    assert losses[0] < 0.97 * losses[1]


def test_later_labels_of_many_features_all_count(recwarn):
    """While a row for four features waited, those beyond 256 of a class were left out."""
    rng = np.random.default_rng(16)
    X = rng.standard_normal((1000, 1600))
    y = X[:, :10].sum(axis=1) > 3.0
    model = MiniAMPClassifier()
    for k in range(0, 1000, 20):
        model.partial_fit(X[k : k + 20], y[k : k + 20], classes=[False, True])
    assert sum(entry["rows"] for entry in model.history_) == 1000
    assert not any("sampled" in entry for entry in model.history_)
    assert not any("blocks of one class" in str(warning.message) for warning in recwarn)


@pytest.mark.filterwarnings("ignore::miniamp.estimators.health.HealthWarning")
def test_noise_that_the_first_rows_did_not_show():
    """Sorted by y, 0 and 1 look straight at first, and the noise rose 100 times a batch at most.

    So 8 batches of 12 contradicted the past, with up to 1e14 times the noise: the error was 2.7
    times that of all rows at once, and intervals too wide.
    """
    rng = np.random.default_rng(17)
    X = rng.integers(0, 12, size=(800, 6)).astype(float)
    y = np.square(X[:, 0])
    first = np.argsort(y[:600], kind="stable")
    data = X[first], y[first], X[600:], y[600:]
    error, covered = error_and_coverage(MiniAMPRegressor(), 50, *data)
    best, _ = error_and_coverage(MiniAMPRegressor(), 600, *data)
    assert error < 1.1 * best
    assert 0.8 < covered < 0.96


@pytest.mark.filterwarnings("ignore::miniamp.estimators.health.HealthWarning")
@pytest.mark.parametrize(("features", "seed"), [(3, 13), (15, 15), (15, 19)])
def test_an_outlier_in_the_second_batch_does_not_raise_low_noise(features, seed):
    """The second batch may find noise of another order, unless few of its rows are the cause."""
    rng = np.random.default_rng(seed)
    X, x = rng.standard_normal((600, features)), rng.standard_normal(features)
    y = X @ x + 1e-4 * rng.standard_normal(600)
    y[40 + seed] += 10.0
    model = MiniAMPRegressor()
    error_and_coverage(model, 32, X[:400], y[:400], X[400:], y[400:])
    assert model.noise_ == pytest.approx(1e-8, rel=0.4)
    np.testing.assert_allclose(model.coef_, x, atol=5e-5)
