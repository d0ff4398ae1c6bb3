"""The streaming clusterer: its scikit-learn face, its promises, and bad input."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import miniamp
from miniamp.errors import InvalidInputError

pytest.importorskip("sklearn", reason="the clusterer needs scikit-learn (extra: sklearn)")

from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from miniamp.estimators import MiniAMPClusterer


# Four clusters: scikit-learn's check of sparse input wants as many columns of probabilities.
# That a cluster is empty is said, as scikit-learn's own K-means says it.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([MiniAMPClusterer(4), MiniAMPClusterer(2, noise="per-feature")])
def test_scikit_learn_contract(estimator: object, check: object) -> None:
    check(estimator)  # type: ignore[operator]


def mixture(
    rows: int, features: int = 100, clusters: int = 3, noise: float = 0.5, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    centres = np.abs(np.random.default_rng(123).normal(size=(clusters, features)))
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(rows) % clusters)
    return np.abs(centres[labels] + noise * rng.normal(size=(rows, features))), labels


@pytest.mark.parametrize("prior", ["gaussian", "nonnegative"])
@pytest.mark.parametrize("noise", ["learn", "per-feature", 0.3])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_a_stream_is_clustered(prior: str, noise: object, kind: object) -> None:
    model = MiniAMPClusterer(3, prior=prior, noise=noise, n_init_batches=2, random_state=0)  # type: ignore[arg-type]
    for k in range(5):
        X, y = mixture(30, seed=k)
        model.partial_fit(kind(X))  # type: ignore[operator]
    assert adjusted_rand_score(y, model.labels_) == 1.0
    X, y = mixture(90, seed=99)
    assert adjusted_rand_score(y, model.predict(kind(X))) == 1.0  # type: ignore[operator]
    assert model.n_samples_seen_ == 150
    assert model.cluster_centers_.shape == model.cluster_std_.shape == (3, 100)
    assert (model.cluster_std_ > 0.0).all()
    assert model.cluster_weights_.sum() == pytest.approx(1.0)
    assert np.shape(model.noise_) == ((100,) if noise == "per-feature" else ())
    assert len(model.history_) == 5
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert (model.transform(X).argmin(axis=1) == model.predict(X)).all()


def test_error_bars_are_right() -> None:
    """The centres lie within their error bars: z-scores of unit size, for 300 coordinates."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 100))
    model = MiniAMPClusterer(3, random_state=0, fading=0.0)
    for _ in range(10):
        model.partial_fit(centres[rng.integers(3, size=60)] + rng.normal(size=(60, 100)))
    order = [np.argmin(((model.cluster_centers_ - c) ** 2).sum(axis=1)) for c in centres]
    z = (model.cluster_centers_[order] - centres) / model.cluster_std_[order]
    # The mean square of 300 unit normals scatters by sqrt(2/300) = .08.
    assert 0.7 < np.mean(z**2) < 1.35
    assert model.noise_ == pytest.approx(1.0, rel=0.05)


def test_names_of_clusters_survive_the_restarts() -> None:
    model = MiniAMPClusterer(3, n_init_batches=4, random_state=0)
    names = []
    for k in range(7):
        X, y = mixture(45, seed=k)
        model.partial_fit(X)
        names.append([np.bincount(model.labels_[y == c]).argmax() for c in range(3)])
    assert all(later == names[0] for later in names)


def test_fit_is_repeatable_and_a_second_pass() -> None:
    X, y = mixture(300)
    first = MiniAMPClusterer(3, batch_size=50, random_state=1).fit(X)
    again = clone(first).fit(X)
    np.testing.assert_array_equal(first.cluster_centers_, again.cluster_centers_)
    np.testing.assert_array_equal(first.labels_, first.predict(X))
    assert adjusted_rand_score(y, first.labels_) == 1.0


def everything(model: MiniAMPClusterer) -> dict[str, object]:
    return {k: copy.deepcopy(v) for k, v in vars(model).items() if k != "_state"}


@pytest.mark.parametrize(
    "bad",
    [
        np.full((20, 100), np.nan),
        np.full((20, 100), np.inf),
        np.zeros((20, 99)),
        np.full((20, 100), -1.0),
        np.zeros((0, 100)),
        np.array([["a"] * 100] * 20),
    ],
    ids=["nan", "inf", "features", "negative", "empty", "text"],
)
def test_partial_fit_is_all_or_nothing(bad: np.ndarray) -> None:
    model = MiniAMPClusterer(3, prior="nonnegative", random_state=0)
    with pytest.raises(ValueError):  # noqa: PT011  scikit-learn words some of these
        model.partial_fit(np.full((20, 100), np.nan))
    assert set(vars(model)) == set(model.get_params())
    model.partial_fit(mixture(30)[0])
    before, state = everything(model), model._state
    with pytest.raises(ValueError):  # noqa: PT011
        model.partial_fit(bad)
    after = everything(model)
    assert model._state is state
    assert before.keys() == after.keys()
    np.testing.assert_array_equal(before["labels_"], after["labels_"])
    # And what follows is what would have followed without the failure.
    other = MiniAMPClusterer(3, prior="nonnegative", random_state=0).partial_fit(mixture(30)[0])
    X = mixture(30, seed=1)[0]
    np.testing.assert_array_equal(
        model.partial_fit(X).cluster_centers_, other.partial_fit(X).cluster_centers_
    )


