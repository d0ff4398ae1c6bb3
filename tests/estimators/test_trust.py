"""Streams as they come: in any cut, order and unit the answer is the same, and errors are told."""

import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.datasets import load_breast_cancer, load_diabetes, load_linnerud, load_wine
from sklearn.linear_model import RidgeCV
from sklearn.metrics import log_loss

from miniamp import channels, priors
from miniamp.errors import ConflictError, InvalidInputError
from miniamp.estimators import HealthWarning, MiniAMPClassifier, MiniAMPRegressor


def streamed(model, X, y, size, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HealthWarning)
        for k in range(0, len(y), size):
            model.partial_fit(X[k : k + size], y[k : k + size], **options)
    return model


def diabetes(seed, rows=300):
    X, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    X, y = X[order], y[order]
    return X[:rows], y[:rows], X[rows:], y[rows:]


def test_the_cut_of_a_stream_does_not_matter():
    """Diabetes, five orders (seeds 200 to 204), 300 rows by 1, 2, 5, 20, 100 and all at once.

    Errors within 10 % of each other and coverage of 90 % intervals within 0.03 (of 710 test rows:
    its own standard deviation is 0.011, and nearly the same rows are covered in every cut).
    """
    errors, coverage = {}, {}
    for size in (1, 2, 5, 20, 100, 300):
        square, inside = [], []
        for seed in range(200, 205):
            X, y, Z, w = diabetes(seed)
            model = streamed(MiniAMPRegressor(), X, y, size)
            assert model.n_samples_seen_ == 300
            low, high = model.predict_interval(Z, level=0.9)
            square.append(np.mean(np.square(model.predict(Z) - w)))
            inside.append(np.mean((low < w) & (w < high)))
        errors[size], coverage[size] = np.mean(square), np.mean(inside)
    assert max(errors.values()) < 1.1 * min(errors.values()), errors
    assert max(coverage.values()) - min(coverage.values()) < 0.03, coverage
    assert min(coverage.values()) > 0.86, coverage


def test_labels_in_small_batches_are_learned_as_well_as_in_one():
    """Breast cancer, orders of seeds 0 to 7, 426 rows by 20: the mean log loss on the other 143 is
    within 5 % of that of one batch (0.99; it was 1.11 where 32 first rows set the scale)."""
    X, y = load_breast_cancer(return_X_y=True)
    losses = {20: 0.0, 426: 0.0}
    for seed in range(8):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[:426], order[426:]
        for size in losses:
            model = streamed(MiniAMPClassifier(), X[train], y[train], size, classes=[0, 1])
            losses[size] += log_loss(y[test], model.predict_proba(X[test])) / 8.0
    assert losses[20] < 1.05 * losses[426], losses


def test_first_rows_of_a_stream_that_drifts_do_not_wait_for_the_change():
    """Breast cancer, seed 7, 426 rows by 21, labels flipped from row 213 on: with forget=0.95 the
    log loss of batches from there on is 0.17 of each before it is learned (1.03 where 240 first
    rows of both kinds were learned together)."""
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(7).permutation(len(y))[:426]
    X, y = X[order], np.where(np.arange(426) < 213, y[order], 1 - y[order])
    model, losses = MiniAMPClassifier(forget=0.95), []
    for k in range(0, 426, 21):
        if k >= 213:
            chances = np.clip(model.predict_proba(X[k : k + 21]), 1e-6, 1.0)
            losses += list(-np.log(chances[np.arange(len(chances)), y[k : k + 21]]))
        streamed(model, X[k : k + 21], y[k : k + 21], 21, classes=[0, 1])
    assert np.mean(losses) < 0.4


def test_first_batch_of_several_classes_finds_the_scale_of_their_scores():
    """Five features, four classes, coefficients of variance 100, 500 rows, seeds 0 to 2: the mean
    log loss on 1000 others is 0.11 (0.147 where the scale was changed once); that of the true
    coefficients is 0.095."""
    losses = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1500, 5))
        y = (X @ (10.0 * rng.normal(size=(5, 4))) + rng.gumbel(size=(1500, 4))).argmax(axis=1)
        model = MiniAMPClassifier().partial_fit(X[:500], y[:500])
        losses.append(log_loss(y[500:], model.predict_proba(X[500:])))
    assert np.mean(losses) < 0.125, losses


