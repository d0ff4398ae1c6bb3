"""State evolution of a clustering with exchangeable labels: one number instead of R x R.

Rows U ~ N(0, var 1), labels uniform over R, Y = U V'/sqrt(N) + noise of variance Delta (errata L1).
The overlap matrices keep the form a 1 + b J. The direction (1, ..., 1) is learnt whatever the
labels (errata L13): its eigenvalue of lambda_V is alpha/R. What remains is a, with

    a <- a_previous + (alpha_b/R) q(gamma),    gamma = a/(Delta (Delta + a)),

where q is the excess overlap of a softmax.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq

from miniamp.theory.lowrank.softmax import SoftmaxAverages, softmax_averages

#: Share of the fully informed overlap that breaks the symmetry where a clustering can start at all.
SEED = 1e-6
#: How far a climb may overshoot one iteration's step; in a bottleneck steps are far shorter than
#: the distance between the two fixed points that close it, so none is jumped over.
_STRIDE = 8.0


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
        """Columns a row needed in one batch for a clustering to start: R^2 Delta^2."""
        return float((self.R * self.delta) ** 2)

    def gamma(self, a: float) -> float:
        """Signal-to-noise ratio of a label's field when lambda_V has overlap `a`."""
        return a / (self.delta * (self.delta + a))

    def averages(self, a: float) -> SoftmaxAverages:
        """Softmax averages of the labels at overlap `a`."""
        return softmax_averages(self.R, self.gamma(a))


@dataclass(frozen=True, slots=True)
class Overlap:
    """What is known of U: lambda_V = a 1 + b J, after alpha columns a row."""

    a: float = 0.0
    alpha: float = 0.0

    def mse(self, mixture: Mixture) -> float:
        """Mean squared error of an entry of U, in units of its variance (1 without data)."""
        uniform, R = self.alpha / mixture.R, mixture.R
        broken = self.a / (mixture.delta + self.a)
        return 1.0 - ((R - 1) * broken + uniform / (mixture.delta + uniform)) / R


def absorb_batch(
    mixture: Mixture,
    before: Overlap,
    alpha_b: float,
    t_max: int | None = None,
    informed: bool = False,
) -> Overlap:
    """The overlap after a batch of alpha_b N columns: the recursion's fixed point, or t_max steps.

    From the symmetric point a clustering starts on its own only if alpha_b > R^2 Delta^2; there a
    vanishing seed is let grow. `informed` starts from the truth instead: the best fixed point.

    Examples
    --------
    >>> mixture = Mixture(R=5, noise=0.1)
    >>> after = absorb_batch(mixture, Overlap(), alpha_b=0.5)
    >>> round(after.mse(mixture), 10)
    0.6001355145
    """

    def refined(a: float) -> float:
        return before.a + alpha_b / mixture.R * mixture.averages(a).excess

    most = before.a + alpha_b / mixture.R
    starts = alpha_b > mixture.alpha_c * (1.0 + 1e-12)
    a = most if informed else (before.a or (SEED * most if starts else 0.0))
    if t_max is not None:
        for _ in range(t_max):
            a = refined(a)
    elif a > 0.0:
        a = fixed_point(refined, a, floor=before.a)
    return replace(before, a=a, alpha=before.alpha + alpha_b)


def fixed_point(refined: Callable[[float], float], start: float, floor: float = 0.0) -> float:
    """The first fixed point of an increasing map on the way from `start`, up or down."""
    a, stride = start, 1.0
    step = refined(a) - a
    upward = step > 0.0
    while abs(step) > 1e-14 * a:
        new = max(a + stride * step, floor)
        if not upward and new <= SEED * start:
            # Falling towards zero: the symmetric point is the fixed point unless a floor holds it.
            return floor if floor == 0.0 else float(_between(refined, floor, a))
        new_step = refined(new) - new
        if (new_step > 0.0) != upward:
            return float(_between(refined, *sorted((a, new))))
        a, step, stride = new, new_step, min(2.0 * stride, _STRIDE)
    return a


def _between(refined: Callable[[float], float], low: float, high: float) -> float:
    finest = 4.0 * np.finfo(np.float64).eps
    return float(brentq(lambda a: refined(a) - a, low, high, xtol=finest * high, rtol=finest))
