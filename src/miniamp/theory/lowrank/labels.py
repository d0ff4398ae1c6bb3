"""The law of a clustering with exchangeable labels: one number in place of R x R."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from miniamp.priors import GaussianRows, OneHot
from miniamp.theory.lowrank.matrix import MatrixLaw, Overlaps
from miniamp.theory.lowrank.softmax import SoftmaxAverages, softmax_averages

#: Share of the fully informed overlap that breaks the symmetry where a clustering can start at all.
SEED = 1e-6
#: How far a climb may overshoot one iteration's step; in a bottleneck steps are far shorter than
#: the distance between the two fixed points that close it, so none is jumped over.
STRIDE = 8.0


@dataclass(frozen=True, slots=True)
class Mixture:
    """A Gaussian mixture as the theory sees it.

    Parameters
    ----------
    R : int
        Number of clusters.
    noise : float
        Delta, the variance of the noise.
    var : float
        Variance of an entry of U; only noise/var matters, and errors are relative to var.
    """

    R: int
    noise: float
    var: float = 1.0

    @property
    def delta(self) -> float:
        """Noise in units of the signal."""
        return self.noise / self.var

    @property
    def alpha_c(self) -> float:
        """Columns per row of U in one batch for a clustering to start: R^2 Delta^2."""
        return float((self.R * self.delta) ** 2)

    def gamma(self, a: float) -> float:
        """Signal-to-noise ratio of a label's field when lambda_V has overlap `a`."""
        return a / (self.delta * (self.delta + a))

    def averages(self, a: float) -> SoftmaxAverages:
        """Softmax averages of the labels at overlap `a`."""
        return softmax_averages(self.R, self.gamma(a))


class Pair(NamedTuple):
    """A matrix a 1 + b J by its eigenvalues: `broken` (R - 1 times) and `uniform` (once)."""

    broken: float
    uniform: float


#: The overlap before any data.
NOTHING = Pair(0.0, 0.0)


@dataclass(frozen=True)
class LabelLaw:
    """What is known of U in a clustering with exchangeable labels: one number in place of R x R.

    Overlap matrices keep the form a 1 + b J. The direction (1, ..., 1) is learned whatever the
    labels (errata L13): its eigenvalue of lambda_V is columns/R. What remains is a, with

        a <- a_before + (alpha_b/R) q(gamma),    gamma = a/(Delta (Delta + a)),

    where q is the excess overlap of a softmax.

    Parameters
    ----------
    mixture : Mixture
    a : float
        The eigenvalue of lambda_V that tells the labels apart.
    columns : float
        Columns seen per row of U, as far as they still count.

    Examples
    --------
    >>> LabelLaw(Mixture(R=5, noise=0.1)).mse
    1.0
    """

    mixture: Mixture
    a: float = 0.0
    columns: float = 0.0

    def scaled(self, factor: float) -> MatrixLaw:
        """The law with all that is known counted `factor` times.

        Fields so scaled are less noisy than their precision implies: one number no longer
        describes them, and the result is a `MatrixLaw`.
        """
        R, (broken, uniform) = self.mixture.R, self.overlaps[1]
        mean = np.full((R, R), 1.0 / R)
        lam = broken * (np.eye(R) - mean) + uniform * mean
        prior_u, prior_v = GaussianRows(R, cov=self.mixture.var), OneHot(R)
        law = MatrixLaw.replicates(prior_u, prior_v, self.mixture.noise)[0]
        return replace(law, lam=Overlaps(lam, lam, lam), columns=self.columns).scaled(factor)

    @property
    def state(self) -> float:
        return self.a

    @property
    def overlap(self) -> float:
        """The eigenvalue of lambda_V that tells the labels apart."""
        return self.a

    @property
    def noise(self) -> float:
        """Delta."""
        return self.mixture.noise

    @property
    def mse(self) -> float:
        """Mean squared error of an entry of U."""
        M_U = self.overlaps[0]
        R = self.mixture.R
        return self.mixture.var * (1.0 - ((R - 1) * M_U.broken + M_U.uniform) / R)

    @cached_property
    def averages(self) -> SoftmaxAverages:
        """Softmax averages of the labels of the columns that arrive now."""
        return self.mixture.averages(self.a)

    @property
    def label_error(self) -> float:
        """0-1 loss of the labels of the columns that arrive now."""
        return self.averages.label_error

    @property
    def label_mse(self) -> float:
        """Mean squared error of those labels."""
        return self.averages.doubt

    @property
    def variance(self) -> float:
        """The error of an entry of U that the posterior reports: the true one."""
        return self.mse

    @property
    def power(self) -> float:
        """Mean of the squared estimate of an entry of U."""
        return self.mixture.var - self.mse

    @property
    def overlaps(self) -> tuple[Pair, Pair]:
        """M_U, in units of the signal, and lambda_V, by their eigenvalues."""
        lam = Pair(self.a, self.columns / self.mixture.R)
        return Pair(*(x / (self.mixture.delta + x) for x in lam)), lam

    def entry(self, alpha: float, informed: bool) -> float:
        most = self.a + alpha / self.mixture.R
        if informed:
            return most
        # From the symmetric point a clustering starts on its own only beyond alpha_c; there a
        # vanishing overlap grows.
        starts = alpha > self.mixture.alpha_c * (1.0 + 1e-12)
        return self.a or (SEED * most if starts else 0.0)

    def refined(self, estimate: float, alpha: float) -> float:
        return self.a + alpha / self.mixture.R * self.mixture.averages(estimate).excess

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
        return mixture_free_energy(self.mixture, *after.overlaps, alpha, self.overlaps[1])


def mixture_free_energy(
    mixture: Mixture, M_U: Pair, lam: Pair, alpha_b: float, before: Pair = NOTHING
) -> float:
    """`free_energy` for exchangeable labels, exact to rounding: matrices by their two eigenvalues.

    Examples
    --------
    >>> mixture_free_energy(Mixture(5, 0.1), Pair(0.0, 0.0), Pair(0.0, 0.0), 0.5)
    0.0
    """
    R, delta = mixture.R, mixture.delta
    times = np.array([R - 1.0, 1.0])
    energy = 0.5 / delta * float(times @ (np.array(M_U) * (np.array(lam) - np.array(before))))
    tilt = np.array(lam) / delta
    of_u = 0.5 * float(times @ (tilt - np.log1p(tilt)))
    gamma, common = M_U.broken / delta, (M_U.uniform - M_U.broken) / (R * delta)
    of_v = softmax_averages(R, gamma).log_sum - np.log(R) - 0.5 * gamma + 0.5 * common
    # At zero overlap of_v is zero; what the trapezoids leave there is rounding.
    return energy - of_u - alpha_b * (of_v if gamma > 0.0 else 0.5 * common)


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
