"""Hyper-parameters learned from the stream itself: EM in one pass, no row seen twice."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from miniamp import checks
from miniamp.absorb import Evidence, Step
from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.channels.base import Channel
from miniamp.designs import as_design
from miniamp.evidence import AutoBatch, RobustBatch, forecast
from miniamp.evidence.base import DrawnRows
from miniamp.evidence.batch import explain
from miniamp.parametric import Parametric
from miniamp.posterior import Moments, Posterior

#: Rounds of EM on the first batch, which must find the orders of magnitude, and on a later one.
FIRST_ROUNDS, ROUNDS = 12, 3
#: A round that moves no hyper-parameter by more than this part of itself is the last.
SETTLED = 0.01
#: Steps of EM for the prior in a round, at fixed tilts: they cost one pass over N numbers each.
PRIOR_STEPS = 5
#: The same for the noise, at fixed cavities: EM is slow where the noise is far below the unknown.
NOISE_STEPS = 30
#: The power of z that a first batch of labels or counts is taken to have, until left-out rows say
#: better.
LABELLED = 8.0
#: What is known of the logarithm of that scale beforehand, one over a variance: within a factor
#: e^2 or so.
SCALE_KNOWN = 0.25
#: A round changes the scale at most by this factor, e.
LONGEST_STRETCH = 1.0
#: The variance of an intercept over the mean square of y: wide enough to say nothing.
WIDE = 100.0
#: The inner iteration of a round stops here: hyper-parameters need no more digits than this.
INNER_ITERATIONS, INNER_CHANGE = 60, 1e-4
#: An inner iteration that still moves the estimate by such a part of itself at its end has gone
#: astray, and hyper-parameters fitted to it would follow: AMP on features that are not independent.
ASTRAY = 0.1

#: Makes evidence of (Phi, y, channel): `evidence.Batch`, `RobustBatch`, `AutoBatch`.
Solver = Callable[[Any, Any, Channel], DrawnRows]


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
        What left-out rows have told of the scale of z (its logarithm) and of the variance of the
        noise: Fisher's information.

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

    @property
    def mean(self) -> Array:
        """Posterior mean of every coefficient, (N,)."""
        return self.posterior.mean

    @property
    def var(self) -> Array:
        """Posterior variance of every coefficient, (N,)."""
        return self.posterior.var

    def forecast(self, Phi: Given) -> tuple[Array, Array]:
        """Mean and variance of the observations that new rows will bring."""
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
        """The model told of factor * x in the place of x, when features change their units."""
        return replace(self, posterior=self.posterior.stretched(factor))


class _Round(NamedTuple):
    """One round of EM: what it used, what it found, and how."""

    posterior: Posterior
    rows: DrawnRows
    step: Step
    prior: Any
    channel: Channel
    number: int
    stretch: float  #: logarithm of the factor by which all scales of z were changed so far
    scale_told: float  #: what the rows told about it
    noise_told: float  #: and about the noise


class Learn:
    """Rows (Phi, y) from which a `Model` learns its coefficients and its hyper-parameters.

    An iteration of `absorb` is a round of EM: the rows are solved with the hyper-parameters as they
    are, the prior is fitted to all tilts and the channel to the rows as they were known without
    themselves. The prior needs no history, because the tilts hold all data; the noise is averaged
    over the stream, each batch by what it could tell: little while its rows were hardly known.

    Labels and counts have no noise to learn but a scale of z, which the prior's width sets. EM is
    stuck there: a label absorbed while z had the power V becomes a pseudo-observation of size
    sqrt(V), which then speaks for that width. So the whole belief, prior and all that was seen, is
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
        self.rows = len(checks.numeric("y", y))

    def start(self, model: Model) -> tuple[Moments, _Round | None]:
        return model.posterior.moments, None

    def refine(self, model: Model, estimate: Moments, memory: _Round | None) -> Step:
        if memory is None:
            rows = self.solver(self.Phi, self.y, model.channel)
            first = model.batches == 0
            prior, channel = model.posterior.prior, model.channel
            if first:
                prior, channel = initial(model, rows, self.fixed)
                channel = channel if self.noise else model.channel
            rows = rows.with_channel(channel)
        else:
            prior, rows = memory.prior, memory.rows.with_channel(memory.channel)
        stretch = 0.0 if memory is None else memory.stretch
        posterior = model.posterior.with_prior(prior)
        if stretch:
            posterior = posterior.stretched(np.exp(stretch))
        step = _solved(posterior, rows)
        number = 1 if memory is None else memory.number + 1
        if not step.change < ASTRAY and not step.solved:
            return step._replace(memory=None, change=np.nan)
        learned = self._prior(posterior, rows, step)
        channel, noise_told = self._channel(model, rows, step)
        more, scale_told = self._stretch(model, rows, step, stretch)
        learned = _wider(learned, np.exp(more), self.fixed)
        change = max(_moved(prior, learned), _moved(rows.channel, channel))
        return step._replace(
            memory=_Round(
                posterior,
                rows,
                step,
                learned,
                channel,
                number,
                stretch + more,
                scale_told,
                noise_told,
            ),
            change=change,
            solved=change < SETTLED,
            ended=number >= (ROUNDS if model.batches else FIRST_ROUNDS),
        )

    def conclude(self, model: Model, step: Step) -> Model:
        done: _Round = step.memory
        posterior: Posterior = done.rows.conclude(done.posterior, done.step)
        return Model(
            posterior.with_prior(done.prior),
            done.channel,
            model.batches + 1,
            model.scale_known + done.scale_told,
            model.noise_known + done.noise_told,
        )

    def remedies(self) -> Iterable[tuple[str, Evidence]]:
        yield (
            "the robust solver",
            Learn(self.Phi, self.y, RobustBatch, fixed=self.fixed, noise=self.noise),
        )

    def diagnosis(self) -> str:
        return explain(as_design(self.Phi).diagnosis())

    def _prior(self, posterior: Posterior, rows: DrawnRows, step: Step) -> Any:
        prior: Any = posterior.prior
        total = rows.total(posterior, step)
        for _ in range(PRIOR_STEPS):
            prior = prior.fitted(total.A, total.B, self.fixed)
        return prior

    def _channel(self, model: Model, rows: DrawnRows, step: Step) -> tuple[Channel, float]:
        """The channel with the noise of all rows so far, and what these rows tell of it.

        Of a Gaussian's variance Delta a row tells 1/(2 (Delta + V)^2), half its curvature squared:
        batches that came while V was far above Delta count next to nothing, as they must.
        """
        if not (self.noise and rows.channel.shift_invariant):
            return rows.channel, 0.0
        omega, V = rows.cavity(step)
        fitted = rows.channel
        for _ in range(NOISE_STEPS):
            fitted = fitted.fitted(rows.y, omega, V)
        told = 0.5 * float(np.sum(np.square(fitted.output(rows.y, omega, V)[1])))
        if not np.isfinite(told + model.noise_known) or not told > 0.0:
            return fitted, 0.0  # known to the last digit, or not at all: nothing to average
        weight = told / (told + model.noise_known)
        old, new = model.channel.parameters(), fitted.parameters()
        mean = {n: (1.0 - weight) * old[n] + weight * new[n] for n in new}
        return fitted.replaced(**mean), told

    def _stretch(
        self, model: Model, rows: DrawnRows, step: Step, so_far: float
    ) -> tuple[float, float]:
        """By how much more to stretch all scales of z (a logarithm), and what the rows tell of it.

        A step of Newton on sum log Z(y, s omega, s^2 V), the log-likelihood of each row as known
        without itself; its slope in log s is omega g + V (g^2 + g'). Batches before count by their
        information, so that it settles like an average. The slope counts by the part of z that is
        unknown: what is known well needs no prior, and its scale is not the prior's.
        """
        if rows.channel.shift_invariant or not _widths(model.posterior.prior, self.fixed):
            return 0.0, 0.0
        omega, V = rows.cavity(step)
        g, curvature = rows.channel.output(rows.y, omega, V)
        slope = omega * g + V * (np.square(g) - curvature)
        told, before = float(np.sum(np.square(slope))), SCALE_KNOWN + model.scale_known
        power = float(np.sum(np.square(omega) + V))
        unknown = float(np.sum(V)) / power if power > 0.0 else 0.0
        more = (unknown * float(np.sum(slope)) - before * so_far) / (before + told)
        return float(np.clip(more, -LONGEST_STRETCH, LONGEST_STRETCH)), told


