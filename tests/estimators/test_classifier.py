"""MiniAMPClassifier: accuracy and calibration, two classes and ten."""

import numpy as np
import pytest
from scipy.stats import norm

pytest.importorskip("sklearn")

from sklearn.datasets import load_digits
from sklearn.metrics import log_loss

from miniamp import channels
from miniamp.estimators import MiniAMPClassifier


def labelled(rng, rows, coef, correlation=0.0):
    X = rng.normal(size=(rows, len(coef)))
    for j in range(1, len(coef)):
        X[:, j] = correlation * X[:, j - 1] + np.sqrt(1.0 - correlation**2) * X[:, j]
    return X, np.where(rng.random(rows) < norm.cdf(X @ coef + 0.5), "yes", "no")


@pytest.mark.parametrize("correlation", [0.0, 0.9])
@pytest.mark.parametrize("noise", ["learn", channels.Logistic()])
def test_probabilities_are_calibrated(correlation, noise):
    """N = 20, 600 rows in 6 batches, seed 0; 3000 new rows, sorted by probability, in ten bins.

    A bin of 300 has a standard deviation of at most 0.029: four of them, and 0.02 for the model.
    """
    rng = np.random.default_rng(0)
    coef = rng.normal(size=20) / np.sqrt(20) * 2.0
    X, y = labelled(rng, 3600, coef, correlation)
    model = MiniAMPClassifier(noise=noise)
    for k in range(0, 600, 100):
        model.partial_fit(X[k : k + 100], y[k : k + 100], classes=["no", "yes"])
    chance = model.predict_proba(X[600:])[:, 1]
    for places in np.array_split(np.argsort(chance), 10):
        assert abs(np.mean(y[600:][places] == "yes") - np.mean(chance[places])) < 0.14
    assert abs(np.mean(chance) - np.mean(y[600:] == "yes")) < 0.04
    assert model.health_.well


def test_ten_digits_in_one_pass():
    """1200 digits in 8 batches, 597 new ones: logistic regression makes 4 to 5 % of mistakes."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    model = MiniAMPClassifier()
    for k in range(0, 1200, 150):
        model.partial_fit(X[k : k + 150], y[k : k + 150], classes=np.arange(10))
    chances = model.predict_proba(X[1200:])
    assert model.score(X[1200:], y[1200:]) > 0.93
    assert log_loss(y[1200:], chances) < 0.22
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert model.coef_.shape == (10, 64)
    assert len(model.posterior_) == 10


def test_classes_are_asked_for_where_rows_do_not_have_them():
    X = np.random.default_rng(1).normal(size=(20, 2))
    with pytest.raises(ValueError, match=r"one class"):
        MiniAMPClassifier().partial_fit(X, np.zeros(20, dtype=int))
    model = MiniAMPClassifier().partial_fit(X, np.zeros(20, dtype=int), classes=[0, 1])
    more = np.random.default_rng(2).normal(size=(200, 2))
    model.partial_fit(more, (more[:, 0] > 0).astype(int))
    assert model.score(more, more[:, 0] > 0) > 0.8


def test_weights_repeat_rows():
    rng = np.random.default_rng(2)
    X, y = labelled(rng, 80, np.array([1.0, -1.0]))
    times = rng.integers(0, 4, size=80)
    weighted = MiniAMPClassifier().fit(X, y, sample_weight=times)
    repeated = MiniAMPClassifier().fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-9)
    nearly = MiniAMPClassifier().fit(X, y, sample_weight=times * (1.0 + 1e-9))
    np.testing.assert_allclose(nearly.coef_, repeated.coef_, rtol=0.15)
