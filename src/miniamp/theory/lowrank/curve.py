"""Predicted learning curves of low-rank models, batch after batch and offline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.priors.rows import RowPrior
from miniamp.theory.lowrank.exchangeable import Mixture, Overlap, absorb_batch
from miniamp.theory.lowrank.recursion import Recursion


@dataclass(frozen=True)
class Curve:
    """What state evolution predicts after each batch.

    Attributes
    ----------
    alpha : (K,) array
        Columns seen so far, per row of U.
    mse : (K,) array
        Mean squared error of an entry of U.
    label_error : (K,) array
        0-1 loss of the labels of the batch that has just come (offline: of all columns).
    label_mse : (K,) array
        Mean squared error of a row of V, same columns; nan where the full recursion was used.
    overlap : (K,) array or (K, R, R) array
        lambda_V: its symmetry-breaking eigenvalue for exchangeable labels, the matrix otherwise.
    error : (K,) array
        Standard error of `mse` from the quasi-Monte Carlo replicates; 0 where nothing was sampled.
    label_error_error : (K,) array
        The same for `label_error`.
    """

    alpha: Array
    mse: Array
    label_error: Array
    label_mse: Array = field(repr=False)
    overlap: Array = field(repr=False)
    error: Array = field(repr=False)
    label_error_error: Array = field(repr=False)


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
    rng_seed: int = 0,
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
        Columns a batch, per row of U.
    batches, alpha_max : int or float
        How far: so many batches, or so many columns a row. Give one.
    t_max : int, optional
        Iterations a batch; to convergence by default.
    seed : float
        Overlap a that is put in before the first batch, for exchangeable labels: what a finite
        problem has by chance. Below alpha_c it grows by 1/(1 - alpha_b/alpha_c) a batch (errata
        L14).
    informed : bool
        Start every batch from the truth: the best fixed point rather than the algorithm's.
    full : bool
        Use the full recursion even where the reduction holds.
    points : int
        log2 of the number of points of each quasi-Monte Carlo replicate.
    rng_seed : int
        Seed of the scrambling.

    Examples
    --------
    >>> from miniamp import priors
    >>> from miniamp.theory import lowrank
    >>> curve = lowrank.learning_curve(
    ...     priors.GaussianRows(5), priors.OneHot(5), noise=0.1, alpha_b=0.5, batches=2)
    >>> curve.mse.round(6), curve.label_error.round(6)
    (array([0.600136, 0.405314]), array([0.227468, 0.13082 ]))
    """
    alpha_b = checks.number("alpha_b", alpha_b, above=0.0)
    sizes = [alpha_b] * _number_of_batches(alpha_b, batches, alpha_max)
    return _curve(prior_u, prior_v, noise, [sizes], t_max, seed, informed, full, points, rng_seed)


def mmse_curve(
    prior_u: RowPrior,
    prior_v: RowPrior,
    noise: float,
    alpha_b: float,
    batches: int | None = None,
    alpha_max: float | None = None,
) -> Curve:
    """The errors from the fixed point of lowest free energy in every batch (exchangeable labels).

    What unlimited computation could reach with the same factorised memory between batches.

    Examples
    --------
    >>> from miniamp import priors
    >>> from miniamp.theory import lowrank
    >>> model = priors.GaussianRows(8), priors.OneHot(8), 0.05
    >>> float(lowrank.mmse_curve(*model, alpha_b=0.15, batches=1).label_error[0].round(3))
    0.489
    """
    from miniamp.theory.lowrank.potential import best_overlap

    mixture = as_mixture(prior_u, prior_v, noise)
    alpha_b = checks.number("alpha_b", alpha_b, above=0.0)
    state, states = Overlap(), []
    for _ in range(_number_of_batches(alpha_b, batches, alpha_max)):
        state = best_overlap(mixture, state, alpha_b)
        states.append(state)
    return _exchangeable_curve(mixture, states)


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
    rng_seed: int = 0,
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
    streams = [[float(a)] for a in np.atleast_1d(checks.numeric("alphas", alphas))]
    return _curve(prior_u, prior_v, noise, streams, t_max, 0.0, informed, full, points, rng_seed)


def as_mixture(prior_u: RowPrior, prior_v: RowPrior, noise: float) -> Mixture:
    """The model as a mixture with exchangeable labels, or an error that says why it is none."""
    mixture = _maybe_mixture(prior_u, prior_v, noise)
    if mixture is None:
        raise checks.refuse(
            "prior_u, prior_v",
            f"{prior_u!r} and {prior_v!r}",
            "GaussianRows of mean 0 and covariance var * identity, and OneHot with equal weights",
            "use learning_curve, which has the full recursion for any pair",
        )
    return mixture


