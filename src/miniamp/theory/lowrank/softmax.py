"""Averages of a softmax over Gaussian fields, to 1e-12, by the Gumbel trick.

A softmax probability is the chance that one field plus Gumbel noise beats the others plus theirs.
The R-dimensional average over the fields is then one-dimensional: with F the distribution function
of sqrt(gamma) z + Gumbel, and f1 the density of gamma + sqrt(gamma) z + Gumbel,

    E softmax_1 = integral of f1 F^(R-1).

Both are convolutions of a Gaussian and a Gumbel law, all analytic and fast decaying, so trapezoids
converge exponentially.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from miniamp import checks
from miniamp.arrays import Array

#: Step h of the trapezoids. The Gumbel transform falls as exp(-pi |w|/2): error exp(-pi^2/h).
_STEP = 0.125
#: Standard deviations of the Gaussian that are kept: beyond, its mass is below 1e-19.
_REACH = 9.0
#: The Gumbel law is cut where its tails are below 1e-18: exp(-exp(4)) on the left, exp(-42) right.
_LEFT, _RIGHT = -4.0, 42.0
#: Below this gamma the Gaussian is narrower than the outer step resolves; it gets nodes of its own.
_NARROW = 1.0


@dataclass(frozen=True, slots=True)
class SoftmaxAverages:
    """Averages over fields h_l = gamma [l = 1] + sqrt(gamma) z_l, l = 1..R."""

    p: float  #: E softmax_1(h): mean weight on the true label, = E of the sum of squared weights
    #: (R p - 1)/(R - 1), the overlap: 0 for a guess, 1 for certainty; relative precision also at
    #: gamma = 1e-12.
    excess: float
    doubt: float  #: 1 - p, to 1e-15: the mean squared error of the labels
    log_sum: float  #: E log sum_l exp(h_l)
    label_error: float  #: chance that the largest field is not the true one's


def softmax_averages(R: int, gamma: float) -> SoftmaxAverages:
    """All averages that the theory of exchangeable labels needs, for R labels at signal `gamma`.

    Examples
    --------
    >>> round(softmax_averages(R=3, gamma=1.0).p, 12)
    0.51887420028
    """
    R = checks.count("R", R, least=2)
    gamma = checks.number("gamma", gamma, least=0.0)
    x, F, f, step_up, F1 = _laws(gamma)
    f1 = f + step_up
    others = F ** (R - 1)
    excess = R / (R - 1) * _STEP * float(step_up @ others)
    p = (1.0 + (R - 1) * excess) / R
    doubt = _STEP * float(f1 @ -np.expm1((R - 1) * _log_or_zero(F)))
    density = f1 * others + (R - 1) * f * F1 * F ** (R - 2)
    log_sum = _STEP * float(density @ x) - np.euler_gamma
    return SoftmaxAverages(p, excess, doubt, log_sum, label_error(R, gamma))


def label_error(R: int, gamma: float) -> float:
    """Chance that the true label's field is not the largest of R.

    Examples
    --------
    >>> round(label_error(R=5, gamma=0.0), 12)
    0.8
    """
    R, gamma = checks.count("R", R, least=2), checks.number("gamma", gamma, least=0.0)
    step = 0.0625
    z = np.arange(-_REACH - 1.0, _REACH + 1.0 + step, step)
    weights = step * np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    return float(weights @ -np.expm1((R - 1) * log_ndtr(z + np.sqrt(gamma))))


def _laws(gamma: float) -> tuple[Array, Array, Array, Array, Array]:
    """Nodes x and there: F, its density f, f1 - f, and F1, the distribution of the true label's."""
    root = np.sqrt(gamma)
    low, high = _LEFT - _REACH * root, _RIGHT + gamma + _REACH * root
    x = _STEP * np.arange(np.floor(low / _STEP), np.ceil(high / _STEP) + 1.0)
    return (x, *(_nested(x, gamma) if gamma < _NARROW else _convolved(x, gamma)))


def _nested(x: Array, gamma: float) -> tuple[Array, Array, Array, Array]:
    """A narrow Gaussian by its own nodes z, for each x."""
    root = np.sqrt(gamma)
    z = np.arange(-_REACH - 1.0, _REACH + 1.0 + _STEP, _STEP)
    weights = _STEP * np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    gumbel, density = _gumbel(x[:, None] - root * z)
    # Shifting by gamma equals tilting the Gaussian by exp(s - gamma/2); expm1 keeps f1 - f exact.
    tilted = weights * np.expm1(root * z - 0.5 * gamma)
    F = gumbel @ weights
    return F, density @ weights, density @ tilted, F + gumbel @ tilted


def _convolved(x: Array, gamma: float) -> tuple[Array, Array, Array, Array]:
    """A wide Gaussian on the same step as x: every difference is a node of one shared table."""
    from scipy.signal import fftconvolve

    reach = np.ceil((_REACH * np.sqrt(gamma) + gamma) / _STEP)
    s = _STEP * np.arange(-reach, reach + 1.0)
    norm = _STEP / np.sqrt(2.0 * np.pi * gamma)
    plain = norm * np.exp(-0.5 * s**2 / gamma)
    shifted = norm * np.exp(-0.5 * (s - gamma) ** 2 / gamma)
    first, last = round(x[0] / _STEP - reach), round(x[-1] / _STEP + reach)
    gumbel, density = _gumbel(_STEP * np.arange(first, last + 1.0))

    def smooth(values: Array, kernel: Array) -> Array:
        return np.asarray(fftconvolve(values, kernel, mode="valid"))

    f = np.maximum(smooth(density, plain), 0.0)
    f1 = np.maximum(smooth(density, shifted), 0.0)
    F = np.clip(smooth(gumbel, plain), 0.0, 1.0)
    return F, f, f1 - f, np.clip(smooth(gumbel, shifted), 0.0, 1.0)


def _gumbel(x: Array) -> tuple[Array, Array]:
    """Distribution function and density of the Gumbel law."""
    tail = np.exp(-np.maximum(x, -700.0))
    F = np.exp(-tail)
    return F, np.where(F > 0.0, F * np.where(F > 0.0, tail, 0.0), 0.0)


def _log_or_zero(F: Array) -> Array:
    """log F, with the deep left tail at a value that any power sends to zero."""
    return np.asarray(np.log(np.maximum(F, np.finfo(np.float64).tiny)))
