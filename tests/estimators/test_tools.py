"""The tools people already use: ONNX, skops, MLflow."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes

from miniamp import MiniAMPClassifier, MiniAMPRegressor, channels, to_onnx
from miniamp.errors import InvalidInputError


def run(graph, X):
    session = pytest.importorskip("onnxruntime").InferenceSession(graph.SerializeToString())
    return session.run(None, {"X": X})


@pytest.mark.parametrize(
    "options", [{}, {"solver": "robust"}, {"memory": 0}, {"fit_intercept": False}]
)
@pytest.mark.parametrize("prior", ["gaussian", "sparse"])
# A constant column in the place of an intercept, under a sparse prior: rounding decides what EM
# makes of it, and it may find outliers.
@pytest.mark.filterwarnings("ignore::miniamp.estimators.HealthWarning")
def test_onnx_predicts_means_and_deviations(options, prior):
    pytest.importorskip("onnx")
    X, y = load_diabetes(return_X_y=True)
    X[:, 3] = 1.0  # never varies
    for target in (y, np.column_stack([y, 1e6 * X[:, 2] - y])):
        model = MiniAMPRegressor(prior, **options)
        model.fit(X, target)
        expected = model.predict(X, return_std=True)
        for made, own in zip(run(to_onnx(model), X), expected, strict=True):
            assert made.shape == own.shape
            assert np.allclose(made, own, rtol=1e-5)


def test_onnx_predicts_probabilities_of_two_classes():
    pytest.importorskip("onnx")
    X, y = load_breast_cancer(return_X_y=True)
    model = MiniAMPClassifier().fit(X, y)
    assert np.allclose(run(to_onnx(model), X)[0], model.predict_proba(X), atol=1e-5)


def test_what_onnx_cannot_predict_is_refused():
    pytest.importorskip("onnx")
    X = np.random.default_rng(0).normal(size=(90, 2))
    with pytest.raises(InvalidInputError, match="3 classes"):
        to_onnx(MiniAMPClassifier().fit(X, np.arange(90) % 3))
    with pytest.raises(InvalidInputError, match="the default noise"):
        to_onnx(MiniAMPRegressor(noise=channels.Poisson()).fit(X, np.ones(90)))


def test_skops_files_need_no_type_but_those_of_miniamp_and_numpy(tmp_path):
    """The recipe of docs/tools.md: look at the untrusted types, then trust them by name."""
    skops = pytest.importorskip("skops.io")
    X, y = load_diabetes(return_X_y=True)
    model = MiniAMPRegressor().fit(X, y)
    skops.dump(model, tmp_path / "model.skops")
    unknown = skops.get_untrusted_types(file=tmp_path / "model.skops")
    assert all(name.startswith("miniamp.") for name in unknown)
    again = skops.load(tmp_path / "model.skops", trusted=unknown)
    assert np.array_equal(again.predict(X), model.predict(X))


@pytest.mark.filterwarnings("ignore")  # those of MLflow about itself
def test_mlflow_saves_and_loads_a_model(tmp_path):
    """The recipe of docs/tools.md, without a server."""
    mlflow = pytest.importorskip("mlflow.sklearn", reason="MLflow is not installed")
    skops = pytest.importorskip("skops.io")
    X, y = load_diabetes(return_X_y=True)
    model = MiniAMPRegressor().fit(X, y)
    trusted = skops.get_untrusted_types(data=skops.dumps(model))
    mlflow.save_model(
        model,
        tmp_path / "model",
        skops_trusted_types=trusted,
        pip_requirements=["miniamp[sklearn]"],
    )
    again = mlflow.load_model(str(tmp_path / "model"))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.partial_fit(X, y).n_samples_seen_ == 2 * len(y)
