"""The compiled loop is the stream of single rows, to rounding."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from miniamp import Posterior, Stop, Tilt, absorb, channels, designs, evidence, priors, stream
from miniamp.errors import ConflictError, InvalidInputError, MiniampError
from miniamp.evidence import Batch, adf

ROWS, SIZE = 90, 41
EACH = np.linspace(0.2, 0.8, SIZE)
PRIORS = [
    priors.Gaussian(mean=0.1, var=2.0),
    priors.GaussBernoulli(rho=0.3),
    priors.GaussBernoulli(rho=EACH, var=EACH),
    priors.Rademacher(),
    priors.Laplace(),
]
CHANNELS = [
    channels.Gaussian(var=0.05),
    channels.Gaussian(var=np.linspace(0.1, 1.0, ROWS)),
    channels.Probit(var=0.0),
    channels.Logistic(),
]
HOLDS = {
    "array": np.asarray,
    "float32": lambda Phi: Phi.astype(np.float32),
    "fused": designs.Fused,
    "sparse": sparse.csr_array,
    "averaged": designs.Averaged,
}


def problem(rng):
    Phi = rng.normal(size=(ROWS, SIZE)) * (rng.random((ROWS, SIZE)) < 0.3)
    Phi[11] = 0.0
    return Phi.astype(np.float32).astype(np.float64), rng.choice([-1.0, 1.0], ROWS)


def by_stream(belief, Phi, y, channel):
    rows = (slice(m, m + 1) for m in range(len(y)))
    batches = (Batch(Phi[m], y[m], channel.at(m)) for m in rows)
    *_, (belief, _) = stream(belief, batches, Stop(max_iter=1))
    return belief


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: f"{type(p).__name__} {p.shape}")
@pytest.mark.parametrize("channel", CHANNELS, ids=lambda c: f"{type(c).__name__} {c.shape}")
@pytest.mark.parametrize("hold", HOLDS.values(), ids=HOLDS)
def test_equals_a_stream_of_single_rows(prior, channel, hold, rng):
    Phi, y = problem(rng)
    before = Posterior(prior, SIZE).tilted(Tilt(np.array(0.5), 0.1 * rng.normal(size=SIZE)))
    plain = by_stream(before, Phi, y, channel)
    ours, info = adf(before, hold(Phi), y, channel)
    np.testing.assert_allclose(ours.mean, plain.mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ours.var, plain.var, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ours.total.A, plain.total.A, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ours.total.B, plain.total.B, rtol=1e-12, atol=1e-12)
    assert info.iterations == ROWS


def test_is_algorithm_2_written_out(rng):
    """Against the printed lines, with the Gaussian channel and prior."""
    Phi, y = problem(rng)
    Lambda, Theta, noise = np.zeros(SIZE), np.zeros(SIZE), 0.05
    for row, seen in zip(Phi, y, strict=True):
        x, v = Theta / (1.0 + Lambda), 1.0 / (1.0 + Lambda)
        omega, V = row @ x, row**2 @ v
        g, curvature = (seen - omega) / (noise + V), 1.0 / (noise + V)
        Lambda = Lambda + curvature * row**2
        Theta = Theta + g * row + curvature * row**2 * x
    ours, _ = adf(Posterior(priors.Gaussian(), SIZE), Phi, y, channels.Gaussian(var=noise))
    np.testing.assert_allclose(ours.mean, Theta / (1.0 + Lambda), rtol=1e-11, atol=1e-13)


def test_one_row_at_once_or_in_parts_is_the_same(rng):
    Phi, y = problem(rng)
    start, channel = Posterior(priors.GaussBernoulli(rho=0.3), SIZE), channels.Gaussian(var=0.1)
    whole, _ = adf(start, Phi, y, channel)
    half, _ = adf(start, Phi[:40], y[:40], channel)
    parts, _ = adf(half, Phi[40:], y[40:], channel)
    np.testing.assert_allclose(parts.mean, whole.mean, rtol=1e-12, atol=1e-13)


def test_scalar_variances_are_another_algorithm(rng):
    """Errata C5: one row with the averaged design is not ADF, so `adf` ignores the averaging."""
    Phi, y = rng.normal(size=(1, SIZE)) / np.sqrt(SIZE), np.ones(1)
    start, channel = Posterior(priors.GaussBernoulli(rho=0.3), SIZE), channels.Gaussian(var=0.1)
    vector, _ = absorb(start, Batch(Phi, y, channel), Stop(max_iter=1))
    scalar, _ = absorb(start, Batch(designs.Averaged(Phi), y, channel), Stop(max_iter=1))
    assert np.max(np.abs(vector.mean - scalar.mean)) > 1e-4
    np.testing.assert_allclose(adf(start, Phi, y, channel)[0].mean, vector.mean, atol=1e-14)


def test_noise_free_rows_are_absorbed_without_overflow(rng):
    x = rng.normal(size=SIZE)
    Phi = rng.normal(size=(3 * SIZE, SIZE)) / np.sqrt(SIZE)
    ours, info = adf(Posterior(priors.Gaussian(), SIZE), Phi, Phi @ x, channels.Gaussian(var=0.0))
    assert np.isfinite(info.health)
    assert np.mean((ours.mean - x) ** 2) < 0.3


BAD = {
    "y too short": {"y": np.zeros(ROWS - 1)},
    "y NaN": {"y": np.full(ROWS, np.nan)},
    "y in two dimensions": {"y": np.zeros((ROWS, 1))},
    "too few columns": {"Phi": np.zeros((ROWS, SIZE - 1))},
    "NaN in Phi": {"Phi": np.full((ROWS, SIZE), np.nan)},
    "NaN in sparse Phi": {"Phi": sparse.csr_array(np.full((ROWS, SIZE), np.nan))},
    "no rows": {"Phi": np.zeros((0, SIZE)), "y": np.zeros(0)},
    "no channel": {"channel": "gaussian"},
    "a noise too few": {"channel": channels.Gaussian(var=np.ones(ROWS - 1))},
    "labels 0 and 1": {"y": np.zeros(ROWS), "channel": channels.Probit()},
    "text": {"Phi": np.full((ROWS, SIZE), "a")},
}


@pytest.mark.parametrize("change", BAD.values(), ids=BAD)
def test_refuses_bad_input_and_changes_nothing(change, rng):
    Phi, y = problem(rng)
    belief = Posterior(priors.Gaussian(), SIZE)
    given = {"Phi": Phi, "y": y, "channel": channels.Gaussian()} | change
    with pytest.raises(InvalidInputError):
        adf(belief, **given)
    assert not belief.tilt.B.any()


def test_rows_that_overflow_are_refused_as_a_whole(rng):
    Phi, y = problem(rng)
    Phi[50, 3] = 1e200
    belief = Posterior(priors.Gaussian(), SIZE)
    with pytest.raises(ConflictError, match="no longer finite") as caught:
        adf(belief, Phi, y, channels.Gaussian(var=0.1))
    assert isinstance(caught.value, MiniampError)
    assert not belief.tilt.B.any()
    assert evidence.adf is adf
