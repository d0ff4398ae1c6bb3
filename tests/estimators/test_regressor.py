"""MiniAMPRegressor: right answers, calibrated error bars, every kind of table, its tools."""

import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import GridSearchCV, cross_val_score, learning_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import miniamp
from miniamp import channels, priors
from miniamp.errors import InvalidInputError
from miniamp.estimators import MiniAMPRegressor, settings


def linear(rng, rows, features, *, noise=0.5, correlation=0.0, coef=None, centre=0.0):
    """Rows of AR(correlation) features and y = X coef + 1 + noise."""
    X = rng.normal(size=(rows, features))
    for j in range(1, features):
        X[:, j] = correlation * X[:, j - 1] + np.sqrt(1.0 - correlation**2) * X[:, j]
    X = X + centre
    return X, X @ coef + 1.0 + np.sqrt(noise) * rng.normal(size=rows)


def streamed(model, X, y, size):
    for k in range(0, len(y), size):
        model.partial_fit(X[k : k + size], y[k : k + size])
    return model


def test_agrees_with_exact_bayes_where_all_is_gaussian():
    """Prior and noise given: one pass in small batches is offline inference, memory being N."""
    rng = np.random.default_rng(0)
    coef = rng.normal(size=8)
    X, y = linear(rng, 100, 8, coef=coef, correlation=0.8)
    y = y - 1.0
    model = MiniAMPRegressor(priors.Gaussian(var=2.0), noise=0.5, fit_intercept=False)
    streamed(model, X, y, 7)
    covariance = np.linalg.inv(X.T @ X / 0.5 + np.eye(8) / 2.0)
    np.testing.assert_allclose(model.coef_, covariance @ X.T @ y / 0.5, rtol=1e-6)
    np.testing.assert_allclose(model.coef_std_, np.sqrt(np.diag(covariance)), rtol=1e-6)
    _, std = model.predict(X[:5], return_std=True)
    expected = np.sqrt(np.einsum("ij,jk,ik->i", X[:5], covariance, X[:5]) + 0.5)
    np.testing.assert_allclose(std, expected, rtol=1e-6)


def test_diabetes_as_good_as_bayesian_ridge_in_one_pass():
    X, y = load_diabetes(return_X_y=True)
    rng = np.random.default_rng(0)
    scores = {"stream": [], "all at once": [], "peer": []}
    for _ in range(5):
        order = rng.permutation(len(y))
        train, test = order[:300], order[300:]
        stream = streamed(MiniAMPRegressor(), X[train], y[train], 30)
        scores["stream"].append(stream.score(X[test], y[test]))
        model = MiniAMPRegressor().fit(X[train], y[train])
        scores["all at once"].append(model.score(X[test], y[test]))
        scores["peer"].append(BayesianRidge().fit(X[train], y[train]).score(X[test], y[test]))
    means = {name: np.mean(values) for name, values in scores.items()}
    assert means["stream"] > means["peer"] - 0.01
    assert means["all at once"] > means["peer"] - 0.01


@pytest.mark.parametrize("prior", ["gaussian", "sparse", "laplace"])
@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_error_bars_are_calibrated(prior, correlation):
    """N = 100, 12 batches of 100 rows, seeds 1 to 4: 90 % intervals hold 90 % of 1000 new rows.

    The share has a standard deviation of 0.0095 and the model's own noise estimate of 4 % (the
    width of an interval by 2 %, which moves the share by 0.01): 0.05 is three and a half of both.
    """
    made, believed = 0.0, 0.0
    for seed in range(1, 5):
        rng = np.random.default_rng(seed)
        coef = rng.normal(size=100) * (rng.random(100) < 0.3)
        X, y = linear(rng, 2200, 100, coef=coef, correlation=correlation, noise=1.0)
        model = streamed(MiniAMPRegressor(prior), X[:1200], y[:1200], 100)
        low, high = model.predict_interval(X[1200:], level=0.9)
        assert abs(np.mean((low < y[1200:]) & (y[1200:] < high)) - 0.9) < 0.05
        made += np.sum(np.square(model.coef_ - coef))
        believed += np.sum(np.square(model.coef_std_))
        assert abs(model.noise_ - 1.0) < 0.25
        assert model.health_.well
    # Errors made against errors believed, of 400 coefficients. Under a spike and slab one of them
    # that is taken for zero moves the ratio of a stream from 0.5 to 2.8.
    assert 0.6 < made / believed < 1.6


