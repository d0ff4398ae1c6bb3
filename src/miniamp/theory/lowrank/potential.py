"""The replica free energy of low-rank models, offline and within a stream."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from miniamp import checks
from miniamp.arrays import Given
from miniamp.priors.rows import RowPrior
from miniamp.theory.lowrank.exchangeable import Mixture, Overlap, absorb_batch
from miniamp.theory.lowrank.recursion import Recursion
from miniamp.theory.lowrank.softmax import softmax_averages


class Pair(NamedTuple):
    """A matrix a 1 + b J by its eigenvalues: `broken` (R - 1 times) and `uniform` (once)."""

    broken: float
    uniform: float


#: The overlap before any data.
NOTHING = Pair(0.0, 0.0)


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
    runs = Recursion.replicates(prior_u, prior_v, noise, points, rng_seed)
    values = [run.free_energy(M_U, lam, before, alpha_b) for run in runs]
    return Energy(float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values))))


def mixture_free_energy(
    mixture: Mixture, M_U: Pair, lam: Pair, alpha_b: float, before: Pair = NOTHING
) -> float:
    """The same for exchangeable labels, exact to rounding: matrices by their two eigenvalues.

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


def energy_of(mixture: Mixture, before: Overlap, after: Overlap) -> float:
    """Free energy of a batch at the overlap it reached: the Bayes posterior has the lowest."""
    lam = Pair(after.a, after.alpha / mixture.R)
    M_U = Pair(*(x / (mixture.delta + x) for x in lam))
    previous = Pair(before.a, before.alpha / mixture.R)
    return mixture_free_energy(mixture, M_U, lam, after.alpha - before.alpha, previous)


def best_overlap(mixture: Mixture, before: Overlap, alpha_b: float) -> Overlap:
    """Of the fixed points from ignorance and from the truth, the one of lower free energy."""
    candidates = [
        absorb_batch(mixture, before, alpha_b, informed=informed) for informed in (False, True)
    ]
    return min(candidates, key=lambda after: energy_of(mixture, before, after))
