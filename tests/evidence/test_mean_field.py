"""Streaming variational Bayes: the right update, the right noise, and worse than Mini-AMP."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from miniamp import Posterior, Stop, Tilt, absorb, channels, designs, priors
from miniamp.errors import InvalidInputError
from miniamp.evidence import Batch, MeanFieldBatch

ROWS, SIZE, NOISE = 30, 20, 0.07
PRIORS = [priors.GaussBernoulli(rho=0.3), priors.Gaussian(mean=0.2), priors.Laplace()]
HOLDS = {"array": np.asarray, "sparse": sparse.csr_array, "averaged": designs.Averaged}


def problem(rng):
    Phi = rng.normal(size=(ROWS, SIZE)) * (rng.random((ROWS, SIZE)) < 0.5)
    return Phi, rng.normal(size=ROWS)


def gamp_without_variance(belief, Phi, y, x):
    """The tilt of `eq:gamp` at means x, with V = 0."""
    nothing = np.zeros(len(x))
    sweep = designs.Dense(Phi).sandwich(x, nothing, y, channels.Gaussian(var=NOISE), None)
    tilt = Tilt(sweep.curvature, sweep.pull + sweep.curvature * x)
    return belief.tilted(tilt).moments


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("hold", HOLDS.values(), ids=HOLDS)
def test_an_update_is_gamp_with_variance_zero(prior, hold, rng):
    """Each coefficient, put first in the sweep, moves as in GAMP with V = 0 (1e-12)."""
    Phi, y = problem(rng)
    before = Posterior(prior, SIZE).tilted(Tilt(rng.random(SIZE), rng.normal(size=SIZE)))
    for first in (0, 7, SIZE - 1):
        order = np.roll(np.arange(SIZE), -first)
        belief = Posterior(prior, SIZE).tilted(Tilt(before.tilt.A[order], before.tilt.B[order]))
        rows = MeanFieldBatch(hold(Phi[:, order]), y, channels.Gaussian(NOISE), learn_noise=False)
        estimate, memory = rows.start(belief)
        step = rows.refine(belief, estimate, memory)
        parallel = gamp_without_variance(belief, Phi[:, order], y, estimate.mean)
        assert step.estimate.mean[0] == pytest.approx(parallel.mean[0], rel=1e-12, abs=1e-13)
        assert step.estimate.var[0] == pytest.approx(parallel.var[0], rel=1e-12)


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: type(p).__name__)
def test_the_end_of_the_sweeps_is_a_fixed_point_of_gamp_without_variance(prior, rng):
    Phi, y = problem(rng)
    belief = Posterior(prior, SIZE)
    rows = MeanFieldBatch(Phi, y, channels.Gaussian(NOISE), learn_noise=False)
    after, info = absorb(belief, rows, Stop(max_iter=5000, tol=1e-15))
    assert info.converged
    parallel = gamp_without_variance(belief, Phi, y, after.mean)
    np.testing.assert_allclose(parallel.mean, after.mean, rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(parallel.var, after.var, rtol=1e-10)


@pytest.mark.parametrize("hold", HOLDS.values(), ids=HOLDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
def test_the_belief_holds_what_the_last_sweep_found(hold, dtype, rng):
    """The tilt gives back the estimate itself: nothing is lost between sweep and stream."""
    Phi, y = problem(rng)
    belief = Posterior(priors.GaussBernoulli(rho=0.3), SIZE)
    rows = MeanFieldBatch(hold(Phi.astype(dtype)), y, channels.Gaussian(1e-6))
    estimate, memory = rows.start(belief)
    for _ in range(3):
        step = rows.refine(belief, estimate, memory)
        held = rows.conclude(belief, step).moments
        np.testing.assert_allclose(held.mean, step.estimate.mean, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(held.var, step.estimate.var, rtol=1e-12)
        left = y - Phi.astype(dtype).astype(np.float64) @ step.estimate.mean
        np.testing.assert_allclose(step.memory.residual, left, atol=1e-12)
        estimate, memory = step.estimate, step.memory


def test_the_noise_is_that_of_the_bound(rng):
    """Delta = mean[(y - Phi x)^2 + Phi^2 v] after every sweep, never under the channel's."""
    Phi, y = problem(rng)
    belief = Posterior(priors.Gaussian(), SIZE)
    rows = MeanFieldBatch(Phi, y, channels.Gaussian(1e-9))
    estimate, memory = rows.start(belief)
    step = rows.refine(belief, estimate, memory)
    x, v = step.estimate
    expected = np.mean((y - Phi @ x) ** 2 + Phi**2 @ v)
    assert step.memory.noise == pytest.approx(expected, rel=1e-10)
    floored = MeanFieldBatch(Phi, y, channels.Gaussian(50.0))
    assert floored.start(belief)[1].noise == 50.0