def test_sparse_prior_finds_which_coefficients_are_zero():
    rng = np.random.default_rng(2)
    coef = np.zeros(120)
    coef[:12] = rng.choice([-1.0, 1.0], size=12) * rng.uniform(0.5, 2.0, size=12)
    X, y = linear(rng, 400, 120, coef=coef, noise=0.1)
    model = streamed(MiniAMPRegressor("sparse"), X, y, 100)
    assert model.inclusion_probability_[:12].min() > 0.9
    assert np.mean(model.inclusion_probability_[12:] < 0.5) > 0.95
    assert abs(model.history_[-1]["prior_rho"] - 0.1) < 0.05


def test_features_of_any_scale_and_mean_need_no_preparation():
    rng = np.random.default_rng(3)
    coef = rng.normal(size=10)
    X, y = linear(rng, 600, 10, coef=coef, noise=0.01)
    scale, centre = 10.0 ** rng.uniform(-6, 6, size=10), rng.normal(size=10)
    plain = streamed(MiniAMPRegressor(), X, y, 60)
    scaled = streamed(MiniAMPRegressor(), (X + centre) * scale, y, 60)
    # The intercept's wide prior is about another point, which matters far less than the noise.
    np.testing.assert_allclose(scaled.coef_ * scale, plain.coef_, atol=1e-3)
    np.testing.assert_allclose(scaled.coef_std_ * scale, plain.coef_std_, rtol=0.02)


def test_forgetting_follows_a_change():
    rng = np.random.default_rng(4)
    first = rng.normal(size=10)
    second = first + 0.2 * rng.normal(size=10)
    X, y = linear(rng, 1000, 10, coef=first, noise=0.1)
    Z, w = linear(rng, 500, 10, coef=second, noise=0.1)
    errors = {}
    for forget in (1.0, 0.5):
        model = MiniAMPRegressor(forget=forget)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", miniamp.estimators.HealthWarning)
            streamed(streamed(model, X, y, 50), Z, w, 50)
        assert "drift" in {kind for _, kind in model.health_.past}
        errors[forget] = np.mean(np.square(model.coef_ - second))
    assert errors[0.5] < 0.1 * errors[1.0]


def test_a_stream_turned_upside_down_is_refused_or_followed_as_asked():
    rng = np.random.default_rng(4)
    coef = 3.0 * rng.normal(size=10)
    X, y = linear(rng, 500, 10, coef=coef, noise=0.1)
    steady = streamed(MiniAMPRegressor(on_conflict="raise"), X, y, 50)
    with pytest.raises(miniamp.errors.ConflictError, match=r"set forget='auto'"):
        steady.partial_fit(X, -y)
    before = steady.coef_
    steady.set_params(on_conflict="skip")
    with pytest.warns(miniamp.estimators.HealthWarning, match="contradicts what was learned"):
        steady.partial_fit(X, -y)
    assert [one["kind"] for one in steady.history_[-1]["conflicts"]] == ["skipped"]
    np.testing.assert_allclose(steady.coef_, before, rtol=1e-12)  # in new units of the features
    flexible = streamed(MiniAMPRegressor(forget=0.9), X, y, 50)
    with pytest.warns(miniamp.estimators.HealthWarning, match="contradicts what was learned"):
        flexible.partial_fit(X, -y)
    assert "forgotten" in {one["kind"] for one in flexible.history_[-1]["conflicts"]}
    np.testing.assert_allclose(flexible.coef_, -coef, atol=0.2)


@pytest.mark.filterwarnings(
    "ignore::miniamp.estimators.HealthWarning"
)  # outliers, under a Gaussian
def test_channels_for_outliers_and_counts():
    rng = np.random.default_rng(5)
    coef = np.array([1.0, -0.5, 0.25])
    X = rng.normal(size=(400, 3))
    y = X @ coef + 0.1 * rng.standard_t(1.5, size=400)
    robust = MiniAMPRegressor(noise=channels.StudentT(df=2.0, scale=0.1)).fit(X, y)
    plain = MiniAMPRegressor().fit(X, y)
    assert np.abs(robust.coef_ - coef).max() < 0.05
    assert np.abs(robust.coef_ - coef).max() < np.abs(plain.coef_ - coef).max()
    counts = rng.poisson(np.exp(X @ coef))
    model = MiniAMPRegressor(noise=channels.Poisson()).fit(X, counts)
    assert np.abs(model.coef_ - coef).max() < 0.2
    assert model.predict(X).min() > 0.0


