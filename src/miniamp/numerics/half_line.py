"""The normal cut to the half line x >= 0: what the non-negative and Laplace priors need.

All functions are of u, the place of the uncut normal's mean in units of its standard deviation, and
hold for |u| up to 1e8: mass, mean and variance far in the tail come from series of positive terms.
"""

from __future__ import annotations

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtri_exp

from miniamp.arrays import Array, ArrayOrFloat

_SQRT_2 = np.sqrt(2.0)
_SQRT_2_OVER_PI = np.sqrt(2.0 / np.pi)
#: Further out than this the textbook formulas of mean and variance lose more than three digits to
#: cancellation, and the continued fraction below needs few terms.
_FAR = -3.0
_FRACTION_TERMS = 40
#: Where rejection from an exponential accepts more than 95 % and inversion starts to lose digits.
_FAR_TO_SAMPLE = -5.0


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
    hazard = _SQRT_2_OVER_PI / erfcx(-near / _SQRT_2)
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
