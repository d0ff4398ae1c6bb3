"""A batch of rows of several classes, absorbed into one posterior of all classes' coefficients."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple, Self

import numpy as np

from miniamp import checks
from miniamp.absorb import Step
from miniamp.arrays import Array, Given
from miniamp.channels.softmax import POINTS, Softmax
from miniamp.designs import as_design
from miniamp.evidence.linear import TINY, Sites
from miniamp.evidence.outlying import BEYOND, FEW_OUTLIERS, student_weights
from miniamp.evidence.row_scores import RowScores, SoftmaxPosterior, TiedScores
from miniamp.info import Adaptation, Outlier, PlainEvidence
from miniamp.posterior import Moments

#: Steps of the means at fixed variances, and the change in standard deviations at which they end.
#: Fewer leave means from which the next batches do not recover: with two, MNIST diverged, with 20
#: ordered classes (a feature cut into four bins) had a log loss of .086 instead of .020.
STEPS, STILL = 40, 5e-3
#: Points and steps of a rough solution. If 100 classes (1000 rows of 5 features) find their scale
#: by it they take 5 s instead of 17, for the same log loss; few classes lost up to a half.
ROUGH = 16, 10
#: How often a step is halved, and the step after which the curvature is computed anew.
HALVINGS, SHORT = 8, 0.2
#: A gain that is less than this part of the whole is rounding: averages are in single precision.
ROUNDING = 1e-6
#: Solved once no score moves by more than this part of its standard deviation (root mean square).
#: With 0.02 MNIST takes 1.3 times as long; it, iris, wine and digits differ by less than 1 %.
ENOUGH = 0.05
#: So many iterations are all: MNIST takes 2 to 4, and more only while its scale is being found.
LONGEST = 10
#: A change of the logarithm of a precision by more goes half of the way, as one that turns round.
LONG = 1.0
#: A row's site has at least this precision: a score that is certain says nothing.
FAINTEST = 1e-6
#: What is known of the logarithm of the scale of the scores beforehand, as in `learning`.
SCALE_KNOWN = 0.25
#: A batch changes the logarithm of the scale by steps of this, so many at most.
SCALE_STEP, MOST_STEPS = 0.1, 5


class SoftmaxState(NamedTuple):
    """What goes from iteration to iteration."""

    spaces: tuple[RowScores, ...]
    pull: Array  #: (M, K) of the rows on their scores: weight times label less probability
    sites: Sites
    left_out: Moments  #: the scores of each row without itself, (M, K) each
    right: Array  #: (M,) probability that a label is not wrong
    channel: Softmax  #: what is known of wrong labels with these rows
    iterations: int = 0
    tied: tuple[TiedScores, ...] = ()  #: the spaces under the sites
    move: Array = np.zeros(0)  #: of the logarithm of the precisions, (M, K)


SoftmaxStep = Step[Sites, Moments, SoftmaxState]


class SoftmaxBatch(PlainEvidence):
    """Rows of one of K classes each, for a `SoftmaxPosterior`: multinomial logistic regression.

    The posterior is approximated by one Gaussian per class. Scores z_k = Phi x_k of a row are
    N(m_k, v_k); its labels pull on them by y_k - E p_k, and are stored as Gaussian sites of
    precision K/(K - 1) E p_k (1 - p_k), with averages of the softmax p over the scores' own
    uncertainty: without it the belief is too bold. Means and variances are iterated to their fixed
    point, means by Newton steps that a majoriser of the curvature, 2 E p_k (1 - p_k), makes safe.

    With up to N rows per batch O(M N^2 + N^3) per class, and O(M^3) per iteration.

    Parameters
    ----------
    Phi : (M, N) array, scipy.sparse matrix or Design
        The rows.
    labels : (M,) array
        The class of each, 0 to K - 1.
    weights : (M,) array, optional
        How often each row counts.
    learn_scale : bool
        Whether the scale of all scores is learned from how the belief before, of other rows,
        predicted these.
    doubt : bool
        Whether labels may be wrong, by the share of `Softmax` that is learned.
    rough : bool
        Whether scores are averaged over fewer points, and means settle in fewer steps.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import absorb, priors
    >>> x = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> rows = np.hstack([x, np.ones((200, 1))])
    >>> labels = np.digitize(x[:, 0], [-0.5, 0.0, 0.5])  # ordered classes
    >>> start = SoftmaxPosterior.start(priors.Gaussian(var=900.0), classes=4, size=2)
    >>> belief, _ = absorb(start, SoftmaxBatch(rows, labels))
    >>> chances = belief.probabilities(rows)
    >>> bool(np.mean(np.log(chances[np.arange(200), labels])) > -0.2)
    True
    """

    row_weights: Mapping[Outlier, float] = MappingProxyType({})

    def __init__(
        self,
        Phi: Given,
        labels: Given,
        weights: Array | None = None,
        *,
        learn_scale: bool = False,
        doubt: bool = True,
        rough: bool = False,
    ) -> None:
        self.design = as_design(Phi)
        found = checks.vector("labels", checks.numeric("labels", labels), self.design.shape[0])
        self.labels = found.astype(np.int64)
        if (self.labels != found).any() or self.labels.min() < 0:
            got = f"{found.min():g} to {found.max():g}"
            raise checks.refuse("labels", got, "0, 1, 2, ...", "number them")
        self.weights = np.ones(len(found)) if weights is None else np.asarray(weights)
        self.given_weights, self.learn_scale = self.weights, learn_scale
        self.doubt, self.channel, self.rows = doubt, Softmax(), len(found)
        self.points, self.steps = ROUGH if rough else (POINTS, STEPS)

    def start(self, belief: SoftmaxPosterior) -> tuple[Moments, SoftmaxState]:
        K = len(belief.posteriors)
        if self.labels.max() >= K:
            raise checks.refuse("labels", f"{self.labels.max()}", f"0 to {K - 1}", "add classes")
        scores = belief.scores(self.design)
        spaces, nothing = belief.spaces(self.design), np.zeros_like(scores.mean)
        known = np.ones(self.rows), belief.channel
        state = SoftmaxState(spaces, nothing, Sites(nothing, nothing), scores, *known)
        # When so many rows have been seen, this part is left of what was not known of them.
        left = min(1.0, belief.size / self.rows)
        return Moments(scores.mean, left * scores.var), state

    def refine(
        self, belief: SoftmaxPosterior, estimate: Moments, memory: SoftmaxState
    ) -> SoftmaxStep:
        try:
            return self._refined(belief, estimate, memory)
        except np.linalg.LinAlgError:  # beyond working precision: absorb reports it by name
            return Step(memory.sites, estimate, memory, change=np.nan, health=np.nan)

    def _refined(
        self, belief: SoftmaxPosterior, estimate: Moments, state: SoftmaxState
    ) -> SoftmaxStep:
        """The sites of all rows from their scores, and the scores that these give."""
        K, (omega, V) = len(belief.posteriors), estimate
        truth, weights = self._truth(K), (self.weights * state.right)[:, None]
        curvature = self.channel.joint_output(omega, V, self.points)[1]
        precision = np.maximum(K / (K - 1.0) * weights * curvature, FAINTEST)
        move, share = np.zeros_like(precision), np.ones_like(precision)
        if state.iterations:
            move = np.log(precision / state.sites.precision)
            # Half of the way where it is long or turns round: else it may never end.
            share[(np.abs(move) > LONG) | (move * state.move < 0.0)] = 0.5
            move *= share
            precision = state.sites.precision * np.exp(move)
        tied = tuple(one.under(t) for one, t in zip(state.spaces, precision.T, strict=True))
        V = np.stack([one.var for one in tied], axis=1)
        omega, pull = self._settled(state, tied, omega, V)
        # A row's scores without its own site.
        rest = np.stack([one.rest for one in tied], axis=1)
        left_out = Moments(omega - V * pull / rest, V / rest)
        chances = self.channel.joint_output(*left_out, self.points)[0]
        known = self._doubted(belief, np.sum(truth * chances, axis=1))
        error, expected = weights * np.square(truth - chances), weights * chances * (1.0 - chances)
        change = _deviation(omega - estimate.mean, V)
        wider = float(np.mean(np.abs(V / estimate.var - 1.0) / share))
        count, sites = state.iterations + 1, Sites(precision, pull + precision * omega)
        return Step(
            tilt=sites,
            estimate=Moments(omega, V),
            memory=SoftmaxState(state.spaces, pull, sites, left_out, *known, count, tied, move),
            change=change,
            # One wrong label among certain ones is an outlier, not a conflict of the batch.
            health=float((1.0 + np.sum(error)) / (1.0 + np.sum(expected))),
            solved=max(change, wider) < ENOUGH,
            ended=count >= LONGEST,
            solver="softmax",
            reason="one posterior of all classes",
            bounded=True,
            effective_rows=float(np.sum(expected) ** 2 / max(np.sum(np.square(expected)), TINY)),
        )

    def _doubted(self, belief: SoftmaxPosterior, left_out: Array) -> tuple[Array, Softmax]:
        """Probability that each label is right, (M,), and what is known of wrong ones.

        Rows left out by linear response are predicted too boldly where they are few: where labels
        then seem wrong, a label tells of it only as far as the belief before the batch, which knows
        none of them, finds it improbable too. Those of a new class support each other.
        """
        if not self.doubt:
            return np.ones(self.rows), belief.channel
        K = len(belief.posteriors)
        seen = belief.channel.told_by(left_out, K, self.weights)
        if belief.batches and seen.doubtful:
            before = self.channel.joint_probabilities(*belief.scores(self.design))
            chances = np.maximum(left_out, before[np.arange(self.rows), self.labels])
            seen = belief.channel.told_by(chances, K, self.weights)
        return seen.right(left_out, K), seen

    def _settled(
        self, state: SoftmaxState, tied: tuple[TiedScores, ...], omega: Array, V: Array
    ) -> tuple[Array, Array]:
        """Means of the scores, and the pulls that give them, at these variances, (M, K) each.

        They maximise E log p_y less the energy of the move, a concave function. A step that would
        lower it is too long, since the curvature has changed on the way: half of it is tried, and
        the next iteration starts from there.
        """
        K, start = omega.shape[1], np.stack([one.omega for one in state.spaces], axis=1)
        truth, weights = self._truth(K), (self.weights * state.right)[:, None]

        def gain(omega: Array, pull: Array) -> tuple[float, Array]:
            p, _, total = self.channel.joint_output(omega, V, self.points)
            fit = np.sum(weights[:, 0] * (np.sum(truth * omega, axis=1) - total))
            return float(fit - 0.5 * np.vdot(pull, omega - start)), weights * (truth - p)

        pull = state.pull
        best, wanted = gain(omega, pull)
        for _ in range(self.steps):
            moves = [one.moved(a) for one, a in zip(tied, (wanted - pull).T, strict=True)]
            shift, lift = (np.stack(part, axis=1) for part in zip(*moves, strict=True))
            step = 0.5 * K / (K - 1.0)
            for _ in range(HALVINGS):
                now = gain(omega + step * shift, pull + step * lift)
                if now[0] > best - ROUNDING * abs(best):
                    break
                step *= 0.5
            omega, pull, (best, wanted) = omega + step * shift, pull + step * lift, now
            if _deviation(step * shift, V) < STILL or step < SHORT:
                break
        return omega, pull

    def log_evidence(self, belief: SoftmaxPosterior, step: SoftmaxStep) -> float:
        """The variational lower bound: E log p_y less the relative entropy from the belief."""
        (omega, V), state = step.estimate, step.memory
        start = np.stack([one.omega for one in state.spaces], axis=1)
        total = self.channel.joint_output(omega, V, self.points)[2]
        log_chance, wrong = omega[np.arange(self.rows), self.labels] - total, state.channel.wrong
        fit = self.weights @ np.log((1.0 - wrong) * np.exp(log_chance) + wrong / omega.shape[1])
        moved = np.vdot(state.pull, omega - start) - np.vdot(state.sites.precision, V)
        return float(fit - 0.5 * (sum(one.log_det for one in state.tied) + moved))

    def conclude(self, belief: SoftmaxPosterior, step: SoftmaxStep) -> SoftmaxPosterior:
        sites, state = step.tilt, step.memory
        each = zip(state.spaces, state.tied, sites.precision.T, sites.linear.T, strict=True)
        own = tuple(space.absorbed(Sites(t, b), tied) for space, tied, t, b in each)
        new = replace(belief, posteriors=own, batches=belief.batches + 1, channel=state.channel)
        if not self.learn_scale or belief.batches == 0:
            return new
        stretch, told = self._stretch(belief, belief.scores(self.design))
        known = replace(new, scale_known=belief.scale_known + told)
        return known.rescaled(float(np.exp(stretch))) if stretch else known

    def adapted(
        self, belief: SoftmaxPosterior, step: SoftmaxStep, *, sound: bool
    ) -> tuple[Self, tuple[Adaptation, ...]] | None:
        """Rows with improbable labels down-weighted as by a Student t; None if there are none."""
        if not np.isfinite(step.change):
            return None
        log_chance = self._log_chances(step.memory.left_out)
        best, got = log_chance.max(axis=1), log_chance[np.arange(self.rows), self.labels]
        deviations = np.sqrt(2.0 * (best - got))
        where = np.flatnonzero(deviations > BEYOND)
        if not 0 < len(where) <= max(1.0, FEW_OUTLIERS * self.rows):
            return None
        guess = log_chance.argmax(axis=1)
        each = zip(where, self.labels[where], guess[where], deviations[where], strict=True)
        away = [Outlier(int(i), float(y), float(g), float(d)) for i, y, g, d in each]
        found = student_weights(away, self.row_weights)
        if found is None:
            return None
        new = copy.copy(self)
        new.row_weights, new.weights = found, self.given_weights.copy()
        for row, weight in found.items():
            new.weights[row.row] *= weight
        return new, tuple(Adaptation("row", weight, row) for row, weight in found.items())

    def left_out_scores(self, step: SoftmaxStep) -> Array:
        log_chance = self._log_chances(step.memory.left_out)
        got = log_chance[np.arange(self.rows), self.labels]
        return np.asarray(np.maximum(got, log_chance.max(axis=1) - 0.5 * BEYOND**2))

    def _truth(self, classes: int) -> Array:
        return np.asarray(self.labels[:, None] == np.arange(classes), dtype=np.float64)

    def _log_chances(self, scores: Moments, scale: float = 1.0) -> Array:
        chances = self.channel.joint_probabilities(scale * scores.mean, scale**2 * scores.var)
        return np.asarray(np.log(np.maximum(chances, TINY)))

    def _stretch(self, belief: SoftmaxPosterior, scores: Moments) -> tuple[float, float]:
        """By how much to stretch all scores (a logarithm), and the information about it.

        The maximum of the log-probability that the belief before gave to the rows, less what
        earlier rows contributed. As in `learning.Learn`, a label absorbed while the scores had some
        scale supports that scale, so that the evidence of the prior's width cannot be used: with it
        (MacKay's rule) MNIST ended at scores of zero.
        """
        each, before = (np.arange(self.rows), self.labels), SCALE_KNOWN + belief.scale_known

        @functools.cache
        def logs(k: int) -> Array:
            return self._log_chances(scores, float(np.exp(k * SCALE_STEP)))[each]

        def gain(k: int) -> float:
            return float(self.weights @ logs(k) - 0.5 * before * (k * SCALE_STEP) ** 2)

        best, way = 0, 1 if gain(1) > gain(-1) else -1
        while abs(best) < MOST_STEPS and gain(best + way) > gain(best):
            best += way
        slope = (logs(1) - logs(-1)) / (2.0 * SCALE_STEP)
        return best * SCALE_STEP, float(np.sum(np.square(self.weights * slope)))


def _deviation(moved: Array, V: Array) -> float:
    """How far scores went, in their standard deviations; what all classes share does not count."""
    centred = moved - moved.mean(axis=1, keepdims=True)
    return float(np.sqrt(np.mean(np.square(centred) / V)))
