"""The adapters for river, by river's own checks and by what they promise."""

import numpy as np
import pytest

pytest.importorskip("river")

from river import checks as river_checks

from miniamp.compat.river import RiverClassifier, RiverRegressor
from miniamp.errors import InvalidInputError, InvalidTypeError

MODELS = [RiverRegressor(), RiverClassifier()]


@pytest.mark.parametrize(
    ("model", "check"),
    [
        pytest.param(
            model,
            check,
            id=f"{type(model).__name__}-{k}-{check.__name__}",
            # With a data set, a check streams hundreds of rows of seven classes.
            marks=[pytest.mark.slow] if hasattr(check, "keywords") else [],
        )
        for model in MODELS
        for k, check in enumerate(river_checks.yield_checks(model))
    ],
)
@pytest.mark.filterwarnings("ignore::miniamp.estimators.HealthWarning")
def test_every_check_of_river(model, check):
    check(model.clone())


def test_one_by_one_is_many_at_once():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(100, 3)), columns=["a", "b", "c"])
    y = X["a"] - X["b"] + 0.1 * rng.normal(size=100)
    one, many = RiverRegressor(batch_size=16), RiverRegressor(batch_size=16)
    for x, target in zip(X.to_dict("records"), y, strict=True):
        one.learn_one(x, target)
    many.learn_many(X, y)
    np.testing.assert_array_equal(one.predict_many(X), many.predict_many(X))
    assert np.mean(np.square(one.predict_many(X) - y)) < 0.05


def test_a_feature_may_come_late():
    """After rows without it have been learned from, not only while they wait."""
    model, rng = RiverRegressor(), np.random.default_rng(0)
    for k in range(400):
        a, b = rng.normal(size=2)
        x = {"a": a} | ({"b": b} if k >= 200 else {})
        model.learn_one(x, a + 2.0 * x.get("b", 0.0) + 0.1 * rng.normal())
    assert model.predict_one({"a": 0.0, "b": 1.0}) == pytest.approx(2.0, abs=0.1)


def test_features_that_come_late_make_room_for_as_many_remembered_rows():
    """Room for 256 was left where those that are there from the start have 512."""
    model, rng = RiverRegressor(prior="laplace"), np.random.default_rng(6)
    for size in (200, 400):
        for row in rng.normal(size=(80, size)):
            model.learn_one(dict(enumerate(row)), row[0] + rng.normal())
    assert model._state.models[0].posterior.memory == 401


def test_a_class_may_come_late():
    rng = np.random.default_rng(1)
    model = RiverClassifier(batch_size=16)
    for k in range(400):
        x = {"a": rng.normal(), "b": rng.normal()}
        late = k > 100 and x["b"] > 1.0
        model.learn_one(x, "late" if late else ("up" if x["a"] > 0 else "down"))
    chances = model.predict_proba_one({"a": 0.0, "b": 3.0})
    assert sum(chances.values()) == pytest.approx(1.0)
    assert model.predict_one({"a": 0.0, "b": 3.0}) == "late"
    assert model.predict_one({"a": 2.0, "b": -1.0}) == "up"


@pytest.mark.parametrize("value", ["word", None, float("nan"), float("inf")])
def test_what_is_no_number_is_named_and_changes_nothing(value):
    model = RiverRegressor()
    with pytest.raises(InvalidInputError, match=r"x\['a'\]"):
        model.learn_one({"a": value}, 1.0)
    assert model.predict_one({"a": 1.0}) == 0.0


def test_a_frame_with_a_bad_row_changes_nothing():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame({"a": [float(k) for k in range(40)], "b": 1.0})
    model = RiverRegressor(batch_size=8)
    model.learn_many(X, X["a"])
    before = dict(model.__dict__)
    with pytest.raises(InvalidInputError, match=r"x\['a'\]"):
        model.learn_many(X.assign(a=[*range(39), float("nan")]), X["a"])
    with pytest.raises(InvalidInputError, match="y: got 39 values, expected 40"):
        model.learn_many(X, X["a"][:39])
    assert model.__dict__ == before


def test_an_error_within_a_batch_leaves_classes_and_rows_as_they_were(monkeypatch):
    model = RiverClassifier(batch_size=4)
    for k in range(11):
        model.learn_one({"a": float(k)}, k % 2)
    before = dict(model.__dict__)
    monkeypatch.setattr(type(model._state), "absorbed", None)
    with pytest.raises(TypeError):
        model.learn_one({"a": 3.0, "b": 1.0}, "new")
    assert model.__dict__ == before


def test_rows_without_features_wait_for_one_that_has_some():
    """Such as documents without a known word, at the start of a stream."""
    model = RiverRegressor(batch_size=2)
    for y in (1.0, 2.0, 3.0):
        model.learn_one({}, y)
    assert model.predict_one({}) == pytest.approx(2.0)
    for i in range(20):
        model.learn_one({"a": i % 5}, 2.0 * (i % 5))
    assert model.predict_one({"a": 3}) == pytest.approx(6.0, abs=0.5)


def test_a_label_that_is_no_class_is_refused_at_once():
    """It was refused with its batch, and with every row after it."""
    model = RiverClassifier(batch_size=2)
    with pytest.raises(InvalidTypeError, match=r"y: got \[1\]"):
        model.learn_one({"a": 1.0}, [1])
    for i in range(20):
        model.learn_one({"a": i % 5}, i % 5 > 2)
    assert model.predict_one({"a": 4})
