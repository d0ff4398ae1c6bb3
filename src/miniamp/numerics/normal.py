"""Tails of the normal distribution, the ratio of Mills, and the largest of several normal numbers.

A normal cut to the half line x >= 0 is given by u, the mean of the uncut one in units of its
standard deviation, and all functions of u hold for |u| up to 1e8: mass, mean and variance far in
the tail come from series of positive terms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr, ndtri_exp

from miniamp.arrays import Array, ArrayOrFloat

_SQRT_2 = np.sqrt(2.0)
_SQRT_2_OVER_PI = np.sqrt(2.0 / np.pi)
#: Further out than this the textbook formulas of mean and variance lose more than three digits to
#: cancellation, and the continued fraction below needs few terms.
_FAR = -3.0
_FRACTION_TERMS = 40
#: Where rejection from an exponential accepts more than 95 % and inversion starts to lose digits.
_FAR_TO_SAMPLE = -5.0
#: In an interval on one side of 0 the density is left out below exp(-DROP) of its edge value.
_DROP = 40.0
#: Nodes of the trapezoidal rule, and how far it reaches beyond the margins, in units of the noise:
#: the error is 1e-13 for margins that are close and 1e-8 for those that are 16 apart.
_NODES, _REACH = 41, 8.5
#: Rows per block: _NODES numbers for each of their margins are held.
_BLOCK_ROWS = 4096
#: Margins are kept within this, so that no chance is zero: that of the smallest is 1e-295 then.
_FARTHEST = 26.0
#: An interval around 0 that is wider than this is taken from its complement, a narrower one by
#: quadrature.
_WIDE = 1.0
#: Stands for an infinite edge; its square is still finite.
_INFINITE = 1e100
_points, _weights = np.polynomial.legendre.leggauss(40)
#: Gauss-Legendre on [0, 1].
_POINTS: Array = 0.5 * (_points + 1.0)
_WEIGHTS: Array = 0.5 * _weights


def inverse_mills(u: ArrayOrFloat) -> Array:
    """phi(u)/Phi(u) by erfcx: right for u from -1e8 (where it is -u) to +40, where it vanishes."""
    return np.asarray(_SQRT_2_OVER_PI / erfcx(-np.asarray(u) / _SQRT_2))


def mills_curvature(u: ArrayOrFloat) -> tuple[Array, Array]:
    """h = `inverse_mills(u)` and its negative derivative h (h + u), to 1e-13 relative.

    h + u is the mean of N(u, 1) cut to x >= 0, so that far on the wrong side, where it would be a
    difference of large numbers, it comes from the same fraction as that mean.
    """
    u = np.asarray(u, dtype=np.float64)
    hazard = inverse_mills(u)
    return hazard, hazard * half_line_moments(u)[0]


def log_scaled_mass(u: ArrayOrFloat) -> Array:
    """log of Phi(u) exp(u^2/2): the mass on x >= 0, relative to the uncut density at 0."""
    u = np.asarray(u, dtype=np.float64)
    inside = np.maximum(u, 0.0)
    mass: Array = np.where(
        u < 0.0,
        np.log(0.5 * erfcx(-np.minimum(u, 0.0) / _SQRT_2)),
        0.5 * np.square(inside) + log_ndtr(inside),
    )
    return mass


def half_line_moments(u: ArrayOrFloat) -> tuple[Array, Array]:
    """Mean and variance of N(u, 1) cut to x >= 0."""
    u = np.asarray(u, dtype=np.float64)
    near = np.maximum(u, _FAR)
    hazard = inverse_mills(near)
    mean, var = near + hazard, 1.0 - hazard * (hazard + near)
    far = u < _FAR
    if far.any():
        mean, var = np.array(mean), np.array(var)
        mean[far], var[far] = _far_moments(-u[far])
    return np.asarray(mean), np.asarray(var)


def _far_moments(w: Array) -> tuple[Array, Array]:
    """Mean and variance of N(-w, 1) cut to x >= 0, w > 0.

    With I_n = int_0^inf t^n/n! exp(-t^2/2 - w t) dt, the ratios r_n = I_n / I_{n-1} obey
    r_n = 1/(w + (n+1) r_{n+1}); mean = r_1 and variance = r_1 (2 r_2 - r_1). All terms are
    positive, so nothing cancels.
    """
    n = _FRACTION_TERMS + 1
    # The ratio deep in the fraction, where r_n and r_{n+1} are nearly the same.
    ratio = 2.0 / (w + np.sqrt(np.square(w) + 4.0 * n))
    first = second = ratio
    for k in range(_FRACTION_TERMS, 0, -1):
        second, first = first, 1.0 / (w + (k + 1) * first)
    return first, first * (2.0 * second - first)


def sample_half_line(rng: np.random.Generator, u: Array) -> Array:
    """One draw of N(u, 1) cut to x >= 0 for each u."""
    u = np.asarray(u, dtype=np.float64)
    near = np.maximum(u, _FAR_TO_SAMPLE)
    # Inversion of the survival function, in the log domain.
    draws = near - ndtri_exp(log_ndtr(near) - rng.exponential(size=u.shape))
    draws = np.array(np.maximum(draws, 0.0))
    left = np.flatnonzero(u < _FAR_TO_SAMPLE)
    while left.size:
        # Far in the tail the density is nearly exponential of rate -u.
        proposal = rng.exponential(size=left.size) / -u.flat[left]
        accepted = rng.exponential(size=left.size) > 0.5 * np.square(proposal)
        draws.flat[left[accepted]] = proposal[accepted]
        left = left[~accepted]
    return draws


class Slice(NamedTuple):
    """N(0, 1) cut to an interval."""

    log_mass: Array
    pull: Array  #: mean of what is left
    narrowing: Array  #: one minus its variance


def gaussian_slice(low: Array, high: Array) -> Slice:
    """Mass, mean and lost variance of N(0, 1) within [low, high], each to about 1e-13 relative.

    Three cases, because no formula is free of cancellation in all: wide intervals around 0 by what
    lies outside; intervals to one side, however far, and narrow ones, by quadrature from the edge.
    """
    low, high = np.clip(low, -_INFINITE, _INFINITE), np.clip(high, -_INFINITE, _INFINITE)
    # Mirrored so that the interval lies to the right, or reaches farther to the right.
    flip = low + high < 0.0
    sign = np.where(flip, -1.0, 1.0)
    near, far = np.where(flip, -high, low), np.where(flip, -low, high)
    wide = (near < 0.0) & (far - near > _WIDE)
    inside = _around(np.where(wide, near, -1.0), np.where(wide, far, 1.0))
    aside = _aside(np.where(wide, 0.0, near), np.where(wide, 1.0, far))
    log_mass, pull, narrowing = (np.where(wide, a, b) for a, b in zip(inside, aside, strict=True))
    return Slice(log_mass, sign * pull, narrowing)


def _around(low: Array, high: Array) -> Slice:
    """An interval with 0 well inside, from the two tails that it leaves out."""
    mass = 1.0 - (ndtr(low) + ndtr(-high))
    density_low, density_high = _density(low), _density(high)
    pull = (density_low - density_high) / mass
    narrowing = np.square(pull) + (high * density_high - low * density_low) / mass
    return Slice(np.log1p(-(ndtr(low) + ndtr(-high))), pull, narrowing)


def _aside(low: Array, high: Array) -> Slice:
    """An interval to the right, or a narrow one, by quadrature from its low edge."""
    reach = 2.0 * _DROP / (np.maximum(low, 0.0) + np.sqrt(np.square(low) + 2.0 * _DROP))
    length = np.minimum(high - low, reach)
    points = _POINTS.reshape(-1, *([1] * length.ndim))
    distance = length * points
    weights = _WEIGHTS.reshape(points.shape) * np.exp(-distance * (low + 0.5 * distance))
    mass = weights.sum(axis=0)
    weights = weights / mass
    mean = (weights * distance).sum(axis=0)
    variance = (weights * np.square(distance - mean)).sum(axis=0)
    log_mass = np.log(mass * length) - 0.5 * (np.square(low) + np.log(2.0 * np.pi))
    return Slice(log_mass, low + mean, 1.0 - variance)


def _density(u: Array) -> Array:
    return np.asarray(np.exp(-0.5 * np.square(u)) / np.sqrt(2.0 * np.pi))


def chances_of_largest(margins: Array) -> Array:
    """P(margin_k + noise_k is the largest), (M, K), for margins (M, K) and standard normal noise.

    P_k = integral of phi(u - m_k) prod_{j != k} Phi(u - m_j) du, all classes on one grid in u.

    Examples
    --------
    >>> chances_of_largest(np.array([[0.0, 0.0, -30.0]])).round(12)
    array([[0.5, 0.5, 0. ]])
    """
    blocks = range(0, len(margins), _BLOCK_ROWS)
    return np.concatenate([_chances(margins[i : i + _BLOCK_ROWS]) for i in blocks] or [margins])


def _chances(margins: Array) -> Array:
    m = np.clip(margins, -_FARTHEST, _FARTHEST)
    top, low = m.max(axis=1), m.min(axis=1)
    # An unlikely class is the largest half way up to the most likely one.
    start, end = 0.5 * (top + low) - _REACH, top + _REACH
    u = start + np.linspace(0.0, 1.0, _NODES)[:, None] * (end - start)
    above = u[..., None] - m  # (nodes, M, K)
    below = log_ndtr(above)
    height = below.sum(axis=2)[..., None] - below - 0.5 * np.square(above)
    largest = height.max(axis=0)
    chance = np.exp(largest) * np.exp(height - largest).sum(axis=0)
    return np.asarray(chance / chance.sum(axis=1, keepdims=True))