def test_more_clusters_than_samples_is_an_error() -> None:
    with pytest.raises(InvalidInputError, match="n_samples=4, expected at least n_clusters=5"):
        MiniAMPClusterer(5).partial_fit(mixture(4)[0])


def test_fewer_clusters_than_asked_is_said() -> None:
    X = np.repeat(mixture(2)[0], 20, axis=0)
    with pytest.warns(ConvergenceWarning, match="2 of n_clusters=4 clusters have samples"):
        MiniAMPClusterer(4, random_state=0).fit(X)


@pytest.mark.parametrize("features", [3, 100])
def test_constant_features_and_empty_rows_are_harmless(features: int) -> None:
    X, y = mixture(120, features=features, noise=0.1)
    X[:, 0] = 7.0
    for noise in ("learn", "per-feature"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = MiniAMPClusterer(3, noise=noise, random_state=0).fit(X)
        assert np.isfinite(model.cluster_centers_).all()
        assert adjusted_rand_score(y, model.labels_) > 0.9
    empty = sp.csr_matrix(np.vstack([mixture(60)[0], np.zeros((3, 100))]))
    labels = MiniAMPClusterer(4, random_state=0).fit(empty).labels_
    assert len(set(labels[-3:])) == 1


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_with_noise_per_feature_units_do_not_matter(form) -> None:
    """Wine in its own units agreed by 0.39 with its growers, in standard deviations by 0.90."""
    X, y = load_wine(return_X_y=True)
    found = []
    for unit in (1.0, X.std(axis=0)):
        model = MiniAMPClusterer(3, noise="per-feature", random_state=0).fit(form(X / unit))
        found.append(adjusted_rand_score(y, model.labels_))
    assert min(found) > 0.8, found


def test_constant_data_do_not_break_it() -> None:
    with pytest.warns(ConvergenceWarning):
        model = MiniAMPClusterer(2, random_state=0).fit(np.ones((10, 80)))
    assert np.isfinite(model.cluster_centers_).all()
    assert np.isfinite(model.predict_proba(np.zeros((2, 80)))).all()


def test_a_batch_of_another_scale_relearns_the_noise() -> None:
    """A batch far noisier than all before it is absorbed, with a larger noise after it."""
    model = MiniAMPClusterer(3, n_init_batches=1, random_state=0).fit(mixture(90, noise=0.1)[0])
    quiet = model.noise_
    X = mixture(60, noise=0.1)[0] + 3.0 * np.random.default_rng(0).normal(size=(60, 100))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.partial_fit(X)
    assert model.noise_ > 10 * quiet
    assert np.isfinite(model.cluster_centers_).all()


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"n_clusters": 0}, "n_clusters"),
        ({"n_clusters": 2.5}, "n_clusters"),
        ({"prior": "laplace"}, "prior"),
        ({"prior_var": -1.0}, "prior_var"),
        ({"noise": "guess"}, "noise"),
        ({"noise": 0.0}, "noise"),
        ({"n_init_batches": 0}, "n_init_batches"),
        ({"n_init": 0}, "n_init"),
        ({"fading": -1.0}, "fading"),
        ({"batch_size": 0}, "batch_size"),
        ({"max_iter": 0}, "max_iter"),
        ({"tol": -1.0}, "tol"),
    ],
)
def test_bad_parameters_are_named(options: dict[str, object], name: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"^{name}: "):
        MiniAMPClusterer(**{"n_clusters": 3, **options}).fit(mixture(30)[0])  # type: ignore[arg-type]


def test_the_number_of_clusters_is_fixed_once_begun() -> None:
    model = MiniAMPClusterer(3, random_state=0).partial_fit(mixture(30)[0])
    with pytest.raises(InvalidInputError, match=r"^n_clusters: "):
        model.set_params(n_clusters=4).partial_fit(mixture(30)[0])


def test_asking_before_fitting() -> None:
    with pytest.raises(NotFittedError):
        MiniAMPClusterer().predict(np.ones((2, 2)))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_a_clusterer_goes_on_from_a_file_bit_for_bit(tmp_path, kind):
    rng = np.random.default_rng(0)
    centres = np.maximum(rng.normal(size=(3, 70)), 0.0)
    batches = [
        kind(centres[rng.integers(3, size=30)] + 0.3 * rng.random((30, 70))) for _ in range(8)
    ]
    whole, cut = (MiniAMPClusterer(n_clusters=3, random_state=0) for _ in range(2))
    for X in batches:
        whole.partial_fit(X)
        cut.partial_fit(X).save(tmp_path / "c.amp", stream={"position": 1})
        cut = miniamp.load(tmp_path / "c.amp")
        assert np.array_equal(cut.cluster_centers_, whole.cluster_centers_)
        assert np.array_equal(cut.labels_, whole.labels_)
        assert cut.history_ == whole.history_
    assert cut.stream_ == {"position": 1}
    assert np.array_equal(cut.predict_proba(batches[0]), whole.predict_proba(batches[0]))
    unfitted = MiniAMPClusterer.from_state(MiniAMPClusterer(n_clusters=4).state())
    assert unfitted.get_params()["n_clusters"] == 4
