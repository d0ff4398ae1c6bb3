"""partial_fit is all or nothing: after any error the estimator is bit for bit what it was."""

import pickle

import numpy as np
import pytest

pytest.importorskip("sklearn")

from miniamp import channels, learning
from miniamp.errors import ConflictError, InvalidInputError, InvalidTypeError
from miniamp.estimators import MiniAMPClassifier, MiniAMPClusterer, MiniAMPRegressor
from miniamp.evidence import ExactBatch, RobustBatch

ROWS = np.random.default_rng(0).normal(size=(40, 3))
BAD = {
    "missing": (np.where(np.eye(40, 3) > 0, np.nan, ROWS), None),
    "infinite": (np.where(np.eye(40, 3) > 0, np.inf, ROWS), None),
    "more features": (np.hstack([ROWS, ROWS]), None),
    "fewer features": (ROWS[:, :2], None),
    "one dimension": (ROWS[0], None),
    "three dimensions": (ROWS[None], None),
    "no rows": (ROWS[:0], None),
    "text": (ROWS.astype(str).astype(object)[:, :1].repeat(3, 1) + "x", None),
    "complex": (ROWS + 1j, None),
    "y too short": (ROWS, np.ones(39)),
    "y missing": (ROWS, np.where(np.arange(40) == 3, np.nan, 1.0)),
    "y infinite": (ROWS, np.where(np.arange(40) == 3, np.inf, 1.0)),
    "y as a matrix": (ROWS, np.ones((40, 2))),
    "y as words": (ROWS, np.array(["word"] * 40)),
    "y is None": (ROWS, "none"),
    "too large to square": (1e300 * ROWS, None),
    "too small to square": (1e-300 * ROWS, None),
}


def fitted(kind):
    y = ROWS @ [1.0, -1.0, 0.0]
    if kind == "regressor":
        return MiniAMPRegressor().partial_fit(ROWS, y), y
    return MiniAMPClassifier().partial_fit(ROWS, y > 0, classes=[False, True]), y > 0


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_bad_input_changes_nothing(kind, name):
    model, y = fitted(kind)
    X, target = BAD[name]
    target = y[: len(X)] if target is None else (None if isinstance(target, str) else target)
    before = pickle.dumps(model)
    with pytest.raises((ValueError, TypeError)):
        model.partial_fit(X, target)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
@pytest.mark.parametrize(
    "weights", [np.zeros(40), -np.ones(40), np.full(40, np.nan), np.ones(3), np.ones((40, 2))]
)
def test_bad_weights_change_nothing(kind, weights):
    model, y = fitted(kind)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=r"."):
        model.partial_fit(ROWS, y, sample_weight=weights)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
@pytest.mark.parametrize("error", [np.linalg.LinAlgError, KeyboardInterrupt, MemoryError])
def test_an_error_deep_in_the_solver_changes_nothing(kind, error, monkeypatch):
    model, y = fitted(kind)
    model.set_params(on_conflict="raise")
    before = pickle.dumps(model)
    calls = []

    def fails_late(self, belief, step):
        calls.append(step)
        raise error("deep inside")

    monkeypatch.setattr(ExactBatch if kind == "regressor" else RobustBatch, "conclude", fails_late)
    # What linear algebra cannot solve is a batch that is refused, in words.
    with pytest.raises(ConflictError if error is np.linalg.LinAlgError else error):
        model.partial_fit(ROWS, y)
    assert calls
    assert pickle.dumps(model) == before


def test_an_error_in_a_later_class_changes_nothing(monkeypatch):
    y = np.argmax(ROWS, axis=1)
    model = MiniAMPClassifier("laplace").partial_fit(ROWS, y)
    before, calls, conclude = pickle.dumps(model), [], learning.Learn.conclude

    def third_fails(self, *args):
        calls.append(1)
        if len(calls) == 3:
            raise ArithmeticError("in the third class")
        return conclude(self, *args)

    monkeypatch.setattr(learning.Learn, "conclude", third_fails)
    with pytest.raises(InvalidInputError, match=r"in the third class"):
        model.partial_fit(ROWS, y)
    assert pickle.dumps(model) == before