class TestTables:
    @pytest.fixture
    def data(self):
        rng = np.random.default_rng(6)
        return linear(rng, 60, 3, coef=np.array([1.0, 2.0, 0.0]))

    @pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "csr", "csc", "float32"])
    def test_every_kind_of_table_gives_the_same(self, data, kind):
        X, y = data
        names = ["a", "b", "c"]
        tolerance = 1e-12
        if kind == "pandas":
            pd = pytest.importorskip("pandas")
            table, target = pd.DataFrame(X, columns=names), pd.Series(y)
        elif kind == "polars":
            pl = pytest.importorskip("polars")
            table, target = pl.DataFrame(X, schema=names), pl.Series(y)
        elif kind == "pyarrow":
            pa = pytest.importorskip("pyarrow")
            table, target = pa.table(list(X.T), names=names), pa.chunked_array([y])
        elif kind == "float32":
            table, target, tolerance = X.astype(np.float32), y, 1e-6
        else:
            # Sparse rows are scaled without being centred: another, equally good, first frame.
            table, target, tolerance = getattr(sp, f"{kind}_array")(X), y, 0.01
        model = MiniAMPRegressor().fit(table, target)
        plain = MiniAMPRegressor().fit(X, y)
        np.testing.assert_allclose(model.coef_, plain.coef_, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(model.predict(table), plain.predict(X), atol=10 * tolerance)
        assert model.n_features_in_ == 3
        if kind in ("pandas", "polars", "pyarrow"):
            assert model.feature_names_in_.tolist() == names

    def test_dask_arrays_are_streamed_without_a_cluster(self, data):
        da = pytest.importorskip("dask.array")
        X, y = data
        blocks = da.from_array(X, chunks=(20, 2))
        model = MiniAMPRegressor().fit(blocks, da.from_array(y, chunks=30))
        assert [entry["rows"] for entry in model.history_] == [40, 20]  # few rows wait for others
        np.testing.assert_allclose(model.coef_, MiniAMPRegressor().fit(X, y).coef_, atol=0.01)

    def test_dask_frames_are_streamed(self, data):
        pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
        X, y = data
        frame = dd.from_pandas(pd.DataFrame(X, columns=["a", "b", "c"]), npartitions=2)
        model = MiniAMPRegressor().fit(frame, dd.from_pandas(pd.Series(y), npartitions=2))
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        assert model.n_samples_seen_ == 60

    @pytest.mark.filterwarnings("ignore")  # of a cluster that comes and goes
    def test_dask_arrays_on_a_cluster_are_swept_where_they_are(self):
        distributed = pytest.importorskip("distributed")
        import dask.array as da

        rng = np.random.default_rng(7)
        coef = rng.normal(size=100)
        X, y = linear(rng, 400, 100, coef=coef)
        with distributed.Client(processes=False, n_workers=2, dashboard_address=":0"):
            blocks = da.from_array(X, chunks=(200, 100))
            model = MiniAMPRegressor().fit(blocks, da.from_array(y, chunks=200))
        assert model.history_[-1]["solver"] == "amp"
        local = MiniAMPRegressor(solver="amp").fit(X, y)
        np.testing.assert_allclose(model.coef_, local.coef_, atol=1e-6)


class TestTools:
    @pytest.fixture
    def data(self):
        X, y = load_diabetes(return_X_y=True)
        return X[:200], y[:200]

    def test_pipeline_and_grid_search(self, data):
        pipeline = make_pipeline(StandardScaler(), PolynomialFeatures(2), MiniAMPRegressor())
        grid = {"miniampregressor__prior": ["gaussian", "sparse"]}
        search = GridSearchCV(pipeline, grid, cv=2).fit(*data)
        assert search.best_score_ > 0.2

    def test_learning_curve_incrementally(self, data):
        sizes, _, scores = learning_curve(
            MiniAMPRegressor(), *data, cv=2, train_sizes=[20, 50, 100],
            exploit_incremental_learning=True,
        )  # fmt: skip
        assert sizes.tolist() == [20, 50, 100]
        assert scores[-1].mean() > scores[0].mean()

    def test_joblib_clone_and_output(self, data):
        scores = cross_val_score(MiniAMPRegressor(), *data, cv=2, n_jobs=2)
        assert scores.mean() > 0.2
        model = MiniAMPRegressor(memory=3, random_state=1).fit(*data)
        again = clone(model)
        assert again.get_params() == model.get_params()
        assert not hasattr(again, "coef_")
        transformer = make_pipeline(StandardScaler().set_output(transform="pandas"), model)
        assert transformer.fit(*data)[-1].feature_names_in_[0] == "x0"

    def test_fit_shuffles_and_cuts_as_asked(self, data):
        X, y = data
        order = np.argsort(y)  # sorted by y: in this order the first batch would mislead
        model = MiniAMPRegressor(batch_size=64, random_state=0).fit(X[order], y[order])
        assert [entry["rows"] for entry in model.history_] == [64, 64, 72]  # the rest joins
        assert model.score(X, y) > 0.35

    def test_verbose_prints_a_line_a_batch(self, data, capsys):
        MiniAMPRegressor(batch_size=100, verbose=1).fit(*data)
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 2
        assert lines[0].startswith("batch 1: 100 rows, ")


def test_weights_repeat_rows():
    rng = np.random.default_rng(8)
    X, y = linear(rng, 50, 3, coef=np.array([1.0, 2.0, 0.0]))
    times = rng.integers(0, 4, size=50)
    weighted = MiniAMPRegressor().fit(X, y, sample_weight=times)
    repeated = MiniAMPRegressor().fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-12)
    # A fraction takes the other way, powers of the likelihood, and ends at the same place.
    nearly = MiniAMPRegressor().fit(X, y, sample_weight=times * (1.0 + 1e-9))
    np.testing.assert_allclose(nearly.coef_, repeated.coef_, atol=1e-3)
    # Its units are those of rows counted once, and EM stops at changes of 1 % per round.
    np.testing.assert_allclose(nearly.coef_std_, repeated.coef_std_, rtol=0.03)
    np.testing.assert_allclose(nearly.noise_, repeated.noise_, rtol=0.06)


