"""The free energy of low-rank models, and where a clustering becomes possible and easy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from miniamp import checks
from miniamp.absorb import absorb
from miniamp.arrays import Given
from miniamp.priors import RowPrior
from miniamp.theory.lowrank.columns import OptimalColumns
from miniamp.theory.lowrank.curves import as_mixture, learning_curve, mmse_curve
from miniamp.theory.lowrank.labels import LabelLaw, Mixture
from miniamp.theory.lowrank.matrix import MatrixLaw
from miniamp.theory.phases import VISIBLE, Transitions, Verdict, batch_verdicts, blind_verdict


class Energy(NamedTuple):
    """A free energy and the standard error of its quasi-Monte Carlo average."""

    value: float
    error: float


def free_energy(
    prior_u: RowPrior,
    prior_v: RowPrior,
    noise: float,
    M_U: Given,
    lam: Given,
    alpha_b: float,
    before: Given = None,
    *,
    points: int = 12,
    rng_seed: int = 0,
) -> Energy:
    """phi(M_U, lambda_V; lambda_V before) per row of U, for any priors; stationary at fixed points.

    *Departure* (errata L8): the last term carries alpha_b, without which no fixed point is
    stationary; tests/theory/lowrank/test_potential.py has the gradients.

    Parameters
    ----------
    prior_u, prior_v : RowPrior
        Priors of the rows of U and V.
    noise : float
        Delta.
    M_U, lam : (R, R) array
        Overlap of U and accumulated overlap of V.
    alpha_b : float
        Columns of the batch, per row of U; all of them offline.
    before : (R, R) array, optional
        lambda_V before the batch; zero offline.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import priors
    >>> nothing = np.zeros((2, 2))
    >>> free_energy(priors.GaussianRows(2), priors.OneHot(2), 0.1, nothing, nothing, 0.5).value
    0.0
    """
    M_U, lam = checks.numeric("M_U", M_U), checks.numeric("lam", lam)
    before = np.zeros_like(lam) if before is None else checks.numeric("before", before)
    runs = MatrixLaw.replicates(prior_u, prior_v, noise, points, rng_seed)
    values = [run.free_energy(M_U, lam, before, alpha_b) for run in runs]
    return Energy(float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values))))


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
    critical = mixture.alpha_c
    if found is None:
        return Transitions(critical, critical, critical, weak_recovery=critical)
    tip, spinodal = found
    information = _alpha_at(mixture, _equal_energy(mixture, tip))
    return Transitions(spinodal, information, spinodal, weak_recovery=critical)


def verdict(
    prior_u: RowPrior,
    prior_v: RowPrior,
    noise: float,
    alpha_b: float,
    size: int = 1000,
    batches: int = 1,
) -> Verdict:
    """What batches of alpha_b N columns can do, with N = `size` rows of U.

    Examples
    --------
    >>> from miniamp import priors
    >>> verdict(priors.GaussianRows(5), priors.OneHot(5), noise=0.1, alpha_b=0.1).phase
    'impossible'
    """
    mixture = as_mixture(prior_u, prior_v, noise)
    thresholds = transitions(prior_u, prior_v, noise)
    alpha_b = checks.number("alpha_b", alpha_b, above=0.0)
    amp = learning_curve(prior_u, prior_v, noise, alpha_b, batches=batches)
    best = mmse_curve(prior_u, prior_v, noise, alpha_b, batches=batches)
    before = zip([0.0, *amp.overlap[:-1]], [0.0, *amp.alpha[:-1]], strict=True)
    alone = [
        absorb(LabelLaw(mixture, *at), OptimalColumns(alpha_b))[0].mse  # type: ignore[misc]
        for at in before
    ]
    found = batch_verdicts(amp, best, alone)
    ratio = alpha_b / mixture.alpha_c
    if ratio > 1.0:
        return Verdict(alpha_b, found)
    information = thresholds.information
    hard = information is not None and alpha_b > information
    return blind_verdict(alpha_b, found, ratio, hard, size)


def _alpha_at(mixture: Mixture, a: float) -> float:
    """The alpha at which offline state evolution has its fixed point at overlap `a`."""
    return mixture.R * a / mixture.averages(a).excess


def _spinodal(mixture: Mixture) -> tuple[float, float] | None:
    """Overlap and alpha where the informed branch begins, if that is below alpha_c."""
    log_a = np.linspace(np.log(1e-4 * mixture.delta), np.log(1e3 * mixture.delta), 120)
    alphas = np.array([_alpha_at(mixture, float(a)) for a in np.exp(log_a)])
    best = int(np.argmin(alphas))
    if alphas[best] >= mixture.alpha_c * (1.0 - VISIBLE) or best in (0, len(log_a) - 1):
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
        nothing, alpha = LabelLaw(mixture), _alpha_at(mixture, a)
        informed, symmetric = LabelLaw(mixture, a, alpha), LabelLaw(mixture, 0.0, alpha)
        return nothing.energy(informed) - nothing.energy(symmetric)

    high = np.log(tip)
    while gap(high) > 0.0:
        high += 0.1
    return float(np.exp(brentq(gap, np.log(tip), high, xtol=1e-14)))
