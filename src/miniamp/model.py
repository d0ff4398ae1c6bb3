"""A posterior with learned hyper-parameters, their initial values, and how the noise is learned."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.channels.base import Channel
from miniamp.designs import Design
from miniamp.evidence import forecast
from miniamp.evidence.base import DrawnRows
from miniamp.posterior import Posterior, Prior

#: Power of z that is assumed for a first batch of labels or counts, until left-out rows correct it.
LABEL_POWER = 8.0
#: Variance of an intercept over the mean square of y: so wide that it does not matter.
INTERCEPT_VARIANCE = 100.0
#: Rows per coefficient from which `initial_from_evidence` estimates the variances of prior and
#: noise: so many take about as long as one round of `evidence.ExactBatch`.
INITIAL_ROWS = 0.5
#: Ratios of signal to noise that are tried, 20 for each power of ten.
RATIOS = np.power(10.0, np.linspace(-6.0, 10.0, 321))

#: Smallest noise that is learned, relative to the variance of y: exact targets would give none.
LEAST_NOISE = 1e-12
#: A round lowers the noise at most by this factor.
LARGEST_FALL = 10.0
#: The noise so far was too high if a batch shows less than one over the first number of it, by the
#: second number of standard deviations. Such a batch of 200 features and 100 rows once kept a noise
#: 40 times too high over 900 rows.
MUCH_TOO_HIGH, SIGNIFICANT = 2.0, 3.0
#: Steps of EM for the noise of the first batch, at fixed left-out predictions: EM is slow where the
#: noise is far below the variance of these.
FIRST_NOISE_STEPS = 31
#: Rows whose left-out variance is this many times the noise have leverage 1 up to rounding. They
#: carry no information on the noise and are left out.
LEVERAGE_ONE = 1e4
#: Fisher information on the logarithm of the noise before any batch: that of one row predicted
#: without error. Rows that are hardly predicted carry next to none, and would move the noise by any
#: factor: 20 sparse rows once took it to a tenth in one round.
INITIAL_INFORMATION = 0.5


@dataclass(frozen=True)
class Model:
    """A posterior whose prior and channel are learned: what `absorb` updates by `Learn`.

    Parameters
    ----------
    posterior : Posterior
        Posterior of the coefficients; the hyper-parameters of its prior are initial values.
    channel : Channel
        Channel of the rows; the same holds for its noise.
    batches : int
        Number of batches learned from; the first one sets all scales (`initial`).
    scale_known, noise_known : float
        Fisher information of left-out rows on the logarithm of the scale of z, and on that of the
        variance of the noise: of the latter half the number of rows that were well predicted.
    spread : float
        Largest variance of y in a batch.
    contradicted : bool
        Whether the latest batch was absorbed with more noise because it contradicted the posterior.

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
        """Predictive mean and variance of y for new rows, (M,) each."""
        return forecast(self.posterior, Phi, self.channel)

    def scaled(self, factor: float) -> Model:
        """Model with all data weighted by `factor`; hyper-parameters stay."""
        return replace(
            self,
            posterior=self.posterior.scaled(factor),
            scale_known=factor * self.scale_known,
            noise_known=factor * self.noise_known,
        )

    def stretched(self, factor: ArrayOrFloat) -> Model:
        """Model of factor * x instead of x, for features in other units."""
        return replace(self, posterior=self.posterior.stretched(factor))


def initial(
    model: Model, rows: DrawnRows[Any], fixed: Collection[str] = ()
) -> tuple[Prior, Channel]:
    """Prior and channel with the scale of the first batch.

    Half of the variance of y is assumed to be signal and half noise. For labels and counts z is
    given the power LABEL_POWER, and the channel stays as it is.
    """
    prior, signal = model.posterior.prior, expected_power(model, rows)
    ratio = signal / prior_power(prior, model.posterior.size, rows.design)
    prior = prior.rescaled(float(np.sqrt(ratio)), fixed)
    tiny = np.finfo(np.float64).tiny
    wide = INTERCEPT_VARIANCE * max(float(np.mean(np.square(rows.y))), tiny)
    has_scale = rows.channel.shift_invariant
    channel = rows.plain.with_noise(signal) if has_scale else rows.plain
    return prior.with_intercept_var(wide), channel


