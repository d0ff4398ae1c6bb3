"""The compiled outputs say what the plain ones say."""

from __future__ import annotations

import numpy as np
import pytest

from miniamp import channels
from miniamp.channels import kernels
from miniamp.channels.smooth import Smooth
from miniamp.designs import Dense, Fused
from miniamp.numerics.normal import mills_curvature

CHANNELS = [
    channels.Gaussian(var=0.1),
    channels.Gaussian(var=0.0),
    channels.Gaussian(var=np.linspace(0.0, 2.0, 37)),
    channels.Probit(var=0.0),
    channels.Probit(var=0.5),
    channels.Probit(var=np.linspace(0.0, 2.0, 37)),
    channels.Logistic(),
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


def test_hazard_equals_the_plain_one():
    """Against 40 digits ours is right to 6e-14 and the plain one, far right, to 2e-13."""
    u = np.concatenate([np.linspace(-40.0, 37.0, 5001), -np.logspace(1.0, 8.0, 100)])
    ours = np.array([kernels.hazard(one) for one in u]).T
    np.testing.assert_allclose(ours, mills_curvature(u), rtol=3e-13)


def test_hazard_beyond_the_range():
    assert kernels.hazard(60.0) == (0.0, 0.0)
    assert kernels.hazard(-1e200) == (1e200, pytest.approx(1.0, rel=1e-13))


@pytest.mark.parametrize("V", [0.0, 1e-12, 1e-3, 0.1, 0.5, 1.0, 4.0, 4.1, 30.0])
def test_logistic_averages_equal_the_quadrature_of_any_smooth_channel(V):
    """Where V is larger still, that one errs by 1e-8; ours is held to forty digits elsewhere."""
    channel = channels.Logistic()
    deviations = np.concatenate([np.linspace(-9.0, 9.0, 73), [-1e3, 1e3]])
    omega = np.concatenate([deviations * np.sqrt(V), np.linspace(-25.0, 25.0, 51)])
    y = np.where(np.arange(omega.size) % 2, 1.0, -1.0)
    plain = Smooth.log_partition(channel, y, omega, V)
    np.testing.assert_allclose(channel.log_partition(y, omega, V), plain, rtol=1e-10, atol=3e-11)
    for ours, theirs in zip(
        channel.output(y, omega, V), Smooth.output(channel, y, omega, V), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=3e-11)


@pytest.mark.parametrize(
    ("omega", "V"), [(np.nan, 1.0), (np.inf, 1.0), (0.0, np.nan), (0.0, np.inf)]
)
def test_logistic_averages_of_no_number_are_none(omega, V):
    """Where AMP diverges the channel must come back, for absorb to say so."""
    assert np.isnan(channels.Logistic().output(np.array([1.0]), omega, V)).all()


@pytest.mark.parametrize("V", [1e-300, 1e8, 1e16])
@pytest.mark.parametrize("omega", [-1e150, -1e8, 0.0, 1e8, 1e150])
def test_logistic_averages_are_finite_everywhere(omega, V):
    logs, (g, curvature) = (
        channels.Logistic().log_partition(np.array(1.0), omega, V),
        channels.Logistic().output(np.array(1.0), omega, V),
    )
    assert logs <= 1e-12
    assert 0.0 <= g <= 1.0
    assert 0.0 <= curvature <= min(0.25, 1.0 / V) * (1.0 + 1e-9)
