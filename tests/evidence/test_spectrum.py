"""One decomposition for sites of every scale."""

from __future__ import annotations

import numpy as np
import pytest

from miniamp import Posterior, absorb, channels, evidence, priors
from miniamp.datasets import ensembles, glm_stream
from miniamp.evidence import robust
from miniamp.evidence.joint import Sites, solve
from miniamp.evidence.spectrum import Spectrum, common_scale


@pytest.mark.parametrize("rows", [6, 30])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0])
def test_every_scale_is_what_the_factorisation_says(rng, rows, scale):
    N = 30
    R, t = rng.normal(size=(rows, N)), rng.normal(size=rows)
    shape, linear = rng.uniform(0.1, 10.0, N), rng.normal(size=N)
    spectrum = Spectrum(R, shape)
    now, joint = spectrum.at(scale, linear, t), solve(R, t, Sites(scale * shape, linear))
    np.testing.assert_allclose(now.mean, joint.mean, rtol=1e-8)
    np.testing.assert_allclose(now.var, joint.var, rtol=1e-8)
    np.testing.assert_allclose(now.field.A, joint.field.A, rtol=1e-6)
    np.testing.assert_allclose(now.field.B, joint.field.B, rtol=1e-6, atol=1e-6)
    some = slice(2, None)
    for mine, theirs in zip(
        spectrum.left_out(scale, now.white, t, some), joint.left_out(t, some), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-7)


def test_the_common_scale_gives_the_variances_their_sum(rng):
    shape, A = rng.uniform(0.5, 2.0, 20), rng.uniform(0.1, 5.0, 20)
    var = rng.uniform(0.5, 1.0, 20) / (A + 1.7 * shape)
    scale = common_scale(shape, A, var, 3.0)
    assert np.sum(shape / (A + scale * shape)) == pytest.approx(np.sum(var * shape))


@pytest.mark.parametrize(
    ("channel", "most"), [(channels.Gaussian(1e-2), 1), (channels.Logistic(), 8)]
)
def test_a_wide_batch_is_decomposed_once_and_other_channels_a_few_times(channel, most, monkeypatch):
    # The cost is counted, not timed: decompositions are O(M^2 N), iterations on them O(M N).
    made = []

    class Counted(Spectrum):
        def __init__(self, R, shape):
            made.append(R.shape)
            super().__init__(R, shape)

    monkeypatch.setattr(robust, "Spectrum", Counted)
    prior = priors.GaussBernoulli(0.1)
    problem = glm_stream(prior, channel, 200, 0.5, 1, 0, design=ensembles.LowRank(5, 0.5))
    belief, info = absorb(Posterior(prior, 200), evidence.RobustBatch(*problem[0], channel))
    assert info.converged
    assert info.iterations > 2 * len(made)
    assert len(made) <= most
    assert np.isfinite(belief.mean).all()
