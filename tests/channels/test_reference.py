"""Channels against integrals in forty digits, at points where a fixed rule fails."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from miniamp import channels


def reference(log_likelihood, omega, V, low, high, step):
    """log Z, g and -dg by a fine trapezoidal rule, which converges geometrically."""
    with mp.workdps(40):
        omega, V, low, step = (mp.mpf(a) for a in (omega, V, low, step))
        z = [low + k * step for k in range(int((high - low) / step) + 1)]
        p = [mp.exp(log_likelihood(a) - (a - omega) ** 2 / (2 * V)) for a in z]
        mass = mp.fsum(p)
        mean = mp.fsum(b * (a - omega) for a, b in zip(z, p, strict=True)) / mass
        var = mp.fsum(b * (a - omega - mean) ** 2 for a, b in zip(z, p, strict=True)) / mass
        log_mass = mp.log(mass * step / mp.sqrt(2 * mp.pi * V))
        return [float(a) for a in (log_mass, mean / V, 1 / V - var / V**2)]


def compare(channel, y, omega, V, expected, rtol=1e-10):
    y = np.array(float(y))
    got = [channel.log_partition(y, omega, V), *channel.output(y, omega, V)]
    assert_allclose([float(a) for a in got], expected, rtol=rtol)


@pytest.mark.parametrize(
    ("omega", "V", "low", "high"),
    [
        (0.0, 1.0, -12.0, 12.0),
        (3.0, 0.01, 1.8, 4.2),
        (-30.0, 4.0, -50.0, 0.0),  # far in the tail, flat there
        (-20.0, 30.0, -60.0, 80.0),
        (20.0, 30.0, -60.0, 90.0),  # nearly certain
        (-300.0, 1e4, -120.0, 1000.0),  # an edge a hundred times sharper than N(omega, V)
        (300.0, 1e4, -900.0, 1500.0),
        (-1000.0, 1e4, -120.0, 900.0),  # ten deviations from it
    ],
)
def test_logistic(omega, V, low, high):
    step = min(0.3 * np.sqrt(V), 0.22)
    expected = reference(lambda z: -mp.log1p(mp.exp(-z)), omega, V, low, high, step)
    compare(channels.Logistic(), 1, omega, V, expected)
    compare(channels.Logistic(), -1, -omega, V, [expected[0], -expected[1], expected[2]])


@pytest.mark.parametrize(
    ("y", "omega", "V", "low", "high"),
    [
        (0, 0.0, 1.0, -12.0, 6.0),
        (3, 0.0, 1.0, -10.0, 6.0),
        (3, -200.0, 100.0, -40.0, 6.0),  # a count that the forecast all but excludes
        (100, 2.0, 0.01, 1.0, 5.0),
        (1000, -5.0, 4.0, 6.0, 7.5),  # much sharper than N(omega, V), and far out
        (5, 30.0, 25.0, -20.0, 6.0),
    ],
)
def test_poisson(y, omega, V, low, high):
    step = min(0.2 * np.sqrt(V), 0.1) if y < 100 else 0.004
    expected = reference(
        lambda z: y * z - mp.exp(z) - mp.loggamma(y + 1), omega, V, low, high, step
    )
    compare(channels.Poisson(), y, omega, V, expected)


@pytest.mark.parametrize(
    ("y", "omega", "V", "low", "high"),
    [(0, 0.0, 1.0, -12.0, 12.0), (3, 0.0, 1.0, -12.0, 14.0), (5, 30.0, 25.0, -50.0, 80.0)],
)
def test_poisson_with_soft_plus(y, omega, V, low, high):
    def log_likelihood(z):
        rate = mp.log1p(mp.exp(z))
        return y * mp.log(rate) - rate - mp.loggamma(y + 1)

    expected = reference(log_likelihood, omega, V, low, high, 0.1)
    compare(channels.Poisson("softplus"), y, omega, V, expected)


@pytest.mark.parametrize(
    ("df", "scale", "y", "V"),
    [
        (3, 1.0, 1.0, 1.0),
        (3, 1.0, 10.0, 0.01),
        (4, 0.1, 30.0, 4.0),  # two far apart modes
        (1, 1.0, 1000.0, 1e4),
        (0.5, 1.0, 2.0, 0.1),
        (50, 1.0, 30.0, 1.0),
        (1000, 1.0, 1.0, 1.0),
    ],
)
def test_student_t(df, scale, y, V):
    # In t with z = y + width sinh t the integrand is smooth at both of its scales.
    with mp.workdps(30):
        width, step = scale * mp.sqrt(df), mp.mpf("0.006")
        reach = int(mp.asinh((y + 14 * mp.sqrt(V)) / width) / step) + 1
        t = [step * k for k in range(-reach, reach + 1)]
        z = [y + width * mp.sinh(a) for a in t]
        p = [mp.exp(-df * mp.log(mp.cosh(a)) - b**2 / (2 * V)) for a, b in zip(t, z, strict=True)]
        mass = mp.fsum(p)
        mean = mp.fsum(a * b for a, b in zip(p, z, strict=True)) / mass
        var = mp.fsum(a * (b - mean) ** 2 for a, b in zip(p, z, strict=True)) / mass
        constant = mp.loggamma((df + 1) / mp.mpf(2)) - mp.loggamma(df / mp.mpf(2))
        log_mass = mp.log(mass * step / mp.sqrt(2 * mp.pi**2 * V)) + constant
        expected = [float(a) for a in (log_mass, mean / V, 1 / mp.mpf(V) - var / mp.mpf(V) ** 2)]
    compare(channels.StudentT(df, scale), y, 0.0, V, expected)


@pytest.mark.parametrize("u", [-1e8, -1e4, -1e3, -100.0, -30.0, -6.1, -5.9, -1.0, 0.0, 3.0, 30.0])
def test_hazard_and_its_curvature(u):
    with mp.workdps(60):
        x = mp.mpf(u)
        hazard = mp.sqrt(2 / mp.pi) / (mp.exp(x * x / 2) * mp.erfc(-x / mp.sqrt(2)))
        expected = float(hazard), float(hazard * (hazard + x))
    g, curvature = channels.Probit(var=1.0).output(np.array(1.0), u, 0.0)
    assert_allclose((g, curvature), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("low", "high"),
    [(-1.0, 1.0), (1e3, 1e3 + 1e-4), (-1e-6, 2e-6), (5.0, 5.001), (-3.0, 8.0), (-101.0, -100.0)],
)
def test_interval(low, high):
    with mp.workdps(100):
        a, b = mp.mpf(low), mp.mpf(high)
        flip = -1 if a + b > 0 else 1
        left, right = sorted((flip * a, flip * b))
        mass = (mp.erfc(-right / mp.sqrt(2)) - mp.erfc(-left / mp.sqrt(2))) / 2
        pull = (mp.npdf(a) - mp.npdf(b)) / mass
        narrowing = pull**2 + (b * mp.npdf(b) - a * mp.npdf(a)) / mass
        expected = [float(x) for x in (mp.log(mass), pull, narrowing)]
    channel, y = channels.Interval([low, high], var=0.25), np.array(1.0)
    got = [channel.log_partition(y, 0.0, 0.75), *channel.output(y, 0.0, 0.75)]
    assert_allclose(got, expected, rtol=1e-11, atol=1e-15)
