"""The law of a clustering with exchangeable labels: one number in place of R x R."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from scipy.special import log_ndtr

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat
from miniamp.numerics.scales import LogTable
from miniamp.priors import Gaussian, GaussianRows, OneHot
from miniamp.theory.balance import Balance
from miniamp.theory.law import TypicalEvidence, relative_change
from miniamp.theory.lowrank.matrix import ColumnLaw, MatrixLaw, Overlaps
from miniamp.theory.output import RowGain
from miniamp.theory.scalar import scalar_channel

#: Share of the fully informed overlap that breaks the symmetry where a clustering can start at all.
SEED = 1e-6
#: The prior of U in the directions that distinguish labels, in its own units.
UNIT = Gaussian()
#: Below this gamma two terms of the series of q are enough: the third is gamma^2 of the first.
WEAK = 1e-6


#: Step h of the trapezoids. The Gumbel transform falls as exp(-pi |w|/2): error exp(-pi^2/h).
_STEP = 0.125
#: Standard deviations of the Gaussian that are kept: beyond, its mass is below 1e-19.
_REACH = 9.0
#: The Gumbel law is cut where its tails are below 1e-18: exp(-exp(4)) on the left, exp(-42) right.
_LEFT, _RIGHT = -4.0, 42.0
#: Below this gamma the Gaussian is narrower than the outer step resolves; it gets nodes of its own.
_NARROW = 1.0


@dataclass(frozen=True)
class LabelLaw(ColumnLaw):
    """What is known of U in a clustering with exchangeable labels: one number in place of R x R.

    Overlap matrices keep the form a 1 + b J, and are given by their two eigenvalues: that which
    distinguishes the labels (R - 1 times), and that of the direction (1, ..., 1). The latter is
    learned whatever the labels (errata L13): its eigenvalue of lambda_V is columns/R. What remains
    is a, with

        a <- a_before + (alpha_b/R) q(gamma),    gamma = a/(Delta (Delta + a)),

    where q is the excess overlap of a softmax: a `Law` of Gaussian coefficients, and columns for
    rows (`LabelBalance`).

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
    def balance(self) -> LabelBalance:
        """The balance of a batch of columns that comes now."""
        return LabelBalance(self.R, self.noise / self.var, self.a * self.var / self.noise)

    @property
    def alpha_c(self) -> float:
        """Columns per row of U in one batch for a clustering to start: R^2 Delta^2."""
        return float((self.R * self.noise / self.var) ** 2)

    weak_recovery = alpha_c  #: its name in a matrix law

    @property
    def lam(self) -> Array:
        """lambda_V, by its eigenvalues."""
        return np.array([self.a, self.columns / self.R])

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
    def mse(self) -> float:
        """Mean squared error of an entry of U."""
        known = self.lam / (self.noise / self.var + self.lam)
        return self.var * (1.0 - float((self.R - 1.0) * known[0] + known[1]) / self.R)

    @property
    def variance(self) -> float:
        """The error of an entry of U that the posterior reports: the true one."""
        return self.mse

    @property
    def power(self) -> float:
        """Mean of the squared estimate of an entry of U."""
        return self.var - self.mse

    @property
    def overlap(self) -> float:
        """The eigenvalue of lambda_V that distinguishes the labels."""
        return self.a

    @cached_property
    def _now(self) -> SoftmaxAverages:
        """Averages of the labels of the columns that arrive now."""
        delta = self.noise / self.var
        return softmax_averages(self.R, self.a / (delta * (delta + self.a)))

    @property
    def label_error(self) -> float:
        """0-1 loss of the labels of the columns that arrive now."""
        return self._now.label_error

    @property
    def label_mse(self) -> float:
        """Mean squared error of those labels."""
        return self._now.doubt

    def entry(self, batch: TypicalEvidence) -> LabelLaw:
        most = self.a + batch.alpha / self.R
        if batch.informed:
            return replace(self, a=most)
        # From the symmetric point a clustering starts on its own only beyond alpha_c; there a
        # vanishing overlap grows.
        starts = batch.alpha > self.alpha_c * (1.0 + 1e-12)
        return replace(self, a=self.a or (SEED * most if starts else 0.0))

    def refined(self, batch: TypicalEvidence, now: LabelLaw) -> LabelLaw:
        return self._after(batch, batch.alpha * float(now.balance.gain(now.balance.lam)))

    def settled(self, batch: TypicalEvidence, now: LabelLaw) -> LabelLaw:
        if batch.informed and not batch.optimal:
            added = float(np.exp(self.balance.roots(batch.alpha)[-1][0]))
        else:
            added = self.balance.reached(batch.alpha, batch.optimal)[0]
        return self._after(batch, added)

    def change_from(self, old: LabelLaw) -> float:
        return relative_change(self.a, old.a)

    def _after(self, batch: TypicalEvidence, added: float) -> LabelLaw:
        a = self.a + added * self.noise / self.var
        return replace(self, a=a, columns=self.columns + batch.alpha)


