"""Where a clustering becomes possible, and where it becomes easy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from miniamp import checks
from miniamp.priors.rows import RowPrior
from miniamp.theory.lowrank.curve import as_mixture
from miniamp.theory.lowrank.exchangeable import Mixture, Overlap
from miniamp.theory.lowrank.potential import energy_of

#: A second branch must begin this share below alpha_c to count: less is rounding of the averages.
_VISIBLE = 1e-9


@dataclass(frozen=True, slots=True)
class Transitions:
    """Thresholds in alpha, columns seen at once per row of U.

    Attributes
    ----------
    weak_recovery : float
        alpha_c = R^2 Delta^2: from here AMP leaves the symmetric point by itself.
    spinodal : float
        From here an informed fixed point exists; alpha_c where the transition is continuous.
    information : float
        From here it has the lower free energy, so that labels can in principle be told.
    first_order : bool
        Whether information < alpha_c, with a hard phase between the two.
    """

    weak_recovery: float
    spinodal: float
    information: float
    first_order: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a stream of batches of one size finds its clusters.

    Attributes
    ----------
    phase : str
        "easy": the first batch is enough for AMP. "hard": it holds the information, but AMP stays
        at the symmetric point. "impossible": one batch tells nothing of the labels.
    growth : float
        Factor by which a chance overlap grows a batch while it is small; inf when easy.
    batches : float
        Batches after which an overlap of 1/N reaches order 1: 1 when easy. As N grows it grows like
        log N: nothing for a fixed number of batches, but not never (errata L14).
    """

    phase: str
    growth: float
    batches: float


def transitions(prior_u: RowPrior, prior_v: RowPrior, noise: float) -> Transitions:
    """The thresholds of a Gaussian mixture with equal weights.

    *Departure* (errata L12): whether the transition is continuous depends on Delta as well as R:
    first order iff Delta < (R - 4)/(2 R).

    Examples
    --------
    >>> from miniamp import priors
    >>> found = transitions(priors.GaussianRows(8), priors.OneHot(8), noise=0.05)
    >>> round(found.spinodal, 8), round(found.information, 8), round(found.weak_recovery, 8)
    (0.14597722, 0.14715518, 0.16)
    """
    mixture = as_mixture(prior_u, prior_v, noise)
    found = _spinodal(mixture)
    if found is None:
        critical = mixture.alpha_c
        return Transitions(critical, critical, critical, first_order=False)
    tip, spinodal = found
    information = _alpha_at(mixture, _equal_energy(mixture, tip))
    return Transitions(mixture.alpha_c, spinodal, information, first_order=True)


def verdict(
    prior_u: RowPrior, prior_v: RowPrior, noise: float, alpha_b: float, size: int = 1000
) -> Verdict:
    """What batches of alpha_b N columns can do, with N = `size` rows of U.

    Examples
    --------
    >>> from miniamp import priors
    >>> verdict(priors.GaussianRows(5), priors.OneHot(5), noise=0.1, alpha_b=0.1).phase
    'impossible'
    """
    thresholds = transitions(prior_u, prior_v, noise)
    alpha_b = checks.number("alpha_b", alpha_b, above=0.0)
    size = checks.count("size", size, least=2)
    if alpha_b > thresholds.weak_recovery:
        return Verdict("easy", np.inf, 1.0)
    phase = "hard" if alpha_b > thresholds.information else "impossible"
    ratio = alpha_b / thresholds.weak_recovery
    growth = 1.0 / (1.0 - ratio) if ratio < 1.0 else np.inf
    return Verdict(phase, growth, float(1.0 + np.log(size) / np.log(growth)))


def _alpha_at(mixture: Mixture, a: float) -> float:
    """The alpha at which offline state evolution has its fixed point at overlap `a`."""
    return mixture.R * a / mixture.averages(a).excess


def _spinodal(mixture: Mixture) -> tuple[float, float] | None:
    """Overlap and alpha where the informed branch begins, if that is below alpha_c."""
    log_a = np.linspace(np.log(1e-4 * mixture.delta), np.log(1e3 * mixture.delta), 120)
    alphas = np.array([_alpha_at(mixture, float(a)) for a in np.exp(log_a)])
    best = int(np.argmin(alphas))
    if alphas[best] >= mixture.alpha_c * (1.0 - _VISIBLE) or best in (0, len(log_a) - 1):
        return None
    found = minimize_scalar(
        lambda x: _alpha_at(mixture, float(np.exp(x))),
        bounds=(log_a[best - 1], log_a[best + 1]),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return float(np.exp(found.x)), float(found.fun)


def _equal_energy(mixture: Mixture, tip: float) -> float:
    """Overlap on the informed branch where its free energy meets that of the symmetric point."""

    def gap(log_a: float) -> float:
        a = float(np.exp(log_a))
        alpha = _alpha_at(mixture, a)
        informed, symmetric = Overlap(a, alpha), Overlap(0.0, alpha)
        nothing = Overlap()
        return energy_of(mixture, nothing, informed) - energy_of(mixture, nothing, symmetric)

    high = np.log(tip)
    while gap(high) > 0.0:
        high += 0.1
    return float(np.exp(brentq(gap, np.log(tip), high, xtol=1e-14)))
