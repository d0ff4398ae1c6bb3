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
    Model,
    at_noise,
    expected_power,
    initial,
    noise_step,
    prior_power,
    target_variance,
)
from miniamp.posterior import Moments, Posterior, Prior
from miniamp.tilt import Tilt

__all__ = ["Learn", "Model", "Solver", "initial"]

#: Rounds of EM on the first batch, which must find the orders of magnitude, and on a later one.
FIRST_ROUNDS, ROUNDS = 12, 3
#: EM has settled once a round changes no hyper-parameter by more than this part of itself, on the
#: first batch and on a later one. Later batches change them by less than chance does: 200 labels
#: leave a variance of the prior uncertain by 0.15.
SETTLED, SETTLED_LATER = 0.01, 0.05
#: Steps of EM for the prior in a round, at fixed tilts: they cost one pass over N numbers each.
PRIOR_STEPS = 5
#: Fisher information on the logarithm of the scale of z before any batch: the scale is expected to
#: be within a factor e^2 or so of the initial one.
SCALE_KNOWN = 0.25
#: A round changes the logarithm of the scale at most by this.
LARGEST_LOG_STEP = 1.0
#: Rows that use at most this share of the coefficients are solved for those alone.
FEW_USED = 0.5
#: How far the rows are solved in a round: hyper-parameters need no more digits than this.
INNER = Stop(max_iter=400, tol=1e-5)
#: A solution whose last iteration still changed it by such a part of itself is discarded, since
#: hyper-parameters fitted to it would follow it: AMP on features that are not independent.
UNSOLVED = 0.1
#: Labels narrow a posterior by the square of their number at most. Labels without noise that
#: contradict each other leave nothing: a variance of 1e-33 at zero.
VANISHED = 1e-12

#: Makes evidence of (Phi, y, channel): `evidence.Batch`, `RobustBatch`, `AutoBatch`.
Solver = Callable[[Given, Given, Channel], DrawnRows[Any]]


class _Hyper(NamedTuple):
    """The hyper-parameters of a round of EM."""

    prior: Prior
    channel: Channel
    log_scale: float = 0.0  #: logarithm of the factor of all scales of z since the batch came


class _Round(NamedTuple):
    """A round of EM: the rows solved under some hyper-parameters, and those fitted to that."""

    used: _Hyper
    learned: _Hyper
    number: int
    posterior: Posterior  #: that before the batch, under the hyper-parameters used
    rows: DrawnRows[Any]
    attempt: Attempt[Posterior, Tilt, Moments, Any]
    scale_information: float = 0.0  #: of the batch, on the logarithm of the scale of z
    noise_information: float = 0.0  #: by which that on the logarithm of the noise changes
    #: Of a later batch under the noise before it, which this batch must not contradict.
    health: float = np.nan
    log_evidence: float = np.nan  #: of a later batch under the hyper-parameters before it


LearnStep = Step[Tilt, Moments, _Round | None]


def _failed(step: Step[Tilt, Moments, Any]) -> LearnStep:
    """The step of rows that cannot be solved."""
    return step._replace(memory=None, change=np.nan)


def _unchanged(last: _Round) -> LearnStep:
    """The previous round as the final one, if the rows cannot be solved with what it learned.

    Learning that resumed from such a solution, of 3,000 sparse coefficients and 100 rows, let their
    prior grow to a variance of 1e34 in the next round.
    """
    kept = last._replace(learned=last.used)
    return last.attempt.step._replace(memory=kept, change=0.0, health=last.health, ended=True)


def _is_solved(attempt: Attempt[Posterior, Tilt, Moments, Any]) -> bool:
    """Whether the rows have a finite solution that has nearly converged."""
    step = attempt.step
    with np.errstate(over="ignore"):  # AMP that diverges ends where squares overflow
        finite = bool(np.isfinite(np.sum(np.square(step.estimate.mean))))
    near = step.change < UNSOLVED and np.isfinite(step.health)
    return finite and bool(attempt.info.converged or near)


