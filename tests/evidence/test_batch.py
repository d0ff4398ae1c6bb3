"""AMP on a batch: its limits, and what it does with rows that it cannot absorb."""

from __future__ import annotations

import numpy as np
import pytest

from miniamp import Posterior, Stop, Tilt, absorb, channels, designs, evidence, priors, stream
from miniamp.designs import Sweep
from miniamp.errors import ConflictError, ConflictWarning, InvalidInputError
from miniamp.evidence import Batch, batch
from miniamp.posterior import Moments

SPARSE = priors.GaussBernoulli(rho=0.3)


def sparse_signal(rng, size):
    return np.where(np.arange(size) < 0.3 * size, rng.normal(size=size), 0.0)


def iid(rng, rows, size):
    return rng.normal(size=(rows, size)) / np.sqrt(size)


def test_scalar_iteration_is_the_papers(rng):
    """`eq:amp1` to `eq:amp3` written out, with the measured variance of the entries for 1/N."""
    size, rows, noise = 80, 60, 0.01
    Phi, x = iid(rng, rows, size), sparse_signal(rng, size)
    y = Phi @ x
    spread, alpha = np.mean(Phi**2), rows * np.mean(Phi**2)
    estimate = SPARSE.moments(0.0, np.zeros(size))
    z, V, V_old = np.zeros(rows), spread * np.sum(estimate[1]), np.inf
    batch, belief = (
        Batch(designs.Averaged(Phi), y, channels.Gaussian(noise)),
        Posterior(SPARSE, size),
    )
    ours, memory = batch.start(belief)
    for _ in range(5):
        z = y - Phi @ estimate[0] + V / (noise + V_old) * z
        A = alpha / (noise + V)
        B = Phi.T @ z / (noise + V) + A * estimate[0]
        estimate = SPARSE.moments(A, B)
        V_old, V = V, spread * np.sum(estimate[1])
        step = batch.refine(belief, ours, memory)
        ours, memory = step.estimate, step.memory
        np.testing.assert_allclose(ours.mean, estimate[0], rtol=1e-9, atol=1e-12)


def test_no_noise_recovers_the_signal_to_rounding(rng):
    """Delta = 0 is floored; V is not, or the Onsager coefficient would be spoiled (errata E3)."""
    size = 300
    x, Phi = sparse_signal(rng, size), iid(rng, 240, size)
    batch = Batch(designs.Averaged(Phi), Phi @ x, channels.Gaussian(var=0.0))
    after, info = absorb(Posterior(SPARSE, size), batch, Stop(tol=0.0))
    assert info.converged  # nothing is left that floating point could learn
    assert np.mean((after.mean - x) ** 2) < 1e-24


def test_onsager_memory_is_not_carried_to_the_next_batch(rng):
    """One iteration a batch (errata B2): with a foreign memory the error grows instead."""
    size, rows = 400, 80
    x, belief, channel = sparse_signal(rng, size), Posterior(SPARSE, size), channels.Gaussian(1e-8)
    carried, foreign = belief, None
    for _ in range(10):
        Phi = iid(rng, rows, size)
        batch = Batch(designs.Averaged(Phi), Phi @ x, channel)
        belief, _ = absorb(belief, batch, Stop(max_iter=1))
        step = batch.refine(carried, carried.moments, foreign)
        carried, foreign = carried.tilted(step.tilt), step.memory
    ours, theirs = (np.mean((b.mean - x) ** 2) for b in (belief, carried))
    assert ours < 0.1 < 0.25 < theirs


def test_damping_changes_the_way_and_not_the_end(rng):
    size = 200
    x, Phi = sparse_signal(rng, size), iid(rng, 160, size)
    y = Phi @ x + 0.1 * rng.normal(size=160)
    start, channel = Posterior(SPARSE, size), channels.Gaussian(0.01)
    plain, quick = absorb(start, Batch(Phi, y, channel), Stop(tol=1e-12))
    damped, slow = absorb(start, Batch(Phi, y, channel, damping=0.5), Stop(tol=1e-12))
    np.testing.assert_allclose(damped.mean, plain.mean, atol=1e-9)
    assert slow.iterations > quick.iterations
    # Undamped before it is compared: the first change is that of the full step.
    assert slow.trace[0] == pytest.approx(quick.trace[0], rel=1e-12)


@pytest.mark.parametrize("damping", [-0.1, 1.0, 2.0, np.nan, "some", None])
def test_damping_out_of_range_is_refused(damping):
    with pytest.raises(InvalidInputError, match="damping"):
        Batch(np.ones((3, 2)), np.ones(3), channels.Gaussian(), damping=damping)


def poisoned(kind, rng):
    size, rows = 200, 160
    x, Phi = sparse_signal(rng, size), iid(rng, rows, size)
    noise = 0.01
    if kind == "constant columns":
        Phi[:, :20] = 1.0
    elif kind == "columns with a mean":
        Phi += 1.0
    elif kind == "five directions only":
        Phi = rng.normal(size=(rows, 5)) @ rng.normal(size=(5, size)) / np.sqrt(size)
    elif kind == "correlated columns":
        for i in range(1, size):
            Phi[:, i] = 0.99 * Phi[:, i - 1] + np.sqrt(1.0 - 0.99**2) * Phi[:, i]
    elif kind == "grossly wrong noise":
        Phi, noise = iid(rng, 3 * rows, size), 3.0
    return Phi, Phi @ x + noise * rng.normal(size=len(Phi))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("constant columns", "constant"),
        ("columns with a mean", "means far from zero"),
        ("five directions only", "correlated columns"),
        ("correlated columns", "correlated columns"),
        ("grossly wrong noise", "raise the noise"),
    ],
)
def test_a_batch_that_contradicts_itself_is_refused_in_plain_words(kind, said, rng):
    Phi, y = poisoned(kind, rng)
    before = Posterior(SPARSE, 200)
    with pytest.warns(ConflictWarning) as tried, pytest.raises(ConflictError, match=said) as caught:
        absorb(before, Batch(Phi, y, channels.Gaussian(1e-6)))
    ways = " ".join(str(w.message) for w in tried)
    assert "damping" in ways
    assert "scalar variances" in ways
    assert not caught.value.health < 3.0
    assert not before.tilt.B.any()


