"""Base class of evidence from rows: checks, weights, treatment of outliers, and predictions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Generic, Self, TypeVar

import numpy as np

from miniamp import checks
from miniamp.absorb import Step
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.designs import Design, as_design
from miniamp.evidence.linear import row_moments
from miniamp.evidence.outlying import (
    BEYOND,
    FEW_OUTLIERS,
    MEDIAN,
    PLAUSIBLE,
    carriers,
    outlying,
    student_weights,
)
from miniamp.evidence.row_scores import scores_of
from miniamp.info import Adaptation, Outlier, Stop
from miniamp.posterior import Moments, Posterior
from miniamp.tilt import Tilt

#: Newton steps to the cavity mean of a row; one is exact for a Gaussian channel.
NEWTON = 8
#: The noise of a batch in conflict grows until its health figure is below this.
ENOUGH_NOISE = 2.0
#: Rows do not show the sign of z, of which nothing is known, where none moves the mean of z (mean
#: V g^2 below the first number) and some would increase its variance (-V dg below minus the
#: second). Rows that determine z, or agree with its mean, do not increase its variance.
UNMOVED, WIDENED = 1e-20, 1e-3
BLIND = "learned nothing: the channel is blind to sign; use start='spectral'"

MemoryT = TypeVar("MemoryT")


class DrawnRows(Generic[MemoryT]):
    """Evidence from observed rows: the part that all solvers share.

    Parameters
    ----------
    Phi : (M, N) array, scipy.sparse matrix or Design
        Rows of the batch.
    y : (M,) array
        Observations.
    channel : Channel
        Distribution of y given z = Phi x.
    """

    #: Changes by `adapted` so far: weights of outliers, and a factor of the noise of all rows.
    row_weights: Mapping[Outlier, float] = MappingProxyType({})
    noise_factor: float = 1.0
    #: Whether outliers belong to a heavy-tailed noise; None before `adapted` has examined this.
    heavy_tailed: bool | None = None
    #: Whether rows that contradict the past count in full although `noise_factor` is above 1, where
    #: the noise is learned. A single such batch counts less: one of 500 times the noise of others
    #: spoiled a model for 1,200 rows. A second one in a row shows that the stream has changed, and
    #: so does a single one of more than twice as many rows as all before.
    keeps_weight = False
    leaves_out = True  #: whether `cavity` predicts each row from all others
    weights: Array | None = None  #: how often each row counts, (M,); None is once

    def __init__(self, Phi: Given, y: Given, channel: Channel) -> None:
        self.design = as_design(Phi)
        self.channel = checked_channel(channel)
        self.y = channel.checked(y)
        if self.y.shape != self.design.shape[:1]:
            checks.vector("y", self.y, size=self.design.shape[0])  # refuses it
        checks.fits("channel", channel.shape, self.design.shape[0])
        self.plain = self.channel  #: without the weights of `weighted`

    @classmethod
    def like(cls, rows: DrawnRows[Any]) -> Self:
        """The same rows for this solver, without checking them again."""
        new = object.__new__(cls)  # a fifth of the time of copy.copy
        new.__dict__.update(rows.__dict__)
        return new

    @property
    def rows(self) -> int:
        """The number M of rows."""
        return self.design.shape[0]

    def start(self, belief: Posterior) -> tuple[Moments, MemoryT]:
        raise NotImplementedError

    def refine(
        self, belief: Posterior, estimate: Moments, memory: MemoryT
    ) -> Step[Tilt, Moments, MemoryT]:
        raise NotImplementedError

    def refine_all(
        self, belief: Posterior, estimate: Moments, memory: MemoryT, stop: Stop
    ) -> tuple[list[float], Step[Tilt, Moments, MemoryT] | None]:
        return [], None

    def remedies(self) -> Iterable[tuple[str, Self]]:
        return ()

    def log_evidence(self, belief: Posterior, step: Step[Tilt, Moments, MemoryT]) -> float:
        raise NotImplementedError

    def conclude(self, belief: Posterior, step: Step[Tilt, Moments, MemoryT]) -> Posterior:
        return belief.tilted(step.tilt)

    def diagnosis(self) -> str:
        return ""

    def with_channel(self, channel: Channel) -> Self:
        """The same rows under another channel; weights are kept."""
        new = self.like(self)
        new.plain = channel
        new.channel = channel if self.weights is None else channel.weighted(self.weights)
        return new

    def weighted(self, weights: Array) -> Self:
        """The same rows counted `weights` times each, (M,)."""
        new = self.like(self)
        new.weights = weights
        return new.with_channel(self.plain)

    def resuming(self, step: Step[Tilt, Moments, MemoryT]) -> Self:
        """The same rows, solved from the end of `step` on where that is a better start."""
        return self

    def keeping_weight(self) -> Self:
        """The same rows, with the weights before `adapted` has given all of them more noise."""
        assert self.weights is not None  # by `adapted`
        new = self.weighted(self.noise_factor * self.weights)
        new.keeps_weight = True
        return new

    def with_design(self, design: Design) -> Self:
        """The same observations with another design."""
        new = self.like(self)
        new.design = design
        return new

    def weight_factors(self) -> tuple[Array, Array]:
        """Weights of rows with Gaussian noise as given, and their factors by `adapted`, (M,) each.

        An adapted row counts less because its noise is larger. So its squared residual over that
        noise is again expected to be one, and its density is that of the larger noise.
        """
        if self.channel is self.plain and self.channel.unweighted() is self.channel:
            return np.ones(self.rows), np.ones(self.rows)
        kinds = self.channel.unweighted(), self.plain, self.channel
        unit, given, adapted = (np.asarray(kind.gaussian_noise()) for kind in kinds)
        weights, factors = np.broadcast_arrays(unit / given, given / adapted, self.y)[:2]
        return weights, factors

    def common_noise(self) -> tuple[float, Array, float]:
        """A unit of noise, weights (M,) with which all rows have it, and how many rows these are.

        The unit of noise that differs from row to row is the geometric mean, with which the
        evidence is the right one.
        """
        own = np.asarray(self.channel.gaussian_noise())
        if own.ndim == 0:  # most batches: their products are known without weights
            return float(own), np.ones(self.rows), float(self.rows)
        unit = np.asarray(self.channel.unweighted().gaussian_noise())
        noise = float(np.exp(np.mean(np.log(unit)))) if unit.size > 1 else float(unit)
        count = float(np.sum(np.broadcast_to(unit / own, self.y.shape)))
        return noise, np.broadcast_to(noise / own, self.y.shape), count

    def _repetition_term(self) -> float:
        """Log-density of rows that count several times, less that of one row at their mean."""
        noise = self.channel.gaussian_noise()
        if noise is None or self.channel.unweighted() is self.channel:
            return 0.0
        weights = self.weight_factors()[0]
        each = np.log(2.0 * np.pi * noise) - weights * np.log(2.0 * np.pi * noise * weights)
        return 0.5 * float(np.sum(each))

    def total(self, belief: Posterior, step: Step[Tilt, Moments, MemoryT]) -> Tilt:
        """Tilt of each coefficient by all data, these rows included."""
        return belief.total + step.tilt

    def cavity(self, step: Step[Tilt, Moments, MemoryT]) -> tuple[Array, Array]:
        """Leave-one-out mean and variance of each row . x, (M,) each.

        The noise is learned from them, and outliers are found by them.
        """
        z, V = self.design.forecast(step.estimate.mean, step.estimate.var)
        return self._cavity_mean(z, V), V

    def _fitted(self, step: Step[Tilt, Moments, MemoryT]) -> Array:
        """Posterior mean of each row . x, (M,)."""
        return self.design.times(step.estimate.mean)

    def _cavity_mean(self, z: Array, V: Array) -> Array:
        """The omega for which omega + V g(omega), the posterior mean of N(omega, V), is z, (M,)."""
        omega = z
        for _ in range(1 if self.channel.gaussian_noise() is not None else NEWTON):  # 1 is exact
            g, curvature = self.channel.output(self.y, omega, V)
            rest = np.maximum(1.0 - V * curvature, np.finfo(np.float64).eps)
            omega = omega - (omega + V * g - z) / rest
        return omega

    def adapted(
        self, belief: Posterior, step: Step[Tilt, Moments, MemoryT], *, sound: bool
    ) -> tuple[Self, tuple[Adaptation, ...]] | None:
        """Rows with less weight for outliers, or with more noise for all in conflict; or None."""
        if not (np.isfinite(step.change) and self.plain.takes_weights):
            return None
        # A label of weight 10 is ten equal labels, which are as probable as one.
        channel = self.plain if self.plain.shift_invariant else self.plain.unweighted()
        if self.noise_factor > 1.0:  # labels of any weight but 1 have no closed form
            channel = channel.weighted(np.full(self.rows, 1.0 / self.noise_factor))
        fitted, noise, examined = self._fitted(step), channel.gaussian_noise(), self.heavy_tailed
        unchanged = sound and self.weights is None and examined is None
        if unchanged and noise is not None and plausible(np.abs(self.y - fitted) / np.sqrt(noise)):
            return None
        found, separate = self._outliers(channel, fitted, step)
        if not separate and self.row_weights and examined is None:
            new = self.like(self)
            new.weights, new.row_weights, new.heavy_tailed, new.noise_factor = None, {}, True, 1.0
            return new.with_channel(self.plain), ()
        few = max(1, int(FEW_OUTLIERS * self.rows))
        found = found if separate or not examined else []
        found = found if sound else carriers(found, few)
        weights, factor = self.row_weights, self.noise_factor
        growing = factor > 1.0 and ENOUGH_NOISE < step.health < np.inf
        if 0 < len(found) <= few and not growing:
            lighter = student_weights(found, self.row_weights)
            if lighter is None:
                return None
            weights = lighter
        elif growing or (not sound and np.isfinite(step.health)):
            factor *= step.health
        else:
            return None
        each = np.full(self.rows, 1.0 / factor)
        for row, weight in weights.items():
            each[row.row] *= weight
        new = self.weighted(each)
        new.row_weights, new.noise_factor = weights, factor
        if self.row_weights and examined is None:
            new.heavy_tailed = False  # in later rounds too little noise is left to examine tails
        done = [Adaptation("noise", factor)] if factor > 1.0 else []
        return new, (*done, *(Adaptation("row", weight, row) for row, weight in weights.items()))

    def _outliers(
        self, channel: Channel, fitted: Array, step: Step[Tilt, Moments, MemoryT]
    ) -> tuple[list[Outlier], bool]:
        """Outliers among the rows, and whether they are separate from all others (`outlying`).

        They are outliers of both the fit and the leave-one-out prediction. A row that alone shows
        that a sparse coefficient is not zero is one of the latter only.
        """
        heavy = bool(self.heavy_tailed)
        unexplained, _ = outlying(channel, self.y, fitted, np.zeros(self.rows), heavy)
        if not unexplained:
            return [], True
        found, separate = outlying(channel, self.y, *self.cavity(step), heavy)
        where = {row.row for row in unexplained}
        return [row for row in found if row.row in where], separate

    def left_out_scores(self, step: Step[Tilt, Moments, MemoryT]) -> Array:
        """Leave-one-out log-density of each row, at least that of `BEYOND` deviations, (M,)."""
        got, best = self.channel.log_densities(self.y, *self.cavity(step))
        return np.asarray(np.maximum(got, best - 0.5 * BEYOND**2))


def plausible(deviations: Array) -> bool:
    """Whether rows so many standard deviations off have no outlier, as in most batches."""
    worst = float(deviations.max())
    # `outlying` divides by the median: count the rows that are below one too small for the worst.
    below = np.count_nonzero(deviations < worst * MEDIAN / BEYOND)
    return worst < PLAUSIBLE or (worst < BEYOND and 2 * int(below) < len(deviations))


def project(belief: Posterior, design: Design) -> tuple[Array, Array]:
    """Mean and variance of Phi x under the belief, with all its correlations, (M,) each."""
    if belief.keeps_sites:
        scores = scores_of(belief, design)
        return scores.omega, scores.V
    if belief.joint is not None:
        return design.times(belief.joint.mean), belief.joint.row_variances(design.toarray())
    if belief.remembered is not None:
        return row_moments(belief, design)
    where, narrow = design.used_columns()
    if narrow is not design:
        belief = belief.at(where)
    return narrow.forecast(belief.mean, belief.var)


def forecast(belief: Posterior, Phi: Given, channel: Channel) -> tuple[Array, Array]:
    """Predictive mean and variance of y for new rows, (M,) each.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import Posterior, channels, priors
    >>> forecast(Posterior(priors.Gaussian(), 2), np.eye(2), channels.Gaussian(var=1.0))
    (array([0., 0.]), array([2., 2.]))
    """
    design = as_design(Phi)
    check_columns(design, belief)
    return checked_channel(channel).predict(*project(belief, design))


def surprise(belief: Posterior, Phi: Given, y: Given, channel: Channel) -> float:
    """Excess of the log-loss of new rows over its expectation, in its standard deviations.

    Every predictive distribution implies mean and variance of its own log-loss. New rows of the
    stream that the belief was learned from have a surprise of about 0 +- 1; after a change of
    coefficients or noise it is large.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import Posterior, absorb, channels, evidence, priors
    >>> rng = np.random.default_rng(0)
    >>> channel, x = channels.Gaussian(var=0.01), rng.normal(size=20)
    >>> Phi, more = rng.normal(size=(2, 100, 20))
    >>> y, usual = (rows @ x + 0.1 * rng.normal(size=100) for rows in (Phi, more))
    >>> belief, _ = absorb(Posterior(priors.Gaussian(), 20), evidence.RobustBatch(Phi, y, channel))
    >>> abs(surprise(belief, more, usual, channel)) < 4.0
    True
    >>> surprise(belief, more, more @ -x, channel) > 100.0
    True
    """
    rows: DrawnRows[None] = DrawnRows(Phi, y, channel)
    check_columns(rows.design, belief)
    omega, V = project(belief, rows.design)
    mean, var = expected_score(channel, omega, V)
    excess = float(np.sum(mean - channel.log_partition(rows.y, omega, V)))
    return excess / float(np.sqrt(max(np.sum(var), np.finfo(np.float64).tiny)))


def expected_score(channel: Channel, omega: Array, V: Array) -> tuple[Array, Array]:
    """Mean and variance of the log-density of y where z ~ N(omega, V), (M,) each."""
    values, weights = np.broadcast_arrays(*channel.outcomes(omega, V))
    scores = np.stack([channel.log_partition(y, omega, V) for y in values.T], axis=-1)
    probabilities = weights * np.exp(scores)
    finite = np.where(probabilities > 0.0, scores, 0.0)
    mean = np.sum(probabilities * finite, axis=-1)
    return mean, np.sum(probabilities * np.square(finite - mean[:, None]), axis=-1)


def health(g: Array, curvature: Array) -> float:
    """mean g^2 / mean(-dg): the power of the residuals over its expectation."""
    return ratio(float(np.mean(np.square(g))), float(np.mean(curvature)))


def ratio(mean_square: float, mean_curvature: float) -> float:
    """The health figure from two means; 1 for rows without information, where both are zero."""
    if mean_curvature == 0.0:
        return 1.0 if mean_square == 0.0 else np.inf
    return mean_square / mean_curvature


def blind(g: Array, curvature: Array, V: Array) -> bool:
    """Whether rows of z ~ N(omega, V) carry no information because they do not show its sign."""
    return bool(np.mean(V * np.square(g)) < UNMOVED and np.min(V * curvature) < -WIDENED)


def checked_channel(channel: Given) -> Channel:
    """`channel`, if it is one."""
    if not isinstance(channel, Channel):
        expected = "a channel such as channels.Gaussian(var=0.01)"
        raise checks.refuse("channel", repr(channel), expected, "see miniamp.channels")
    return channel


def check_columns(design: Design, belief: Posterior) -> None:
    """Refuse rows that are not as long as the belief."""
    if belief.size != design.shape[1]:
        received, expected = f"{design.shape[1]} columns", f"{belief.size}, the size of the belief"
        raise checks.refuse("Phi", received, expected, "use the same columns in every batch")


def relative_change(new: Moments, old: Moments) -> float:
    """Mean absolute change of the means, relative to the root mean square of the coefficients."""
    scale = np.sqrt(new.power)
    change = float(np.mean(np.abs(new.mean - old.mean)))
    return change / scale if scale > 0.0 else change
