"""Streams whose coefficients drift: how much to forget, and the error that is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.numerics.scales import lowest
from miniamp.priors.base import ScalarPrior
from miniamp.theory.law import ConvergedBatch, Errors, Gain, Law
from miniamp.theory.scalar import checked_prior, parts_of

#: Iterations of the long-run equations, and the relative change at which they have converged.
PATIENCE = 5_000
TOLERANCE = 1e-10
#: log2 of the histories that are sampled where the law of a coefficient is not Gaussian: the error
#: in the long run is then right to 2 or 3 %, as `standard_error` shows.
LOG2_HISTORIES = 15
#: Ages that are sampled more often than they occur, in units of 1/(1 - forget).
RECENT = 3.0
#: A batch that counts less than this is forgotten.
FORGOTTEN = 1e-5
#: Batches of a gradual drift that are drawn one by one. All of them took 15 s at a drift of 1e-3.
DRAWN = 256
#: 1 - forget lies between this share of the drift and 1: what is known fades no more slowly than
#: it becomes wrong. The logarithm of 1 - forget is found to FINEST.
SLOWEST = 0.05
FINEST = 1e-4
FASTEST = 1.0 - 1e-6


@dataclass(frozen=True)
class LongRun:
    """The errors of a drifting stream after each batch, in the long run."""

    forget: float  #: how much of what is known is kept per batch, for `absorb(..., forget=forget)`
    mse: float  #: the error of a coefficient
    #: The error that the posterior reports. It is not the same: evidence that is counted less is
    #: still as old as it is.
    variance: float
    half_life: float  #: rows over coefficients after which an observation counts half
    lam: float  #: precision of the tilt
    gamma: float  #: variance of the noise in its linear part
    standard_error: float = 0.0  #: of `mse`, where histories were sampled; 0 where it is exact


def long_run(
    prior: Given,
    channel: Channel,
    alpha_b: Given,
    drift: Given,
    forget: Given,
    replaced: bool = False,
) -> LongRun:
    """The long-run error when coefficients drift and evidence is forgotten.

    Before each batch every coefficient x becomes sqrt(1 - drift) x + sqrt(drift) times a fresh draw
    from the prior (about its mean), and what is known is counted `forget` times. With f = forget, a
    batch that adds (g_lambda, g_gamma, g_signal) at the errors of this very state leaves

        lambda = g_lambda/(1 - f),   b = g_signal u + N(0, gamma),   gamma = g_gamma/(1 - f^2),

    where u = x + f x_1 + f^2 x_2 + ... sums the coefficient and its earlier values. For a Gaussian
    prior u is Gaussian given x, of mean x/(1 - f r), r = sqrt(1 - drift), and all is exact; else
    histories are sampled.

    Parameters
    ----------
    prior, channel
        The model.
    alpha_b : float
        Rows of a batch over coefficients.
    drift : float
        Share of the variance of a coefficient that is renewed per batch, 0 < drift <= 1.
    forget : float
        0 < forget < 1.
    replaced : bool
        Coefficients are replaced by fresh draws, each with probability 1 - sqrt(1 - drift), which
        keeps the prior and has the same correlation. Else they drift gradually, which keeps it if
        it is Gaussian.

    Examples
    --------
    >>> from miniamp import channels, priors, theory
    >>> found = theory.long_run(priors.Gaussian(), channels.Gaussian(var=0.1), 0.5, 0.01, 0.9)
    >>> round(found.mse, 6), round(found.variance, 6)
    (0.057333, 0.024247)
    """
    prior = checked_prior("prior", prior)
    batch = ConvergedBatch(alpha_b, channel)
    drift = checks.number("drift", drift, above=0.0, most=1.0)
    f = checks.number("forget", forget, above=0.0, most=1.0 - 1e-9)
    parts = parts_of(prior)
    exact = not replaced and parts is not None and len(parts.weights) == 1
    state = _exact(prior, drift, f) if exact else _sampled(prior, drift, f, replaced)
    gain, errors, scatter = Gain(0.0, 0.0, 0.0), Law(prior).errors, 0.0
    unmatched = Law(prior, prior)  # so that the batch answers with all three numbers
    for _ in range(PATIENCE):
        gain = batch.gain(unmatched, errors)
        old, (errors, scatter) = errors, state(gain)
        if abs(errors.mse - old.mse) <= TOLERANCE * errors.mse:
            break
    half_life = batch.alpha * np.log(0.5) / np.log(f)
    lam, gamma = gain.lam / (1.0 - f), gain.gamma / (1.0 - f**2)
    return LongRun(f, errors.mse, errors.variance, float(half_life), lam, gamma, scatter)


def best_forget(
    prior: Given, channel: Channel, alpha_b: Given, drift: Given, replaced: bool = False
) -> LongRun:
    """The factor by which to forget per batch when coefficients drift, and the error it leaves.

    Parameters are those of `long_run`. The factor is that of smallest error in the long run;
    without drift it is 1, and the error falls to 0.

    Examples
    --------
    >>> from miniamp import channels, priors, theory
    >>> found = theory.best_forget(priors.Gaussian(), channels.Gaussian(var=0.1), 0.5, drift=0.01)
    >>> round(found.forget, 3), round(found.mse, 5)
    (0.837, 0.04919)
    """
    prior = checked_prior("prior", prior)
    alpha = checks.number("alpha_b", alpha_b, above=0.0)
    drift = checks.number("drift", drift, least=0.0, most=1.0)
    if drift == 0.0:
        return LongRun(1.0, 0.0, 0.0, np.inf, np.inf, np.inf)

    def at(log_rate: float) -> LongRun:
        return long_run(prior, channel, alpha, drift, -np.expm1(log_rate), replaced)

    ends = float(np.log(SLOWEST * drift)), float(np.log(FASTEST))
    return at(lowest(lambda rate: float(np.log(at(rate).mse)), *ends, to=FINEST)[0])


#: Errors and the standard error of the mse, for what a batch adds.
State = Callable[[Gain], tuple[Errors, float]]


def _exact(prior: ScalarPrior, drift: float, f: float) -> State:
    """Errors for a Gaussian prior, under which u given x is Gaussian, too."""
    mean, variance = (float(np.squeeze(m)) for m in prior.moments(0.0, 0.0))
    r = np.sqrt(1.0 - drift)
    slope = 1.0 / (1.0 - f * r)
    # Var u = v (1 + f r)/((1 - f^2)(1 - f r)), of which slope^2 v is that of x.
    rest = variance * ((1.0 + f * r) / ((1.0 - f**2) * (1.0 - f * r)) - slope**2)
    offset = mean * (1.0 / (1.0 - f) - slope)

    def state(gain: Gain) -> tuple[Errors, float]:
        lam, signal = gain.lam / (1.0 - f), gain.signal * slope
        gamma = gain.gamma / (1.0 - f**2) + gain.signal**2 * rest
        # The estimate is k (mean/variance + b), with b = signal x + shift + noise.
        k = variance / (1.0 + lam * variance)
        shift = mean / variance + gain.signal * offset
        average = k * (shift + signal * mean)
        mse = (k * signal - 1.0) ** 2 * variance + (average - mean) ** 2 + k**2 * gamma
        power = average**2 + k**2 * (signal**2 * variance + gamma)
        overlap = average * mean + k * signal * variance
        return Errors(float(mse), float(k), float(power), float(power - overlap)), 0.0

    return state


def _sampled(prior: ScalarPrior, drift: float, f: float, replaced: bool) -> State:
    """By weighted histories (x, u) of a coefficient, each with noise and its opposite."""
    rng = np.random.default_rng(0)
    number = 2**LOG2_HISTORIES
    x, u, weights = (_replaced if replaced else _gradual)(prior, drift, f, number, rng)
    weights = weights / weights.sum()
    z = ndtri(rng.permutation((np.arange(number) + 0.5) / number))

    def state(gain: Gain) -> tuple[Errors, float]:
        lam, gamma = gain.lam / (1.0 - f), gain.gamma / (1.0 - f**2)
        noise = np.sqrt(gamma) * z
        mean, variance = prior.moments(lam, gain.signal * u + np.stack([noise, -noise]))
        off = mean - x
        each = [np.mean(a, axis=0) for a in (off**2, variance, mean**2, mean * off)]
        errors = Errors(*(float(weights @ a) for a in each))
        scatter = weights * (each[0] - errors.mse)
        return errors, float(np.sqrt(scatter @ scatter))

    return state


def _replaced(
    prior: ScalarPrior, drift: float, f: float, number: int, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """x and u of coefficients that are replaced: a life of `age` batches adds a geometric sum.

    Young coefficients are few but have most of the error: half of the histories have ages up to
    RECENT memories, evenly, and weights that make up for it.
    """
    chance = 1.0 - np.sqrt(1.0 - drift)
    young = int(np.ceil(RECENT / (1.0 - f)))
    age = rng.geometric(chance, size=number)
    age[::2] = 1 + np.arange((number + 1) // 2) % young
    rate = chance * (1.0 - chance) ** (age - 1.0)
    weights = rate / (0.5 * rate + 0.5 * (age <= young) / young)
    x = prior.sample(rng, number)
    u, faded, life = np.zeros(number), np.ones(number), x
    while faded.max() > FORGOTTEN:
        kept = f**age
        u += faded * (1.0 - kept) / (1.0 - f) * life
        faded = faded * kept
        life, age = prior.sample(rng, number), rng.geometric(chance, size=number)
    return x, u, weights


def _gradual(
    prior: ScalarPrior, drift: float, f: float, number: int, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """x and u of coefficients that move a little per batch.

    What n batches add to (x, u) is drawn batch by batch for n up to `DRAWN`. Beyond, n is doubled:
    the same of another coefficient is what came before.
    """
    mean = float(np.squeeze(prior.moments(0.0, 0.0)[0]))
    r = np.sqrt(1.0 - drift)
    steps = int(np.ceil(np.log(FORGOTTEN) / np.log(max(f, r))))
    step, power, added = np.array([[r, 0.0], [r, f]]), np.eye(2), np.zeros((2, number))
    for _ in range(min(steps, DRAWN)):
        added = step @ added + np.sqrt(drift) * (prior.sample(rng, number) - mean)
        power = step @ power
    added -= added.mean(axis=1, keepdims=True)  # 0 but for chance, which doubling would add up
    for _ in range(int(np.ceil(np.log2(max(steps / DRAWN, 1.0))))):
        added, power = power @ added + added[:, rng.permutation(number)], power @ power
    return added[0] + mean, added[1] + mean / (1.0 - f), np.ones(number)
