"""Rows that do not show the sign of z: the table near E = E x^2, weak recovery, and growth."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm

from miniamp import absorb, channels, priors, theory
from miniamp.theory.output import OutputChannel

EDGE, BLUR = 0.7, 0.3


def inside(z):
    return ndtr((EDGE - z) / BLUR) - ndtr((-EDGE - z) / BLUR)


def door():
    """y = 1 where |z + noise| < .7, the symmetric door."""
    return channels.Numerical(
        lambda y, z: np.log(np.where(y > 0, inside(z), 1.0 - inside(z))),
        support=[-1, 1],
        scale=BLUR,
    )


def weak_recovery():
    """1/alpha = sum over y of (E (z^2 - 1) P(y | z))^2/E P(y | z), z ~ N(0, 1), by quad."""
    curved = quad(lambda z: (z * z - 1) * inside(z) * norm.pdf(z), -12, 12, limit=200)[0]
    chance = quad(lambda z: inside(z) * norm.pdf(z), -12, 12, limit=200)[0]
    # The two outcomes have opposite numerators, for z^2 - 1 has mean 0.
    return chance * (1.0 - chance) / curved**2


def test_the_table_near_no_knowledge_by_brute_force():
    """E g^2 by a sum over omega, in closed form given omega: relative precision also at .9999."""
    output = OutputChannel(door(), 1.0)
    assert output.blind
    for E in (0.3, 0.9, 0.99, 0.999, 0.9999):
        # Tails keep their digits on the positive side, and all is even.
        omega = np.abs(np.sqrt(1 - E) * np.linspace(-8, 8, 401))
        weight = norm.pdf(np.linspace(-8, 8, 401))
        wide = np.sqrt(E + BLUR**2)
        p = ndtr((EDGE - omega) / wide) - ndtr((-EDGE - omega) / wide)
        dp = (norm.pdf((EDGE + omega) / wide) - norm.pdf((EDGE - omega) / wide)) / wide
        exact = weight @ (dp**2 / (p * (1 - p))) / weight.sum()
        assert float(output.delta(E)) == pytest.approx(exact, rel=1e-6)
    assert float(output.delta(1.0)) == 0.0


def test_the_table_of_magnitudes_by_brute_force():
    """y = |z| + noise: P(y) and its slope given omega are two folded Gaussians each."""
    noise = 1.0
    channel = channels.Numerical(lambda y, z: -0.5 * (y - np.abs(z)) ** 2 - 0.5 * np.log(2 * np.pi))
    output = OutputChannel(channel, 1.0)
    y = np.linspace(-9 * noise, 9 + 8 * noise, 2001)
    for E in (0.05, 0.5, 0.999):
        omega = np.sqrt(1 - E) * np.linspace(-9, 9, 301)[:, None]
        weight = norm.pdf(np.linspace(-9, 9, 301))
        total, inner = E + noise**2, E * noise**2 / (E + noise**2)
        Z, z = 0.0, 0.0
        for sign in (1.0, -1.0):
            mean = (sign * omega * noise**2 + y * E) / total
            height = norm.pdf(y, sign * omega, np.sqrt(total))
            above = ndtr(mean / np.sqrt(inner))
            tail = np.sqrt(inner) * norm.pdf(mean / np.sqrt(inner))
            Z, z = Z + height * above, z + sign * height * (mean * above + tail)
        square = np.square((z - omega * Z) / E) / np.maximum(Z, 1e-290)
        exact = weight @ square.sum(axis=1) * (y[1] - y[0]) / weight.sum()
        assert float(output.delta(E)) == pytest.approx(exact, rel=3e-4)


def test_weak_recovery_by_its_formula():
    found = theory.transitions(priors.Gaussian(), door())
    assert found.weak_recovery == pytest.approx(weak_recovery(), rel=1e-6)


def test_state_evolution_leaves_above_it_and_stays_below():
    critical = weak_recovery()
    below, above = theory.offline_curve(
        priors.Gaussian(), door(), critical * np.array([0.99, 1.05])
    ).mse
    assert below == 1.0
    assert 0.5 < above < 0.97


def test_the_verdict_says_so():
    critical = weak_recovery()
    slow = theory.verdict(priors.Gaussian(), door(), 0.5 * critical, 1)
    assert slow.phase == "impossible"
    assert slow.growth == pytest.approx(2.0, rel=1e-5)
    assert slow.escape == pytest.approx(1 + np.log2(1000), rel=1e-4)
    assert theory.verdict(priors.Gaussian(), door(), 1.1 * critical, 1).phase == "easy"


def test_a_chance_overlap_grows_as_the_verdict_says():
    """A law with lambda = 1e-6 absorbs batches of half the threshold: a factor 2 each."""
    channel, critical = door(), weak_recovery()
    law = theory.Law(priors.Gaussian(), lam=1e-6, gamma=1e-6, signal=1e-6)
    for _ in range(3):
        after, _ = absorb(law, theory.ConvergedBatch(0.5 * critical, channel))
        assert after.lam / law.lam == pytest.approx(2.0, rel=1e-3)
        law = after


@pytest.mark.parametrize("E", [1e-4, 0.01, 0.3, 1.0])
def test_any_continuous_likelihood_in_milliseconds(E):
    """Gaussian noise that is not known as such: 1/(Delta + E) to ten digits."""
    channel = channels.Numerical(
        lambda y, z: -0.5 * (y - z) ** 2 / 0.09 - 0.5 * np.log(2 * np.pi * 0.09), scale=0.3
    )
    assert channel.row_fisher(np.array([E]), 1.0)[0] == pytest.approx(1 / (0.09 + E), rel=1e-10)