def test_duplicated_columns_are_noticed(rng):
    """Half of the columns are copies: refused, or taken in a careful way that is told."""
    size, rows = 200, 160
    x, Phi = sparse_signal(rng, size), iid(rng, rows, size)
    Phi[:, 100:] = Phi[:, :100]
    batch = Batch(Phi, Phi @ x, channels.Gaussian(1e-4))
    with pytest.warns(ConflictWarning):
        remedy = absorbed_by(Posterior(SPARSE, size), batch)
    assert remedy in ("refused", "damping", "scalar variances")


def absorbed_by(belief, batch):
    try:
        return absorb(belief, batch)[1].remedy
    except ConflictError:
        return "refused"


def test_a_poisoned_batch_in_a_stream_is_named_and_the_belief_before_it_is_good(rng):
    size = 200
    x, kept = sparse_signal(rng, size), []

    def batches():
        for k in range(4):
            Phi = iid(rng, 80, size) + (1.0 if k == 2 else 0.0)
            yield Batch(Phi, Phi @ x, channels.Gaussian(1e-4))

    beliefs = (belief for belief, _ in stream(Posterior(SPARSE, size), batches()))
    with pytest.warns(ConflictWarning), pytest.raises(ConflictError, match="batch 2") as caught:
        kept.extend(beliefs)
    assert caught.value.batch == 2
    good = kept[-1]
    Phi = iid(rng, 200, size)
    after, _ = absorb(good, Batch(Phi, Phi @ x, channels.Gaussian(1e-4)))
    assert np.mean((after.mean - x) ** 2) < 1e-3


def test_reaching_the_last_iteration_is_no_error(rng):
    Phi = iid(rng, 30, 60)
    _, info = absorb(
        Posterior(SPARSE, 60), Batch(Phi, rng.normal(size=30), channels.Gaussian(1.0)), Stop(2, 0.0)
    )
    assert info.iterations == 2
    assert not info.converged


def test_forecast_is_calibrated(rng):
    """N = 400: the power of what is not known of x fluctuates by sqrt(2/N) = 7 %."""
    size = 400
    x, Phi = rng.normal(size=size), iid(rng, 600, size)
    y = Phi @ x + 0.3 * rng.normal(size=600)
    channel = channels.Gaussian(0.09)
    belief, _ = absorb(Posterior(priors.Gaussian(), size), Batch(Phi, y, channel))
    new = iid(rng, 4000, size)
    mean, var = evidence.forecast(belief, new, channel)
    seen = new @ x + 0.3 * rng.normal(size=4000)
    assert np.mean((seen - mean) ** 2 / var) == pytest.approx(1.0, abs=0.28)
    with pytest.raises(InvalidInputError):
        evidence.forecast(belief, new[:, 1:], channel)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::miniamp.errors.ConflictWarning")
def test_a_solved_perceptron_batch_ends_and_is_not_unlearnt():
    """The rows fall silent once the signs are known (errata E1): that iteration's tilt is kept."""
    size, seed = 500, 3  # here the variance alone (2.8e-6 at the end) does not tell it
    rng = np.random.default_rng(seed)
    x, channel = rng.choice([-1.0, 1.0], size), channels.Probit(var=0.0)
    belief = Posterior(priors.Rademacher(), size)
    for _ in range(18):
        Phi = iid(rng, size // 4, size)
        y = np.where(Phi @ x >= 0.0, 1.0, -1.0)
        belief, info = absorb(belief, Batch(designs.Averaged(Phi), y, channel), Stop(100))
    assert info.converged
    assert np.mean((belief.mean - x) ** 2) < 1e-6


SIZE = 1300  # two groups of coordinates and a rest
EACH = np.linspace(0.1, 0.9, SIZE)


@pytest.mark.parametrize(
    "prior",
    [priors.GaussBernoulli(rho=0.3), priors.Gaussian(var=EACH), priors.Rademacher(p=EACH)],
    ids=lambda p: type(p).__name__,
)
@pytest.mark.parametrize("shared", [True, False], ids=["scalar", "vector"])
@pytest.mark.parametrize("fresh", [True, False], ids=["first batch", "later batch"])
def test_compiled_equals_plain(prior, shared, fresh, rng, monkeypatch):
    belief = Posterior(prior, SIZE)
    if not fresh:
        belief = belief.tilted(Tilt(rng.random(SIZE), rng.normal(size=SIZE)))
    curvature = np.asarray(2.0) if shared else rng.random(SIZE)
    sweep = Sweep(rng.normal(size=SIZE), curvature, None, 1.0, 1.0)
    estimate = Moments(rng.normal(size=SIZE), rng.random(SIZE))
    ours = batch.updated(belief, estimate, sweep)
    monkeypatch.setattr(batch, "WORTH_COMPILING", SIZE + 1)
    plain = batch.updated(belief, estimate, sweep)
    np.testing.assert_allclose(ours.tilt.B, plain.tilt.B, rtol=1e-13)
    assert ours.tilt.A is sweep.curvature
    np.testing.assert_allclose(ours.moments.mean, plain.moments.mean, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(ours.moments.var, plain.moments.var, rtol=1e-12, atol=1e-15)
    assert ours[2:] == pytest.approx(plain[2:], rel=1e-12)