def _maybe_mixture(prior_u: RowPrior, prior_v: RowPrior, noise: float) -> Mixture | None:
    noise = checks.number("noise", noise, above=0.0)
    for name, prior in (("prior_u", prior_u), ("prior_v", prior_v)):
        if not isinstance(prior, RowPrior):
            raise checks.refuse(
                name, repr(prior), "a prior of rows", "see GaussianRows, OneHot in miniamp.priors"
            )
    if prior_u.dim != prior_v.dim:
        raise checks.refuse(
            "prior_v", f"dim {prior_v.dim}", f"{prior_u.dim}, that of prior_u", "use one rank"
        )
    var = prior_u.isotropic_variance
    reducible = var is not None and prior_v.exchangeable_labels and prior_v.dim > 1
    return Mixture(prior_u.dim, noise, var) if reducible and var is not None else None


def _number_of_batches(alpha_b: float, batches: int | None, alpha_max: float | None) -> int:
    if (batches is None) == (alpha_max is None):
        raise checks.refuse(
            "batches, alpha_max", f"{batches}, {alpha_max}", "one of the two", "give one"
        )
    if batches is not None:
        return checks.count("batches", batches)
    limit = checks.number("alpha_max", alpha_max, least=alpha_b)
    return int(np.floor(limit / alpha_b * (1.0 + 1e-12)))


def _curve(
    prior_u: RowPrior,
    prior_v: RowPrior,
    noise: float,
    streams: Sequence[Sequence[float]],
    t_max: int | None,
    seed: float,
    informed: bool,
    full: bool,
    points: int,
    rng_seed: int,
) -> Curve:
    """All states along each stream of batch sizes, one after another."""
    mixture = _maybe_mixture(prior_u, prior_v, noise)
    seed = checks.number("seed", seed, least=0.0)
    t_max = None if t_max is None else checks.count("t_max", t_max)
    if mixture is None or full:
        return _full_curve(
            Recursion.replicates(prior_u, prior_v, noise, points, rng_seed),
            streams,
            t_max,
            informed,
        )
    states: list[Overlap] = []
    for sizes in streams:
        state = Overlap(a=seed)
        for alpha_b in sizes:
            state = absorb_batch(mixture, state, alpha_b, t_max, informed)
            states.append(state)
    return _exchangeable_curve(mixture, states)


def _exchangeable_curve(mixture: Mixture, states: Sequence[Overlap]) -> Curve:
    averages = [mixture.averages(state.a) for state in states]
    nothing = np.zeros(len(states))
    return Curve(
        alpha=np.array([state.alpha for state in states]),
        mse=mixture.var * np.array([state.mse(mixture) for state in states]),
        label_error=np.array([average.label_error for average in averages]),
        label_mse=np.array([average.doubt for average in averages]),
        overlap=np.array([state.a for state in states]),
        error=nothing,
        label_error_error=nothing,
    )


def _full_curve(
    replicates: Sequence[Recursion],
    streams: Sequence[Sequence[float]],
    t_max: int | None,
    informed: bool,
) -> Curve:
    alpha, overlaps, mse, loss = [], [], [], []
    for sizes in streams:
        lams = [np.zeros((replicates[0].prior_u.dim,) * 2)] * len(replicates)
        seen = 0.0
        for alpha_b in sizes:
            lams = [
                run.absorb_batch(lam, alpha_b, t_max, informed)
                for run, lam in zip(replicates, lams, strict=True)
            ]
            seen += alpha_b
            alpha.append(seen)
            overlaps.append(np.mean(lams, axis=0))
            pairs = list(zip(replicates, lams, strict=True))
            mse.append([run.mse(lam) for run, lam in pairs])
            loss.append([run.label_error(lam) for run, lam in pairs])
    return Curve(
        alpha=np.array(alpha),
        mse=np.mean(mse, axis=1),
        label_error=np.mean(loss, axis=1),
        label_mse=np.full(len(alpha), np.nan),
        overlap=np.array(overlaps),
        error=_standard_error(mse),
        label_error_error=_standard_error(loss),
    )


def _standard_error(replicates: Sequence[Sequence[float]]) -> Array:
    values = np.asarray(replicates)
    return np.asarray(values.std(axis=1, ddof=1) / np.sqrt(values.shape[1]))