def initial(model: Model, rows: DrawnRows, fixed: Collection[str] = ()) -> tuple[Any, Channel]:
    """Prior and channel on the scale of the first batch.

    Half the variance of y is taken for signal and half for noise. Where y is a label or a count, z
    is given the power LABELLED, and the channel stays as it is.
    """
    prior: Any = model.posterior.prior
    on_scale = rows.channel.shift_invariant
    spread = max(float(np.var(rows.y)), np.finfo(np.float64).tiny)
    nothing = np.zeros(model.posterior.size)
    mean, var = prior.moments(nothing, nothing)
    if "intercept_var" in prior.names and len(mean) > 1:
        mean, var = mean[:-1], var[:-1]
    # The median: an intercept with its own wide prior is no measure of the others.
    signal = (
        float(np.median(np.square(mean) + var)) * rows.design.shape[1] * rows.design.mean_square
    )
    ratio = (spread / 2.0 if on_scale else LABELLED) / signal if signal > 0.0 else 1.0
    powers = {"var": ratio, "scale": np.sqrt(ratio)}
    prior = _times(prior, powers, fixed)
    if "intercept_var" in prior.names:
        wide = WIDE * max(float(np.mean(np.square(rows.y))), np.finfo(np.float64).tiny)
        prior = prior.replaced(inner=_times(prior.inner, powers, fixed), intercept_var=wide)
    return prior, (_set(rows.channel, spread / 2.0) if on_scale else rows.channel)