class Learn(PlainEvidence):
    """Rows (Phi, y) from which a `Model` learns its coefficients and its hyper-parameters.

    An iteration of `absorb` is a round of EM: the rows are solved under the present
    hyper-parameters, then the prior is fitted to all tilts and the channel to the left-out
    predictions of the rows. The prior needs no history, because the tilts hold all data. The noise
    is averaged over the stream, each batch weighted by its Fisher information, which is small
    while its rows are hardly predicted.

    Labels and counts have no noise to learn but a scale of z, which the width of the prior sets. EM
    is stuck there: a label absorbed while z had the power V becomes a pseudo-observation of size
    sqrt(V), which then supports that width. So the whole posterior, prior and data, is rescaled to
    the scale at which left-out rows are predicted best (`_scale_step`).

    Parameters
    ----------
    Phi : (M, N) array, scipy.sparse matrix or Design
        Rows of the batch.
    y : (M,) array
        Observations.
    solver : callable
        Makes evidence of the rows: `evidence.AutoBatch` by default.
    fixed : collection of str
        Names of hyper-parameters of the prior that are not learned.
    noise : bool
        Whether the channel is learned. Only channels that observe z on its own scale are: the noise
        of a label cannot be distinguished from the scale of the coefficients.
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
        #: The coefficients that the rows use, where these are few, and the tilt of the unused ones.
        self._used: NDArray[np.intp] | None = None
        self._unused: Tilt | None = None
        self.rows = len(checks.numeric("y", y))

    def start(self, model: Model) -> tuple[Moments, _Round | None]:
        return Moments(np.zeros(0), np.zeros(0)), None  # a round starts from the model itself

    def refine(self, model: Model, estimate: Moments, memory: _Round | None) -> LearnStep:
        rows, used = self._next(model, memory)
        posterior = self._posterior(model, used)
        attempt = iterated(posterior, rows, INNER, conclude=False)
        step = attempt.step
        if not _is_solved(attempt):
            return _failed(step) if memory is None else _unchanged(memory)
        total = self._informed(rows.total(posterior, step), used.log_scale)
        prior = self._fitted_prior(used.prior, total)
        if memory is None and model.batches and step.health > CONFLICT:
            # These may be the first coefficients that are not zero: EM cannot leave a narrow prior.
            wide = self._fitted_prior(initial(model, rows, self.fixed)[0], total)
            gain = wide.log_partition(total.A, total.B) - prior.log_partition(total.A, total.B)
            if float(np.sum(gain)) > 0.0:
                wider = used._replace(prior=wide)
                return self.refine(
                    model, estimate, _Round(used, wider, 0, posterior, rows, attempt)
                )
        left_out = cache(lambda: rows.cavity(step))
        last = rows.plain if memory is None else memory.used.channel
        channel, noise_information = self._fitted_channel(model, rows, left_out, last)
        log_step, scale_information = self._scale_step(model, rows, left_out, used.log_scale)
        bounded = rows.channel.predicts_probabilities
        vanished = bounded and np.mean(step.estimate.var) < VANISHED * posterior.mean_variance
        if vanished or not np.isfinite(log_step):
            return _failed(step)
        prior = self._rescaled_prior(model, rows, prior, total, scale_information)
        prior = prior.rescaled(float(np.exp(log_step)), self.fixed) if log_step else prior
        learned = _Hyper(prior, channel, used.log_scale + log_step)
        if memory is None or memory.number == 0 or model.batches == 0:
            health = step.health
            log_evidence = rows.log_evidence(posterior, step) if model.batches else np.nan
        else:
            health, log_evidence = memory.health, memory.log_evidence
        number = 1 if memory is None else memory.number + 1
        information, figures = (scale_information, noise_information), (health, log_evidence)
        return self._step(
            model, _Round(used, learned, number, posterior, rows, attempt, *information, *figures)
        )

    def _step(self, model: Model, done: _Round) -> LearnStep:
        """The iteration of `absorb` that a round of EM is."""
        step, (used, learned) = done.attempt.step, done[:2]
        change = max(
            learned.prior.change_from(used.prior), learned.channel.change_from(used.channel)
        )
        settled = change < (SETTLED_LATER if model.batches else SETTLED)
        last = done.number >= (ROUNDS if model.batches else FIRST_ROUNDS)
        # Rounds are cut short on purpose: what must have converged is the solution of the rows.
        solved = not step.ended and (settled or (last and done.attempt.info.converged))
        degrees = 2.0 * model.noise_known if self.noise and model.noise_known > 0.0 else np.inf
        return step._replace(
            memory=done,
            change=change,
            health=1.0 if done.rows.keeps_weight else done.health,
            effective_rows=min(step.effective_rows, degrees),
            bounded=done.rows.channel.predicts_probabilities,
            solved=solved,
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
        if self._used is not None:
            whole = model.posterior.stretched(np.exp(done.used.log_scale))
            belief = whole.joined(self._used, belief)
        belief = at_noise(belief.with_prior(done.learned.prior), *(h.channel for h in done[:2]))
        return Model(
            belief,
            done.learned.channel,
            model.batches + 1,
            model.scale_known + done.scale_information,
            model.noise_known + done.noise_information,
            max(model.spread, target_variance(done.rows)),
            done.rows.noise_factor > 1.0,
        )

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
        rows, adaptations = better
        noisier = rows.noise_factor > 1.0 and self.noise and rows.channel.shift_invariant
        new._evidence = rows.keeping_weight() if noisier and model.contradicted else rows
        return new, adaptations

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
        few = len(where) < FEW_USED * posterior.size and posterior.memory == 0
        if not few or posterior.prior.at(where, posterior.size) is not posterior.prior:
            return rows
        check_columns(rows.design, posterior)
        A = np.broadcast_to(posterior.tilt.A, posterior.size)
        informed = A > 0.0
        informed[where] = False
        unused = np.flatnonzero(informed)  # few of many: a mask would be read twice
        self._used, self._unused = where, Tilt(A[unused], posterior.tilt.B[unused])
        return rows.with_design(narrow)

    def _next(self, model: Model, last: _Round | None) -> tuple[DrawnRows[Any], _Hyper]:
        """The rows of the next round, and its hyper-parameters."""
        if last is not None:
            # Rounds of later batches are few, and begin near their end.
            rows = last.rows if model.batches else last.rows.resuming(last.attempt.step)
            used = last.learned
        else:
            rows, used = self._rows(model), _Hyper(model.posterior.prior, model.channel)
            if not model.batches:
                prior, channel = initial(model, rows, self.fixed)
                used = _Hyper(prior, channel if self.noise else model.channel)
        return rows.with_channel(used.channel), used

    def _posterior(self, model: Model, used: _Hyper) -> Posterior:
        """The posterior of the used coefficients before the batch, under these hyper-parameters."""
        posterior = model.posterior if self._used is None else model.posterior.at(self._used)
        posterior = posterior.with_prior(used.prior)
        if used.channel is not model.channel:
            posterior = at_noise(posterior, model.channel, used.channel)
        return posterior.stretched(np.exp(used.log_scale)) if used.log_scale else posterior

    def _informed(self, total: Tilt, log_scale: float) -> Tilt:
        """The tilts of all coefficients that some row has used.

        The others have the distribution of the prior, whatever it is, and would only delay EM.
        """
        if self._unused is None:
            return total
        unused = self._unused.stretched(np.exp(log_scale))
        return Tilt(np.append(unused.A, total.A), np.append(unused.B, total.B))

    def _fitted_prior(self, prior: Prior, total: Tilt) -> Prior:
        for _ in range(PRIOR_STEPS):
            prior = prior.fitted(total.A, total.B, self.fixed)
        return prior

    def _fitted_channel(
        self, model: Model, rows: DrawnRows[Any], left_out: Predicted, last: Channel
    ) -> tuple[Channel, float]:
        """The channel learned from left-out predictions, and the information gained on its noise.

        `last` is the channel of the previous round.
        """
        if not self.noise:
            return rows.plain, 0.0
        if rows.channel.shift_invariant:
            return noise_step(model, rows, left_out(), last)
        earlier = partial(project, model.posterior, rows.design) if model.batches else None
        return model.channel.seeing(rows.y, left_out, earlier, rows.weights), 0.0

    def _scale_step(
        self, model: Model, rows: DrawnRows[Any], left_out: Predicted, log_scale: float
    ) -> tuple[float, float]:
        """How far to move the logarithm of all scales of z, and the Fisher information on it.

        A Newton step on sum log Z(y, s omega, s^2 V), the log-likelihood of left-out rows. Its
        slope in log s is omega g + V (g^2 + g'). Earlier batches count by their information, so
        that the scale settles like an average. The slope is multiplied by the unknown share of the
        power of z: what is known well needs no prior, and its scale is not that of the prior.
        """
        free = model.posterior.prior.free_widths(self.fixed)
        if not free or (rows.channel.shift_invariant and not rows.leaves_out):
            return 0.0, 0.0
        omega, V = left_out()
        g, curvature = rows.channel.output(rows.y, omega, V)
        if rows.channel.shift_invariant:
            return 0.0, 2.0 * float(np.sum(np.square(V * curvature)))
        slope = omega * g + V * (np.square(g) - curvature)
        information, earlier = float(np.sum(np.square(slope))), SCALE_KNOWN + model.scale_known
        power = float(np.sum(np.square(omega) + V))
        unknown = float(np.sum(V)) / power if power > 0.0 else 0.0
        log_step = unknown * float(np.sum(slope)) - earlier * log_scale
        log_step /= earlier + information
        return float(np.clip(log_step, -LARGEST_LOG_STEP, LARGEST_LOG_STEP)), information

    def _rescaled_prior(
        self, model: Model, rows: DrawnRows[Any], prior: Prior, total: Tilt, information: float
    ) -> Prior:
        """The prior at the most likely scale of the coefficients, by a step of Fisher scoring.

        EM alone is slow while little is known of each coefficient, and where all of them look like
        noise it ends at a width of zero, from which it never returns: labels absorbed there carry
        no information on larger widths. So the scale has a prior of its own, centred on the initial
        scale with the information `SCALE_KNOWN` on its logarithm. The information of the data is at
        least that of the left-out rows (`information` of this batch), and at least that of the
        coefficients one by one.
        """
        if not prior.free_widths(self.fixed):
            return prior
        slope = prior.scale_slope(total.A, total.B)
        ratio = prior_power(prior, model.posterior.size, rows.design) / expected_power(model, rows)
        known = max(model.scale_known + information, float(np.sum(np.square(slope))))
        step = float(np.sum(slope)) - SCALE_KNOWN * 0.5 * np.log(ratio)
        step = np.clip(step / (SCALE_KNOWN + known), -LARGEST_LOG_STEP, LARGEST_LOG_STEP)
        return prior.rescaled(float(np.exp(step)), self.fixed)