def test_history_tells_of_every_batch():
    rng = np.random.default_rng(9)
    X, y = linear(rng, 200, 5, coef=rng.normal(size=5))
    model = streamed(MiniAMPRegressor(), X, y, 50)
    assert [entry["rows_seen"] for entry in model.history_] == [50, 100, 150, 200]
    for entry in model.history_[1:]:
        assert entry["error"] < 2.0
        assert entry["score"] < 0.0
        assert entry["solver"] == "exact"
        assert {"iterations", "mean_variance", "noise_var", "prior_var"} <= entry.keys()
    assert model.history_[-1]["mean_variance"] < model.history_[0]["mean_variance"]


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"prior": "sparce"}, "prior"),
        ({"prior": 3.0}, "prior"),
        ({"noise": -1.0}, "noise"),
        ({"noise": "lern"}, "noise"),
        ({"noise": channels.Gaussian(np.ones(3))}, "noise"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": "all"}, "batch_size"),
        ({"memory": -1}, "memory"),
        ({"memory": 1.5}, "memory"),
        ({"forget": 0.0}, "forget"),
        ({"forget": 1.1}, "forget"),
        ({"solver": "lbfgs"}, "solver"),
        ({"max_iter": 0}, "max_iter"),
        ({"tol": -1.0}, "tol"),
        ({"prior": priors.Gaussian(var=np.ones(4))}, "prior"),
    ],
)
def test_bad_parameters_are_named(parameters, named):
    with pytest.raises(InvalidInputError, match=f"^{named}"):
        MiniAMPRegressor(**parameters).fit(np.eye(3), np.arange(3.0))


@pytest.mark.parametrize("level", [0.0, 1.0, 1.5, "high"])
def test_bad_levels_are_named(level):
    model = MiniAMPRegressor().fit(np.eye(3), np.arange(3.0))
    with pytest.raises(InvalidInputError, match=r"^level"):
        model.predict_interval(np.eye(3), level=level)


