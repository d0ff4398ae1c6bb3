"""Merging adds tilts, counts the prior once, and says what it costs."""

from __future__ import annotations

import numpy as np
import pytest

from miniamp import Posterior, Tilt, absorb, channels, evidence, priors
from miniamp.errors import InvalidInputError, InvalidTypeError
from miniamp.streams import MergeWarning, merge


def linear(rng, rows, x, noise):
    Phi = rng.normal(size=(rows, len(x))) / np.sqrt(len(x))
    return Phi, Phi @ x + np.sqrt(noise) * rng.normal(size=rows)


def test_tilts_add_and_nothing_else_changes(rng):
    start = Posterior(priors.GaussBernoulli(rho=0.2), 8)
    a, b = (start.tilted(Tilt(rng.random(8), rng.normal(size=8))) for _ in range(2))
    kept = a.tilt.B.copy()
    with pytest.warns(MergeWarning, match="larger error"):
        both = merge(a, b)
    np.testing.assert_array_equal(both.tilt.A, a.tilt.A + b.tilt.A)
    np.testing.assert_array_equal(both.tilt.B, a.tilt.B + b.tilt.B)
    np.testing.assert_array_equal(a.tilt.B, kept)
    assert both.prior == start.prior


def test_different_priors_sizes_and_things_are_refused():
    a = Posterior(priors.Gaussian(var=1.0), 3)
    for other in (priors.Gaussian(var=2.0), priors.Laplace()):
        with pytest.raises(InvalidInputError, match="the same as in a"):
            merge(a, Posterior(other, 3))
    with pytest.raises(InvalidInputError, match="4 coefficients"):
        merge(a, Posterior(priors.Gaussian(var=1.0), 4))
    with pytest.raises(InvalidTypeError, match="b: got int"):
        merge(a, 3)


@pytest.mark.filterwarnings("ignore::miniamp.streams.MergeWarning")
def test_merging_helps_and_costs(rng):
    """N = 400, two streams of four batches: better than either stream, worse than both in turn."""
    N, noise = 400, 0.01
    prior, channel = priors.GaussBernoulli(rho=0.2), channels.Gaussian(var=noise)
    x = prior.sample(rng, N)
    batches = [evidence.Batch(*linear(rng, 60, x, noise), channel) for _ in range(8)]

    def after(belief, some):
        for batch in some:
            belief, _ = absorb(belief, batch)
        return belief

    def error(belief):
        return float(np.mean(np.square(belief.mean - x)))

    start = Posterior(prior, N)
    a, b = after(start, batches[:4]), after(start, batches[4:])
    assert error(after(a, batches[4:])) < error(merge(a, b)) < min(error(a), error(b))


@pytest.mark.filterwarnings("ignore::miniamp.streams.MergeWarning")
def test_remembered_rows_make_the_merge_exact(rng):
    """With memory for all directions and a Gaussian prior nothing is lost."""
    N, noise = 12, 0.1
    x = rng.normal(size=N)
    channel = channels.Gaussian(var=noise)
    data = [linear(rng, 9, x, noise) for _ in range(2)]
    a, b = (
        absorb(Posterior(priors.Gaussian(), N, memory=2 * N), evidence.RobustBatch(*d, channel))[0]
        for d in data
    )
    Phi, y = (np.concatenate(parts) for parts in zip(*data, strict=True))
    exact = np.linalg.solve(Phi.T @ Phi / noise + np.eye(N), Phi.T @ y / noise)
    np.testing.assert_allclose(merge(a, b).mean, exact, atol=1e-6)
