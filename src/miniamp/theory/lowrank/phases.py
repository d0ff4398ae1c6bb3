"""The free energy of low-rank models, and where a clustering becomes possible and easy."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from miniamp import checks
from miniamp.absorb import Stop, absorb
from miniamp.arrays import Given
from miniamp.priors import RowPrior
from miniamp.theory.lowrank.curves import laws_before
from miniamp.theory.lowrank.matrix import CONVERGED, ConvergedColumns, MatrixLaw, OptimalColumns
from miniamp.theory.phases import Transitions, Verdict, judged, turning


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
    runs = laws_before(prior_u, prior_v, noise, True, points)
    zero = np.zeros((prior_u.dim, prior_u.dim))
    given = {"M_U": M_U, "lam": lam, "before": zero if before is None else before}
    found = {name: checks.numeric(name, value) for name, value in given.items()}
    for name, matrix in found.items():
        if matrix.shape != zero.shape:
            raise checks.refuse(name, f"shape {matrix.shape}", f"{zero.shape}", "use one rank")
    rows = checks.number("alpha_b", alpha_b, least=0.0)
    values = [law.free_energy(**found, alpha_b=rows) for law in runs if isinstance(law, MatrixLaw)]
    return Energy(float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values))))


def transitions(
    prior_u: RowPrior, prior_v: RowPrior, noise: float, *, points: int = 13
) -> Transitions:
    """The thresholds of a low-rank model, in columns seen at once per row of U.

    Exact for a Gaussian mixture with equal weights. For any other pair of priors of mean 0, such as
    sparse PCA, knowing nothing is a fixed point up to alpha_c = (Delta/rho(C_U C_V))^2, with C the
    covariances and rho the spectral radius; whether another one exists below is searched for with
    quasi-Monte Carlo averages, to about 5 %. Priors with a mean have no such point: all is None
    unless two fixed points coexist.

    *Departure* (errata L12): whether the transition of a mixture is continuous depends on Delta as
    well as R: first order iff Delta < (R - 4)/(2 R).

    Parameters
    ----------
    prior_u, prior_v, noise
        As for `learning_curve`.
    points : int
        log2 of the number of quasi-Monte Carlo points, where they are needed.

    Examples
    --------
    >>> from miniamp import priors
    >>> found = transitions(priors.GaussianRows(8), priors.OneHot(8), noise=0.05)
    >>> round(found.spinodal, 8), round(found.information, 8), round(found.weak_recovery, 8)
    (0.14597722, 0.14715518, 0.16)
    >>> round(transitions(priors.GaussianRows(1), priors.GaussianRows(1), 0.3).weak_recovery, 6)
    0.09
    """
    law = laws_before(prior_u, prior_v, noise, points=points)[0]
    if isinstance(law, MatrixLaw):
        return searched(law)
    found, critical = turning(law.balance), law.alpha_c
    if found.information is None:
        return Transitions(critical, critical, critical, weak_recovery=critical)
    return replace(found, weak_recovery=critical)


#: Values of alpha at which two fixed points are looked for, from this share of the threshold (of 1
#: where there is none), and how far apart their overlaps must be, in units of the prior's power.
SCAN, LOWEST, APART = 14, 0.05, 0.02
#: The search ends at this share of the threshold: with 2^13 points the edges of two seeds differ by
#: 2 %, and what begins later cannot be distinguished from a continuous transition.
NEAR = 0.95
#: Bisections of an edge: 1 % of the distance between two of those values.
HALVINGS = 5
#: Stops of the fixed points that only have to be distinguished.
ROUGH = Stop(max_iter=400, tol=1e-6)


def searched(law: MatrixLaw) -> Transitions:
    """The thresholds of a matrix law before any data, by looking for two fixed points."""
    critical = law.weak_recovery
    top = 1.0 if critical is None else critical
    alphas = np.geomspace(LOWEST * top, top * (NEAR if critical is not None else 10.0), SCAN)
    two = np.array([_gap(law, alpha)[0] for alpha in alphas])
    if not two.any():
        return Transitions(critical, critical, critical, weak_recovery=critical)
    first, last = int(np.flatnonzero(two)[0]), int(np.flatnonzero(two)[-1])
    low = _edge(law, alphas[first - 1], alphas[first], 0) if first else float(alphas[0])
    information = _edge(law, low, float(alphas[last]), 1)
    if critical is not None:
        return Transitions(low, information, low, weak_recovery=critical)
    high = _edge(law, alphas[last + 1], alphas[last], 0) if last + 1 < SCAN else None
    return Transitions(high, information, low)


def _gap(law: MatrixLaw, alpha: float) -> tuple[bool, bool]:
    """Whether the informed fixed point is another one, and whether its free energy is lower."""
    kinds = (ConvergedColumns(float(alpha), informed) for informed in (False, True))
    blank, informed = (absorb(law, kind, ROUGH)[0] for kind in kinds)
    apart = informed.power - blank.power > APART * law.mse
    return bool(apart), bool(apart and law.energy(informed) < law.energy(blank))


def _edge(law: MatrixLaw, outside: float, within: float, which: int) -> float:
    """Where an answer of `_gap` becomes true, between an alpha where it is not and one it is."""
    if not _gap(law, within)[which]:
        return float(within)
    for _ in range(HALVINGS):
        middle = 0.5 * (outside + within)
        outside, within = (outside, middle) if _gap(law, middle)[which] else (middle, within)
    return float(0.5 * (outside + within))


def verdict(
    prior_u: RowPrior,
    prior_v: RowPrior,
    noise: float,
    alpha_b: float,
    size: int = 1000,
    batches: int = 1,
) -> Verdict:
    """What batches of alpha_b N columns can do, with N = `size` rows of U.

    Exact for a Gaussian mixture with equal weights, by quasi-Monte Carlo for any other priors.

    Examples
    --------
    >>> from miniamp import priors
    >>> verdict(priors.GaussianRows(5), priors.OneHot(5), noise=0.1, alpha_b=0.1).phase
    'impossible'
    """
    law = laws_before(prior_u, prior_v, noise)[0]
    amp, best = ConvergedColumns(alpha_b), OptimalColumns(alpha_b)
    number = checks.count("batches", batches)
    return judged(law, amp, best, number, law.weak_recovery, size, CONVERGED)