def test_top_level_is_lazy():
    import subprocess

    code = (
        "import sys, miniamp; assert 'sklearn' not in sys.modules; "
        "miniamp.MiniAMPRegressor; assert 'sklearn' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_scikit_learn_the_extra_is_named():
    import subprocess

    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import miniamp\n"
        "try:\n    miniamp.MiniAMPRegressor\n"
        "except miniamp.errors.MissingExtraError as error:\n"
        "    assert 'miniamp[sklearn]' in str(error)\n"
        "else:\n    raise SystemExit(1)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.full((4, 3), np.nan), np.zeros(4)),
        (np.full((4, 3), np.inf), np.zeros(4)),
        (np.full((4, 3), 1e200), np.zeros(4)),
        (np.ones((4, 2)), np.zeros(4)),
        (np.ones((4, 3)), np.zeros(5)),
        (np.ones((4, 3)), np.full(4, np.nan)),
        (np.ones((4, 3)), np.array(["a", "b", "c", "d"])),
    ],
)
def test_later_batches_are_checked_like_the_first(X, y):
    """Plain arrays skip the checks of scikit-learn from the second batch on."""
    rows = np.random.default_rng(0).normal(size=(40, 3))
    model = MiniAMPRegressor().partial_fit(rows, rows[:, 0])
    before = model.coef_
    with pytest.raises((ValueError, TypeError)):
        model.partial_fit(X, y)
    np.testing.assert_array_equal(model.coef_, before)


def test_parameters_that_change_are_checked_and_used():
    """Unchanged ones are checked in the first batch alone."""
    rows = np.random.default_rng(0).normal(size=(40, 3))
    model = MiniAMPRegressor().partial_fit(rows, rows[:, 0])
    settings = model._state.settings
    assert model.partial_fit(rows, rows[:, 0])._state.settings is settings
    with pytest.raises(ValueError, match="forget"):
        model.set_params(forget=2.0).partial_fit(rows, rows[:, 0])
    model.set_params(forget=0.5).partial_fit(rows, rows[:, 0])
    assert model.history_[-1]["forget"] == 0.5


