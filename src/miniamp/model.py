"""A belief with the hyper-parameters of its prior and its channel, and first guesses of them."""

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

    @property
    def mean(self) -> Array:
        """Posterior mean of every coefficient, (N,)."""
        return self.posterior.mean

    @property
    def var(self) -> Array:
        """Posterior variance of every coefficient, (N,)."""
        return self.posterior.var

    def forecast(self, Phi: Given) -> tuple[Array, Array]:
        """Mean and variance of the observations predicted for new rows."""
        return forecast(self.posterior, Phi, self.channel)

    def scaled(self, factor: float) -> Model:
        """The model that counts what it has seen `factor` times; what it learned stays."""
        return replace(
            self,
            posterior=self.posterior.scaled(factor),
            scale_known=factor * self.scale_known,
            noise_known=factor * self.noise_known,
        )

    def stretched(self, factor: ArrayOrFloat) -> Model:
        """The model of factor * x in the place of x, when features change their units."""
        return replace(self, posterior=self.posterior.stretched(factor))


def initial(
    model: Model, rows: DrawnRows[Any], fixed: Collection[str] = ()
) -> tuple[Prior, Channel]:
    """Prior and channel on the scale of the first batch.

    Half the variance of y is taken for signal and half for noise. Where y is a label or a count, z
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
    spread = max(float(np.var(rows.y)), model.spread) or float(np.mean(np.square(rows.y)))
    return max(spread, np.finfo(np.float64).tiny) / 2.0


def prior_power(prior: Prior, size: int, design: Design) -> float:
    """The power that z has under the prior alone."""
    typical = prior.typical_power(size if prior.shape else 2)
    return typical * design.shape[1] * design.mean_square or 1.0
