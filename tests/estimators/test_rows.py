"""Estimators on Dask collections: rows stay on their workers, or come a block at a time."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn")
distributed = pytest.importorskip("distributed", reason="needs miniamp[distributed]")

import dask.array as da  # noqa: E402

from miniamp import Posterior, absorb, channels, designs, evidence, priors  # noqa: E402
from miniamp.errors import InvalidInputError  # noqa: E402
from miniamp.estimators import (  # noqa: E402
    MiniAMPClassifier,
    MiniAMPClusterer,
    MiniAMPRegressor,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of a cluster that comes and goes
    pytest.mark.xdist_group("dask"),
]

M, N = 300, 90


def data():
    rng = np.random.default_rng(5)
    X = 3.0 + 2.0 * rng.normal(size=(M, N))
    return X, X @ rng.normal(size=N) + 0.5 * rng.normal(size=M)


@pytest.fixture(scope="module")
def client():
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True}
    with (
        distributed.LocalCluster(dashboard_address=":0", **settings) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_a_collection_without_a_cluster_is_refused() -> None:
    with pytest.raises(
        InvalidInputError, match=r"client: got none, expected a running Dask cluster"
    ):
        designs.as_design(da.ones((4, 2)))


def frame(X):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    return dd.from_pandas(pd.DataFrame(X, columns=[f"x{i}" for i in range(N)]), npartitions=3)


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("kind", ["array", "frame"])
def test_regression_where_the_rows_are(kind, monkeypatch) -> None:
    """Neither all rows nor blocks of them come to the client."""
    X, y = data()
    rows = da.from_array(X, chunks=(110, 40)) if kind == "array" else frame(X)
    plain = MiniAMPRegressor(solver="amp").fit(X, y)

    def refused(*_):
        raise AssertionError("rows were brought to the client")

    monkeypatch.setattr("miniamp.estimators.base.blocks_of", refused)
    monkeypatch.setattr(designs.Distributed, "toarray", refused)
    monkeypatch.setattr("miniamp.estimators.rows.FIRST_ROWS", M)  # the units of all rows
    model = MiniAMPRegressor(solver="amp").fit(rows, da.from_array(y, chunks=100))
    assert model.history_[-1]["solver"] == "amp"
    assert model.n_samples_seen_ == M
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=0.0, atol=1e-8)
    np.testing.assert_allclose(model.intercept_, plain.intercept_, rtol=0.0, atol=1e-7)
    if kind == "frame":
        assert model.feature_names_in_.tolist() == [f"x{i}" for i in range(N)]


@pytest.mark.usefixtures("client")
def test_classification_where_the_rows_are() -> None:
    X, y = data()
    labels = np.where(y > np.median(y), "high", "low")
    model = MiniAMPClassifier(solver="amp").fit(da.from_array(X, chunks=(150, N)), labels)
    plain = MiniAMPClassifier(solver="amp").fit(X, labels)
    assert np.mean(model.predict(X) == plain.predict(X)) > 0.99
    far = model.predict_proba(da.from_array(X, chunks=(110, 40)))  # asked a block at a time
    np.testing.assert_allclose(far, model.predict_proba(X), rtol=1e-12)


def test_clusters_a_block_at_a_time(monkeypatch) -> None:
    rng = np.random.default_rng(3)
    labels = np.tile([0, 1], M // 2)
    X = np.where(labels[:, None] == 0, 1.0, -1.0) + 0.5 * rng.normal(size=(M, N))
    plain = MiniAMPClusterer(n_clusters=2, batch_size=100, random_state=0).fit(X)
    monkeypatch.setattr(da.Array, "__array__", None)  # what would bring all rows here
    model = MiniAMPClusterer(n_clusters=2, batch_size=100, random_state=0)
    model.fit(da.from_array(X, chunks=(100, 45)))
    # The best start is found by its evidence, and that of its mirror image differs by rounding.
    order = [0, 1] if model.labels_[0] == plain.labels_[0] else [1, 0]
    np.testing.assert_array_equal(np.array(order)[model.labels_], plain.labels_)
    np.testing.assert_allclose(model.cluster_centers_[order], plain.cluster_centers_, rtol=1e-12)


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("kind", ["array", "frame"])
def test_collections_are_designs(kind) -> None:
    X = (data()[0] - 3.0) / (2.0 * np.sqrt(N))
    y = X @ np.linspace(-1.0, 1.0, N)
    rows = da.from_array(X, chunks=(110, 40)) if kind == "array" else frame(X)
    design = designs.as_design(rows)
    assert isinstance(design, designs.Distributed)
    start, channel = Posterior(priors.Gaussian(), N), channels.Gaussian(1.0)
    far, _ = absorb(start, evidence.Batch(rows, da.from_array(y, chunks=50), channel))
    near, _ = absorb(start, evidence.Batch(X, y, channel))
    np.testing.assert_allclose(far.mean, near.mean, rtol=0.0, atol=1e-10)


@pytest.mark.usefixtures("client")
def test_other_collections_are_refused() -> None:
    import dask

    with pytest.raises(InvalidInputError, match=r"Phi: got the Dask collection Delayed, .*delayed"):
        designs.as_design(dask.delayed(np.ones)((3, 2)))