def test_automatic_batches_follow_the_schedule_of_the_theory(monkeypatch):
    """A first large batch where it pays: rho=.3, noise 1e-4 of z, 1.2 N rows, half of N at once.

    Errors of `theory.schedule`: 6.3e-5 so, 1.3e-3 and more with equal batches. N = 600, seed 41.
    """
    N, rows = 600, 720
    monkeypatch.setattr(settings, "AT_ONCE", N * N // 2)
    rng = np.random.default_rng(41)
    prior = priors.GaussBernoulli(rho=0.3, var=1.0 / N)
    coef, X = prior.sample(rng, N), rng.normal(size=(rows, N))
    y = X @ coef + 0.01 * rng.normal(size=rows)
    given = {"prior": prior, "noise": 1e-4, "memory": 0, "fit_intercept": False, "random_state": 0}
    auto = MiniAMPRegressor(**given).fit(X, y)
    sizes = [entry["rows"] for entry in auto.history_]
    assert max(sizes) <= N // 2
    assert len(set(sizes)) > 1
    equal = MiniAMPRegressor(batch_size=rows // 6, **given).fit(X, y)
    errors = [N * np.mean(np.square(m.coef_ - coef)) for m in (auto, equal)]
    assert errors[0] < 0.1 * errors[1]


@pytest.mark.parametrize("features", [20, 80])
def test_scores_of_many_features_are_those_of_a_sample_of_the_rows(features):
    rng = np.random.default_rng(0)
    model, coef = MiniAMPRegressor(), rng.normal(size=features)
    for _ in range(4):
        X = rng.normal(size=(600, features))
        model.partial_fit(X, X @ coef + rng.normal(size=600))
    entry = model.history_[-1]
    scored = entry.get("scored", entry["rows"])
    assert scored == (600 if features == 20 else 256)
    assert sum(entry["calibration"]) == scored
    # Squared residuals over their expected value, and the share in 90 % intervals.
    assert entry["surprise"] == pytest.approx(1.0, abs=4.0 * np.sqrt(2.0 / scored))
    assert entry["coverage"] == pytest.approx(0.9, abs=4.0 * np.sqrt(0.09 / scored))
    assert entry["error_std"] == pytest.approx(entry["error"] * np.sqrt(2.0 / scored), rel=0.4)


@pytest.mark.parametrize("empty_first", [True, False])
def test_sparse_rows_without_an_entry(empty_first):
    """They say something of the intercept alone, before other rows or after them."""
    rng, slope = np.random.default_rng(0), np.arange(4.0)
    rows = sp.csr_array(rng.random((60, 4)) * (rng.random((60, 4)) < 0.5))
    parts = [sp.csr_array((20, 4)), rows]
    model = MiniAMPRegressor()
    for X in parts if empty_first else parts[::-1]:
        model.partial_fit(X, X @ slope + 1.0 + 0.01 * rng.normal(size=X.shape[0]))
    # 60 rows of entries of size 0.4 and noise 0.01: 0.01/(0.4 sqrt(60)) = 0.003.
    np.testing.assert_allclose(model.coef_, slope, atol=0.02)
    assert model.intercept_ == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("streamed", [False, True])
def test_sparse_rows_are_centred_as_dense_ones_are(streamed):
    # One-hot columns beside a year: the coefficient of the year was 0 with a tiny error bar.
    rng = np.random.default_rng(3)
    X = np.column_stack([2000.0 + rng.normal(size=300), rng.random((300, 5)) < 0.2])
    y = X @ [4.0, 1.0, 2.0, 3.0, 4.0, 5.0] + rng.normal(size=300)
    models = []
    for rows in (X, sp.csr_array(X)):
        model = MiniAMPRegressor(batch_size=100, random_state=0)
        if streamed:
            for part in (slice(0, 20), slice(20, 60), slice(60, 300)):
                model.partial_fit(rows[part], y[part])
        models.append(model if streamed else model.fit(rows, y))
    dense, sparse = models
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-9)
    np.testing.assert_allclose(sparse.coef_std_, dense.coef_std_, rtol=1e-9)


@pytest.mark.parametrize("features", [3, 1100])
def test_a_model_of_dense_rows_predicts_and_learns_from_sparse_ones(features):
    rng = np.random.default_rng(4)
    X = 100.0 + rng.normal(size=(400, features))
    y = X[:, :3] @ [1.0, 2.0, 3.0] + 0.1 * rng.normal(size=400)
    sparse = sp.csr_array(X)
    both = MiniAMPRegressor().partial_fit(X[:300], y[:300])
    dense = MiniAMPRegressor().partial_fit(X[:300], y[:300])
    np.testing.assert_allclose(both.predict(sparse), dense.predict(X), rtol=1e-9)
    both.partial_fit(sparse[300:], y[300:])
    dense.partial_fit(X[300:], y[300:])
    np.testing.assert_allclose(both.predict(sparse), dense.predict(X), rtol=1e-6)


@pytest.mark.parametrize("first", [1, 5])
def test_first_rows_wait_for_others_where_dense_ones_are_followed_by_sparse_ones(first):
    """One dense row set all units: the noise came out at twice what it is."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(100, 5))
    y = X @ np.arange(5.0) + 0.1 * rng.normal(size=100)
    both = MiniAMPRegressor().partial_fit(X[:first], y[:first])
    both.partial_fit(sp.csr_array(X[first:]), y[first:])
    dense = MiniAMPRegressor().partial_fit(X, y)
    np.testing.assert_allclose(both.coef_, dense.coef_, rtol=1e-9)
    assert both.noise_ == pytest.approx(dense.noise_, rel=1e-9)


def test_a_series_in_place_of_X_is_refused_as_scikit_learn_does():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="2-dimensional container"):
        MiniAMPRegressor().fit(pandas.Series([1, 2, 3]), [1, 2, 3])


def test_a_prior_that_is_a_formula_can_be_fitted_saved_in_history_and_reported(rng):
    """`priors.Numerical` stopped with a TypeError: its formula is no number for `history_`."""
    X, coef = rng.normal(size=(200, 3)), np.array([0.9, -0.5, 0.1])
    prior = priors.Numerical(np.zeros_like, (-1.0, 1.0))
    model = MiniAMPRegressor(prior=prior)
    for k in range(0, 200, 50):
        model.partial_fit(X[k : k + 50], (X @ coef + 0.1 * rng.normal(size=200))[k : k + 50])
    assert np.all(np.abs(model.coef_ - coef) < 5.0 * model.coef_std_)
    assert not [
        name for name in model.history_[-1] if name in ("prior_support", "prior_log_density")
    ]
    assert not model.health_.findings