def test_a_refused_batch_and_bad_parameters_change_nothing():
    model, y = fitted("regressor")
    model.set_params(on_conflict="raise").partial_fit(ROWS, y)
    before = pickle.dumps(model)
    with pytest.raises(ConflictError):
        model.partial_fit(ROWS, -1e4 * y)
    assert pickle.dumps(model) == before
    model.set_params(forget=2.0)
    known = model._state
    with pytest.raises(ValueError, match=r"^forget"):
        model.partial_fit(ROWS, y)
    assert model._state is known


def test_unknown_and_other_classes_change_nothing():
    model, y = fitted("classifier")
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=r"^y: got the class"):
        model.partial_fit(ROWS, y.astype(int) + 1)
    with pytest.raises(ValueError, match=r"^classes"):
        model.partial_fit(ROWS, y, classes=[False, True, 2])
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_a_failed_first_batch_leaves_an_unfitted_estimator(kind):
    model = MiniAMPRegressor() if kind == "regressor" else MiniAMPClassifier()
    with pytest.raises(ValueError, match=r"."):
        model.partial_fit(BAD["missing"][0], np.ones(40))
    assert vars(model) == vars(type(model)())


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("fit_intercept", "no"), ("standardize", 2), ("noise", channels.Poisson())],
)
def test_parameters_that_would_be_misread_are_refused(parameter, value):
    model, y = fitted("classifier")
    model.set_params(**{parameter: value})
    before = pickle.dumps(model)
    with pytest.raises((InvalidInputError, InvalidTypeError), match=f"^{parameter}: got "):
        model.partial_fit(ROWS, y)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("labels", [["a", 1] * 20, ["a", None] * 20])
def test_labels_of_several_types_are_refused_by_name(labels):
    with pytest.raises(InvalidTypeError, match="y: got labels of several types"):
        MiniAMPClassifier().fit(ROWS, np.array(labels, dtype=object))


def test_targets_too_large_to_square_change_nothing():
    model, y = fitted("regressor")
    before = pickle.dumps(model)
    with pytest.raises(InvalidInputError, match=r"y: got .*e\+200, expected numbers below 1e\+140"):
        model.partial_fit(ROWS, 1e200 * y)
    assert pickle.dumps(model) == before


def test_a_clusterer_is_all_or_nothing():
    model = MiniAMPClusterer(2, random_state=0).fit(ROWS)
    for name in ("missing", "infinite", "more features", "one dimension", "no rows",
                 "too large to square", "too small to square"):  # fmt: skip
        before = pickle.dumps(model)
        for learn in (model.partial_fit, model.fit):
            if learn == model.fit and name == "more features":
                continue  # which begins anew
            with pytest.raises((ValueError, TypeError)):
                learn(BAD[name][0])
            assert pickle.dumps(model) == before, name


def test_a_generator_cannot_be_saved_and_that_is_said(tmp_path):
    model = MiniAMPRegressor(random_state=np.random.RandomState(0)).fit(ROWS, ROWS[:, 0])
    with pytest.raises(InvalidInputError, match=r"random_state: .*set_params\(random_state=0\)"):
        model.save(tmp_path / "m.amp")
    model.set_params(random_state=0).save(tmp_path / "m.amp")


def test_classes_are_named_as_they_are_written():
    X, y = ROWS, (ROWS[:, 0] > 0.0).astype(int)
    with pytest.raises(InvalidInputError, match=r"got the class 2, expected one of \[0, 1\]"):
        MiniAMPClassifier().fit(X, y).partial_fit(X, y + 1)
    with pytest.raises(InvalidInputError, match=r"got one class, 0, expected"):
        MiniAMPClassifier().fit(X, 0 * y)