def initial_from_evidence(
    prior: Prior, channel: Channel, rows: DrawnRows[Any]
) -> tuple[Prior, Channel]:
    """Gaussian prior and noise whose variances maximise the evidence of some of the rows.

    With Phi Phi' reduced to a tridiagonal matrix T the evidence takes O(M) operations for each
    ratio r of signal to noise, and the best noise for each ratio is a mean. A first batch then
    takes two or three rounds in `evidence.ExactBatch`, five or six from `initial` (1000 to 2000
    coefficients).
    """
    Phi, zeros = rows.design.toarray(), np.zeros(rows.design.shape[1])
    sample = slice(None, None, math.ceil(len(Phi) / (INITIAL_ROWS * Phi.shape[1])))
    Phi, y, prior_var = Phi[sample], rows.y[sample], prior.moments(zeros, zeros)[1]
    degrees = len(y)
    if prior.coefficients is not prior:  # an intercept: only the rest carries information
        Phi, prior_var = Phi[:, :-1] - Phi[:, :-1].mean(axis=0), prior_var[:-1]
        y, degrees = y - y.mean(), degrees - 1
    scaled = Phi * np.sqrt(prior_var)
    gram = scaled @ scaled.T
    power = float(np.mean(np.diagonal(gram)))
    if not (power > 0.0 and y.any()):
        return prior, channel
    options = {"lower": 1, "lwork": 32 * len(gram), "overwrite_a": 1}  # half the time of no lwork
    reflectors, diagonal, subdiagonal, tau, _ = linalg.lapack.dsytrd(gram.T, **options)
    rest = reflectors[1:, :-1], tau, y[1:, None]
    y = np.append(y[0], linalg.lapack.dormqr("L", "T", *rest, lwork=len(y))[0])
    # Factors of 1 + r T, row by row and for all ratios at once.
    r, log_det, square = RATIOS / power, np.zeros_like(RATIOS), np.zeros_like(RATIOS)
    pivot, residual = np.ones_like(r), np.zeros_like(r)
    for d, e, t in zip(diagonal, np.append(0.0, subdiagonal), y, strict=True):
        step = r * e / pivot
        pivot = np.maximum(1.0 + r * (d - e * step), 1.0)
        residual = t - step * residual
        log_det += np.log(pivot)
        square += np.square(residual) / pivot
    noise, signal_share = square / degrees, RATIOS / (1.0 + RATIOS)
    # One row more, as in `ExactBatch`, keeps both variances from zero.
    penalty = np.log(signal_share * (1.0 - signal_share))
    best = int(np.argmax(penalty - degrees * np.log(noise) - log_det))
    factor = float(np.sqrt(r[best] * noise[best]))
    return prior.rescaled(factor), channel.with_noise(float(noise[best]))


def expected_power(model: Model, rows: DrawnRows[Any]) -> float:
    """Power that z is expected to have before any row is solved."""
    if not rows.channel.shift_invariant:
        return LABEL_POWER
    # One row, or equal ones, have no variance: their mean square takes its place.
    variance = max(target_variance(rows), model.spread) or float(np.mean(np.square(rows.y)))
    return max(variance, np.finfo(np.float64).tiny) / 2.0


def target_variance(rows: DrawnRows[Any]) -> float:
    """Variance of y, in which outliers count by their weights."""
    if len(rows.y) == 0:
        return 0.0
    deviation = rows.y - np.average(rows.y, weights=rows.weights)
    return float(np.average(np.square(deviation), weights=rows.weights))


def prior_power(prior: Prior, size: int, design: Design) -> float:
    """Power of z under the prior alone."""
    typical = prior.typical_power(size if prior.shape else 2)
    return typical * design.shape[1] * design.mean_square or 1.0


def at_noise(posterior: Posterior, before: Channel, now: Channel) -> Posterior:
    """Posterior whose remembered rows have the noise `now` instead of `before`.

    Each batch stores its rows with the noise of that time, which the first batches only guess: 20
    sparse rows once found a sixteenth of it, and would have counted 16 times for good.
    """
    old, new = (one.unweighted().gaussian_noise() for one in (before, now))
    if old is None or new is None:
        return posterior
    return posterior.recounted(float(np.mean(old) / np.mean(new)))


class LeftOutRows(NamedTuple):
    """Rows that carry information on the noise, each predicted from all others, (M,) each."""

    y: Array
    omega: Array  #: mean of z without the row itself
    V: Array  #: its variance
    weights: Array  #: how often each row counts, at most once

    def noise_share(self, channel: Channel) -> Array:
        """Share of the noise in the predictive variance of each row, Delta/(Delta + V), (M,)."""
        noise_alone = channel.output(self.y, self.omega, np.zeros(len(self.y)))[1]
        return np.maximum(channel.output(self.y, self.omega, self.V)[1] / noise_alone, 0.0)

    def information(self, share: Array) -> float:
        """Fisher information on the logarithm of the noise, of rows with these shares of it."""
        return 0.5 * float(np.sum(self.weights * np.square(share)))

    def remaining(self, share: Array, ratio: float) -> float:
        """Factor of the information of earlier rows: below 1 where the noise was much too high.

        Rows that were hardly predicted count in full while the noise is assumed to be as large as
        their uncertainty. A batch of a much lower noise, at which an EM step multiplies the noise
        by `ratio`, reduces their information by the square of it. Targets of which most are one
        value, as 0 in claims or rain, do not show that.
        """
        information, half = self.information(share), 0.5 * float(np.sum(self.weights))
        if not information > 0.0:
            return 1.0
        ratio = max(1.0 + half * (ratio - 1.0) / information, 1.0 / LARGEST_FALL)
        significant = (1.0 - ratio) * np.sqrt(information) > SIGNIFICANT
        if not (ratio < 1.0 / MUCH_TOO_HIGH and significant):
            return 1.0
        one_value = 2 * np.count_nonzero(self.y == np.median(self.y)) > len(self.y)
        return 1.0 if one_value else ratio**2


