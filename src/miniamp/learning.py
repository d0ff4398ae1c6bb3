"""Hyper-parameters learned from the stream by EM, in one pass over the rows."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable
from functools import cache, partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from miniamp import checks
from miniamp.absorb import CONFLICT, Attempt, Step, iterated
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel, Predicted
from miniamp.evidence import AutoBatch, RobustBatch
from miniamp.evidence.base import DrawnRows, check_columns, project
from miniamp.info import Adaptation, PlainEvidence, Stop
from miniamp.model import (
    FAR_TOO_HIGH,
    LARGEST_FALL,
    Model,
    at_noise,
    expected_power,
    initial,
    noise_share,
    prior_power,
    secant,
    spread_of,
    still_known,
    within_bounds,
)
from miniamp.posterior import Moments, Posterior, Prior
from miniamp.tilt import Tilt

__all__ = ["Learn", "Model", "Solver", "initial"]

#: Rounds of EM on the first batch, which must find the orders of magnitude, and on a later one.
FIRST_ROUNDS, ROUNDS = 12, 3
#: A round that moves no hyper-parameter by more than this part of itself is the last, of the first
#: batch and of a later one, which moves them by less than chance does: 200 labels leave a variance
#: of the prior uncertain by 0.15.
SETTLED, SETTLED_LATER = 0.01, 0.05
#: Steps of EM for the prior in a round, at fixed tilts: they cost one pass over N numbers each.
PRIOR_STEPS = 5
#: Steps of EM for the noise of the first batch, at fixed cavities: EM is slow where the noise is
#: far below what is not known of the rows.
NOISE_STEPS = 30
#: Rows of which so many times the noise is not known have leverage 1 to rounding, and are left out.
LEVERED = 1e4
#: What one row that is well predicted tells of the logarithm of the noise: so much is known of it
#: before any batch. Rows that are hardly predicted tell next to nothing, and would move it by any
#: factor: 20 sparse rows once took it to a tenth in one round.
ONE_ROW = 0.5
#: What is known of the logarithm of that scale beforehand, one over a variance: within a factor
#: e^2 or so.
SCALE_KNOWN = 0.25
#: A round changes the scale at most by this factor, e.
LONGEST_STRETCH = 1.0
#: Rows that touch at most this share of the coefficients are solved for those alone.
FEW_TOUCHED = 0.5
#: How far the rows are solved in a round: hyper-parameters need no more digits than this.
INNER = Stop(max_iter=400, tol=1e-5)
#: Rows whose solution still moves by such a part of itself at its end have not been solved, and
#: hyper-parameters fitted to it would follow: AMP on features that are not independent.
UNSOLVED = 0.1
#: Labels narrow a belief by the square of their number at most. Labels without noise that
#: contradict each other leave nothing: a variance of 1e-33 at zero.
VANISHED = 1e-12

#: Makes evidence of (Phi, y, channel): `evidence.Batch`, `RobustBatch`, `AutoBatch`.
Solver = Callable[[Given, Given, Channel], DrawnRows[Any]]


class _Round(NamedTuple):
    """One round of EM: what it used, what it found, and how."""

    posterior: Posterior
    rows: DrawnRows[Any]
    attempt: Attempt[Posterior, Tilt, Moments, Any]
    prior: Prior
    channel: Channel
    number: int
    stretch: float  #: logarithm of the factor by which all scales of z were changed so far
    more: float  #: and by which they are to be changed next
    told: tuple[float, float]  #: what the rows told about it, and about the noise
    health: float  #: of a later batch at the noise before it, which this batch must not contradict
    log_evidence: float  #: of a later batch under the hyper-parameters before it


LearnStep = Step[Tilt, Moments, _Round | None]


def _unchanged(before: _Round) -> LearnStep:
    """The previous round as the last one, if the rows cannot be solved with what it learned.

    Sparse coefficients of 3,000 features and 100 rows once went on from such a solution: their
    prior grew to a variance of 1e34 in the next round.
    """
    kept = before._replace(prior=before.posterior.prior, channel=before.rows.plain, more=0.0)
    return before.attempt.step._replace(memory=kept, change=0.0, health=before.health, ended=True)


class Learn(PlainEvidence):
    """Rows (Phi, y) from which a `Model` learns its coefficients and its hyper-parameters.

    An iteration of `absorb` is a round of EM: the rows are solved with the hyper-parameters as they
    are, the prior is fitted to all tilts and the channel to the rows as predicted without
    themselves. The prior needs no history, because the tilts hold all data; the noise is averaged
    over the stream, each batch by its Fisher information: little while its rows were hardly known.

    Labels and counts have no noise to learn but a scale of z, which the prior's width sets. EM is
    stuck there: a label absorbed while z had the power V becomes a pseudo-observation of size
    sqrt(V), which then supports that width. So the whole belief, prior and all that was seen, is
    stretched to the scale at which left-out rows are predicted best (`_stretch`).

    Parameters
    ----------
    Phi : (M, N) array, scipy.sparse matrix or Design
        The rows.
    y : (M,) array
        What was observed.
    solver : callable
        What makes evidence of the rows: `evidence.AutoBatch` by default.
    fixed : collection of str
        Hyper-parameters of the prior that stay as they are.
    noise : bool
        Whether the channel is learned. Only channels that observe z on its own scale are: the noise
        of a label cannot be told from the scale of the coefficients.
    """

    def __init__(
        self,
        Phi: Given,
        y: Given,
        solver: Solver = AutoBatch,
        *,
        fixed: Collection[str] = (),
        noise: bool = True,
    ) -> None:
        self.Phi, self.y, self.solver = Phi, y, solver
        self.fixed, self.noise = fixed, noise
        self._evidence: DrawnRows[Any] | None = None
        #: The coefficients that the rows touch, where these are few, and the tilt of others.
        self._touched: NDArray[np.intp] | None = None
        self._others: Tilt | None = None
        self.rows = len(checks.numeric("y", y))

    def start(self, model: Model) -> tuple[Moments, _Round | None]:
        return Moments(np.zeros(0), np.zeros(0)), None  # a round starts from the model itself

    def refine(self, model: Model, estimate: Moments, memory: _Round | None) -> LearnStep:
        if memory is None:
            rows = self._rows(model)
            prior, channel = model.posterior.prior, model.channel
            if not model.batches:
                prior, first = initial(model, rows, self.fixed)
                channel = first if self.noise else channel
            stretch, number, health, log_evidence = 0.0, 1, np.nan, np.nan
        else:
            rows, prior, channel = memory.rows, memory.prior, memory.channel
            # Rounds of later batches are few, and begin near their end.
            rows = rows if model.batches else rows.resuming(memory.attempt.step)
            stretch, number = memory.stretch + memory.more, memory.number + 1
            health, log_evidence = memory.health, memory.log_evidence
        rows = rows.with_channel(channel)
        some = self._touched
        posterior = model.posterior if some is None else model.posterior.at(some)
        posterior = posterior.with_prior(prior)
        if channel is not model.channel:
            posterior = at_noise(posterior, model.channel, channel)
        posterior = posterior.stretched(np.exp(stretch)) if stretch else posterior
        attempt = iterated(posterior, rows, INNER, conclude=False)
        step = attempt.step
        with np.errstate(over="ignore"):  # AMP that diverges ends where squares overflow
            finite = bool(np.isfinite(np.sum(np.square(step.estimate.mean))))
        solved = attempt.info.converged or (step.change < UNSOLVED and np.isfinite(step.health))
        if not finite or not solved:
            failed = step._replace(memory=None, change=np.nan)
            return failed if memory is None else _unchanged(memory)
        if number == 1 or model.batches == 0:
            health = step.health
            log_evidence = rows.log_evidence(posterior, step) if model.batches else np.nan
        known = 2.0 * model.noise_known if self.noise and model.noise_known > 0.0 else np.inf
        total = self._told(rows.total(posterior, step), stretch)
        learned = self._fitted_prior(prior, total)
        if model.batches and memory is None and health > CONFLICT:
            # These may be the first coefficients that are not zero: EM cannot leave a narrow prior.
            wide = self._fitted_prior(initial(model, rows, self.fixed)[0], total)
            gain = wide.log_partition(total.A, total.B) - learned.log_partition(total.A, total.B)
            if float(np.sum(gain)) > 0.0:
                told, none = (0.0, 0.0), np.nan
                again = _Round(posterior, rows, attempt, wide, channel, 0, 0, 0, told, none, none)
                return self.refine(model, estimate, again)
        cavity = cache(lambda: rows.cavity(step))
        channel, noise_told = self._channel(model, rows, cavity, memory)
        more, scale_told = self._stretch(model, rows, cavity, stretch)
        bounded = rows.channel.predicts_probabilities
        vanished = bounded and np.mean(step.estimate.var) < VANISHED * posterior.mean_variance
        if vanished or not np.isfinite(more):  # without noise
            return step._replace(memory=None, change=np.nan)
        learned = self._rescaled(model, rows, learned, total, scale_told)
        learned = learned.rescaled(float(np.exp(more)), self.fixed) if more else learned
        change = max(learned.change_from(prior), channel.change_from(rows.plain))
        last = number >= (ROUNDS if model.batches else FIRST_ROUNDS)
        told = scale_told, noise_told
        hyper = learned, channel, number, stretch, more, told, health, log_evidence
        done = _Round(posterior, rows, attempt, *hyper)
        # Rounds are cut short on purpose: what must have converged is the solution of the rows.
        settled = change < (SETTLED_LATER if model.batches else SETTLED)
        return step._replace(
            memory=done,
            change=change,
            health=1.0 if rows.outvotes else health,
            carried_by=min(step.carried_by, known),
            bounded=bounded,
            solved=not step.ended and (settled or (last and attempt.info.converged)),
            ended=last or step.ended,
        )

    def log_evidence(self, model: Model, step: LearnStep) -> float:
        done = step.memory
        assert done is not None  # the change is finite
        if model.batches:
            return done.log_evidence
        return done.rows.log_evidence(done.posterior, done.attempt.step)

    def conclude(self, model: Model, step: LearnStep) -> Model:
        done = step.memory
        assert done is not None  # the change is finite
        belief = done.rows.conclude(done.posterior, done.attempt.step)
        if self._touched is not None:
            whole = model.posterior.stretched(np.exp(done.stretch))
            belief = whole.joined(self._touched, belief)
        belief = at_noise(belief.with_prior(done.prior), done.rows.plain, done.channel)
        known = model.scale_known + done.told[0], model.noise_known + done.told[1]
        past = max(model.spread, spread_of(done.rows)), done.rows.noisier > 1.0
        return Model(belief, done.channel, model.batches + 1, *known, *past)

    def remedies(self) -> Iterable[tuple[str, Self]]:
        careful = copy.copy(self)
        careful.solver = RobustBatch
        careful._evidence = None if self._evidence is None else RobustBatch.like(self._evidence)
        yield "the robust solver", careful

    def adapted(
        self, model: Model, step: LearnStep, *, sound: bool
    ) -> tuple[Self, tuple[Adaptation, ...]] | None:
        """As the rows' own evidence adapts, under the hyper-parameters of the last round."""
        done = step.memory
        if done is None:
            return None
        last = done.attempt.step._replace(health=step.health)
        better = done.rows.adapted(done.posterior, last, sound=sound)
        if better is None:
            return None
        new = copy.copy(self)
        noisier = better[0].noisier > 1.0 and self.noise and better[0].channel.shift_invariant
        new._evidence = better[0].outvoting() if noisier and model.contradicted else better[0]
        return new, better[1]

    def left_out_scores(self, step: LearnStep) -> Array:
        done = step.memory
        assert done is not None  # the change is finite
        return done.rows.left_out_scores(done.attempt.step)

    def diagnosis(self) -> str:
        return "" if self._evidence is None else self._evidence.diagnosis()

    def _rows(self, model: Model) -> DrawnRows[Any]:
        """The rows under the model's channel; they are checked, and their solver chosen, once."""
        if self._evidence is None:
            self._evidence = self._narrowed(model, self.solver(self.Phi, self.y, model.channel))
        return self._evidence.with_channel(model.channel)

    def _narrowed(self, model: Model, rows: DrawnRows[Any]) -> DrawnRows[Any]:
        """The rows without the columns that are empty, where these are many."""
        posterior, (where, narrow) = model.posterior, rows.design.used_columns()
        few = len(where) < FEW_TOUCHED * posterior.size and posterior.memory == 0
        if not few or posterior.prior.at(where, posterior.size) is not posterior.prior:
            return rows
        check_columns(rows.design, posterior)
        A = np.broadcast_to(posterior.tilt.A, posterior.size)
        told = A > 0.0
        told[where] = False
        others = np.flatnonzero(told)  # few of many: a mask would be read twice
        self._touched, self._others = where, Tilt(A[others], posterior.tilt.B[others])
        return rows.with_design(narrow)

    def _fitted_prior(self, prior: Prior, total: Tilt) -> Prior:
        for _ in range(PRIOR_STEPS):
            prior = prior.fitted(total.A, total.B, self.fixed)
        return prior

    def _told(self, total: Tilt, stretch: float) -> Tilt:
        """The tilts of all coefficients of which anything is known.

        The others have the distribution of the prior, whatever it is: they only delay EM.
        """
        if self._others is None:
            return total
        before = self._others.stretched(np.exp(stretch))
        return Tilt(np.append(before.A, total.A), np.append(before.B, total.B))

    def _channel(
        self, model: Model, rows: DrawnRows[Any], cavity: Predicted, last: _Round | None
    ) -> tuple[Channel, float]:
        """The channel with the noise of all rows so far, and the information of these about it.

        A step of Fisher scoring from the noise so far. Of the logarithm of Delta a row tells
        (Delta/(Delta + V))^2/2, at the noise so far and not at that which the batch itself would
        fit: a lucky batch would count more, and the noise come out too low by (M - 4)/M. Rows of
        leverage 1 tell nothing and are left out. The first batch is fitted by EM.
        """
        if not (self.noise and rows.channel.shift_invariant):
            earlier = partial(project, model.posterior, rows.design) if model.batches else None
            given = rows.y, cavity, earlier, rows.weights
            return model.channel.seeing(*given) if self.noise else rows.plain, 0.0
        first, (omega, V) = model.batches == 0, cavity()
        clear = np.flatnonzero(LEVERED / rows.plain.unweighted().fisher() > V)
        if clear.size == 0:
            return within_bounds(model, rows, rows.plain if first else model.channel), 0.0
        where = clear if clear.size < rows.rows else slice(None)  # all, nearly always: no copies
        y, omega, V, seen = rows.y[where], omega[where], V[where], rows.channel.at(where)
        fitted = seen.fitted(y, omega, V)
        for _ in range(NOISE_STEPS if first else 0):
            fitted = fitted.fitted(y, omega, V)
        judge = fitted if first else seen
        share = np.maximum(noise_share(judge, y, omega, V), 0.0)
        weights = np.ones(len(y)) if rows.weights is None else np.minimum(rows.weights[where], 1.0)
        told = 0.5 * float(np.sum(weights * np.square(share)))
        half = 0.5 * float(np.sum(weights))
        before, step_size, back = model.noise_known, 1.0, 0.0
        past, old, new = (one.unweighted() for one in (model.channel, seen, fitted))
        if not first:
            # In a first round that is known beforehand, in a fifth of the time.
            shown = np.mean(old.fisher() / new.fisher()) - 1.0
            if rows.plain is not model.channel or told + half * shown < told / FAR_TOO_HIGH:
                at_past = rows.with_channel(model.channel).channel.at(where)
                before *= still_known(at_past, y, omega, V, weights)
            known = before + ONE_ROW + told
            step_size, back = half / known, (before + ONE_ROW) / known
        was, now, far = old.parameters(), new.parameters(), past.parameters()
        values = {n: v + step_size * (now[n] - v) + back * (far[n] - v) for n, v in was.items()}
        before_that = (old if last is None else last.rows.plain.unweighted()).parameters()
        values = {n: secant(before_that[n], was[n], v) for n, v in values.items()}
        values = {name: np.maximum(v, was[name] / LARGEST_FALL) for name, v in values.items()}
        learned = within_bounds(model, rows, rows.plain.replaced(**values))
        if not first:
            # What earlier rows told, at the noise as it is now: less of a lower one, the less they
            # were predicted.
            fall = float(np.mean(past.fisher() / learned.unweighted().fisher()))
            before *= fall ** (2.0 * (1.0 - min(float(np.mean(share)), 1.0)))
        return learned, told + before - model.noise_known

    def _rescaled(
        self, model: Model, rows: DrawnRows[Any], prior: Prior, total: Tilt, told: float
    ) -> Prior:
        """The prior at the most likely scale of the coefficients, by a step of Fisher scoring.

        EM alone crawls where little is known of each coefficient, and where all of them look like
        noise it ends at a width of zero, from which it never returns: labels absorbed there say
        nothing of larger widths. So the scale has a prior, that of the first guess within a factor
        e^2 or so. Of its logarithm the rows tell at least what each of them tells alone (`told`)
        and what each coefficient tells alone.
        """
        if not prior.free_widths(self.fixed):
            return prior
        slope = prior.scale_slope(total.A, total.B)
        ratio = prior_power(prior, model.posterior.size, rows.design) / expected_power(model, rows)
        known = max(model.scale_known + told, float(np.sum(np.square(slope))))
        step = float(np.sum(slope)) - SCALE_KNOWN * 0.5 * np.log(ratio)
        step = np.clip(step / (SCALE_KNOWN + known), -LONGEST_STRETCH, LONGEST_STRETCH)
        return prior.rescaled(float(np.exp(step)), self.fixed)

    def _stretch(
        self, model: Model, rows: DrawnRows[Any], cavity: Predicted, so_far: float
    ) -> tuple[float, float]:
        """By how much more to stretch all scales of z (a logarithm), and the information about it.

        A step of Newton on sum log Z(y, s omega, s^2 V), the log-likelihood of each row predicted
        without itself; its slope in log s is omega g + V (g^2 + g'). Batches before count by their
        information, so that it settles like an average. The slope counts by the part of z that is
        unknown: what is known well needs no prior, and its scale is not the prior's.
        """
        free = model.posterior.prior.free_widths(self.fixed)
        if not free or (rows.channel.shift_invariant and not rows.leaves_out):
            return 0.0, 0.0
        omega, V = cavity()
        g, curvature = rows.channel.output(rows.y, omega, V)
        if rows.channel.shift_invariant:
            return 0.0, 2.0 * float(np.sum(np.square(V * curvature)))
        slope = omega * g + V * (np.square(g) - curvature)
        told, before = float(np.sum(np.square(slope))), SCALE_KNOWN + model.scale_known
        power = float(np.sum(np.square(omega) + V))
        unknown = float(np.sum(V)) / power if power > 0.0 else 0.0
        more = (unknown * float(np.sum(slope)) - before * so_far) / (before + told)
        return float(np.clip(more, -LONGEST_STRETCH, LONGEST_STRETCH)), told
