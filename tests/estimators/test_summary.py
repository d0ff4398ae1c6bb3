"""Summaries say what the estimator knows, in every form."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import log_loss, r2_score, roc_auc_score

from miniamp import MiniAMPClassifier, MiniAMPClusterer, MiniAMPRegressor, load
from miniamp.errors import InvalidInputError
from miniamp.estimators.describe import _p_positive, _quantile
from miniamp.estimators.scoring import Tally

pd = pytest.importorskip("pandas")
N, ROWS = 4, 1200


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(7)
    X = pd.DataFrame(rng.normal(size=(ROWS, N)) * [1, 10, 1, 1], columns=["a", "b", "c", "d"])
    z = 2.0 * X.a - 0.1 * X.b
    return X, z + 5.0 + rng.normal(size=ROWS), np.where(z + rng.normal(size=ROWS) > 0, "yes", "no")


@pytest.fixture(scope="module")
def regressor(data):
    return streamed(MiniAMPRegressor(), data[0], data[1])


def streamed(model, X, y, **first):
    for k in range(0, ROWS, 200):
        model.partial_fit(X[k : k + 200], y[k : k + 200], **(first if k == 0 else {}))
    return model


def test_the_table_has_the_posterior_of_every_coefficient(regressor):
    table = regressor.summary(level=0.8)
    assert table.index.tolist() == ["intercept", "a", "b", "c", "d"]
    assert table.columns.tolist() == ["mean", "std", "lower", "upper", "p_positive", "effect"]
    rest = table.drop("intercept")
    np.testing.assert_allclose(rest["mean"], regressor.coef_)
    np.testing.assert_allclose(rest["std"], regressor.coef_std_)
    assert table["mean"]["intercept"] == regressor.intercept_
    np.testing.assert_allclose(rest.upper, regressor.coef_ + norm.ppf(0.9) * regressor.coef_std_)
    np.testing.assert_allclose(rest.p_positive, norm.cdf(regressor.coef_ / regressor.coef_std_))


def test_effects_are_in_standard_deviations(regressor, data):
    """coef * std(x) / std(y); units come from the first rows, so to 15 %."""
    X, y, _ = data
    expected = regressor.coef_ * X.std().to_numpy() / y.std()
    effect = regressor.summary().effect.to_numpy()[1:]
    np.testing.assert_allclose(effect[:2], expected[:2], rtol=0.15)


def test_r2_is_that_of_predictions_made_before_learning(data):
    X, y, _ = data
    model, predicted, truth = MiniAMPRegressor(), [], []
    for k in range(0, ROWS, 200):
        if k:
            predicted.append(model.predict(X[k : k + 200]))
            truth.append(y[k : k + 200])
        model.partial_fit(X[k : k + 200], y[k : k + 200])
    expected = r2_score(np.concatenate(truth), np.concatenate(predicted))
    assert float(model.summary().attrs["R2, unseen rows"]) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("classes", [2, 3])
def test_log_loss_and_auc_are_those_of_predictions_made_before_learning(data, classes):
    X, _, y = data
    if classes == 3:
        y = np.digitize(2.0 * X.a - 0.1 * X.b, [-1.0, 1.0])
    model, predicted = MiniAMPClassifier(), []
    for k in range(0, ROWS, 200):
        if k:
            predicted.append(model.predict_proba(X[k : k + 200]))
        model.partial_fit(X[k : k + 200], y[k : k + 200])
    p, facts = np.concatenate(predicted), model.summary().attrs
    # Batches are predicted after their own units are known, which moves the prior a little: by
    # 2.2 % here, where classes have sharp bounds and most rows are all but certain.
    assert float(facts["log loss, unseen rows"]) == pytest.approx(log_loss(y[200:], p), rel=0.04)
    area = roc_auc_score(y[200:], p[:, 1] if classes == 2 else p, multi_class="ovr")
    # Scores are counted in bins of log-odds 0.2 wide.
    assert float(facts["AUC, unseen rows"]) == pytest.approx(area, abs=2e-3)


def test_a_spike_adds_the_inclusion_probability_and_changes_the_interval(data):
    X, y, _ = data
    table = MiniAMPRegressor("sparse").fit(X, y).summary()
    assert table.inclusion["a"] == pytest.approx(1.0)
    assert table.inclusion["c"] < 0.5
    assert (table.lower["c"], table.upper["c"]) == (0.0, 0.0)


def test_quantiles_with_a_spike_are_those_of_draws():
    """2e6 draws of p N(mu, s^2) + (1 - p) delta_0, seed 0: quantiles to 0.01."""
    rng, p, mu, s = np.random.default_rng(0), 0.6, 0.5, 1.0
    x = np.where(rng.random(2_000_000) < p, rng.normal(mu, s, 2_000_000), 0.0)
    moments = (np.array([x.mean()]), np.array([x.std()]), np.array([p]))
    for q in (0.05, 0.1, 0.3, 0.7, 0.95):
        assert _quantile(*moments, q)[0] == pytest.approx(np.quantile(x, q), abs=0.01)
    assert _p_positive(*moments)[0] == pytest.approx(np.mean(x > 0), abs=0.002)


def test_several_classes_have_a_block_each(data):
    X, _, _ = data
    model = MiniAMPClassifier().fit(X, np.digitize(X.a, [-0.5, 0.5]))
    table = model.summary()
    assert table.index.names == ["class", "name"]
    assert len(table) == 3 * (N + 1)
    assert table.loc[("2", "a"), "mean"] == model.coef_[2, 0]


def test_clusters_have_a_row_each_and_the_separating_feature_first():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 6))
    X[:, 4] += np.repeat([-5.0, 5.0], 150)
    model = MiniAMPClusterer(2, random_state=0).fit(rng.permutation(X))
    table = model.summary()
    assert table.columns[:2].tolist() == ["share", "x4"]
    assert table.share.sum() == pytest.approx(1.0)


def test_text_shows_the_strongest_and_says_how_many_there_are(regressor):
    text = regressor.summary_text(most=2)
    lines = text.splitlines()
    assert lines[0].strip() == "MiniAMPRegressor"
    assert [line.split()[0] for line in lines[-4:-2]] == ["intercept", "a"]
    assert lines[-1].startswith("the strongest 2 of 5; effect: ")
    assert {len(line) for line in lines if set(line) == {"="}} == {max(map(len, lines[:-1]))}


def test_names_are_made_safe_for_terminals_and_notebooks(data):
    X, y, _ = data
    model = MiniAMPRegressor().fit(X.rename(columns={"a": "<b>\x1b[31m"}), y)
    assert "\x1b" not in model.summary_text()
    shown = model._repr_mimebundle_()["text/html"]
    assert "<b>\x1b" not in shown
    assert "P(&gt;0)" in shown
    assert "P(&gt;0)" not in MiniAMPRegressor()._repr_mimebundle_()["text/html"]


def test_a_single_batch_has_no_errors_to_report():
    model = MiniAMPRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.1, 1.9])
    assert "unknown: a single batch" in model.summary_text()


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, "high"])
def test_levels_that_are_none_are_refused(regressor, level):
    with pytest.raises(InvalidInputError, match="level"):
        regressor.summary(level)


def test_the_tally_is_saved_and_restored(data, tmp_path):
    X, _, y = data
    model = streamed(MiniAMPClassifier(), X, y)
    model.save(tmp_path / "m.amp")
    again = load(tmp_path / "m.amp")
    assert again.summary_text() == model.summary_text()
    np.testing.assert_array_equal(again._state.tally.low, X.min())
    assert model._state.tally.confusion.sum() == ROWS - 200
    assert Tally(**vars(again._state.tally)).auc == model._state.tally.auc


def test_arviz_reads_joint_draws_where_there_are_some(regressor):
    """4000 draws: means to 5 standard errors; the intercept goes with the features' means."""
    pytest.importorskip("arviz")
    data = regressor.to_arviz(draws=4000, random_state=0)
    assert data.posterior.attrs["joint"] == 1
    coef = data.posterior["coef"].sel(feature="a").to_numpy().ravel()
    assert coef.mean() == pytest.approx(regressor.coef_[0], abs=5 * coef.std() / 4000**0.5)
    assert coef.std() == pytest.approx(regressor.coef_std_[0], rel=0.1)


