"""The linear step: one Gaussian over all coefficients, by its rows or by their decomposition."""

from __future__ import annotations

import numpy as np
import pytest

from miniamp import Posterior, absorb, channels, evidence, priors
from miniamp.datasets import ensembles, glm_stream
from miniamp.evidence import compress, linear
from miniamp.evidence.linear import RowSpectrum, Sites, match_in_common, solve
from miniamp.tilt import Tilt


@pytest.mark.parametrize("rows", [6, 30])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0])
def test_every_scale_is_what_the_factorisation_says(rng, rows, scale):
    N = 30
    R, t = rng.normal(size=(rows, N)), rng.normal(size=rows)
    shape, pull = rng.uniform(0.1, 10.0, N), rng.normal(size=N)
    sites = Sites(scale * shape, pull)
    now, joint = RowSpectrum(R, t, shape).at(sites), solve(R, t, sites)
    np.testing.assert_allclose(now.mean, joint.mean, rtol=1e-8)
    np.testing.assert_allclose(now.var, joint.var, rtol=1e-8)
    np.testing.assert_allclose(now.field.A, joint.field.A, rtol=1e-6)
    np.testing.assert_allclose(now.field.B, joint.field.B, rtol=1e-6, atol=1e-6)


def test_the_common_factor_gives_the_variances_their_sum(rng):
    belief, shape = Posterior(priors.GaussBernoulli(0.4), 20), rng.uniform(0.5, 2.0, 20)
    field = Tilt(rng.uniform(0.1, 5.0, 20), rng.normal(size=20))
    moments, sites = match_in_common(belief, field, Sites(shape, np.zeros(20)))
    np.testing.assert_allclose(sites.precision / shape, sites.precision[0] / shape[0])
    total = np.sum(shape / (field.A + sites.precision))
    assert total == pytest.approx(np.sum(moments.var * shape))


def test_a_matrix_that_rounding_made_indefinite_is_factorised(rng):
    # Eigenvalues 1 and 1e18: rounding makes some of the small ones negative.
    R = rng.normal(size=(40, 3)) * 1e9
    lower = linear.cholesky(R @ R.T + np.eye(40))
    assert np.isfinite(lower).all()
    with pytest.raises(np.linalg.LinAlgError):
        linear.cholesky(np.array([[1.0, 0.0], [0.0, -1.0]]))


def test_gaussian_rows_are_decomposed_once(monkeypatch):
    # The cost is counted, not timed: decompositions are O(M^2 N), iterations on them O(M N).
    made = []

    class Counted(RowSpectrum):
        def __init__(self, R, t, shape):
            made.append(R.shape)
            super().__init__(R, t, shape)

    monkeypatch.setattr(compress, "RowSpectrum", Counted)
    prior, channel = priors.GaussBernoulli(0.1), channels.Gaussian(1e-2)
    problem = glm_stream(prior, channel, 200, 0.5, 1, 0, design=ensembles.LowRank(5, 0.5))
    belief, info = absorb(Posterior(prior, 200), evidence.RobustBatch(*problem[0], channel))
    assert info.converged
    assert len(made) == 1
    assert info.iterations > 5
    assert np.isfinite(belief.mean).all()
