"""Channels that do not show the sign of z: an honest report, and starts that break the symmetry."""

import numpy as np
import pytest
from scipy.special import ndtr

from miniamp import Posterior, absorb, channels, evidence, learning, priors, stream
from miniamp.errors import InvalidInputError

SPARSE = priors.GaussBernoulli(rho=0.3)


def magnitude(var=0.01):
    """y = |z| + noise."""
    return channels.Numerical(
        lambda y, z: -0.5 * ((y - np.abs(z)) ** 2 / var + np.log(2.0 * np.pi * var)), scale=0.1
    )


def door():
    """y = 1 where |z + noise| < .7, else -1."""

    def log_likelihood(y, z):
        inside = ndtr((0.7 - z) / 0.3) - ndtr((-0.7 - z) / 0.3)
        return np.log(np.where(y > 0, inside, 1.0 - inside))

    return channels.Numerical(log_likelihood, support=[-1, 1], scale=0.3)


def problem(N, alpha, prior, seed=0):
    rng = np.random.default_rng(seed)
    Phi, x = rng.normal(size=(int(alpha * N), N)) / np.sqrt(N), prior.sample(rng, N)
    return Phi, x, np.abs(Phi @ x) + 0.1 * rng.normal(size=len(Phi))


def overlap(belief, x):
    return abs(belief.mean @ x) / (np.linalg.norm(belief.mean) * np.linalg.norm(x))


@pytest.mark.parametrize("kind", [evidence.Batch, evidence.RobustBatch, evidence.AutoBatch])
@pytest.mark.parametrize("channel", [magnitude(), door()], ids=["magnitude", "door"])
def test_without_a_start_it_says_that_nothing_was_learned(kind, channel):
    Phi, x, y = problem(70, 1.0, priors.Gaussian())
    y = y if channel.support == "real" else channel.sample(np.random.default_rng(1), Phi @ x)
    start = Posterior(priors.Gaussian(), 70)
    belief, info = absorb(start, kind(Phi, y, channel))
    assert not info.converged
    assert "blind to sign; use start='spectral'" in info.reason
    np.testing.assert_array_equal(belief.var, start.var)
    # What is known of y without any sign is its marginal law.
    exact = np.sum(channel.log_partition(y, 0.0, np.sum(Phi**2, axis=1)))
    if kind is evidence.Batch:
        assert info.log_evidence == pytest.approx(exact, rel=1e-9)
    model = learning.Model(start, channel)
    rows = learning.Learn(Phi, y, kind, noise=False, fixed=("mean", "var"))
    assert not absorb(model, rows)[1].converged


@pytest.mark.slow
def test_a_spectral_start_finds_magnitudes():
    """N = 1000, 3 rows per coefficient, seed 0: .9975 here, .9 asked for; either sign is right."""
    Phi, x, y = problem(1000, 3.0, priors.Gaussian())
    rows = evidence.Batch(Phi, y, magnitude(), start="spectral")
    mean = rows.start(Posterior(priors.Gaussian(), 1000))[0].mean
    assert abs(mean @ x) / np.linalg.norm(mean) / np.linalg.norm(x) > 0.7  # without AMP
    belief, info = absorb(Posterior(priors.Gaussian(), 1000), rows)
    assert info.converged
    assert overlap(belief, x) > 0.9


@pytest.mark.filterwarnings("ignore::miniamp.errors.ConflictWarning")
@pytest.mark.parametrize("start", ["random", "array"])
def test_other_starts(start):
    """N = 300, seed 0; an array that leans on the truth by a fifth."""
    Phi, x, y = problem(300, 3.0, SPARSE)
    given = start if start == "random" else 0.2 * x
    rows = evidence.Batch(Phi, y, magnitude(), start=given)
    belief, _ = absorb(Posterior(SPARSE, 300), rows)
    assert overlap(belief, x) > 0.9
    if start == "array":
        assert belief.mean @ x > 0.0


def test_later_batches_keep_the_sign_that_was_chosen():
    Phi, x, y = problem(300, 5.0, priors.Gaussian())
    parts = [slice(0, 900), slice(900, 1200), slice(1200, 1500)]
    rows = (evidence.Batch(Phi[p], y[p], magnitude(), start="spectral") for p in parts)
    found = [b for b, _ in stream(Posterior(priors.Gaussian(), 300), rows)]
    signs = [np.sign(b.mean @ x) for b in found]
    assert signs == [signs[0]] * 3
    errors = [np.mean((b.mean - signs[0] * x) ** 2) for b in found]
    assert errors[2] < errors[1] < errors[0] < 0.05


def test_targets_that_are_all_zero_are_no_blind_rows(rng):
    """y = z + noise, all zero, and rows all within a symmetric bin: these narrow the belief."""
    Phi, start = rng.normal(size=(40, 20)), Posterior(priors.Gaussian(), 20)
    bins = channels.Interval([-0.5, 0.5], var=0.1)
    for channel, y in ((channels.Gaussian(var=0.1), np.zeros(40)), (bins, np.ones(40))):
        for kind in (evidence.Batch, evidence.RobustBatch):
            belief, info = absorb(start, kind(Phi, y, channel))
            assert info.converged
            assert np.mean(belief.var) < 0.8
    with pytest.raises(InvalidInputError, match="start"):
        evidence.Batch(Phi, np.zeros(40), bins, start="spectrum")
