"""What kinds of evidence share: checked rows, weights, outliers and predictions."""

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

#: Newton steps to the cavity of a row; one is exact for a Gaussian channel.
NEWTON = 8
#: The noise of a batch in conflict grows until its health figure is below this.
ENOUGH_NOISE = 2.0
#: Rows are blind where none moves z (mean V g^2 below the first number) and some would widen it
#: (-V dg below minus the second): they do not show the sign of z, of which nothing is known. Rows
#: that are certain of z, or have it at their centre, do not widen it.
UNMOVED, WIDENED = 1e-20, 1e-3
BLIND = "learned nothing: the channel is blind to sign; use start='spectral'"

MemoryT = TypeVar("MemoryT")


class DrawnRows(Generic[MemoryT]):
    """Evidence from observed rows: what is the same for every solver.

    Parameters
    ----------
    Phi : (M, N) array, scipy.sparse matrix or Design
        The rows.
    y : (M,) array
        What was observed.
    channel : Channel
        How it came about.
    """

    #: What `adapted` has done so far: weights of outliers, and a factor of the noise of all rows.
    row_weights: Mapping[Outlier, float] = MappingProxyType({})
    noise_factor: float = 1.0
    #: Whether rows far off belong to heavy tails; None before `adapted` has judged their weights.
    heavy_tailed: bool | None = None
    #: Whether rows that contradict the past count in full, whatever noise they show, where it is
    #: learned. One batch alone is absorbed with that noise: one of 500 times that of others spoiled
    #: a model for 1,200 rows. The next one shows that the stream is different, or a first one of
    #: twice as many rows as all before.
    keeps_weight = False
    leaves_out = True  #: whether `cavity` knows each row without itself
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
        """The same rows, checked already, for this solver."""
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
        """The same rows seen through another channel; weights are kept."""
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
        """The same rows, to be solved from where `step` has ended, where that is a better start."""
        return self

    def keeping_weight(self) -> Self:
        """The same rows, counted in full where `adapted` has given all of them more noise."""
        new = self.weighted(
            self.noise_factor * (np.ones(1) if self.weights is None else self.weights)
        )
        new.keeps_weight = True
        return new

    def with_design(self, design: Design) -> Self:
        """The same observations of other rows."""
        new = self.like(self)
        new.design = design
        return new

    def repeats(self) -> tuple[Array, Array]:
        """How often rows with Gaussian noise were given, and what `adapted` left of it, (M,) each.

        An adapted row counts less because its noise is larger. So its squared residual over that
        noise is again expected to be one, and its density is that of the larger noise.
        """
        if self.channel is self.plain and self.channel.unweighted() is self.channel:
            return np.ones(self.rows), np.ones(self.rows)
        kinds = self.channel.unweighted(), self.plain, self.channel
        unit, plain, own = (np.asarray(kind.gaussian_noise()) for kind in kinds)
        given, left = np.broadcast_arrays(unit / plain, plain / own, self.y)[:2]
        return given, left

    def _repeated(self) -> float:
        """What the log-density of rows given several times has over that of their mean."""
        own = self.channel.gaussian_noise()
        if own is None or self.channel.unweighted() is self.channel:
            return 0.0
        given = self.repeats()[0]
        each = np.log(2.0 * np.pi * own) - given * np.log(2.0 * np.pi * own * given)
        return 0.5 * float(np.sum(each))

    def total(self, belief: Posterior, step: Step[Tilt, Moments, MemoryT]) -> Tilt:
        """All that is known of each coefficient after `step`."""
        return belief.total + step.tilt

    def cavity(self, step: Step[Tilt, Moments, MemoryT]) -> tuple[Array, Array]:
        """Mean and variance of each row . x without the row itself, (M,) each.

        What learning the noise needs. From the posterior of z backwards: the omega for which
        omega + V g(omega) is the mean of z.
        """
        z, V = self.design.forecast(step.estimate.mean, step.estimate.var)
        return self._backwards(z, V), V

    def _fitted(self, step: Step[Tilt, Moments, MemoryT]) -> Array:
        """The mean of each row . x, (M,)."""
        return self.design.times(step.estimate.mean)

    def _backwards(self, z: Array, V: Array) -> Array:
        """The omega for which z is the posterior mean of N(omega, V) seen through the channel."""
        omega = z
        for _ in range(1 if self.channel.gaussian_noise() is not None else NEWTON):  # 1 is exact
            g, curvature = self.channel.output(self.y, omega, V)
            rest = np.maximum(1.0 - V * curvature, np.finfo(np.float64).eps)
            omega = omega - (omega + V * g - z) / rest
        return omega

    def adapted(
        self, belief: Posterior, step: Step[Tilt, Moments, MemoryT], *, sound: bool
    ) -> tuple[Self, tuple[Adaptation, ...]] | None:
        """Outliers down-weighted, or more noise where the whole batch is in conflict; else None."""
        if not (np.isfinite(step.change) and self.plain.takes_weights):
            return None
        # A label of weight 10 is there ten times, and no more surprising than once.
        plain = self.plain if self.plain.shift_invariant else self.plain.unweighted()
        if self.noise_factor > 1.0:  # labels of any weight but 1 have no closed form
            plain = plain.weighted(np.full(self.rows, 1.0 / self.noise_factor))
        fitted, none, noise = self._fitted(step), np.zeros(self.rows), plain.gaussian_noise()
        alike = sound and self.weights is None and self.heavy_tailed is None
        if alike and noise is not None and plausible(np.abs(self.y - fitted) / np.sqrt(noise)):
            return None
        # A row alone may show that a sparse coefficient is not zero. It is then off by much without
        # itself, and explained with it.
        heavy = bool(self.heavy_tailed)
        unexplained = {row.row for row in outlying(plain, self.y, fitted, none, heavy)[0]}
        away, apart = list[Outlier](), True
        if unexplained:
            away, apart = outlying(plain, self.y, *self.cavity(step), heavy)
        if not apart and self.row_weights and self.heavy_tailed is None:
            new = self.like(self)
            new.weights, new.row_weights, new.heavy_tailed, new.noise_factor = None, {}, True, 1.0
            return new.with_channel(self.plain), ()
        few = max(1, int(FEW_OUTLIERS * self.rows))
        found = [row for row in away if row.row in unexplained and (apart or not heavy)]
        found = found if sound else carriers(found, few)
        weights, noisier = self.row_weights, self.noise_factor
        growing = noisier > 1.0 and ENOUGH_NOISE < step.health < np.inf
        if 0 < len(found) <= few and not growing:
            lighter = student_weights(found, self.row_weights)
            if lighter is None:
                return None
            weights = lighter
        elif growing or (not sound and np.isfinite(step.health)):
            noisier *= step.health
        else:
            return None
        each = np.full(self.rows, 1.0 / noisier)
        for row, weight in weights.items():
            each[row.row] *= weight
        new = self.weighted(each)
        new.row_weights, new.noise_factor = weights, noisier
        if self.row_weights and self.heavy_tailed is None:
            new.heavy_tailed = False  # later rounds, where little noise is left, do not judge again
        done = [Adaptation("noise", noisier)] if noisier > 1.0 else []
        return new, (*done, *(Adaptation("row", weight, row) for row, weight in weights.items()))

    def left_out_scores(self, step: Step[Tilt, Moments, MemoryT]) -> Array:
        """Log-probability of each row given all others, at most `BEYOND` deviations off."""
        got, best = self.channel.log_densities(self.y, *self.cavity(step))
        return np.asarray(np.maximum(got, best - 0.5 * BEYOND**2))