class LabelBalance(Balance):
    """The balance of exchangeable labels, in units in which an entry of U has variance 1.

    lambda = a/Delta is the precision of U in the directions that distinguish the labels, where it
    is Gaussian; a column is a row that does not show the sign of anything.
    """

    #: Overlaps are exact however small: a seed of any size grows.
    unseen = 0.0

    def __init__(self, R: int, noise: float, lam: float = 0.0) -> None:
        self.output = self.columns = LabelGain(R, noise)
        self.scalar, self.lam = scalar_channel(UNIT), lam

    def gain(self, lam: ArrayOrFloat) -> Array:
        # 1 - E = lambda/(1 + lambda) keeps its digits where 1 - E would not.
        return self.columns.of_known(np.asarray(lam) / (1.0 + np.asarray(lam)))


class LabelGain(RowGain):
    """What a typical column adds: delta(E) = q(gamma)/(R Delta) at gamma = (1 - E)/Delta.

    J is minus half the integral from E to 1: of points at one alpha only differences matter.

    Examples
    --------
    >>> gain = LabelGain(R=5, noise=0.1)
    >>> round(float(gain.delta(0.5)) * 0.5, 9) == round(softmax_averages(5, 5.0).excess, 9)
    True
    """

    power, floor, residue, blind = 1.0, 0.0, 1.0, True

    def __init__(self, R: int, noise: float) -> None:
        self.R, self.noise, self.overlap = R, noise, _overlap(R)

    @property
    def onset(self) -> float:
        return float((self.R * self.noise) ** -2.0)

    def exponent(self) -> float:
        return 0.0

    def of_known(self, known: Array) -> Array:
        """delta where 1 - E is `known`."""
        return self.overlap.value(known / self.noise) / (self.R * self.noise)

    def delta(self, mse: ArrayOrFloat) -> Array:
        return self.of_known(1.0 - np.asarray(mse))

    def information(self, mse: ArrayOrFloat) -> Array:
        return -0.5 / self.R * self.overlap.integral((1.0 - np.asarray(mse)) / self.noise)

    def _log_delta(self, log_mse: Array) -> Array:
        return np.asarray(np.log(self.delta(np.exp(log_mse))))


@cache
def _overlap(R: int) -> LogTable:
    """q(gamma), the excess overlap of R labels."""

    def weak(gamma: Array) -> tuple[Array, Array]:
        bend = (R - 4.0) / (2.0 * R) * gamma  # errata L12
        return gamma / R * (1.0 + bend), gamma**2 / (2.0 * R) * (1.0 + 2.0 / 3.0 * bend)

    def log_excess(log_gamma: Array) -> Array:
        return np.log([_excess(R, _laws(float(gamma))) for gamma in np.exp(log_gamma)])

    return LogTable(log_excess, float(np.log(WEAK)), weak)


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
    laws = x, F, f, step_up, F1 = _laws(gamma)
    f1 = f + step_up
    others = F ** (R - 1)
    excess = _excess(R, laws)
    p = (1.0 + (R - 1) * excess) / R
    doubt = _STEP * float(f1 @ -np.expm1((R - 1) * _log_or_zero(F)))
    density = f1 * others + (R - 1) * f * F1 * F ** (R - 2)
    log_sum = _STEP * float(density @ x) - np.euler_gamma
    return SoftmaxAverages(p, excess, doubt, log_sum, label_error(R, gamma))


def _excess(R: int, laws: tuple[Array, Array, Array, Array, Array]) -> float:
    _, F, _, step_up, _ = laws
    return R / (R - 1) * _STEP * float(step_up @ F ** (R - 1))


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
