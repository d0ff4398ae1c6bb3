"""Small fitted estimators of every kind."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from miniamp import MiniAMPClassifier, MiniAMPClusterer, MiniAMPRegressor


@pytest.fixture(scope="session")
def regressor():
    """Eight features, two of them at work; named so as to try the page's patience."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 8))
    y = 2.0 * X[:, 0] - X[:, 3] + 0.5 * rng.normal(size=400)
    model = MiniAMPRegressor("sparse", batch_size=50, random_state=0).fit(X, y)
    model.feature_names_in_ = np.array(
        ["@1", "</script><b>", "a & b", *(f"column {i}" for i in range(5))], dtype=object
    )
    return model


@pytest.fixture(scope="session")
def classifier():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 3))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=400) > 0.0, "yes", "no")
    return MiniAMPClassifier(batch_size=50, random_state=0).fit(X, y)


@pytest.fixture(scope="session")
def many_classes():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 3))
    return MiniAMPClassifier(batch_size=60, random_state=0).fit(X, X.argmax(axis=1))


@pytest.fixture(scope="session")
def clusterer():
    rng = np.random.default_rng(4)
    centres = 3.0 * np.eye(3, 20)
    X = centres[rng.integers(3, size=120)] + 0.5 * rng.normal(size=(120, 20))
    return MiniAMPClusterer(3, batch_size=30, random_state=0).fit(X)


@pytest.fixture(params=["regressor", "classifier", "many_classes", "clusterer"])
def kind(request):
    return request.param


@pytest.fixture
def model(kind, request):
    return request.getfixturevalue(kind)