def noise_step(
    model: Model, rows: DrawnRows[Any], left_out: tuple[Array, Array], last: Channel
) -> tuple[Channel, float]:
    """Channel with the noise of all rows so far, and the change of `noise_known` by these rows.

    `left_out` are mean and variance of each row . x from all others, `last` is the channel of the
    previous round. The first batch is fitted by EM. A later one takes a step of Fisher scoring: the
    information of a row on the logarithm of Delta is (Delta/(Delta + V))^2/2, at the noise so far
    and not at that which the batch itself would fit. There, a batch with small residuals would
    count more, and the noise come out too low by (M - 4)/M.
    """
    omega, V = left_out
    used = np.flatnonzero(LEVERAGE_ONE / rows.plain.unweighted().fisher() > V)
    if used.size == 0:
        return bounded_noise(model, rows, model.channel if model.batches else rows.plain), 0.0
    where = used if used.size < rows.rows else slice(None)  # all, nearly always: no copies
    y, current = rows.y[where], rows.channel.at(where)
    weights = np.ones(len(y)) if rows.weights is None else np.minimum(rows.weights[where], 1.0)
    data = LeftOutRows(y, omega[where], V[where], weights)
    if not model.batches:
        fitted = current
        for _ in range(FIRST_NOISE_STEPS):
            fitted = fitted.fitted(*data[:3])
        learned = _moved(model, rows, last, (1.0, fitted), (0.0, model.channel))
        return learned, data.information(data.noise_share(fitted))
    fitted, share, start = current.fitted(*data[:3]), data.noise_share(current), model.channel
    share_at_start, ratio = share, _noise_ratio(current, fitted)
    if rows.plain is not start:
        at_start = rows.with_channel(start).channel.at(where)
        share_at_start = data.noise_share(at_start)
        ratio = _noise_ratio(at_start, at_start.fitted(*data[:3]))
    earlier = model.noise_known * data.remaining(share_at_start, ratio)
    information, half = data.information(share), 0.5 * float(np.sum(weights))
    known = earlier + INITIAL_INFORMATION
    total = known + information
    learned = _moved(model, rows, last, (half / total, fitted), (known / total, start))
    # Information of earlier rows at the present noise: a lower noise leaves the less of it, the
    # less these rows were predicted.
    fall = _noise_ratio(start, learned)
    earlier *= fall ** (2.0 * (1.0 - min(float(np.mean(share)), 1.0)))
    return learned, information + earlier - model.noise_known


def _moved(
    model: Model, rows: DrawnRows[Any], last: Channel, *targets: tuple[float, Channel]
) -> Channel:
    """The channel of the rows moved towards others by these shares of the way, within bounds."""
    before, now = (one.unweighted().parameters() for one in (last, rows.plain))
    ends = [(share, channel.unweighted().parameters()) for share, channel in targets]
    values = {}
    for name, value in now.items():
        after = value
        for share, end in ends:
            after = after + share * (end[name] - value)
        values[name] = np.maximum(secant(before[name], value, after), value / LARGEST_FALL)
    return bounded_noise(model, rows, rows.plain.replaced(**values))


def _noise_ratio(before: Channel, after: Channel) -> float:
    """Variance of the noise of a channel over that of the channel `before`."""
    return float(np.mean(before.unweighted().fisher() / after.unweighted().fisher()))


def bounded_noise(model: Model, rows: DrawnRows[Any], channel: Channel) -> Channel:
    """The channel with at least the noise that rounding leaves, and at most the variance of y."""
    most = max(model.spread, target_variance(rows))
    noise = float(np.mean(1.0 / channel.unweighted().fisher()))
    allowed = np.clip(noise, LEAST_NOISE * most, most) if most > 0.0 else noise
    same = allowed == noise or not channel.has_noise
    return channel if same else channel.with_noise(float(allowed))


def secant(before: Array, now: Array, after: Array) -> Array:
    """`after`, or less of that step where it reverses the one from `before` to `now`.

    It then goes to the root of the line through both. With few rows per coefficient V follows the
    noise: in one batch of 450 rows and 300 coefficients the noise went from 0.5 to 2.5 times the
    truth and back, round after round.
    """
    last, step = now - before, after - now
    part = np.abs(last) / np.maximum(np.abs(last) + np.abs(step), np.finfo(np.float64).tiny)
    return now + step * np.where(last * step < 0.0, part, 1.0)