def plausible(away: Array) -> bool:
    """Whether `outlying` finds no row so many standard deviations away, as in most batches."""
    worst = float(away.max())
    below = np.count_nonzero(away < worst * MEDIAN / BEYOND)  # of a median too small for the worst
    return worst < PLAUSIBLE or (worst < BEYOND and 2 * int(below) < len(away))


def project(belief: Posterior, design: Design) -> tuple[Array, Array]:
    """Mean and variance of Phi x under the belief, with the correlations that it remembers."""
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
    """Mean and variance of the observations predicted for new rows, (M,) each.

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
    """By how many standard deviations the log-loss of new rows exceeds what the belief expects.

    Every prediction implies how large its own log-loss will be on average, and how much that
    varies. Rows from the stream the belief has learned score about 0 +- 1; after a change of
    coefficients or noise the score is large.

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
    """mean g^2 / mean(-dg): the residuals' power over what the belief expects of it."""
    return ratio(float(np.mean(np.square(g))), float(np.mean(curvature)))


def ratio(mean_square: float, mean_curvature: float) -> float:
    """The health figure of two means. Rows that say nothing (both zero) contradict nothing: 1."""
    if mean_curvature == 0.0:
        return 1.0 if mean_square == 0.0 else np.inf
    return mean_square / mean_curvature


def blind(g: Array, curvature: Array, V: Array) -> bool:
    """Whether rows z ~ N(omega, V) show nothing because they do not show the sign of z."""
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
    """Mean absolute change of the means, relative to the signal's scale as now believed."""
    scale = np.sqrt(new.power)
    change = float(np.mean(np.abs(new.mean - old.mean)))
    return change / scale if scale > 0.0 else change
