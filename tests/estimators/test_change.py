"""Streams that change, with forgetting: labels that flip, and single wrong labels that are none."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from miniamp import MiniAMPClassifier, MiniAMPRegressor

# A change, and a row beyond reason, are told by a HealthWarning.
pytestmark = pytest.mark.filterwarnings("ignore::miniamp.estimators.health.HealthWarning")


def noisy_labels(seed, rows, features=6):
    """Rows and labels -1 and 1 of which about a fifth is wrong: no batch is certain of any."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features))
    z = X @ rng.normal(size=features)
    return X, np.where(z / np.std(z) + 1.0 * rng.normal(size=rows) > 0.0, 1, -1)


def forgotten(model):
    conflicts = [done for entry in model.history_ for done in entry.get("conflicts", [])]
    return [done for done in conflicts if done["kind"] == "forgotten"]


def streamed(X, y, size=30):
    """The model, and the mean log loss of each batch before it was learned."""
    model, losses = MiniAMPClassifier(forget=0.95), []
    for i in range(0, len(y), size):
        part = slice(i, i + size)
        if i:
            chances = model.predict_proba(X[part])[:, 1]
            losses.append(-np.mean(np.log(np.where(y[part] > 0, chances, 1.0 - chances))))
        model.partial_fit(X[part], y[part], classes=[-1, 1])
    return model, np.array(losses)


@pytest.mark.parametrize("seed", [101, 102, 103])
def test_noisy_labels_that_flip_are_a_change(seed):
    # Squared residuals of noisy labels hardly grow by a flip: before, no change was looked for, and
    # the second half cost more than the 0.69 of a coin.
    X, y = noisy_labels(seed, 600)
    model, losses = streamed(X, np.where(np.arange(600) < 300, y, -y))
    assert forgotten(model)
    assert np.mean(losses[12:]) < 0.65  # from two batches after the flip on


@pytest.mark.parametrize("seed", [111, 112, 113])
def test_one_wrong_label_among_certain_ones_is_no_change(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(600, 6))
    z = X @ rng.normal(size=6)
    y = np.where(z > 0.0, 1, -1)
    wrong = 300 + int(np.argmax(np.abs(z[300:])))
    y[wrong] = -y[wrong]
    assert not forgotten(streamed(X, y)[0])


@pytest.mark.parametrize("seed", [141, 142, 143])
def test_a_relation_without_noise_that_flips_is_learned_anew(seed):
    # A thousandth of a past without noise is as certain as all of it: before, noise took the blame,
    # and two batches after the flip squared errors were three times those of no model.
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(600, 5))
    y = X @ rng.normal(size=5) + 1e-6 * rng.normal(size=600)
    y[300:] *= -1.0
    model = MiniAMPRegressor(forget=0.95)
    for i in range(0, 400, 50):
        model.partial_fit(X[i : i + 50], y[i : i + 50])
    error = model.predict(X[400:]) - y[400:]
    assert np.mean(error**2) < 1e-6 * np.var(y)


@pytest.mark.parametrize("seed", [0, 4, 7])
def test_labels_of_many_features_that_flip_are_a_change(seed):
    # Rows left out are predicted by the others of their batch, whatever the past: they gained one
    # nat by less of it, the evidence more than twenty. Before, nothing was noticed.
    X, labels = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))[:480]
    y = np.where(np.arange(480) < 240, 1, -1) * (2 * labels[order] - 1)
    model, losses = streamed(X[order], y, size=48)
    assert forgotten(model)
    assert np.mean(losses[5:]) < 0.1  # before: .13 to .17


def test_rows_that_fade_and_are_fewer_than_coefficients():
    # 1000 independent features by 20, of which 660 rows count. AMP leaves .74; evidence that takes
    # faded rows to pull like others took most of y for noise and left .93. Noise alone is .2.
    rng = np.random.default_rng(1)
    x = rng.normal(size=1000) / np.sqrt(1000.0)
    X = rng.normal(size=(2500, 1000))
    y = X @ x + 0.5 * rng.normal(size=2500)
    model = MiniAMPRegressor(forget=0.97)
    for i in range(0, 2000, 20):
        model.partial_fit(X[i : i + 20], y[i : i + 20])
    left = np.mean((model.predict(X[2000:]) - y[2000:]) ** 2) / np.var(y[2000:])
    assert left < 0.6


@pytest.mark.parametrize("forget", [0.5, 0.95])
@pytest.mark.parametrize("labels", [False, True])
def test_widths_grow_by_no_more_than_forgetting_explains(forget, labels):
    rng = np.random.default_rng(0)
    w, before = rng.normal(size=12), None
    model = (MiniAMPClassifier if labels else MiniAMPRegressor)(forget=forget)
    for k in range(20):
        X = rng.normal(size=(60, 12))
        y = X @ w + 0.1 * rng.normal(size=60)
        model.partial_fit(X, np.where(y > 0.0, 1, -1) if labels else y)
        std = np.ravel(model.coef_std_)
        if k > 4:  # later the noise and the width of the prior hardly move
            assert np.all(std <= before / np.sqrt(forget))
        before = std


def test_a_change_is_named_with_its_batch():
    rng = np.random.default_rng(0)
    w, model = rng.normal(size=5), MiniAMPRegressor(forget=0.95)
    for k in range(9):
        X = rng.normal(size=(50, 5))
        model.partial_fit(X, (X @ w) * (1 if k < 8 else -1) + 0.3 * rng.normal(size=50))
    assert "the stream has changed" in str(model.health_)
    assert (8, "drift") in model.health_.past
    assert "of the past was kept" in model.history_[8]["conflicts"][0]["message"]


@pytest.mark.parametrize("noise", [0.01, 1.0])
def test_learning_how_much_to_forget_costs_nothing_without_drift(noise):
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(1000, 20)), rng.normal(size=20)
    y = X @ w + noise * rng.normal(size=1000)
    errors = []
    for forget in (1.0, "auto"):
        model = MiniAMPRegressor(forget=forget)
        for i in range(0, 1000, 50):
            model.partial_fit(X[i : i + 50], y[i : i + 50])
        errors.append(np.mean((model.coef_ - w) ** 2))
    assert errors[1] < 1.02 * errors[0]