def _widths(prior: Any, fixed: Collection[str]) -> list[str]:
    """The widths that a prior of coefficients has and that may be learned."""
    inner = prior.inner if "intercept_var" in prior.names else prior
    return [n for n in inner.names if n in ("var", "scale") and n not in fixed]


def _wider(prior: Any, factor: float, fixed: Collection[str]) -> Any:
    """The prior of factor * x; an intercept's stays as wide as it was."""
    powers = {"var": factor**2, "scale": factor, "mean": factor}
    if "intercept_var" in prior.names:
        return prior.replaced(inner=_times(prior.inner, powers, fixed))
    return _times(prior, powers, fixed)


def _times(prior: Any, powers: dict[str, float], fixed: Collection[str]) -> Any:
    """The prior with its widths multiplied, where it has any that are free."""
    free = [n for n in prior.names if n in powers and n not in fixed]
    return prior.replaced(**{n: getattr(prior, n) * powers[n] for n in free})


def _set(channel: Channel, var: float) -> Channel:
    """The channel with this much noise, where it has a noise to set."""
    noise = {"var": var, "scale": np.sqrt(var)}
    return channel.replaced(**{n: v for n, v in noise.items() if n in channel.names})


def _moved(old: Any, new: Any) -> float:
    """The largest relative change of a hyper-parameter, against its own size or one's width."""
    changes = [0.0]
    for name in new.names:
        if isinstance(getattr(new, name), Parametric):  # a prior within a prior
            changes.append(_moved(getattr(old, name), getattr(new, name)))
            continue
        a, b = np.asarray(getattr(old, name)), np.asarray(getattr(new, name))
        if b.dtype.kind == "f" and a.shape == b.shape:
            size = np.maximum(np.abs(b), np.sqrt(np.abs(getattr(new, "var", 0.0))))
            changes.append(float(np.max(np.abs(b - a) / np.where(size > 0.0, size, 1.0))))
    return max(changes)


def _solved(posterior: Posterior, rows: DrawnRows) -> Step:
    """The last step of solving the rows with the hyper-parameters as they are."""
    evidence: Any = rows
    estimate, memory = evidence.start(posterior)
    for _ in range(INNER_ITERATIONS):
        step: Step = evidence.refine(posterior, estimate, memory)
        estimate, memory = step.estimate, step.memory
        if step.solved or step.ended or not step.change > INNER_CHANGE:
            break
    return step
