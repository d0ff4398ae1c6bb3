"""Learning curves in the limit of many coefficients: streaming, optimal, online and offline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy

import numpy as np
from scipy.optimize import brentq

from miniamp import checks
from miniamp.absorb import Info, Stop, absorb, stream
from miniamp.arrays import Array, Given
from miniamp.channels import Channel
from miniamp.numerics.scales import LogTable
from miniamp.priors import ScalarPrior
from miniamp.theory.balance import Balance
from miniamp.theory.curves import Curve
from miniamp.theory.law import (
    ROOT_SEARCH,
    AnyLaw,
    ConvergedBatch,
    Law,
    OptimalBatch,
    TypicalBatch,
    TypicalEvidence,
)
from miniamp.theory.scalar import WEAK, ScalarChannel, checked_prior, scalar_channel
from miniamp.theory.spectrum import Spectrum

#: Iterations of a mismatched batch that count as convergence, and the change at which to stop.
PATIENCE = 20_000
TOLERANCE = 1e-13
#: What counts as converged where iterations are counted, as in `Stop`.
COUNTED = 1e-8
#: A precision that stands for infinity, in units of 1/Var x.
ENDLESS = 1e31


def learning_curve(
    prior: Given,
    channel: Channel,
    alpha_b: Given,
    batches: int | None = None,
    alpha_max: float | None = None,
    t_max: int | None = None,
    truth: ScalarPrior | None = None,
    true_channel: Channel | None = None,
    design: Spectrum | None = None,
) -> Curve:
    """The error of Mini-AMP after each batch: state evolution, Theorem 1.

    Parameters
    ----------
    prior, channel
        What the algorithm believes.
    alpha_b : float
        Rows of a batch over coefficients.
    batches, alpha_max
        How many batches, or rows over coefficients in all; give one of them.
    t_max : int, optional
        Iterations per batch; until convergence by default.
    truth, true_channel : optional
        What coefficients and rows are really drawn from, where that is not what is believed.
    design : Spectrum, optional
        The rows' singular values, for batches that are not i.i.d.; see `Spectrum`. Batches are then
        converged and the belief is the truth.

    Returns
    -------
    Curve

    Examples
    --------
    >>> from miniamp import channels, priors, theory
    >>> curve = theory.learning_curve(
    ...     priors.GaussBernoulli(rho=0.3), channels.Gaussian(var=1e-8), alpha_b=0.35, batches=5)
    >>> [f"{mse:.2g}" for mse in curve.mse]
    ['0.15', '0.052', '0.013', '0.0014', '6.4e-08']
    """
    law = starting_law(prior, truth)
    if design is not None and t_max is not None:
        raise checks.refuse(
            "t_max", t_max, "None with a design", "the theory of a design is that of converged rows"
        )
    kind = ConvergedBatch if t_max is None else TypicalBatch
    batch = kind(alpha_b, channel, true_channel, design)
    number = number_of_batches(batch.alpha, batches, alpha_max)
    if t_max is None:
        stop = Stop(max_iter=PATIENCE, tol=TOLERANCE)
    else:
        stop = Stop(max_iter=checks.count("t_max", t_max), tol=0.0)
    return streamed(law, [batch] * number, stop, f"alpha_b = {batch.alpha:g}")


def mmse_curve(
    prior: Given,
    channel: Channel,
    alpha_b: Given,
    batches: int | None = None,
    alpha_max: float | None = None,
    design: Spectrum | None = None,
) -> Curve:
    """The error of exact inference on each batch, marginals being kept: Theorem 3, recursively.

    Parameters are those of `learning_curve`.

    Examples
    --------
    >>> from miniamp import channels, priors, theory
    >>> curve = theory.mmse_curve(
    ...     priors.GaussBernoulli(rho=0.3), channels.Gaussian(var=1e-8), alpha_b=0.35, batches=3)
    >>> [f"{mse:.2g}" for mse in curve.mse]
    ['0.15', '0.052', '6.4e-08']
    """
    batch = OptimalBatch(alpha_b, channel, design=design)
    number = number_of_batches(batch.alpha, batches, alpha_max)
    return streamed(
        starting_law(prior), [batch] * number, Stop(), f"MMSE, alpha_b = {batch.alpha:g}"
    )


def online_curve(prior: Given, channel: Given, alphas: Given) -> Curve:
    """The error of ADF, one row at a time: the ODE d lambda/d alpha = delta(epsilon(lambda)).

    It is solved by quadrature, alpha(lambda) being the integral of 1/delta(epsilon(lambda)). For
    the Gaussian channel that is Delta lambda + 2 I_x(lambda). Where the integral to infinity is
    finite the error reaches 0 there: `blow_up`.

    Examples
    --------
    >>> from miniamp import channels, priors, theory
    >>> curve = theory.online_curve(priors.Rademacher(), channels.Probit(var=0.0), [1.3, 4.5])
    >>> [round(float(mse), 6) for mse in curve.mse], round(curve.blow_up, 6)
    ([0.427362, 0.0], 4.368193)
    """
    alphas, balance = _checked_alphas(alphas), Balance(prior, channel)
    price, blow_up = _price(balance)
    lam = np.array([_inverted(price, float(alpha), blow_up, balance.scalar) for alpha in alphas])
    return _matched(alphas, lam, balance.scalar, "online (ADF)", blow_up=blow_up)


def online_alpha(prior: Given, channel: Given, mse: float) -> float:
    """Rows over coefficients after which ADF has an error of `mse`.

    Examples
    --------
    >>> from miniamp import channels, priors
    >>> round(online_alpha(priors.Gaussian(), channels.Gaussian(var=0.5), 0.25), 6)  # 3/2 + log 4
    2.886294
    """
    balance = Balance(prior, channel)
    return float(_price(balance)[0].integral(precision_for(balance.scalar, mse)))


def offline_alpha(
    prior: Given, channel: Given, mse: float, design: Spectrum | None = None
) -> float:
    """The smallest single batch, in rows over coefficients, after which AMP has an error of `mse`.

    Examples
    --------
    >>> from miniamp import channels, priors
    >>> round(offline_alpha(priors.Gaussian(), channels.Gaussian(var=0.5), 0.25), 6)  # 3 (.5 + .25)
    2.25
    """
    return smallest_batch(Balance(prior, channel, design=design), mse)


def smallest_batch(balance: Balance, mse: float) -> float:
    """`offline_alpha` from a balance."""
    s = float(np.log(precision_for(balance.scalar, mse)))
    # AMP climbs to lambda only when no smaller fixed point holds it back.
    held = [turn.alpha for turn in balance.extrema if turn.highest and turn.s < s]
    return max([float(np.exp(balance.log_alpha(s))), *held])


def checked_target(name: str, target: Given, prior: Given) -> float:
    """An error to reach: less than the prior variance."""
    variance, goal = scalar_channel(prior).variance, checks.number(name, target, above=0.0)
    if goal >= variance:
        raise checks.refuse(
            name, goal, f"less than the prior variance {variance:.6g}",
            "that much is known without any rows",
        )  # fmt: skip
    return goal


def precision_for(scalar: ScalarChannel, mse: float) -> float:
    """The lambda at which the scalar channel has an MMSE of `mse`."""
    return crossing(lambda lam: 1.0 - float(scalar.mmse(lam)) / mse, scalar)


def crossing(rising: Callable[[float], float], scalar: ScalarChannel) -> float:
    """The lambda at which a rising function changes its sign; where tables end if it never does."""
    low = high = -np.log(scalar.variance)
    while rising(np.exp(high)) < 0.0:
        low, high = high, high + 2.0
        if high > np.log(ENDLESS / scalar.variance):
            return float(np.exp(high))
    while rising(np.exp(low)) > 0.0:
        low, high = low - 2.0, low
    root = brentq(lambda s: rising(np.exp(s)), low, high, xtol=1e-14, rtol=8.9e-16)
    return float(np.exp(root))


def _price(balance: Balance) -> tuple[LogTable, float | None]:
    """The cost of lambda in alpha, as a table, and the whole cost if finite."""
    scalar, start = balance.scalar, WEAK / balance.scalar.variance
    first = float(balance.price(np.array([start]))[0])
    price = LogTable(
        lambda log_lam: np.log(balance.price(np.exp(log_lam))),
        np.log(start),
        lambda x: (np.full_like(x, first), first * x),
    )
    if balance.output.exponent() > 0.0 and scalar.decay() > 0.0:
        # epsilon ~ exp(-lambda decay): beyond 500/decay nothing is left to pay.
        return price, float(price.integral(500.0 / scalar.decay()))
    return price, None


def offline_curve(
    prior: Given, channel: Given, alphas: Given, design: Spectrum | None = None
) -> Curve:
    """The errors of AMP (`mse`) and of exact inference (`mmse`) when all rows are one batch.

    Examples
    --------
    >>> from miniamp import channels, priors, theory
    >>> curve = theory.offline_curve(
    ...     priors.GaussBernoulli(rho=0.3), channels.Gaussian(var=1e-8), [0.3, 0.4, 0.5])
    >>> [f"{a:.2g} {b:.2g}" for a, b in zip(curve.mse, curve.mmse)]
    ['0.18 0.18', '0.12 3.1e-08', '1.5e-08 1.5e-08']
    """
    alphas = _checked_alphas(alphas)
    balance = Balance(prior, channel, design=design)
    amp, best = (
        np.array([balance.reached(a, optimal)[0] if a > 0.0 else 0.0 for a in alphas])
        for optimal in (False, True)
    )
    floor = balance.output.floor
    mmse = np.maximum(balance.scalar.mmse(best), floor)
    return _matched(alphas, amp, balance.scalar, "offline AMP", mmse=mmse, floor=floor)


def _checked_alphas(given: Given) -> Array:
    alphas = np.atleast_1d(checks.numeric("alphas", given))
    if alphas.ndim != 1 or (alphas < 0.0).any():
        raise checks.refuse("alphas", alphas, "a vector of numbers >= 0", "count rows from none")
    return alphas


def starting_law(prior: Given, truth: ScalarPrior | None = None) -> Law:
    """The law before any data; an equal truth is no mismatch."""
    prior = checked_prior("prior", prior)
    if truth is None or (checked_prior("truth", truth) == prior and type(truth) is type(prior)):
        return Law(prior)
    return Law(prior, truth)


def number_of_batches(alpha_b: float, batches: int | None, alpha_max: float | None) -> int:
    """How many whole batches there are, from exactly one of their number and the rows in all."""
    if (batches is None) == (alpha_max is None):
        raise checks.refuse(
            "batches, alpha_max", f"{batches} and {alpha_max}", "exactly one of them",
            "give the number of batches, or the rows over coefficients in all",
        )  # fmt: skip
    if batches is not None:
        return checks.count("batches", batches)
    # A stream of alpha_max is cut into whole batches; rounding must not lose the last.
    number = int(np.floor(checks.number("alpha_max", alpha_max, above=0.0) / alpha_b + 1e-9))
    if number < 1:
        raise checks.refuse("alpha_max", alpha_max, f"at least alpha_b = {alpha_b:g}", "raise it")
    return number


def streamed(law: AnyLaw, batches: Sequence[TypicalEvidence], stop: Stop, label: str) -> Curve:
    """The curve of a law that absorbs typical batches, equal or not, one after another."""
    return averaged([law], [batches], stop, label)


def averaged(
    laws: Sequence[AnyLaw], streams: Sequence[Sequence[TypicalEvidence]], stop: Stop, label: str
) -> Curve:
    """The curve of streams that each start over, as the mean over independent replicates of a law.

    Standard errors are those of the mean over replicates; 0 of a single one.
    """
    runs = [[step for each in streams for step in _steps(law, each, stop)] for law in laws]
    found = [[after.figures(batch.floor) for _, batch, after, _ in run] for run in runs]
    values = {name: np.array([[row[name] for row in run] for run in found]) for name in found[0][0]}

    def spread(name: str) -> Array:
        if len(laws) == 1 or name not in values:
            return np.zeros(len(runs[0]) if name in values else 0)
        return np.asarray(values[name].std(axis=0, ddof=1) / np.sqrt(len(laws)))

    def count() -> Array:
        # A root search takes one step whatever the iteration would have taken: iterate now.
        return np.array(
            [
                _iterations(before, batch) if info.solver == ROOT_SEARCH else info.iterations
                for before, batch, _, info in runs[0]
            ]
        )

    return Curve(
        alpha=np.concatenate([np.cumsum([batch.alpha for batch in each]) for each in streams]),
        **{name: each.mean(axis=0) for name, each in values.items()},
        error=spread("mse"),
        label_error_error=spread("label_error"),
        label=label,
        _count=count,
    )


def _steps(
    law: AnyLaw, batches: Sequence[TypicalEvidence], stop: Stop
) -> Iterator[tuple[AnyLaw, TypicalEvidence, AnyLaw, Info]]:
    """The law before each batch, the batch, the law after it, and how it got there."""
    for batch, (after, info) in zip(batches, stream(law, batches, stop), strict=True):
        yield law, batch, after, info
        law = after


def _iterations(law: AnyLaw, batch: TypicalEvidence) -> int:
    if batch.solved(law):
        return 1
    plain = copy(batch)
    plain.converged = False
    return absorb(law, plain, Stop(max_iter=PATIENCE, tol=COUNTED))[1].iterations


def _inverted(price: LogTable, alpha: float, blow_up: float | None, scalar: ScalarChannel) -> float:
    """The lambda at which alpha rows over coefficients have been paid for."""
    if alpha == 0.0:
        return 0.0
    if blow_up is not None and alpha >= blow_up:
        return np.inf
    return crossing(lambda lam: float(price.integral(lam)) - alpha, scalar)


def _matched(
    alphas: Array,
    lam: Array,
    scalar: ScalarChannel,
    label: str,
    *,
    mmse: Array | None = None,
    blow_up: float | None = None,
    floor: float = 0.0,
) -> Curve:
    mse = np.maximum(scalar.mmse(lam), floor)
    known = scalar.power - mse
    return Curve(alphas, mse, mse, lam, lam, known, known, mmse, blow_up, label)