def test_the_noise_is_learned_within_a_few_per_cent(rng):
    """2000 rows, 20 coefficients, true Delta = 0.5: chi-squared leaves sqrt(2/2000) = 3 %."""
    x, rows = rng.normal(size=SIZE), 2000
    Phi = rng.normal(size=(rows, SIZE))
    y = Phi @ x + np.sqrt(0.5) * rng.normal(size=rows)
    batch = MeanFieldBatch(Phi, y, channels.Gaussian(var=0.0))
    after, _ = absorb(Posterior(priors.Gaussian(), SIZE), batch)
    learned = np.sum(Phi**2, axis=0) / after.tilt.A
    np.testing.assert_allclose(learned, 0.5, rtol=0.15)
    assert np.mean((after.mean - x) ** 2) < 2e-3


def test_order_of_rows_does_not_matter(rng):
    Phi, y = problem(rng)
    order = rng.permutation(ROWS)
    start = Posterior(priors.GaussBernoulli(rho=0.3), SIZE)
    one, _ = absorb(start, MeanFieldBatch(Phi, y, channels.Gaussian(0.1)))
    other, _ = absorb(start, MeanFieldBatch(Phi[order], y[order], channels.Gaussian(0.1)))
    np.testing.assert_allclose(other.mean, one.mean, atol=1e-10)


def test_in_a_stream_mini_amp_is_thirty_times_better():
    """N = 600, seed 3, rho = .3, Delta = 1e-8, alpha_b = .2 up to alpha = 3 (measured: 100 x)."""
    size, rng = 600, np.random.default_rng(3)
    x = np.where(np.arange(size) < 0.3 * size, rng.normal(size=size), 0.0)
    prior, channel = priors.GaussBernoulli(rho=0.3), channels.Gaussian(var=1e-8)
    amp = field = Posterior(prior, size)
    for _ in range(15):
        Phi = rng.normal(size=(size // 5, size)) / np.sqrt(size)
        y = Phi @ x + 1e-4 * rng.normal(size=size // 5)
        amp, _ = absorb(amp, Batch(designs.Averaged(Phi), y, channel), Stop(200, 1e-6))
        field, _ = absorb(field, MeanFieldBatch(Phi, y, channel), Stop(200, 1e-6))
    errors = [np.mean((b.mean - x) ** 2) for b in (amp, field)]
    assert errors[1] > 30.0 * errors[0]


@pytest.mark.parametrize(
    "given",
    [
        {"channel": channels.Probit()},
        {"channel": channels.Gaussian(var=np.ones(ROWS))},
        {"channel": None},
        {"y": np.zeros(ROWS + 1)},
        {"y": np.full(ROWS, np.inf)},
        {"Phi": np.zeros((0, SIZE)), "y": np.zeros(0)},
        {"Phi": np.full((ROWS, SIZE), np.nan)},
    ],
)
def test_refuses_bad_input(given, rng):
    Phi, y = problem(rng)
    with pytest.raises(InvalidInputError):
        MeanFieldBatch(**{"Phi": Phi, "y": y, "channel": channels.Gaussian()} | given)


def test_refuses_a_belief_of_another_size(rng):
    Phi, y = problem(rng)
    belief = Posterior(priors.Gaussian(), SIZE + 1)
    with pytest.raises(InvalidInputError, match="size of the belief"):
        absorb(belief, MeanFieldBatch(Phi, y, channels.Gaussian()))
    assert not belief.tilt.B.any()
