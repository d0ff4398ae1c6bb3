"""Typical batches of columns, which the laws of low-rank models absorb, and learning curves.

Y = U V'/sqrt(N) + noise of variance Delta (errata L1), beta = 1/Delta (errata L2). U is kept, V
arrives with the columns. A_U = beta lambda_V and A_V = beta M_U, and the overlap of V accumulates:
lambda_V <- lambda_V + alpha_b E V eta_V' (errata L8 to L10).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from miniamp import checks
from miniamp.absorb import Stop
from miniamp.arrays import Given
from miniamp.priors import RowPrior
from miniamp.theory.curves import Curve
from miniamp.theory.law import AnyLaw
from miniamp.theory.limits import averaged, number_of_batches
from miniamp.theory.lowrank.labels import LabelLaw
from miniamp.theory.lowrank.matrix import (
    CONVERGED,
    ConvergedColumns,
    MatrixLaw,
    OptimalColumns,
    TypicalColumns,
)


def learning_curve(
    prior_u: RowPrior,
    prior_v: RowPrior,
    noise: float,
    alpha_b: float,
    batches: int | None = None,
    alpha_max: float | None = None,
    t_max: int | None = None,
    *,
    seed: float = 0.0,
    informed: bool = False,
    full: bool = False,
    points: int = 12,
    truth_u: RowPrior | None = None,
    truth_v: RowPrior | None = None,
) -> Curve:
    """Error of Mini-AMP after each batch of alpha_b N columns of Y = U V'/sqrt(N) + noise.

    Exchangeable labels and isotropic Gaussian rows reduce to one number and are exact to rounding;
    any other pair of priors runs the full R x R recursion by quasi-Monte Carlo.

    Parameters
    ----------
    prior_u, prior_v : RowPrior
        Priors of the rows of U (kept) and V (arriving with the columns).
    noise : float
        Delta, the variance of the noise (1 over the Fisher information of a channel at 0).
    alpha_b : float
        Columns per batch, per row of U.
    batches, alpha_max : int or float
        How far: so many batches, or so many columns per row of U. Give one.
    t_max : int, optional
        Iterations per batch; to convergence by default.
    seed : float
        Overlap a that is put in before the first batch, for exchangeable labels: what a finite
        problem has by chance. Below alpha_c it grows by 1/(1 - alpha_b/alpha_c) per batch
        (errata L14).
    informed : bool
        Start every batch from the truth: the best fixed point rather than the algorithm's.
    full : bool
        Use the full recursion even where the reduction holds.
    points : int
        log2 of the number of points of each quasi-Monte Carlo replicate.
    truth_u, truth_v : RowPrior, optional
        What the rows of U and V are drawn from, where that is not the prior (full recursion).

    Examples
    --------
    >>> from miniamp import priors
    >>> from miniamp.theory import lowrank
    >>> curve = lowrank.learning_curve(
    ...     priors.GaussianRows(5), priors.OneHot(5), noise=0.1, alpha_b=0.5, batches=2)
    >>> curve.mse.round(6), curve.label_error.round(6)
    (array([0.600136, 0.405314]), array([0.227468, 0.13082 ]))
    """
    sizes = _equal(alpha_b, batches, alpha_max)
    laws = laws_before(prior_u, prior_v, noise, full, points, seed, truth_u, truth_v)
    return _curve(laws, [sizes], t_max, informed)


def mmse_curve(
    prior_u: RowPrior,
    prior_v: RowPrior,
    noise: float,
    alpha_b: float,
    batches: int | None = None,
    alpha_max: float | None = None,
    *,
    points: int = 12,
) -> Curve:
    """The errors at the fixed point of lowest free energy in every batch.

    What exact inference on each batch could reach with the same factorised memory between batches.
    Of the fixed points, those reached from ignorance and from the truth are compared.

    Examples
    --------
    >>> from miniamp import priors
    >>> from miniamp.theory import lowrank
    >>> model = priors.GaussianRows(8), priors.OneHot(8), 0.05
    >>> float(lowrank.mmse_curve(*model, alpha_b=0.15, batches=1).label_error[0].round(3))
    0.489
    """
    laws = laws_before(prior_u, prior_v, noise, points=points)
    return _curve(laws, [_equal(alpha_b, batches, alpha_max)], None, False, optimal=True)


def offline_curve(
    prior_u: RowPrior,
    prior_v: RowPrior,
    noise: float,
    alphas: Given,
    t_max: int | None = None,
    *,
    informed: bool = False,
    full: bool = False,
    points: int = 12,
) -> Curve:
    """Error of AMP with all alpha N columns at once, for each alpha.

    Examples
    --------
    >>> from miniamp import priors
    >>> from miniamp.theory import lowrank
    >>> model = priors.GaussianRows(5), priors.OneHot(5), 0.1
    >>> lowrank.offline_curve(*model, alphas=[0.2, 1.0]).mse.round(6)
    array([0.942857, 0.378528])
    """
    columns = checks.vector("alphas", np.atleast_1d(checks.numeric("alphas", alphas)))
    streams = [[checks.number("alphas", alpha, above=0.0)] for alpha in columns]
    laws = laws_before(prior_u, prior_v, noise, full, points)
    return _curve(laws, streams, t_max, informed)


def laws_before(
    prior_u: RowPrior,
    prior_v: RowPrior,
    noise: float,
    full: bool = False,
    points: int = 12,
    seed: float = 0.0,
    truth_u: RowPrior | None = None,
    truth_v: RowPrior | None = None,
) -> Sequence[LabelLaw] | Sequence[MatrixLaw]:
    """The law before any data: one where it is exact, else independent replicates."""
    noise = checks.number("noise", noise, above=0.0)
    given = {"prior_u": prior_u, "prior_v": prior_v, "truth_u": truth_u, "truth_v": truth_v}
    for name, prior in given.items():
        if prior is None and name.startswith("truth"):
            continue
        if not isinstance(prior, RowPrior):
            raise checks.refuse(
                name, repr(prior), "a prior of rows", "see GaussianRows, OneHot in miniamp.priors"
            )
        if prior.dim != prior_u.dim:
            raise checks.refuse(
                name, f"dim {prior.dim}", f"{prior_u.dim}, that of prior_u", "use one rank"
            )
    var, a = prior_u.isotropic_variance, checks.number("seed", seed, least=0.0)
    reducible = prior_v.exchangeable_labels and prior_v.dim > 1 and not full
    if var is not None and reducible and truth_u is None and truth_v is None:
        return [LabelLaw(prior_u.dim, noise, var, a)]
    return MatrixLaw.replicates(prior_u, prior_v, noise, points, truth_u=truth_u, truth_v=truth_v)


def _equal(alpha_b: float, batches: int | None, alpha_max: float | None) -> list[float]:
    size = checks.number("alpha_b", alpha_b, above=0.0)
    return [size] * number_of_batches(size, batches, alpha_max)


def _curve(
    laws: Sequence[AnyLaw],
    streams: Sequence[Sequence[float]],
    t_max: int | None,
    informed: bool,
    optimal: bool = False,
) -> Curve:
    """The laws after every batch of each stream, and their errors averaged over replicates."""
    kind = OptimalColumns if optimal else ConvergedColumns if t_max is None else TypicalColumns
    stop = CONVERGED if t_max is None else Stop(checks.count("t_max", t_max), tol=0.0)
    batches = [[kind(alpha, informed) for alpha in sizes] for sizes in streams]
    return averaged(laws, batches, stop, "" if optimal else "Mini-AMP")
