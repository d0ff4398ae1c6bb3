"""A belief with learned hyper-parameters of its prior and channel, and their initial values."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg

from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.channels.base import Channel
from miniamp.designs import Design
from miniamp.evidence import forecast
from miniamp.evidence.base import DrawnRows
from miniamp.posterior import Posterior, Prior

#: The power of z that a first batch of labels or counts is taken to have, until left-out rows
#: correct it.
LABELLED = 8.0
#: The variance of an intercept over the mean square of y: wide enough to say nothing.
WIDE = 100.0
#: Rows from which the variances of prior and noise are guessed, for each coefficient: as many take
#: about as long as one round of `evidence.ExactBatch`.
SAMPLED = 0.5
#: Ratios of signal to noise that are tried, 20 for each power of ten.
RATIOS = np.power(10.0, np.linspace(-6.0, 10.0, 321))

#: The least noise that is learned, relative to the variance of y: exact targets would give none.
LEAST_NOISE = 1e-12
#: A round lowers the noise at most by this factor.
LARGEST_FALL = 10.0
#: The noise so far was too high if a batch shows less than one over the first number of it, by the
#: second number of standard deviations. Such a batch of 200 features and 100 rows once kept a noise
#: 40 times too high over 900 rows.
FAR_TOO_HIGH, SURELY = 2.0, 3.0


@dataclass(frozen=True)
class Model:
    """A belief whose prior and channel are learned: what `absorb` takes with `Learn`.

    Parameters
    ----------
    posterior : Posterior
        The belief; its prior's hyper-parameters are a first guess.
    channel : Channel
        The channel; likewise.
    batches : int
        How many batches have taught it; the first sets the scale of everything (`initial`).
    scale_known, noise_known : float
        Fisher's information of left-out rows on the logarithm of the scale of z, and on that of the
        variance of the noise: half the number of rows that were well predicted.
    spread : float
        The largest variance of y in a batch.
    contradicted : bool
        Whether the latest batch was far off what those before predict.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import Posterior, absorb, channels, learning, priors
    >>> rng = np.random.default_rng(1)
    >>> x = 3.0 * rng.normal(size=100) * (rng.random(100) < 0.3)
    >>> model = learning.Model(Posterior(priors.GaussBernoulli(), 100), channels.Gaussian())
    >>> for _ in range(5):
    ...     Phi = rng.normal(size=(60, 100)) / 10.0
    ...     y = Phi @ x + 0.1 * rng.normal(size=60)
    ...     model, info = absorb(model, learning.Learn(Phi, y))
    >>> 0.2 < float(model.posterior.prior.rho) < 0.4, 0.005 < float(model.channel.var) < 0.02
    (True, True)
    """

    posterior: Posterior
    channel: Channel
    batches: int = 0
    scale_known: float = 0.0
    noise_known: float = 0.0
    spread: float = 0.0
    contradicted: bool = False

    @property
    def mean(self) -> Array:
        """Posterior mean of every coefficient, (N,)."""
        return self.posterior.mean

    @property
    def var(self) -> Array:
        """Posterior variance of every coefficient, (N,)."""
        return self.posterior.var

    def forecast(self, Phi: Given) -> tuple[Array, Array]:
        """Predicted mean and variance of the observations of new rows."""
        return forecast(self.posterior, Phi, self.channel)

    def scaled(self, factor: float) -> Model:
        """The model with all data weighted by `factor`; hyper-parameters stay."""
        return replace(
            self,
            posterior=self.posterior.scaled(factor),
            scale_known=factor * self.scale_known,
            noise_known=factor * self.noise_known,
        )

    def stretched(self, factor: ArrayOrFloat) -> Model:
        """The model of factor * x instead of x, when features change their units."""
        return replace(self, posterior=self.posterior.stretched(factor))


def initial(
    model: Model, rows: DrawnRows[Any], fixed: Collection[str] = ()
) -> tuple[Prior, Channel]:
    """Prior and channel on the scale of the first batch.

    Half the variance of y is assumed to be signal and half noise. Where y is a label or a count, z
    is given the power LABELLED, and the channel stays as it is.
    """
    prior, on_scale = model.posterior.prior, rows.channel.shift_invariant
    expected = expected_power(model, rows)
    ratio = expected / prior_power(prior, model.posterior.size, rows.design)
    prior = prior.rescaled(float(np.sqrt(ratio)), fixed)
    tiny = np.finfo(np.float64).tiny
    prior = prior.with_intercept_var(WIDE * max(float(np.mean(np.square(rows.y))), tiny))
    return prior, (rows.plain.with_noise(expected) if on_scale else rows.plain)


def guessed(prior: Prior, channel: Channel, rows: DrawnRows[Any]) -> tuple[Prior, Channel]:
    """A Gaussian prior and noise with the variances of the largest evidence of some of the rows.

    With Phi Phi' as a tridiagonal matrix T that evidence takes O(M) operations for each ratio r of
    signal and noise, and the best noise for each ratio is a mean. A first batch then takes two or
    three rounds in `evidence.ExactBatch`, five or six from `initial` (1000 to 2000 coefficients).
    """
    Phi, nothing = rows.design.toarray(), np.zeros(rows.design.shape[1])
    some = slice(None, None, math.ceil(len(Phi) / (SAMPLED * Phi.shape[1])))
    Phi, y, width = Phi[some], rows.y[some], prior.moments(nothing, nothing)[1]
    free = len(y)
    if prior.coefficients is not prior:  # what an intercept explains tells nothing of either
        Phi, width = Phi[:, :-1] - Phi[:, :-1].mean(axis=0), width[:-1]
        y, free = y - y.mean(), free - 1
    scaled = Phi * np.sqrt(width)
    gram = scaled @ scaled.T
    power = float(np.mean(np.diagonal(gram)))
    if not (power > 0.0 and y.any()):
        return prior, channel
    options = {"lower": 1, "lwork": 32 * len(gram), "overwrite_a": 1}  # half the time of no lwork
    reflectors, diagonal, beside, tau, _ = linalg.lapack.dsytrd(gram.T, **options)
    rest = reflectors[1:, :-1], tau, y[1:, None]
    y = np.append(y[0], linalg.lapack.dormqr("L", "T", *rest, lwork=len(y))[0])
    # Factors of 1 + r T, row by row and for all ratios at once.
    r, log_det, square = RATIOS / power, np.zeros_like(RATIOS), np.zeros_like(RATIOS)
    pivot, away = np.ones_like(r), np.zeros_like(r)
    for d, e, t in zip(diagonal, np.append(0.0, beside), y, strict=True):
        step = r * e / pivot
        pivot = np.maximum(1.0 + r * (d - e * step), 1.0)
        away = t - step * away
        log_det += np.log(pivot)
        square += np.square(away) / pivot
    noise, share = square / free, RATIOS / (1.0 + RATIOS)
    # One row more, as in `ExactBatch`, keeps both variances from zero.
    best = int(np.argmax(np.log(share * (1.0 - share)) - free * np.log(noise) - log_det))
    factor = float(np.sqrt(r[best] * noise[best]))
    return prior.rescaled(factor), channel.with_noise(float(noise[best]))


def expected_power(model: Model, rows: DrawnRows[Any]) -> float:
    """The power that z is expected to have before any row is solved."""
    if not rows.channel.shift_invariant:
        return LABELLED
    # One row, or equal ones, have no variance: their size is all there is to go by.
    spread = max(spread_of(rows), model.spread) or float(np.mean(np.square(rows.y)))
    return max(spread, np.finfo(np.float64).tiny) / 2.0


def spread_of(rows: DrawnRows[Any]) -> float:
    """The variance of y, in which outliers count by their weights."""
    if len(rows.y) == 0:
        return 0.0
    away = rows.y - np.average(rows.y, weights=rows.weights)
    return float(np.average(np.square(away), weights=rows.weights))


def prior_power(prior: Prior, size: int, design: Design) -> float:
    """The power that z has under the prior alone."""
    typical = prior.typical_power(size if prior.shape else 2)
    return typical * design.shape[1] * design.mean_square or 1.0


def at_noise(posterior: Posterior, before: Channel, now: Channel) -> Posterior:
    """The belief whose remembered rows have the noise `now`.

    They were seen under that of their own batch, which the first batches guess: 20 sparse rows once
    found a sixteenth of it, and would have counted 16 times for good.
    """
    old, new = (one.unweighted().gaussian_noise() for one in (before, now))
    if old is None or new is None:
        return posterior
    return posterior.recounted(float(np.mean(old) / np.mean(new)))


def within_bounds(model: Model, rows: DrawnRows[Any], channel: Channel) -> Channel:
    """The channel with at least the noise that rounding leaves, and at most all of y."""
    most = max(model.spread, spread_of(rows))
    noise = float(np.mean(1.0 / channel.unweighted().fisher()))
    allowed = np.clip(noise, LEAST_NOISE * most, most) if most > 0.0 else noise
    same = allowed == noise or not channel.has_noise
    return channel if same else channel.with_noise(float(allowed))


def noise_share(channel: Channel, y: Array, omega: Array, V: Array) -> Array:
    """The part of the noise in what is not known of each row, (M,)."""
    return channel.output(y, omega, V)[1] / channel.output(y, omega, np.zeros(len(y)))[1]


def still_known(past: Channel, y: Array, omega: Array, V: Array, weights: Array) -> float:
    """The part of the information on the noise that remains where it was far too high.

    Rows that were hardly predicted count in full while the noise is thought to be as large as
    their uncertainty; once a batch shows that it is far lower, by the square of the ratio. Targets
    of which most are one value, as 0 in claims or rain, do not show that.
    """
    share = np.maximum(noise_share(past, y, omega, V), 0.0)
    told = 0.5 * float(np.sum(weights * np.square(share)))
    if not told > 0.0 or 2 * np.count_nonzero(y == np.median(y)) > len(y):
        return 1.0
    fitted = past.fitted(y, omega, V).unweighted()
    growth = float(np.mean(past.unweighted().fisher() / fitted.fisher()))
    half = 0.5 * float(np.sum(weights))
    ratio = max(1.0 + half * (growth - 1.0) / told, 1.0 / LARGEST_FALL)
    surely = (1.0 - ratio) * np.sqrt(told) > SURELY
    return ratio**2 if ratio < 1.0 / FAR_TOO_HIGH and surely else 1.0


def secant(before: Array, now: Array, after: Array) -> Array:
    """`after`, or less of that step where it turns round the one from `before` to `now`.

    It then goes to the root of the line through both. With few rows per coefficient V follows the
    noise: of one batch of 450 rows and 300 coefficients the noise went from 0.5 to 2.5 times the
    truth and back, round after round.
    """
    last, step = now - before, after - now
    part = np.abs(last) / np.maximum(np.abs(last) + np.abs(step), np.finfo(np.float64).tiny)
    return now + step * np.where(last * step < 0.0, part, 1.0)
