"""Health: silent on sound streams, plain words on others."""

import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn")

from miniamp.estimators import HealthWarning, MiniAMPClassifier, MiniAMPRegressor


def rows_of(design, rng, rows, features):
    if design == "independent":
        return rng.normal(size=(rows, features))
    if design == "means":
        return 2.0 * rng.normal(size=(rows, features)) + 3.0
    X = rng.normal(size=(rows, features))
    for j in range(1, features):
        X[:, j] = 0.9 * X[:, j - 1] + np.sqrt(0.19) * X[:, j]
    return X


def stream(
    model, design="independent", features=20, rows=80, batches=12, seed=0, change=None, noise=None
):
    rng = np.random.default_rng(seed)
    coef = rng.normal(size=features) / np.sqrt(features)
    for k in range(batches):
        if k == change:
            coef = rng.normal(size=features) / np.sqrt(features)
        X = rows_of(design, rng, rows, features)
        error = rng.normal(size=rows) if noise is None else noise(rng, rows)
        y = X @ coef + 1.0 + np.sqrt(0.3) * error
        if isinstance(model, MiniAMPClassifier):
            model.partial_fit(X, y > 1.0, classes=[False, True])
        else:
            model.partial_fit(X, y)
    return model


def kinds(model):
    return {kind for _, kind in model.health_.past}


@pytest.mark.parametrize("design", ["independent", "correlated", "means"])
@pytest.mark.parametrize("features", [20, 120])
@pytest.mark.parametrize("seed", [0, 1])
def test_no_false_alarm_in_regression(design, features, seed):
    model = stream(MiniAMPRegressor(), design, features, seed=seed)
    assert model.health_.well
    assert not kinds(model)


@pytest.mark.parametrize("design", ["independent", "correlated"])
def test_no_false_alarm_in_classification(design):
    assert not kinds(stream(MiniAMPClassifier(), design))


def test_theory_follows_the_stream():
    """Independent features, N = 150, 12 batches of 80: errors of forecasts as state evolution says.

    A batch of 80 squared residuals has 16 % of chance, eleven batches together 5 %.
    """
    model = stream(MiniAMPRegressor(), features=150)
    told = [e for e in model.history_ if e.get("theory_error") and e.get("error")]
    assert len(told) == 11
    assert abs(np.mean([e["error"] / e["theory_error"] for e in told]) - 1.0) < 0.2
    assert all(0.8 < e["mean_variance"] / e["theory_variance"] < 1.25 for e in told)


@pytest.mark.parametrize(("noise", "word"), [(0.03, "larger"), (5, "smaller")])
def test_a_misjudged_noise(noise, word):
    with pytest.warns(HealthWarning, match=f"The noise is {word} than noise={noise}"):
        model = stream(MiniAMPRegressor(noise=noise))
    (finding,) = model.health_.findings
    assert finding.kind == "noise"
    assert "noise='learn'" in finding.remedy


def test_outliers():
    with pytest.warns(HealthWarning, match="The noise has outliers"):
        stream(MiniAMPRegressor(), noise=lambda rng, rows: rng.standard_t(2, size=rows))


@pytest.mark.parametrize("make", [MiniAMPRegressor, MiniAMPClassifier])
def test_drift(make):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", HealthWarning)
        model = stream(make(), batches=22, change=12)
    assert "drift" in kinds(model)
    assert any("forget=0.9" in str(warning.message) for warning in caught)
    assert min(batch for batch, _ in model.health_.past) >= 12


def test_a_design_that_amp_cannot_take():
    with pytest.warns(HealthWarning, match="AMP cannot take these rows"):
        model = stream(MiniAMPRegressor(solver="amp"), "correlated", 120)
    assert kinds(model) == {"design"}
    assert "solver='auto'" in str(model.health_)
