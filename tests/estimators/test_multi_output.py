"""Several targets: the same as one model per target, at the cost of one design."""

import numpy as np
import pytest

import miniamp
from miniamp import MiniAMPRegressor
from miniamp.designs import Dense
from miniamp.errors import InvalidInputError


@pytest.fixture
def data(rng):
    """400 rows, 6 features, three targets whose units differ by ten decades."""
    X, coef = rng.normal(size=(400, 6)), rng.normal(size=(3, 6)) * [[1.0], [1e5], [1e-5]]
    noise = rng.normal(size=(400, 3)) * [0.1, 3e4, 1e-5]
    return X, X @ coef.T + [1.0, 1e6, -1e-4] + noise


@pytest.mark.parametrize(
    "options", [{}, {"prior": "sparse"}, {"solver": "robust"}, {"fit_intercept": False}]
)
def test_each_target_is_as_if_it_were_alone(data, options):
    X, Y = data
    together = MiniAMPRegressor(**options).fit(X, Y)
    mean, std = together.predict(X[:5], return_std=True)
    low, high = together.predict_interval(X[:5])
    assert together.coef_.shape == together.coef_std_.shape == (3, 6)
    for k in range(3):
        alone = MiniAMPRegressor(**options).fit(X, Y[:, k])
        assert np.allclose(together.coef_[k], alone.coef_, rtol=1e-6)
        assert np.allclose(together.coef_std_[k], alone.coef_std_, rtol=1e-6)
        assert np.isclose(together.intercept_[k], alone.intercept_)
        assert np.isclose(together.noise_[k], alone.noise_)
        one = alone.predict(X[:5], return_std=True)
        assert np.allclose([mean[:, k], std[:, k]], one)
        assert np.allclose([low[:, k], high[:, k]], alone.predict_interval(X[:5]))


def test_products_of_the_columns_are_computed_once_per_batch(data, monkeypatch):
    X, Y = data
    counted, plain = [], Dense.information
    monkeypatch.setattr(
        Dense, "information", lambda self, w: counted.append(1) or plain(self, w), raising=True
    )
    model = MiniAMPRegressor()
    for part in np.array_split(np.arange(400), 4):
        model.partial_fit(X[part], Y[part])
    assert len(counted) == 4


def test_targets_are_named_scored_and_saved(data, tmp_path):
    pd = pytest.importorskip("pandas")
    X, Y = data
    frame = pd.DataFrame(Y, columns=["small", "large", "tiny"])
    model = MiniAMPRegressor()
    for part in np.array_split(np.arange(400), 4):
        model.partial_fit(X[part], frame.iloc[part])
    table = model.summary()
    assert table.index.names == ["target", "name"]
    assert table.loc[("large", "x2"), "mean"] == model.coef_[1, 2]
    assert model.score(X, Y) > 0.8  # the noise of the third is a third of its spread
    assert 0.8 < model.history_[-1]["coverage"] < 1.0  # of 300, 0.9 +- 0.02
    assert model.covariance().shape == (3, 6, 6)
    model.save(tmp_path / "m.amp")
    again = miniamp.load(tmp_path / "m.amp").partial_fit(X, frame)
    assert np.array_equal(again.coef_, model.partial_fit(X, frame).coef_)
    assert again.target_names_in_.tolist() == ["small", "large", "tiny"]


def test_another_number_of_targets_is_refused(data):
    X, Y = data
    model = MiniAMPRegressor().partial_fit(X, Y)
    with pytest.raises(InvalidInputError) as refused:
        model.partial_fit(X, Y[:, :2])
    assert (refused.value.argument, refused.value.received) == ("y", "2 columns")
