"""Hyper-parameters learned from the stream itself: EM in one pass, no row seen twice."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from miniamp import checks
from miniamp.absorb import Attempt, Step, iterated
from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.channels.base import Channel
from miniamp.evidence import AutoBatch, RobustBatch, forecast
from miniamp.evidence.base import DrawnRows
from miniamp.info import Adaptation, Stop
from miniamp.posterior import Moments, Posterior, Prior
from miniamp.tilt import Tilt

#: Rounds of EM on the first batch, which must find the orders of magnitude, and on a later one.
FIRST_ROUNDS, ROUNDS = 12, 3
#: A round that moves no hyper-parameter by more than this part of itself is the last.
SETTLED = 0.01
#: Steps of EM for the prior in a round, at fixed tilts: they cost one pass over N numbers each.
PRIOR_STEPS = 5
#: Steps of EM for the noise of the first batch, at fixed cavities: EM is slow where the noise is
#: far below what is not known of the rows.
NOISE_STEPS = 30
#: Rows of which so many times the noise is not known have leverage 1 to rounding, and are left out.
LEVERED = 1e4
#: The least noise that is learned, relative to the variance of y: exact targets would give none.
LEAST_NOISE = 1e-12
#: A round lowers the noise at most by this factor.
LARGEST_FALL = 10.0
#: The noise so far was too high if a batch shows less than one over the first number of it, by the
#: second number of standard deviations. Such a batch of 200 features and 100 rows once kept a noise
#: 40 times too high over 900 rows.
FAR_TOO_HIGH, SURELY = 2.0, 3.0
#: The power of z that a first batch of labels or counts is taken to have, until left-out rows
#: correct it.
LABELLED = 8.0
#: What is known of the logarithm of that scale beforehand, one over a variance: within a factor
#: e^2 or so.
SCALE_KNOWN = 0.25
#: A round changes the scale at most by this factor, e.
LONGEST_STRETCH = 1.0
#: The variance of an intercept over the mean square of y: wide enough to say nothing.
WIDE = 100.0
#: How far the rows are solved in a round: hyper-parameters need no more digits than this.
INNER = Stop(max_iter=200, tol=1e-5)
#: Rows whose solution still moves by such a part of itself at its end have not been solved, and
#: hyper-parameters fitted to it would follow: AMP on features that are not independent.
UNSOLVED = 0.1

#: Makes evidence of (Phi, y, channel): `evidence.Batch`, `RobustBatch`, `AutoBatch`.
Solver = Callable[[Given, Given, Channel], DrawnRows[Any]]


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

    def degrees_of_freedom(self, V: ArrayOrFloat) -> Array:
        """Degrees of freedom of the Student t that predicts y where z has the variance V.

        A learned noise Delta is uncertain, its logarithm by 1/sqrt(noise_known). With a variance
        V + Delta that is uncertain by Delta/sqrt(noise_known), y is a Student t of
        2 (1 + V/Delta)^2 noise_known degrees of freedom; infinity where the noise was given.
        """
        noise = 1.0 / self.channel.fisher()
        known = self.noise_known if self.noise_known > 0.0 else np.inf
        return np.asarray(2.0 * np.square(1.0 + V / noise) * known)

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


class _Round(NamedTuple):
    """One round of EM: what it used, what it found, and how."""

    posterior: Posterior
    rows: DrawnRows[Any]
    attempt: Attempt[Posterior, Tilt, Moments, Any]
    prior: Prior
    channel: Channel
    number: int
    stretch: float  #: logarithm of the factor by which all scales of z were changed so far
    told: tuple[float, float]  #: what the rows told about it, and about the noise
    health: float  #: of a later batch at the noise before it, which this batch must not contradict


LearnStep = Step[Tilt, Moments, _Round | None]


class Learn:
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
        self.rows = len(checks.numeric("y", y))

    def start(self, model: Model) -> tuple[Moments, _Round | None]:
        return model.posterior.moments, None

    def refine(self, model: Model, estimate: Moments, memory: _Round | None) -> LearnStep:
        if memory is None:
            rows = self._rows(model)
            prior, channel = model.posterior.prior, model.channel
            if model.batches == 0:
                prior, first = initial(model, rows, self.fixed)
                channel = first if self.noise else channel
            stretch, number, health = 0.0, 1, np.nan
        else:
            rows, prior, channel = memory.rows, memory.prior, memory.channel
            stretch, number, health = memory.stretch, memory.number + 1, memory.health
        rows = rows.with_channel(channel)
        posterior = model.posterior.with_prior(prior)
        if stretch:
            posterior = posterior.stretched(np.exp(stretch))
        attempt: Attempt[Posterior, Tilt, Moments, Any] = iterated(posterior, rows, INNER)
        step = attempt.step
        with np.errstate(over="ignore"):  # AMP that diverges ends where squares overflow
            finite = bool(np.isfinite(np.sum(np.square(step.estimate.mean))))
        if not finite or (not step.change < UNSOLVED and not attempt.info.converged):
            return step._replace(memory=None, change=np.nan)
        if model.batches == 0 or memory is None:
            health = step.health
        known = 2.0 * model.noise_known if self.noise and model.noise_known > 0.0 else np.inf
        learned, total = prior, rows.total(posterior, step)
        for _ in range(PRIOR_STEPS):
            learned = learned.fitted(total.A, total.B, self.fixed)
        channel, noise_told = self._channel(model, rows, step)
        more, scale_told = self._stretch(model, rows, step, stretch)
        learned = learned.rescaled(float(np.exp(more)), self.fixed)
        change = max(learned.change_from(prior), channel.change_from(rows.plain))
        last = number >= (ROUNDS if model.batches else FIRST_ROUNDS)
        told = scale_told, noise_told
        done = _Round(
            posterior, rows, attempt, learned, channel, number, stretch + more, told, health
        )
        return step._replace(
            memory=done,
            change=change,
            health=health,
            carried_by=min(step.carried_by, known),
            # Rounds are cut short on purpose: what must have converged is the solution of the rows.
            solved=change < SETTLED or (last and attempt.info.converged),
            ended=last,
        )

    def conclude(self, model: Model, step: LearnStep) -> Model:
        done = step.memory
        assert done is not None  # the change is finite
        return Model(
            done.attempt.belief.with_prior(done.prior),
            done.channel,
            model.batches + 1,
            model.scale_known + done.told[0],
            model.noise_known + done.told[1],
            max(model.spread, float(np.var(done.rows.y))),
        )

    def refine_all(
        self, model: Model, estimate: Moments, memory: _Round | None, stop: Stop
    ) -> tuple[list[float], None]:
        return [], None

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
        new._evidence = better[0]
        return new, better[1]

    def left_out_score(self, step: LearnStep) -> float:
        done = step.memory
        return -np.inf if done is None else done.rows.left_out_score(done.attempt.step)

    def diagnosis(self) -> str:
        return "" if self._evidence is None else self._evidence.diagnosis()

    def _rows(self, model: Model) -> DrawnRows[Any]:
        """The rows under the model's channel; they are checked, and their solver chosen, once."""
        if self._evidence is None:
            self._evidence = self.solver(self.Phi, self.y, model.channel)
        return self._evidence.with_channel(model.channel)

    def _channel(
        self, model: Model, rows: DrawnRows[Any], step: Step[Any, Any, Any]
    ) -> tuple[Channel, float]:
        """The channel with the noise of all rows so far, and what these rows tell of it.

        A step of Fisher scoring from the noise so far. Of the logarithm of Delta a row tells
        (Delta/(Delta + V))^2/2, at the noise so far and not at that which the batch itself would
        fit: a lucky batch would count more, and the noise come out too low by (M - 4)/M. Rows of
        leverage 1 tell nothing and are left out. The first batch is fitted by EM.
        """
        if not (self.noise and rows.channel.shift_invariant):
            return rows.plain, 0.0
        first = model.batches == 0
        running = rows.with_channel(rows.plain if first else model.channel)
        omega, V = rows.cavity(step)
        clear = np.flatnonzero(LEVERED / running.plain.unweighted().fisher() > V)
        if clear.size == 0:
            return self._bounded(model, running.plain), 0.0
        y, omega, V, seen = rows.y[clear], omega[clear], V[clear], running.channel.at(clear)
        fitted = seen.fitted(y, omega, V)
        for _ in range(NOISE_STEPS if first else 0):
            fitted = fitted.fitted(y, omega, V)
        judge = fitted if first else seen
        noise_share = judge.output(y, omega, V)[1] / judge.output(y, omega, np.zeros(len(y)))[1]
        weights = np.ones(len(y)) if rows.weights is None else np.minimum(rows.weights[clear], 1.0)
        told = 0.5 * float(np.sum(weights * np.square(np.maximum(noise_share, 0.0))))
        half = 0.5 * float(np.sum(weights))
        before, step_size = model.noise_known, 1.0
        if not first:
            before *= self._still_known(seen, fitted, half, told)
            step_size = half / (before + told) if before + told > 0.0 else 0.0
        old, new = seen.unweighted().parameters(), fitted.unweighted().parameters()
        values = {name: old[name] + step_size * (new[name] - old[name]) for name in new}
        values = {name: np.maximum(v, old[name] / LARGEST_FALL) for name, v in values.items()}
        told += before - model.noise_known
        return self._bounded(model, running.plain.replaced(**values)), told

    def _still_known(self, seen: Channel, fitted: Channel, half: float, told: float) -> float:
        """The part of the information so far that remains where the noise was far too high.

        Rows that were hardly predicted count in full while the noise is thought to be as large as
        their uncertainty; once a batch shows that it is far lower, by the square of the ratio.
        """
        if not told > 0.0:
            return 1.0
        growth = float(np.mean(seen.unweighted().fisher() / fitted.unweighted().fisher()))
        ratio = max(1.0 + half * (growth - 1.0) / told, 1.0 / LARGEST_FALL)
        surely = (1.0 - ratio) * np.sqrt(told) > SURELY
        return ratio**2 if ratio < 1.0 / FAR_TOO_HIGH and surely else 1.0

    def _bounded(self, model: Model, channel: Channel) -> Channel:
        """The channel with at least the noise that rounding leaves, and at most all of y."""
        most = max(model.spread, float(np.var(checks.numeric("y", self.y))))
        noise = float(np.mean(1.0 / channel.unweighted().fisher()))
        allowed = np.clip(noise, LEAST_NOISE * most, most) if most > 0.0 else noise
        return (
            channel.with_noise(float(allowed))
            if channel.has_noise and allowed != noise
            else channel
        )

    def _stretch(
        self, model: Model, rows: DrawnRows[Any], step: Step[Any, Any, Any], so_far: float
    ) -> tuple[float, float]:
        """By how much more to stretch all scales of z (a logarithm), and what the rows tell of it.

        A step of Newton on sum log Z(y, s omega, s^2 V), the log-likelihood of each row predicted
        without itself; its slope in log s is omega g + V (g^2 + g'). Batches before count by their
        information, so that it settles like an average. The slope counts by the part of z that is
        unknown: what is known well needs no prior, and its scale is not the prior's.
        """
        if rows.channel.shift_invariant or not model.posterior.prior.free_widths(self.fixed):
            return 0.0, 0.0
        omega, V = rows.cavity(step)
        g, curvature = rows.channel.output(rows.y, omega, V)
        slope = omega * g + V * (np.square(g) - curvature)
        told, before = float(np.sum(np.square(slope))), SCALE_KNOWN + model.scale_known
        power = float(np.sum(np.square(omega) + V))
        unknown = float(np.sum(V)) / power if power > 0.0 else 0.0
        more = (unknown * float(np.sum(slope)) - before * so_far) / (before + told)
        return float(np.clip(more, -LONGEST_STRETCH, LONGEST_STRETCH)), told


def initial(
    model: Model, rows: DrawnRows[Any], fixed: Collection[str] = ()
) -> tuple[Prior, Channel]:
    """Prior and channel on the scale of the first batch.

    Half the variance of y is taken for signal and half for noise. Where y is a label or a count, z
    is given the power LABELLED, and the channel stays as it is.
    """
    prior, tiny = model.posterior.prior, np.finfo(np.float64).tiny
    on_scale = rows.channel.shift_invariant
    # One row, or equal ones, have no variance: their size is all there is to go by.
    spread = max(float(np.var(rows.y) or np.mean(np.square(rows.y))), tiny)
    power = prior.typical_power(model.posterior.size)
    signal = power * rows.design.shape[1] * rows.design.mean_square
    ratio = (spread / 2.0 if on_scale else LABELLED) / signal if signal > 0.0 else 1.0
    prior = prior.rescaled(float(np.sqrt(ratio)), fixed)
    prior = prior.with_intercept_var(WIDE * max(float(np.mean(np.square(rows.y))), tiny))
    return prior, (rows.plain.with_noise(spread / 2.0) if on_scale else rows.plain)
