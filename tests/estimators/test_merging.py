"""Merged estimators: what both streams said, in one set of units, with a warning."""

import pickle

import numpy as np
import pytest

pytest.importorskip("sklearn")

import miniamp
from miniamp import MiniAMPClassifier, MiniAMPRegressor, priors
from miniamp.errors import InvalidInputError, InvalidTypeError
from miniamp.estimators import merge
from miniamp.streams import MergeWarning

COEF = np.array([1.0, -2.0, 0.5, 0.0])
quietly = pytest.mark.filterwarnings("ignore::miniamp.streams.MergeWarning")


def rows(seed, count=120, scale=1.0, centre=0.0, intercept=3.0):
    rng = np.random.default_rng(seed)
    X = centre + scale * rng.normal(size=(count, 4))
    return X, X @ COEF + intercept + 0.3 * rng.normal(size=count)


def learned(model, *streams):
    for X, y in streams:
        for i in range(0, len(y), 60):
            model.partial_fit(X[i : i + 60], y[i : i + 60])
    return model


@quietly
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_with_all_correlations_kept_nothing_is_lost(fit_intercept):
    """Gaussian prior and noise, both given, memory for all: Bayes' rule does not mind the order.

    The streams have other centres, so that the intercepts mean different things before.
    """

    def new():
        return MiniAMPRegressor(priors.Gaussian(var=4.0), noise=0.09, fit_intercept=fit_intercept)

    truth = 3.0 if fit_intercept else 0.0
    one = rows(0, intercept=truth)
    two = rows(1, scale=2.0, centre=[5.0, 0.0, -3.0, 1.0], intercept=truth)
    both = merge(learned(new(), one), learned(new(), two))
    whole = learned(new(), one, two)
    np.testing.assert_allclose(both.coef_, whole.coef_, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(both.coef_std_, whole.coef_std_, rtol=2e-2)
    assert both.intercept_ == pytest.approx(whole.intercept_, abs=5e-3)
    assert both.n_samples_seen_ == 240
    assert [e["batch"] for e in both.history_] == [0, 1, 2, 3]
    assert [e["rows_seen"] for e in both.history_] == [60, 120, 180, 240]


@quietly
@pytest.mark.parametrize("memory", [0, "auto"])
def test_units_learned_apart_are_brought_together(memory):
    """One stream in features a hundred times as wide: errors within four of the error bars."""
    one, two = rows(2), rows(3, scale=100.0, centre=50.0)
    a, b = (learned(MiniAMPRegressor(memory=memory), stream) for stream in (one, two))
    for both in (merge(a, b), merge(b, a)):
        assert (np.abs(both.coef_ - COEF) < 4.0 * both.coef_std_ + 1e-3).all()
        X, y = rows(4)
        mean, std = both.predict(X, return_std=True)
        assert np.mean(np.square(mean - y)) < 0.2  # the noise is 0.09
        assert np.mean(np.abs(mean - y) < 2.0 * std) > 0.8


@quietly
@pytest.mark.parametrize("classes", [2, 3])
def test_classes_are_merged_and_go_on_and_are_saved(classes, tmp_path):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(400, 4))
    y = np.digitize(X @ COEF + 0.5 * rng.normal(size=400), [-1.0, 1.0][: classes - 1])
    a, b = (
        MiniAMPClassifier().partial_fit(X[part], y[part], classes=np.arange(classes))
        for part in (slice(100), slice(100, 200))
    )
    before = pickle.dumps((a, b))
    both = merge(a, b)
    assert pickle.dumps((a, b)) == before
    test = slice(200, 400)
    assert both.score(X[test], y[test]) >= max(m.score(X[test], y[test]) for m in (a, b)) - 0.05
    both.save(tmp_path / "both.amp")
    again = miniamp.load(tmp_path / "both.amp").partial_fit(X[test], y[test])
    both.partial_fit(X[test], y[test])
    assert again.coef_.tolist() == both.coef_.tolist()
    assert both.n_samples_seen_ == 400


def test_merging_warns_of_what_it_costs():
    a, b = (learned(MiniAMPRegressor(), rows(seed)) for seed in (6, 7))
    with pytest.warns(MergeWarning, match="larger error"):
        merge(a, b)


@quietly
def test_estimators_of_different_things_are_refused():
    a = learned(MiniAMPRegressor(), rows(8))
    with pytest.raises(InvalidTypeError, match="b: got Posterior"):
        merge(a, a.posterior_)
    with pytest.raises(ValueError, match="not fitted"):
        merge(a, MiniAMPRegressor())
    with pytest.raises(InvalidInputError, match="another number of features"):
        merge(a, MiniAMPRegressor().fit(rows(9)[0][:, :2], rows(9)[1]))
    with pytest.raises(InvalidInputError, match="another set of parameters"):
        merge(a, learned(MiniAMPRegressor("sparse"), rows(9)))
    with pytest.raises(InvalidInputError, match="another class"):
        merge(a, MiniAMPClassifier().fit(rows(9)[0], rows(9)[1] > 3.0))
    with pytest.raises(InvalidInputError, match="b: got 5 rows"):
        merge(a, MiniAMPRegressor().fit(*(part[:5] for part in rows(9))))


@quietly
def test_log_evidence_is_summed_saved_and_unknown_after_merging(tmp_path):
    """Two ways to the same number: cut into two batches, and as one with given hyper-parameters."""

    def new():
        return MiniAMPRegressor(priors.Gaussian(var=4.0), noise=0.09, fit_intercept=False)

    stream = rows(0, intercept=0.0)
    model = learned(new(), stream)
    each = [entry["log_evidence"] for entry in model.history_]
    assert len(each) == 2
    assert model.log_evidence_ == pytest.approx(sum(each), rel=1e-12)
    scaled = learned(
        MiniAMPRegressor(priors.Gaussian(var=400.0), noise=9.0, fit_intercept=False),
        (stream[0], 10.0 * stream[1]),
    )
    shift = 120 * np.log(10.0)
    assert scaled.log_evidence_ == pytest.approx(model.log_evidence_ - shift, abs=1e-6)
    weights = np.linspace(0.5, 2.5, 120)
    weighted = [
        MiniAMPRegressor(priors.Gaussian(var=4.0 * c**2), noise=0.09 * c**2).partial_fit(
            stream[0], c * stream[1], sample_weight=weights
        )
        for c in (1.0, 10.0)
    ]
    shift = float(weights.sum() * np.log(10.0))
    evidence = [one.log_evidence_ for one in weighted]
    assert evidence[1] == pytest.approx(evidence[0] - shift, abs=1e-6)
    model.save(tmp_path / "m.amp")
    assert miniamp.load(tmp_path / "m.amp").log_evidence_ == model.log_evidence_
    both = merge(model, learned(new(), rows(1, intercept=0.0)))
    assert np.isnan(both.log_evidence_)
