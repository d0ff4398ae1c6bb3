"""What every kind of evidence from rows must do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse, stats

from miniamp import Posterior, Stop, Tilt, absorb, channels, designs, evidence, priors, stream
from miniamp.errors import InvalidInputError, InvalidTypeError

ROWS, SIZE = 60, 40
CHANNEL = channels.Gaussian(var=0.1)
EVIDENCE = {
    "vector variances": evidence.Batch,
    "scalar variances": lambda Phi, y, c: evidence.Batch(designs.Averaged(Phi), y, c),
    "damped": lambda Phi, y, c: evidence.Batch(Phi, y, c, damping=0.3),
    "sparse": lambda Phi, y, c: evidence.Batch(sparse.csr_array(Phi), y, c),
    "mean field": evidence.MeanFieldBatch,
    "robust": evidence.RobustBatch,
}


@pytest.fixture(params=EVIDENCE.values(), ids=EVIDENCE)
def make(request):
    return request.param


def problem(rng, rows=ROWS):
    x = rng.normal(size=SIZE)
    Phi = rng.normal(size=(rows, SIZE)) / np.sqrt(SIZE)
    return Phi, Phi @ x + np.sqrt(0.1) * rng.normal(size=rows)


def belief_in_use(rng):
    start = Posterior(priors.GaussBernoulli(rho=0.5), SIZE)
    return start.tilted(Tilt(rng.random(SIZE), rng.normal(size=SIZE)))


def snapshot(belief):
    return [np.array(part) for part in (belief.tilt.A, belief.tilt.B, belief.mean, belief.var)]


def test_the_given_belief_and_data_stay_as_they_are(make, rng):
    Phi, y = problem(rng)
    belief, before = belief_in_use(rng), None
    before = snapshot(belief)
    data = Phi.copy(), y.copy()
    after, _ = absorb(belief, make(Phi, y, CHANNEL))
    for then, now in zip(before, snapshot(belief), strict=True):
        np.testing.assert_array_equal(now, then)
    np.testing.assert_array_equal(Phi, data[0])
    np.testing.assert_array_equal(y, data[1])
    assert np.max(np.abs(after.mean - belief.mean)) > 1e-3


def test_refine_leaves_its_arguments_as_they_are(make, rng):
    rows, belief = make(*problem(rng), CHANNEL), belief_in_use(rng)
    estimate, memory = rows.start(belief)
    first = rows.refine(belief, estimate, memory)
    kept = [part.copy() for part in first.estimate]
    second = rows.refine(belief, first.estimate, first.memory)
    again = rows.refine(belief, first.estimate, first.memory)
    for part, then in zip(first.estimate, kept, strict=True):
        np.testing.assert_array_equal(part, then)
    np.testing.assert_array_equal(second.estimate.mean, again.estimate.mean)


def test_one_batch_streamed_is_offline(make, rng):
    """Exactly: there is one code for both."""
    Phi, y = problem(rng)
    start = Posterior(priors.GaussBernoulli(rho=0.5), SIZE)
    offline, _ = absorb(start, make(Phi, y, CHANNEL))
    [(streamed, _)] = stream(start, [make(Phi, y, CHANNEL)])
    np.testing.assert_array_equal(streamed.mean, offline.mean)
    np.testing.assert_array_equal(streamed.var, offline.var)


def test_absorbing_twice_from_the_same_belief_gives_the_same(make, rng):
    """Evidence keeps no state of its own between batches (errata B2)."""
    rows, belief = make(*problem(rng), CHANNEL), belief_in_use(rng)
    one, _ = absorb(belief, rows)
    other, _ = absorb(belief, rows)
    np.testing.assert_array_equal(one.mean, other.mean)


def test_more_rows_teach_more(make, rng):
    x, start = rng.normal(size=SIZE), Posterior(priors.Gaussian(), SIZE)
    errors = []
    for rows in (40, 400):
        Phi = rng.normal(size=(rows, SIZE)) / np.sqrt(SIZE)
        y = Phi @ x + np.sqrt(0.1) * rng.normal(size=rows)
        errors.append(np.mean((absorb(start, make(Phi, y, CHANNEL))[0].mean - x) ** 2))
    assert errors[1] < 0.5 * errors[0]


def test_log_evidence_is_near_the_exact_one(make, rng):
    """Gaussian, 60 rows and 40 coefficients: the robust solver exactly, AMP to 1 nat, mean field
    (which learns its own noise) to 15; shuffled targets are less probable by far."""
    Phi, y = problem(rng)
    belief = Posterior(priors.Gaussian(), SIZE).tilted(Tilt(rng.random(SIZE), np.zeros(SIZE)))
    cov = (Phi * belief.var) @ Phi.T + 0.1 * np.eye(ROWS)
    exact = stats.multivariate_normal(Phi @ belief.mean, cov).logpdf(y)
    found = absorb(belief, make(Phi, y, CHANNEL))[1].log_evidence
    within = {evidence.RobustBatch: 1e-9, evidence.MeanFieldBatch: 15.0}.get(make, 1.0)
    assert found == pytest.approx(exact, abs=within)
    _, shuffled = absorb(belief, make(Phi, rng.permutation(y), CHANNEL), on_conflict="skip")
    assert shuffled.log_evidence < found - 5.0


def test_single_precision_gives_double_results(make, rng):
    Phi, y = problem(rng)
    start, narrow = Posterior(priors.Gaussian(), SIZE), Phi.astype(np.float32)
    wide, _ = absorb(start, make(Phi, y, CHANNEL))
    ours, _ = absorb(start, make(narrow, y, CHANNEL))
    assert ours.mean.dtype == ours.var.dtype == np.float64
    np.testing.assert_allclose(ours.mean, wide.mean, rtol=1e-4, atol=1e-4)


def test_another_size_is_refused(make, rng):
    rows = make(*problem(rng), CHANNEL)
    with pytest.raises(InvalidInputError, match="size of the belief"):
        absorb(Posterior(priors.Gaussian(), SIZE + 1), rows, Stop(max_iter=2))


@pytest.mark.parametrize(
    ("Phi", "y", "says"),
    [
        (np.ones((3, 2)), np.ones(4), "y"),
        (np.ones((3, 2)), np.ones((3, 1)), "y"),
        (np.ones((3, 2)), np.array([1.0, np.nan, 0.0]), "y"),
        (np.ones((3, 2)), ["a", "b", "c"], "y"),
        (np.ones((0, 2)), np.ones(0), "Phi"),
        (np.full((3, 2), np.nan), np.ones(3), "Phi"),
        (np.ones(3), np.ones(3), "Phi"),
        (np.full((3, 2), 1j), np.ones(3), "Phi"),
    ],
)
def test_bad_rows_are_refused(make, Phi, y, says):
    with pytest.raises(InvalidInputError, match=says):
        make(Phi, y, CHANNEL)


@pytest.mark.parametrize("channel", [None, "gaussian", 0.1, channels.Gaussian], ids=str)
def test_what_is_no_channel_is_refused(make, channel):
    with pytest.raises(InvalidInputError, match="channel"):
        make(np.ones((3, 2)), np.ones(3), channel)


def test_rows_without_a_channel_are_no_evidence():
    with pytest.raises(InvalidTypeError, match="evidence"):
        absorb(Posterior(priors.Gaussian(), 2), (np.ones((3, 2)), np.ones(3)))
