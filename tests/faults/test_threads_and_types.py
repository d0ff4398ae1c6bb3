"""One estimator fed by several threads; and values that NumPy would convert in silence."""

from __future__ import annotations

import copy
import datetime as dt
import pickle
import threading

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from miniamp import channels, evidence
from miniamp.errors import InvalidInputError, InvalidTypeError
from miniamp.estimators import MiniAMPClassifier, MiniAMPClusterer, MiniAMPRegressor
from miniamp.streams import open_stream


def together(*actions):
    """Run the actions at the same time, each in a thread, and raise what one of them raised."""
    errors = []
    barrier = threading.Barrier(len(actions))

    def run(action):
        barrier.wait()
        try:
            action()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def rows(seed, k=20):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(k, 4))
    return X, X @ [1.0, 0.0, -2.0, 0.5] + np.sqrt(0.1) * rng.normal(size=k)


@pytest.mark.parametrize("estimator", [MiniAMPRegressor, MiniAMPClusterer])
def test_three_threads_lose_no_rows(estimator):
    """3 x 15 batches of 20 rows, from the very first batch on; before, two thirds were lost."""
    model = estimator(noise=0.1) if estimator is MiniAMPRegressor else estimator(2, random_state=0)

    def feed(first):
        for k in range(first, first + 15):
            model.partial_fit(*rows(k))

    together(*(lambda first=100 * t: feed(first) for t in range(3)))
    assert model.n_samples_seen_ == 3 * 15 * 20


def test_a_failing_call_undoes_no_other():
    model = MiniAMPRegressor(noise=0.1)

    def good():
        for k in range(30):
            model.partial_fit(*rows(k))

    def bad():
        for k in range(60):
            X, y = rows(k)
            with pytest.raises(InvalidInputError):
                model.partial_fit(X, np.where(np.arange(len(y)) == 3, 1e200, y))

    together(good, bad)
    assert model.n_samples_seen_ == 600


def test_predicting_while_learning_sees_a_whole_model():
    model = MiniAMPRegressor(noise=0.1).fit(*rows(0))
    seen = []

    def learn():
        for k in range(25):
            model.partial_fit(*rows(k))

    def predict():
        seen.extend(model.predict(rows(k)[0]) for k in range(80))

    together(learn, predict)
    assert np.isfinite(seen).all()


def test_the_lock_is_no_part_of_copies_pickles_and_clones():
    model = MiniAMPRegressor(noise=0.1).fit(*rows(0))
    for other in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        other.partial_fit(*rows(1))
        assert other.n_samples_seen_ == 40
    assert clone(model).get_params() == model.get_params()
    assert model.n_samples_seen_ == 20


X, Y = rows(3)
DATES = np.datetime64("2020-01-01") + np.arange(X.size).reshape(X.shape)
WRONG = {
    "datetimes": DATES,
    "durations": DATES - DATES[0, 0],
    "text": X.astype(str),
    "bytes": X.astype("S"),
    "objects of text": X.astype(str).astype(object),
    "objects of dates": np.full(X.shape, dt.date(2020, 1, 1), dtype=object),
    "lists of text": X.astype(str).tolist(),
    "frame of text": pd.DataFrame(X.astype(str)),
    "frame of dates": pd.DataFrame({"a": pd.date_range("2020", periods=len(X)), "b": 1.0}),
}


@pytest.mark.parametrize("kind", WRONG)
def test_text_and_dates_are_no_numbers(kind):
    """Each was accepted, or raised an exception of NumPy's."""
    labels = np.where(Y > 0, "a", "b")
    for model, y in (
        (MiniAMPRegressor(), Y),
        (MiniAMPClassifier(), labels),
        (MiniAMPClusterer(2), None),
    ):
        with pytest.raises(InvalidTypeError, match=r"X: .*real numbers"):
            model.fit(WRONG[kind], y)
        with pytest.raises(InvalidTypeError, match=r"X: .*real numbers"):
            model.partial_fit(WRONG[kind], y)
    if isinstance(WRONG[kind], np.ndarray):
        with pytest.raises(InvalidTypeError, match="real numbers"):
            list(open_stream(WRONG[kind], None, 4))
        with pytest.raises(InvalidTypeError, match="real numbers"):
            list(open_stream(iter([[row[0], 1.0] for row in WRONG[kind]]), None, 4))


@pytest.mark.parametrize("model", [MiniAMPRegressor(), MiniAMPClassifier(), MiniAMPClusterer(2)])
def test_complex_numbers_are_refused_by_the_name_of_the_argument(model):
    X, y = rows(0)
    with pytest.raises(InvalidTypeError, match=r"^X: .*Complex data not supported") as caught:
        clone(model).fit(X + 1j, y > 0)
    assert caught.value.argument == "X"


def test_masks_are_kept_or_refused():
    masked = np.ma.masked_array(X, mask=np.zeros(X.shape, dtype=bool))
    hidden = np.ma.masked_array(Y, mask=np.zeros(Y.shape, dtype=bool))
    MiniAMPRegressor().fit(masked, hidden)  # nothing is masked
    masked[3, 1] = np.ma.masked
    hidden[5] = np.ma.masked
    with pytest.raises(InvalidInputError, match="X: got masked values"):
        MiniAMPRegressor().fit(masked, Y)
    with pytest.raises(InvalidInputError, match="y: got masked values"):
        MiniAMPRegressor().fit(X, hidden)
    with pytest.raises(InvalidInputError, match="X: got masked values"):
        MiniAMPClusterer(2).fit(masked)
    with pytest.raises(InvalidInputError, match="Phi: got masked values"):
        evidence.Batch(masked, Y, channels.Gaussian())
    with pytest.raises(InvalidInputError, match="y: got masked values"):
        evidence.Batch(X, hidden, channels.Gaussian())
    with pytest.raises(InvalidInputError, match=r"row 4, column 'x1': got a missing value"):
        list(open_stream(masked, None, 30))
    (batch,) = open_stream((masked, hidden), None, 30, missing="drop")
    assert batch.X.tolist() == np.delete(X, [3, 5], axis=0).tolist()


def test_starts_of_clusters_are_limited():
    with pytest.raises(InvalidInputError, match="n_init: got 2147483648"):
        MiniAMPClusterer(2, n_init=2**31).fit(X)