@pytest.mark.parametrize(("name", "most"), [("wine", 0.05), ("chance", 1.105)])
def test_the_scale_of_several_classes_is_found_far_from_the_first_guess(name, most):
    """Classes that can nearly be separated need a larger scale, labels drawn by chance a smaller
    one. Four splits: 0.036 to 0.046 as averages are rounded (at large scales the last fits do not
    settle), and 1.098, as what rows left out by linear response told 0.053 and 1.117; logistic
    regression with cross-validation 0.041 and 1.098."""
    losses = []
    for seed in range(12, 16):
        rng = np.random.default_rng(seed)
        if name == "chance":
            X, y = rng.normal(size=(400, 12)), rng.integers(3, size=400)
        else:
            X, y = load_wine(return_X_y=True)
        train, test = np.split(rng.permutation(len(y)), [3 * len(y) // 4])
        model = MiniAMPClassifier().partial_fit(X[train], y[train])
        losses.append(log_loss(y[test], model.predict_proba(X[test])))
    assert np.mean(losses) < most


def test_rows_that_wait_are_counted_when_asked_for():
    rng = np.random.default_rng(210)
    X = rng.normal(size=(120, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=120)
    model = streamed(MiniAMPRegressor(), X[:100], y[:100], 50)
    before = model.predict(X[100:])
    model.partial_fit(X[100:], y[100:])
    assert model.n_samples_seen_ == 120
    assert [entry["rows"] for entry in model.history_] == [50, 50, 20]
    assert not np.array_equal(model.predict(X[100:]), before)
    # Asking changes nothing: the same rows are grouped with those that follow.
    other = streamed(MiniAMPRegressor(), X[:100], y[:100], 50).partial_fit(X[100:], y[100:])
    for one in (model, other):
        one.partial_fit(X[:40], y[:40])
    np.testing.assert_array_equal(model.coef_, other.coef_)
    assert [entry["rows"] for entry in model.history_] == [50, 50, 60]


@pytest.mark.parametrize("offset", [0.0, 1e5, -1e9])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_units_of_the_target_do_not_matter(offset, scale):
    """Offsets in standard deviations of y. At 1e9 of them y keeps 7 digits: 1e-6 is ten times."""
    X, y, Z, _ = diabetes(220)
    y = (y - y.mean()) / y.std()
    plain = streamed(MiniAMPRegressor(), X, y, 30)
    moved = streamed(MiniAMPRegressor(), X, scale * (y + offset), 30)
    mean, std = plain.predict(Z, return_std=True)
    other, other_std = moved.predict(Z, return_std=True)
    np.testing.assert_allclose(other / scale - offset, mean, atol=1e-5)
    np.testing.assert_allclose(other_std / scale, std, rtol=1e-5)
    np.testing.assert_allclose(moved.coef_std_ / scale, plain.coef_std_, rtol=1e-5)
    np.testing.assert_allclose(moved.noise_ / scale**2, plain.noise_, rtol=1e-5)
    last, expected = moved.history_[-1], plain.history_[-1]
    for name, power in (
        ("error", 2),
        ("expected_error", 2),
        ("prior_var", 2),
        ("mean_variance", 2),
    ):
        np.testing.assert_allclose(last[name] / scale**power, expected[name], rtol=1e-4)
    np.testing.assert_allclose(last["score"] + np.log(scale), expected["score"], atol=1e-4)


@pytest.mark.parametrize("offset", [0.0, 1e9])
@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_units_of_the_features_do_not_matter(offset, scale):
    X, y, Z, _ = diabetes(221)
    X, Z = 20.0 * X, 20.0 * Z
    plain = streamed(MiniAMPRegressor(), X, y, 30)
    moved = streamed(MiniAMPRegressor(), scale * (X + offset), y, 30)
    np.testing.assert_allclose(
        moved.predict(scale * (Z + offset)), plain.predict(Z), atol=1e-3 * y.std()
    )


@pytest.mark.parametrize("order", ["negatives first", "positives first"])
def test_blocks_of_one_class_do_not_mislead(order):
    """1200 rows of 8 features, 2 seeds, one class first: near the log loss of a random order.

    The model is fitted to 256 rows of each class then, 512 of 1200, which costs about 10 %.
    """
    losses = {"random": [], "sorted": []}
    for seed in range(230, 232):
        rng = np.random.default_rng(seed)
        coef = rng.normal(size=8)
        X = rng.normal(size=(3000, 8))
        y = (X @ coef + 0.5 * rng.normal(size=3000) > 1.0).astype(int)
        X, y, Z, w = X[:1200], y[:1200], X[1200:], y[1200:]
        for name, found in losses.items():
            where = np.arange(1200)
            if name == "sorted":
                where = np.argsort(y if order == "negatives first" else -y, kind="stable")
            model = streamed(MiniAMPClassifier(), X[where], y[where], 100, classes=[0, 1])
            found.append(log_loss(w, model.predict_proba(Z)))
        assert model.n_samples_seen_ == 1200
        assert [finding.kind for finding in model.health_.findings] == ["order"]
    assert np.mean(losses["sorted"]) < 1.3 * np.mean(losses["random"]), losses


def test_blocks_of_one_class_in_real_data_are_told():
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(233).permutation(len(y))
    X, y = X[order], y[order]
    where = np.argsort(y[:400], kind="stable")
    model = MiniAMPClassifier()

    def learn():
        for k in range(0, 400, 100):
            some = where[k : k + 100]
            model.partial_fit(X[some], y[some], classes=[0, 1])

    with pytest.warns(HealthWarning, match="The rows come in blocks of one class"):
        learn()
    assert log_loss(y[400:], model.predict_proba(X[400:])) < 0.2
    # Once both classes come together, learning goes on batch by batch.
    streamed(model, X[:400], y[:400], 50)
    assert model.health_.past[-1][1] == "order" or "order" not in str(model.health_.findings)
    assert model.n_samples_seen_ == 800


def test_covariance_is_that_of_exact_inference():
    """Gaussian prior and noise, both given: the inverse of X'X/noise + 1/var, by 7 rows."""
    rng = np.random.default_rng(240)
    X = rng.normal(size=(100, 5)) @ rng.normal(size=(5, 5))
    y = X @ rng.normal(size=5) + 0.5 * rng.normal(size=100)
    model = MiniAMPRegressor(priors.Gaussian(var=2.0), noise=0.25, fit_intercept=False)
    streamed(model, X, y, 7)
    exact = np.linalg.inv(X.T @ X / 0.25 + np.eye(5) / 2.0)
    np.testing.assert_allclose(model.covariance(), exact, rtol=1e-6, atol=1e-12)
    mean, std = model.contrast(np.eye(5))
    np.testing.assert_allclose(mean, model.coef_)
    np.testing.assert_allclose(std, model.coef_std_)
    coef, intercept = model.sample_coefficients(20_000, random_state=0)
    assert coef.shape == (20_000, 5)
    assert not intercept.any()
    # A covariance of 20,000 draws has a relative standard deviation of 1 %: five of them.
    np.testing.assert_allclose(np.cov(coef.T), exact, atol=0.05 * np.abs(exact).max())


def test_contrasts_of_one_hot_columns_are_as_sharp_as_least_squares():
    """sex=1 minus sex=0 in diabetes: each column alone can be traded for the intercept."""
    X, y = load_diabetes(return_X_y=True)
    female = (X[:, 1] > 0.0).astype(float)
    X = np.column_stack([np.delete(X, 1, axis=1), female, 1.0 - female])
    model = streamed(MiniAMPRegressor(), X, y, 100)
    weights = np.append(np.zeros(9), [1.0, -1.0])
    mean, std = model.contrast(weights)
    A = np.column_stack([X[:, :10], np.ones(len(y))])
    coef, residual = np.linalg.lstsq(A, y, rcond=None)[:2]
    exact = np.sqrt(residual[0] / (len(y) - 11) * np.linalg.inv(A.T @ A)[9, 9])
    assert 0.7 * exact < std < 1.3 * exact
    assert abs(mean - coef[9]) < 2.0 * exact
    assert std < np.hypot(*model.coef_std_[-2:])


def test_joint_uncertainty_says_where_it_is_not_known():
    rng = np.random.default_rng(241)
    X = rng.normal(size=(200, 100))
    y = X[:, 0] + rng.normal(size=200)
    for model in (MiniAMPRegressor(memory=0), MiniAMPRegressor(memory=20, solver="robust")):
        with pytest.raises(InvalidInputError, match=r"memory: .*covariances are not known"):
            model.fit(X, y).covariance()
    known = MiniAMPRegressor(memory=101, solver="robust").fit(X, y)
    assert known.covariance().shape == (100, 100)
    with pytest.raises(InvalidInputError, match=r"weights: got shape \(3,\)"):
        known.contrast(np.ones(3))


def test_joint_uncertainty_of_several_classes():
    rng = np.random.default_rng(242)
    X = rng.normal(size=(300, 4))
    model = MiniAMPClassifier().fit(X, X[:, :3].argmax(axis=1))
    assert model.covariance().shape == (3, 4, 4)
    mean, std = model.contrast(np.ones(4))
    assert mean.shape == std.shape == (3,)
    coef, intercept = model.sample_coefficients(5, random_state=0)
    assert coef.shape == (5, 3, 4)
    assert intercept.shape == (5, 3)


def test_intervals_after_few_rows_have_the_tails_of_a_student_t():
    """3 features, 12 rows, 60 problems (seed 250): 90 % intervals of 40 new rows each.

    The share has a standard deviation of 0.02 (rows of one problem share their model), so 0.05 is
    two and a half.
    """
    rng = np.random.default_rng(250)
    inside, gaussian = [], []
    for _ in range(60):
        X = rng.normal(size=(52, 3))
        y = X @ rng.normal(size=3) + rng.normal(size=52)
        model = MiniAMPRegressor().fit(X[:12], y[:12])
        low, high = model.predict_interval(X[12:], level=0.9)
        inside.append(np.mean((low < y[12:]) & (y[12:] < high)))
        mean, std = model.predict(X[12:], return_std=True)
        gaussian.append(np.mean(np.abs(y[12:] - mean) < 1.645 * std))
    assert abs(np.mean(inside) - 0.9) < 0.05
    assert np.mean(gaussian) < np.mean(inside)


@pytest.mark.parametrize("seed", [*range(260, 266), 7802, 8818, 8850])
def test_student_t_data_under_a_student_t_model_raise_no_alarm(seed):
    rng = np.random.default_rng(seed)
    coef = rng.normal(size=5)
    model = MiniAMPRegressor(noise=channels.StudentT(df=3.0, scale=0.5))
    for _ in range(12):
        X = rng.normal(size=(50, 5))
        model.partial_fit(X, X @ coef + 0.5 * rng.standard_t(3.0, size=50))
    assert not model.health_.past


def test_an_outlier_in_the_first_rows_does_not_stay_under_a_student_t_model():
    """50 rows, 5 features, t noise of scale 0.5, one of them off by 40: the site that its row had
    while nothing was known stayed, and coefficients were 20 standard deviations off for good."""
    for seed in range(270, 274):
        rng = np.random.default_rng(seed)
        coef, X = rng.normal(size=5), rng.normal(size=(50, 5))
        y = X @ coef + 0.5 * rng.standard_t(3.0, size=50)
        y[17] += 40.0
        model = MiniAMPRegressor(noise=channels.StudentT(df=3.0, scale=0.5)).fit(X, y)
        assert np.all(np.abs(model.coef_ - coef) < 5.0 * model.coef_std_)
        assert model.coef_std_.max() < 0.3


def test_a_scale_that_is_given_wrong_is_told_under_a_student_t_model():
    """Noise of three times the given scale: squared residuals alone hang on rare rows."""
    rng = np.random.default_rng(280)
    coef, model = rng.normal(size=5), MiniAMPRegressor(noise=channels.StudentT(df=3.0, scale=0.5))
    X = rng.normal(size=(600, 5))
    streamed(model, X, X @ coef + 1.5 * rng.standard_t(3.0, size=600), 50)
    finding = model.health_.findings[0]
    assert finding.kind == "noise"
    assert "larger than the channel assumes" in finding.message


def test_rows_of_heavy_tails_are_not_taken_for_dirt():
    """Noise of Student's t (df 3), 400 rows, seeds 290 to 295: no row is apart from the others.

    Two or three of each 400 are beyond six times the usual deviation, and were down-weighted: on
    real data whose tails are heavy where features are large that cost up to three times the error.
    Five rows that are 50 off are still told, with few others.
    """
    told = []
    for seed in range(290, 296):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(400, 5))
        y = X @ rng.normal(size=5) + rng.standard_t(3.0, size=400)
        told.append(len(streamed(MiniAMPRegressor(), X, y, 400).history_[0].get("conflicts", [])))
        dirty = rng.choice(400, 5, replace=False)
        y[dirty] += 50.0
        found = streamed(MiniAMPRegressor(), X, y, 400).history_[0]["conflicts"]
        assert set(dirty) <= {one["row"] for one in found}
        assert len(found) <= 10
    assert sum(told) <= 2, told


@pytest.mark.parametrize("size", [1, 20, 100, 2000])
@pytest.mark.parametrize(
    ("share", "prior"), [(0.03, "gaussian"), (0.1, "gaussian"), (0.03, "sparse")]
)
def test_rows_of_mostly_one_target_are_not_taken_for_dirt(size, share, prior):
    """Claims, rain, purchases: 3 % and 10 % of 2000 rows are not zero (seed 340).

    Most residuals are zero, so that every other row was taken for an outlier: noise 1e-14, all
    predictions 0, intervals of no width. The noise is the variance of y, to 4 standard deviations
    of a mean over so many rows, and so is the mean of the predictions.
    """
    rng = np.random.default_rng(340)
    X = rng.normal(size=(2000, 5))
    y = np.where(rng.random(2000) < share, rng.gamma(4.0, size=2000), 0.0)
    model = streamed(MiniAMPRegressor(prior), X, y, size)
    chance = 4.0 / np.sqrt(2000 * share)
    assert abs(float(model.noise_) / y.var() - 1.0) < chance
    assert abs(model.predict(X).mean() / y.mean() - 1.0) < chance


@pytest.mark.parametrize("size", [20, 100])
def test_large_rows_may_be_further_off(size):
    """Sizes over three decades with errors of 20 % of each (seed 341, 2000 rows): as offline.

    In batches large rows were taken for outliers, the noise was learned without them, and errors
    were 1.3 to 16 times those of offline ridge regression on real data of this kind. A row of usual
    size that is far off is still told.
    """
    rng = np.random.default_rng(341)
    X = np.exp(rng.normal(scale=1.5, size=(2000, 2)))
    y = X @ np.array([2.0, 1.0]) * (1.0 + 0.2 * rng.normal(size=2000))
    offline = RidgeCV(np.logspace(-6, 6, 13)).fit(X[:1500], y[:1500])
    model = streamed(MiniAMPRegressor(), X[:1500], y[:1500], size)
    errors = [np.mean(np.square(m.predict(X[1500:]) - y[1500:])) for m in (model, offline)]
    assert errors[0] < 1.1 * errors[1]
    dirty, w = np.argmin(np.abs(y[1500:] - np.median(y))), y[1500:].copy()
    w[dirty] += 100.0 * y.std()
    streamed(model, X[1500:], w, 500)
    received = [one["received"] for one in model.history_[-1]["conflicts"]]
    assert np.isclose(received, w[dirty]).any()


@pytest.mark.parametrize("size", [1, 40, 200])
def test_a_level_that_changes_is_learned_as_noise_without_forgetting(size):
    """The level rises by ten deviations of the noise half-way (seed 342, 1600 rows, forget=1).

    Later batches contradict the first ones, and were absorbed with 87 times the noise for good:
    after 800 of them the level was .19 where the mean of all is 5. At once, and now in any cut,
    it is that mean, and the noise has the variance between the levels.
    """
    rng = np.random.default_rng(342)
    X = rng.normal(size=(1600, 6))
    y = X @ rng.normal(size=6) + rng.normal(size=1600) + 10.0 * (np.arange(1600) >= 800)
    model = streamed(MiniAMPRegressor(), X, y, size)
    assert 4.0 < model.intercept_ < 5.5  # 4.3 where the first of four batches hardly counts
    assert 20.0 < float(model.noise_) < 35.0  # 26 by the levels


@pytest.mark.filterwarnings("ignore::miniamp.estimators.health.HealthWarning")
@pytest.mark.parametrize("forget", [1.0, 0.95])
@pytest.mark.parametrize("noise", [1.0, 0.1, 1e-3])
def test_one_batch_of_far_more_noise_does_not_spoil_a_model(noise, forget):
    """Rows 321 to 360 of 600 with 500 times the noise, 5 features, by 40 rows (seeds 360 to 362).

    The noise ended 10,000 times too high, and signals below it were lost. Expected are coefficients
    within 4 of their deviations, and the noise of other rows, which chance moves by .06 (.1 of the
    last 20 batches), with the part of the 40 rows that a health figure below 2 leaves in it.
    """
    for seed in (360, 361, 362):
        rng = np.random.default_rng(seed)
        X, coef, e = rng.normal(size=(600, 5)), rng.normal(size=5), noise * rng.normal(size=600)
        e[320:360] *= 500.0
        model = streamed(MiniAMPRegressor(forget=forget), X, X @ coef + e, 40)
        assert 0.7 < model.noise_ / noise**2 < 1.4
        assert np.linalg.norm(model.coef_ - coef) < 4.0 * noise * np.sqrt(5 / 400)
        assert [h["batch"] for h in model.history_ if "conflicts" in h] == [8]


@pytest.mark.parametrize("size", [20, 60])
def test_a_file_sorted_by_a_feature_that_bends_is_learned_as_offline(size):
    """y has a slope of 3 in the first feature where that is positive, else none (seeds 363 to 366).

    Later batches contradict the first ones. They counted little, and errors of files sorted so were
    up to 1.10 times those of offline ridge regression, of real ones 3.4 times.
    """
    for seed in range(363, 367):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(800, 4))
        y = 3.0 * np.maximum(X[:, 0], 0.0) + X @ [0.0, 0.5, -1.0, 0.0] + 0.05 * rng.normal(size=800)
        offline = RidgeCV(np.logspace(-6, 6, 13)).fit(X[:600], y[:600])
        for order in (np.argsort(X[:600, 0]), np.argsort(-X[:600, 0])):
            model = streamed(MiniAMPRegressor(), X[order], y[order], size)
            errors = [np.mean(np.square(m.predict(X[600:]) - y[600:])) for m in (model, offline)]
            assert errors[0] < 1.05 * errors[1]


@pytest.mark.parametrize(
    "options", [{"solver": "robust"}, {"prior": "sparse"}, {"prior": "laplace"}]
)
def test_a_file_sorted_by_its_target_is_learned_as_offline_by_any_solver(options):
    """Diabetes, 330 rows (seeds 11 and 12), sorted by y: 3.5 times the error of ridge regression.

    Each batch contradicts those before, and all counted little.
    """
    for seed in (11, 12):
        X, y, X_test, y_test = diabetes(seed, 330)
        order = np.argsort(y, kind="stable")
        model = streamed(MiniAMPRegressor(**options), X[order], y[order], 20)
        offline = RidgeCV(np.logspace(-6, 2, 17)).fit(X, y)
        errors = [np.mean(np.square(m.predict(X_test) - y_test)) for m in (model, offline)]
        assert errors[0] < 1.1 * errors[1]


def test_a_change_of_a_weak_relation_is_noticed():
    """Diabetes, orders of seeds 9 and 10, 331 rows by 16, y flipped about its mean from row 165 on:
    with forget=0.95 its errors thereafter are below the variance (1.27 and 1.18 times it where only
    batches with residuals three times as large as expected were compared with less of the past)."""
    X, y = load_diabetes(return_X_y=True)
    for seed in (9, 10):
        order = np.random.default_rng(seed).permutation(len(y))[:331]
        Z, w = X[order], np.where(np.arange(331) < 165, y[order], 2.0 * y[order].mean() - y[order])
        model, errors = MiniAMPRegressor(forget=0.95), []
        for k in range(0, 331, 16):
            if k >= 165:
                errors += list(np.square(model.predict(Z[k : k + 16]) - w[k : k + 16]))
            streamed(model, Z[k : k + 16], w[k : k + 16], 16)
        assert np.mean(errors) < w.var()


@pytest.mark.filterwarnings("ignore::miniamp.estimators.health.HealthWarning")
@pytest.mark.parametrize("size", [50.0, 1e9])
@pytest.mark.parametrize("solver", ["auto", "robust"])
def test_an_outlier_in_y_costs_its_row_and_is_named(solver, size):
    """400 rows of 10 features by 50, unit noise; with "robust" 1e9 once left a noise of 2e4."""
    rng = np.random.default_rng(0)
    X, coef = rng.normal(size=(400, 10)), rng.normal(size=10)
    y = X @ coef + rng.normal(size=400)
    y[257] = size
    model = MiniAMPRegressor(solver=solver)
    strict = MiniAMPRegressor(solver=solver, on_conflict="raise")
    for start in range(0, 400, 50):
        rows = slice(start, start + 50)
        model.partial_fit(X[rows], y[rows])
        if start == 250:
            with pytest.raises(ConflictError, match="row 7: y=") as caught:
                strict.partial_fit(X[rows], y[rows])
            assert caught.value.row == 7
            assert caught.value.remedy
        else:
            strict.partial_fit(X[rows], y[rows])
    assert 0.7 < model.noise_ < 1.4  # 400 rows: 1 +- 0.07
    assert np.max(np.abs(model.coef_ - coef)) < 0.3  # deviations of 0.05


def test_few_rows_of_many_classes_are_not_taken_for_wrong_labels():
    """20 rows of 16 weights, three times each: a share of wrong labels was learned, loss 1.07."""
    body = load_linnerud()
    X, y = np.repeat(body.data, 3, axis=0), np.repeat(body.target[:, 0], 3)
    order = np.random.default_rng(7).permutation(60)
    train, test = order[:45], order[45:]
    test = test[np.isin(y[test], y[train])]
    model = MiniAMPClassifier().fit(X[train], y[train])
    assert model.history_[-1]["noise_wrong"] < 1e-4
    assert log_loss(y[test], model.predict_proba(X[test]), labels=model.classes_) < 0.8


@pytest.mark.parametrize("size", [40, 600])
def test_wrong_labels_of_two_classes_hardly_count(size, tmp_path):
    """One of twenty labels is drawn at random (seed 3): .178 and .150 without a share of them."""
    rng = np.random.default_rng(3)
    X, x = rng.normal(size=(3000, 6)), 3.0 * rng.normal(size=6)
    y = (X @ x + rng.normal(size=3000) > 0.0).astype(int)
    wrong, dirty = rng.choice(600, 30, replace=False), y[:600].copy()
    dirty[wrong] = rng.integers(2, size=30)
    losses = []
    for settings, labels in (({}, y[:600]), ({}, dirty), ({"noise": 1.0}, dirty)):
        model = streamed(MiniAMPClassifier(**settings), X[:600], labels, size)
        chances = model.predict_proba(X[600:])
        losses.append(log_loss(y[600:], chances))
        if labels is dirty and not settings:
            assert 0.015 < model.history_[-1]["noise_wrong"] < 0.09
            assert chances.min() > 0.005  # of labels as they come
            model.save(tmp_path / "model")
            again = MiniAMPClassifier.load(tmp_path / "model").predict_proba(X[600:])
            np.testing.assert_array_equal(again, chances)
        elif labels is not dirty:
            assert model.history_[-1]["noise_wrong"] < 1e-3
    assert losses[1] < losses[0] + 0.08
    assert losses[1] < 0.9 * losses[2]


def test_classes_predicted_worse_than_by_frequencies_are_warned_of_in_mid_stream():
    """Labels that turn round every two batches (seed 4), by 60 rows."""
    rng = np.random.default_rng(4)
    X, turns = rng.normal(size=(960, 3)), np.repeat([1.0, 1.0, -1.0, -1.0] * 4, 60)
    y = (turns * X[:, 0] > 0.0).astype(int)
    model = MiniAMPClassifier()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for k in range(0, 960, 60):
            model.partial_fit(X[k : k + 60], y[k : k + 60])
    about = [str(one.message) for one in seen]
    assert sum("class frequencies" in text for text in about) == 1
    assert "useless" in {kind for _, kind in model.health_.past}
