"""The compiled second half of an iteration is the plain one."""

from __future__ import annotations

import numpy as np
import pytest

from miniamp import Posterior, Tilt, priors
from miniamp.designs import Sweep
from miniamp.evidence import update
from miniamp.posterior import Moments

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
    ours = update.updated(belief, estimate, sweep)
    monkeypatch.setattr(update, "WORTH_COMPILING", SIZE + 1)
    plain = update.updated(belief, estimate, sweep)
    np.testing.assert_allclose(ours.tilt.B, plain.tilt.B, rtol=1e-13)
    assert ours.tilt.A is sweep.curvature
    np.testing.assert_allclose(ours.moments.mean, plain.moments.mean, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(ours.moments.var, plain.moments.var, rtol=1e-12, atol=1e-15)
    assert ours[2:] == pytest.approx(plain[2:], rel=1e-12)