def test_arviz_gets_marginals_where_no_covariances_are_known(data):
    pytest.importorskip("arviz")
    X, y, _ = data
    found = MiniAMPRegressor(memory=0).fit(X, y).to_arviz(draws=100, random_state=0)
    assert found.posterior.attrs["joint"] == 0
    classes = np.digitize(X.a, [-0.5, 0.5])
    several = MiniAMPClassifier().fit(X, classes).to_arviz(draws=10, random_state=0)
    assert several.posterior["coef"].sizes == {"chain": 1, "draw": 10, "class": 3, "feature": N}


def test_levels_of_a_category_are_differences_from_their_mean():
    """600 rows, seed 8. Of four dummies and an intercept only differences are known."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(8)
    day = rng.integers(0, 4, 600)
    X = pd.DataFrame(np.eye(4)[day], columns=[f"day={name}" for name in "abcd"])
    X["bill"] = rng.normal(50.0, 5.0, 600)
    worth = np.array([1.0, 2.0, 3.0, 6.0])
    y = 10.0 + worth[day] + 0.2 * X.bill + rng.normal(0, 1.0, 600)
    model = MiniAMPRegressor().fit(X, y)
    table = model.summary()
    levels = table.loc[[f"day={name}" for name in "abcd"]]
    weights = np.hstack([np.eye(4) - 0.25, np.zeros((4, 1))])
    mean, std = model.contrast(weights)
    assert np.allclose(levels["mean"], mean)
    assert np.allclose(levels["std"], std)
    assert np.all(np.abs(levels["mean"] - (worth - 3.0)) < 4.0 * levels["std"])
    assert levels["std"].max() < 0.1 * model.coef_std_[:4].min()  # which is that of their sum
    at_zero = table.loc["intercept"]
    assert abs(at_zero["mean"] - 13.0) < 4.0 * at_zero["std"] < 4.0
    assert table.loc["bill", "mean"] == model.coef_[4]
    # With a reference level coefficients are as they are.
    fewer = MiniAMPRegressor().fit(X.drop(columns="day=a"), y)
    assert np.array_equal(fewer.summary()["mean"][1:], fewer.coef_)


def test_the_summary_of_one_row_says_that_its_deviations_are_a_guess():
    few = MiniAMPRegressor().fit(np.ones((1, 2)), np.ones(1)).summary_text()
    assert "the noise is a guess" in few
    X = np.random.default_rng(0).normal(size=(40, 2))
    assert "guess" not in MiniAMPRegressor().fit(X, X[:, 0]).summary_text()


def test_effects_and_levels_are_those_of_all_rows_however_they_are_ordered():
    """Rows sorted by a category and by time: the first batch has one level, and little spread."""
    rng = np.random.default_rng(0)
    n = 600
    second = np.arange(n) >= 250
    X = np.column_stack([~second, second, np.arange(n) + rng.normal(size=n)]).astype(float)
    y = 5.0 * second + 0.02 * X[:, 2] + rng.normal(size=n)
    model = MiniAMPRegressor()
    for batch in np.array_split(np.arange(n), 10):
        model.partial_fit(X[batch], y[batch])
    model.feature_names_in_ = np.array(["half=first", "half=second", "time"], dtype=object)
    table = model.summary()
    assert table.loc["half=first", "mean"] == pytest.approx(-table.loc["half=second", "mean"])
    assert table.loc["half=second", "std"] < 0.2
    expected = table["mean"].iloc[1:] * X.std(axis=0) / y.std()
    np.testing.assert_allclose(table["effect"].iloc[1:], expected, rtol=1e-6)
