"""The law of a clustering with exchangeable labels: one number in place of R x R."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

from miniamp import checks
from miniamp.arrays import Array
from miniamp.priors import GaussianRows, OneHot
from miniamp.theory.lowrank.matrix import MatrixLaw, Overlaps

#: Share of the fully informed overlap that breaks the symmetry where a clustering can start at all.
SEED = 1e-6
#: How far a climb may overshoot one iteration's step; in a bottleneck steps are far shorter than
#: the distance between the two fixed points that close it, so none is jumped over.
STRIDE = 8.0


#: Step h of the trapezoids. The Gumbel transform falls as exp(-pi |w|/2): error exp(-pi^2/h).
_STEP = 0.125
#: Standard deviations of the Gaussian that are kept: beyond, its mass is below 1e-19.
_REACH = 9.0
#: The Gumbel law is cut where its tails are below 1e-18: exp(-exp(4)) on the left, exp(-42) right.
_LEFT, _RIGHT = -4.0, 42.0
#: Below this gamma the Gaussian is narrower than the outer step resolves; it gets nodes of its own.
_NARROW = 1.0


@dataclass(frozen=True)
class LabelLaw:
    """What is known of U in a clustering with exchangeable labels: one number in place of R x R.

    Overlap matrices keep the form a 1 + b J, and are given by their two eigenvalues: that which
    distinguishes the labels (R - 1 times), and that of the direction (1, ..., 1). The latter is
    learned whatever the labels (errata L13): its eigenvalue of lambda_V is columns/R. What remains
    is a, with

        a <- a_before + (alpha_b/R) q(gamma),    gamma = a/(Delta (Delta + a)),

    where q is the excess overlap of a softmax.

    Examples
    --------
    >>> LabelLaw(R=5, noise=0.1).mse
    1.0
    """

    R: int  #: number of clusters
    noise: float  #: Delta, the variance of the noise
    var: float = 1.0  #: of an entry of U; only noise/var matters, and errors are relative to var
    a: float = 0.0  #: the eigenvalue of lambda_V that distinguishes the labels
    columns: float = 0.0  #: seen per row of U, as far as they still count

    @property
    def delta(self) -> float:
        """Noise in units of the signal."""
        return self.noise / self.var

    @property
    def alpha_c(self) -> float:
        """Columns per row of U in one batch for a clustering to start: R^2 Delta^2."""
        return float((self.R * self.delta) ** 2)

    @property
    def lam(self) -> Array:
        """lambda_V, by its eigenvalues."""
        return np.array([self.a, self.columns / self.R])

    @property
    def overlap_u(self) -> Array:
        """M_U in units of the signal, by its eigenvalues."""
        return np.asarray(self.lam / (self.delta + self.lam))

    def scaled(self, factor: float) -> MatrixLaw:
        """The law with all that is known counted `factor` times.

        Fields so scaled are less noisy than their precision implies: one number no longer
        describes them, and the result is a `MatrixLaw`.
        """
        mean = np.full((self.R, self.R), 1.0 / self.R)
        lam = self.lam[0] * (np.eye(self.R) - mean) + self.lam[1] * mean
        prior_u, prior_v = GaussianRows(self.R, cov=self.var), OneHot(self.R)
        law = MatrixLaw.replicates(prior_u, prior_v, self.noise)[0]
        return replace(law, lam=Overlaps(lam, lam, lam), columns=self.columns).scaled(factor)

    @property
    def state(self) -> float:
        return self.a

    @property
    def overlap(self) -> float:
        """The eigenvalue of lambda_V that distinguishes the labels."""
        return self.a

    @property
    def mse(self) -> float:
        """Mean squared error of an entry of U."""
        return self.var * (1.0 - self._trace(self.overlap_u) / self.R)

    @property
    def variance(self) -> float:
        """The error of an entry of U that the posterior reports: the true one."""
        return self.mse

    @property
    def power(self) -> float:
        """Mean of the squared estimate of an entry of U."""
        return self.var - self.mse

    def averages(self, a: float) -> SoftmaxAverages:
        """Softmax averages of the labels of columns that arrive at overlap `a`."""
        return softmax_averages(self.R, a / (self.delta * (self.delta + a)))

    @cached_property
    def _now(self) -> SoftmaxAverages:
        return self.averages(self.a)

    @property
    def label_error(self) -> float:
        """0-1 loss of the labels of the columns that arrive now."""
        return self._now.label_error

    @property
    def label_mse(self) -> float:
        """Mean squared error of those labels."""
        return self._now.doubt

    def entry(self, alpha: float, informed: bool) -> float:
        most = self.a + alpha / self.R
        if informed:
            return most
        # From the symmetric point a clustering starts on its own only beyond alpha_c; there a
        # vanishing overlap grows.
        starts = alpha > self.alpha_c * (1.0 + 1e-12)
        return self.a or (SEED * most if starts else 0.0)

    def refined(self, estimate: float, alpha: float) -> float:
        return self.a + alpha / self.R * self.averages(estimate).excess

    def settled(self, estimate: float, alpha: float) -> float:
        if estimate == 0.0:
            return 0.0
        return fixed_point(lambda a: self.refined(a, alpha), estimate, floor=self.a)

    def distance(self, new: float, old: float) -> float:
        return abs(new - old) / max(new, old) if max(new, old) > 0.0 else 0.0

    def after(self, estimate: float, alpha: float) -> LabelLaw:
        return replace(self, a=estimate, columns=self.columns + alpha)

    def energy(self, after: LabelLaw) -> float:
        alpha = after.columns - self.columns
        return self.free_energy(after.overlap_u, after.lam, self.lam, alpha)

    def free_energy(self, M_U: Array, lam: Array, before: Array, alpha_b: float) -> float:
        """That of `MatrixLaw`, exact to rounding: matrices by their two eigenvalues."""
        energy = 0.5 / self.delta * self._trace(M_U * (lam - before))
        tilt = lam / self.delta
        of_u = 0.5 * self._trace(tilt - np.log1p(tilt))
        gamma, common = M_U[0] / self.delta, (M_U[1] - M_U[0]) / (self.R * self.delta)
        # At zero overlap of_v is zero; what the trapezoids leave there is rounding.
        of_v = 0.5 * common
        if gamma > 0.0:
            of_v += softmax_averages(self.R, gamma).log_sum - np.log(self.R) - 0.5 * gamma
        return energy - of_u - alpha_b * float(of_v)

    def _trace(self, eigenvalues: Array) -> float:
        return float((self.R - 1.0) * eigenvalues[0] + eigenvalues[1])


def fixed_point(refined: Callable[[float], float], start: float, floor: float = 0.0) -> float:
    """The first fixed point of an increasing map on the way from `start`, up or down."""
    a, stride = start, 1.0
    step = refined(a) - a
    upward = step > 0.0
    while abs(step) > 1e-14 * a:
        new = max(a + stride * step, floor)
        if not upward and new <= SEED * start:
            # Falling towards zero: the symmetric point is the fixed point unless a floor holds it.
            return floor if floor == 0.0 else _between(refined, floor, a)
        new_step = refined(new) - new
        if (new_step > 0.0) != upward:
            return _between(refined, *sorted((a, new)))
        a, step, stride = new, new_step, min(2.0 * stride, STRIDE)
    return a


def _between(refined: Callable[[float], float], low: float, high: float) -> float:
    finest = 4.0 * np.finfo(np.float64).eps
    return float(brentq(lambda a: refined(a) - a, low, high, xtol=finest * high, rtol=finest))


# Averages of a softmax over Gaussian fields, to 1e-12, by the Gumbel trick: a probability is
# the chance that one field plus Gumbel noise beats the others plus theirs. The average in R
# dimensions is then one-dimensional: with F the distribution function of
# sqrt(gamma) z + Gumbel, and f1 the density of gamma + sqrt(gamma) z + Gumbel,
#
#     E softmax_1 = integral of f1 F^(R-1).
#
# Both are convolutions of a Gaussian and a Gumbel law, analytic and fast decaying, so that
# trapezoids converge exponentially.


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
