"""Saved estimators go on bit for bit as if never stopped."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

import miniamp
import miniamp.streams
from miniamp.errors import CheckpointError, InvalidInputError


def run(model, X, y, size, path=None, **options):
    for k in range(0, len(y), size):
        model.partial_fit(X[k : k + size], y[k : k + size], **options)
        if path is not None:
            model.save(path, stream={"position": k})
            model = miniamp.load(path)
            assert model.stream_ == {"position": k}
    return model


@pytest.mark.parametrize("size", [7, 50])
@pytest.mark.parametrize("kind", ["regressor", "two classes", "three classes"])
def test_stopped_after_every_batch(tmp_path, kind, size):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    z = X @ rng.normal(size=4) + 0.3 * rng.normal(size=150)
    options = {}
    if kind == "regressor":
        make, y = miniamp.MiniAMPRegressor, z
    else:
        words = ["a", "b"] if kind == "two classes" else ["a", "b", "c"]
        make, y = (
            miniamp.MiniAMPClassifier,
            np.array(words)[np.digitize(z, [0.0, 1.0][: len(words) - 1])],
        )
        options = {"classes": words}
    straight = run(make(prior="sparse", forget=0.99), X, y, size, **options)
    stopped = run(make(prior="sparse", forget=0.99), X, y, size, tmp_path / "m.amp", **options)
    np.testing.assert_array_equal(stopped.coef_, straight.coef_)
    np.testing.assert_array_equal(stopped.coef_std_, straight.coef_std_)
    assert stopped.history_ == straight.history_
    assert stopped.get_params() == straight.get_params()
    np.testing.assert_array_equal(stopped.predict(X), straight.predict(X))


def test_names_and_parameters_come_back(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"age": [1.0, 2.0, 4.0], "size": [0.0, 1.0, 0.0]})
    prior = miniamp.priors.Laplace(scale=2.0)
    miniamp.MiniAMPRegressor(prior, noise=0.1).fit(frame, [1.0, 2.0, 3.0]).save(tmp_path / "m.amp")
    again = miniamp.MiniAMPRegressor.load(tmp_path / "m.amp")
    assert again.feature_names_in_.tolist() == ["age", "size"]
    assert again.prior == prior
    assert again.predict(frame).shape == (3,)


def test_what_is_no_estimator_is_refused(tmp_path):
    path = tmp_path / "m.amp"
    miniamp.MiniAMPRegressor().fit(np.eye(3), np.arange(3.0)).save(path)
    with pytest.raises(InvalidInputError, match=r"state: 'MiniAMPRegressor'"):
        miniamp.MiniAMPClassifier.load(path)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(CheckpointError):
        miniamp.load(path)
    miniamp.streams.save(path, {"something": 1})
    with pytest.raises(InvalidInputError, match=r"expected a saved estimator"):
        miniamp.load(path)


@pytest.mark.parametrize("make", [miniamp.MiniAMPRegressor, miniamp.MiniAMPClassifier])
@pytest.mark.parametrize(("features", "size"), [(8, 20), (300, 250)])
def test_files_are_the_same_however_often_a_model_was_stopped(tmp_path, make, features, size):
    """What was computed and not saved (factors, inverses, units) must not change what follows."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(12 * size, features)) @ rng.normal(size=(features, features))
    z = X[:, 0] + np.std(X[:, 0]) * rng.normal(size=len(X))
    labels = make is miniamp.MiniAMPClassifier
    y, options = (z > 0.0, {"classes": [False, True]}) if labels else (z, {})
    run(make(), X, y, size, **options).save(tmp_path / "straight.amp", stream={})
    run(make(), X, y, size, tmp_path / "m.amp", **options).save(tmp_path / "m.amp", stream={})
    assert (tmp_path / "m.amp").read_bytes() == (tmp_path / "straight.amp").read_bytes()


@pytest.mark.filterwarnings("ignore")
def test_a_model_stopped_after_a_batch_that_was_skipped(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(250, 5))
    y = X @ rng.normal(size=5) + 0.1 * rng.normal(size=250)
    y[100:150] *= -50.0
    straight = run(miniamp.MiniAMPRegressor(noise=0.01, on_conflict="skip"), X, y, 50)
    stopped = miniamp.MiniAMPRegressor(noise=0.01, on_conflict="skip")
    stopped = run(stopped, X, y, 50, tmp_path / "m.amp")
    assert straight.history_[2]["conflicts"][0]["kind"] == "skipped"
    assert straight.history_ == stopped.history_


def test_clusterings_saved_under_the_former_names_of_their_fields(tmp_path):
    names = np.array([f"f{i}" for i in range(5)], dtype=object)
    rows = np.random.default_rng(0).normal(size=(60, 5))
    model = miniamp.MiniAMPClusterer(3, random_state=0).partial_fit(rows)
    model.feature_names_in_ = names
    saved = model.state()
    fitted = saved["fitted"]
    fitted["labels"], fitted["names"] = fitted.pop("labels_"), fitted.pop("feature_names_in_")
    miniamp.streams.save(tmp_path / "old.amp", saved)
    again = miniamp.load(tmp_path / "old.amp")
    assert again.feature_names_in_.tolist() == names.tolist()
    assert np.array_equal(again.labels_, model.labels_)
    del model.feature_names_in_
    saved = model.state()
    saved["fitted"] |= {"labels": saved["fitted"].pop("labels_"), "names": None}
    miniamp.streams.save(tmp_path / "old.amp", saved)
    assert not hasattr(miniamp.load(tmp_path / "old.amp"), "feature_names_in_")
