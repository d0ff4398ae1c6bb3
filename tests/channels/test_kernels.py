"""The compiled outputs say what the plain ones say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from miniamp import channels
from miniamp.channels import kernels
from miniamp.designs import Dense, Fused

CHANNELS = [
    channels.Gaussian(var=0.1),
    channels.Gaussian(var=0.0),
    channels.Gaussian(var=np.linspace(0.0, 2.0, 37)),
    channels.Probit(var=0.0),
    channels.Probit(var=0.5),
    channels.Probit(var=np.linspace(0.0, 2.0, 37)),
]


@pytest.mark.parametrize("channel", CHANNELS, ids=str)
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4], ids=lambda s: f"margin {s:g}")
def test_compiled_output_equals_plain_one(channel, scale, rng):
    """A column that is omega itself, and another for V: the sweep hands both to the kernel."""
    rows = 37
    Phi = np.column_stack([scale * rng.normal(size=rows), rng.uniform(0.1, 3.0, rows)])
    y, x, v = rng.choice([-1.0, 1.0], rows), np.array([1.0, 0.0]), np.array([0.0, 1.0])
    plain, ours = (d.sandwich(x, v, y, channel, None) for d in (Dense(Phi), Fused(Phi)))
    np.testing.assert_allclose(ours.memory, plain.memory, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(ours.curvature, plain.curvature, rtol=1e-12)


def test_erfcx_to_thirteen_digits():
    x = np.concatenate([np.linspace(-26.0, 30.0, 5001), np.logspace(-12.0, 12.0, 500)])
    ours = np.array([kernels.erfcx(one) for one in x])
    np.testing.assert_allclose(ours, special.erfcx(x), rtol=1e-13)


def test_erfcx_beyond_the_range():
    assert kernels.erfcx(-30.0) == np.inf
    assert kernels.erfcx(1e200) == pytest.approx(1e-200 / np.sqrt(np.pi), rel=1e-13)
