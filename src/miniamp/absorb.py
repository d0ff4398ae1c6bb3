"""Update a belief by a batch of evidence (`absorb`), or by a stream of batches (`stream`)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Generic, NamedTuple

import numpy as np

from miniamp import checks
from miniamp.arrays import Array
from miniamp.errors import ConflictError, ConflictWarning, InvalidTypeError
from miniamp.info import (
    PLAIN,
    Adaptation,
    Belief,
    BeliefT,
    EstimateT,
    Evidence,
    Info,
    MemoryT,
    Outlier,
    Step,
    Stop,
    TiltT,
    WholeEvidence,
)

__all__ = [
    "Adaptation",
    "Belief",
    "Evidence",
    "Info",
    "Step",
    "Stop",
    "WholeEvidence",
    "absorb",
    "attempted",
    "stream",
]

#: A batch is in conflict from this health figure (mean g^2 / mean(-dg)) on. That of sound batches
#: was between .75 and 1.25, that of failures 17 and more; ten leaves room for a noise level that is
#: wrong by an order of magnitude, which is inaccurate but does not spoil the stream.
CONFLICT = 10.0

#: The same for a batch that has not converged: its last iterate is one of many, and a perceptron
#: that does not settle adds a poor one at figures of 4 to 9 (2 of 20 runs at N = 2000 never
#: recovered; with this limit none). Batches that fluctuate near a threshold stay below 1.3.
UNCONVERGED = 3.0

#: Squared residual over its expectation that a single row may have by chance: with sparse
#: coefficients, that of a first row that uses one of them is large (64 under a Laplace prior).
ONE_ROW = 30.0

#: Attempts at a batch in conflict: weights of a Student t settle in two or three.
ADAPTATIONS = 5

#: In a stream that forgets, a batch of at least this health figure (labels: 1) may come after a
#: change. It is also tried with these shares of the past. A share is kept if the rows then predict
#: each other better by so many nats (150 to 1).
SUSPICIOUS, SHARES_OF_PAST, EVIDENCE_OF_CHANGE = 2.0, (0.1, 0.01, 0.001), 5.0

#: Changes that shrink by less than this factor per iteration may be those of a plateau: near a
#: threshold they shrink ever more slowly before they grow again.
STEADY = 0.9
#: Number of successive ratios that must be below STEADY.
WATCHED = 3

#: What `absorb` does with a batch that contradicts the model or the past.
POLICIES = ("raise", "skip", "adapt")


class Attempt(NamedTuple, Generic[BeliefT, TiltT, EstimateT, MemoryT]):
    """The iterations of one solver on a piece of evidence."""

    belief: BeliefT  #: after the last iteration; the old one where that is not finite
    info: Info
    step: Step[TiltT, EstimateT, MemoryT]  #: the last one
    sound: bool  #: whether the residuals are as large as expected
    evidence: Evidence[BeliefT, TiltT, EstimateT, MemoryT]

    def report(self, past: BeliefT, adapted: tuple[Adaptation, ...] = ()) -> Info:
        """`Info` with the log-evidence given `past`, computed for the final attempt only."""
        value = np.nan
        if math.isfinite(self.step.change):
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                value = self.evidence.log_evidence(past, self.step)
        return replace(self.info, adapted=adapted, log_evidence=value)


def absorb(
    belief: BeliefT,
    evidence: Evidence[BeliefT, TiltT, EstimateT, MemoryT],
    stop: Stop | None = None,
    *,
    forget: float = 1.0,
    half_life: float | None = None,
    on_conflict: str = "raise",
) -> tuple[BeliefT, Info]:
    """Update a belief by a piece of evidence; returns the new belief and an `Info`.

    Bayes' rule on a stream (`eq:bayes_rule`) for factorised beliefs: Algorithm 1 for a batch,
    Algorithm 2 for one row, Theorem 1 for a typical batch. The given belief is not changed.

    Parameters
    ----------
    belief : Posterior, learning.Model or theory.Law
        Belief before the evidence.
    evidence : Evidence
        New data; see `miniamp.evidence`.
    stop : Stop, optional
        Criteria that end the iteration.
    forget : float, optional
        Forgetting factor for drifting streams, 0 < forget <= 1: weight of all earlier data.
    half_life : float, optional
        The same as a number of rows, after which the weight of an observation is one half.
    on_conflict : {"raise", "skip", "adapt"}
        Treatment of a batch that contradicts the model. "raise", the default here, is for
        experiments, where a contradiction means that prior, channel or solver are wrong. "skip"
        returns the old belief. "adapt", the default of the estimators, absorbs as much as possible:
        outliers get the weights of a Student t noise; a batch that contradicts the past is absorbed
        with as much noise as its residuals show, or, if the stream forgets (`forget` < 1) and this
        explains the batch better, with less weight of the past. `Info.adapted` lists the changes.

    Raises
    ------
    ConflictError
        The rows contradict the model in every attempt, with `on_conflict="raise"`.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import Posterior, absorb, channels, evidence, priors
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=50)
    >>> Phi = rng.normal(size=(100, 50)) / np.sqrt(50)
    >>> rows = evidence.Batch(Phi, Phi @ x, channels.Gaussian(var=1e-4))
    >>> belief, info = absorb(Posterior(priors.Gaussian(), 50), rows)
    >>> bool(np.mean((belief.mean - x) ** 2) < 1e-3), info.converged
    (True, True)
    """
    stop = Stop() if stop is None else stop
    if not isinstance(stop, Stop):
        raise InvalidTypeError("stop", repr(stop), "a Stop", "write Stop(max_iter=..., tol=...)")
    if not callable(getattr(evidence, "refine", None)):
        raise InvalidTypeError(
            "evidence",
            type(evidence).__name__,
            "evidence",
            "wrap the rows as evidence.Batch(Phi, y, channel)",
        )
    if on_conflict not in POLICIES:
        raise checks.refuse("on_conflict", repr(on_conflict), f"one of {POLICIES}", "choose one")
    factor = _remaining(forget, half_life, evidence.rows)
    past = belief.scaled(factor) if factor < 1.0 else belief
    if on_conflict == "adapt":
        return _adapted(past, evidence, stop, drifts=factor < 1.0)
    attempt = attempted(past, evidence, stop)
    if attempt.sound:
        return attempt.belief, attempt.report(past)
    if on_conflict == "skip":
        done = (Adaptation("skipped", attempt.info.health),)
        return belief, attempt.report(past, done)
    with np.errstate(over="ignore", invalid="ignore"):  # what has diverged names no row
        outliers = [a.outlier for a in _adapted(past, evidence, stop, drifts=False)[1].adapted]
    found = [one for one in outliers if isinstance(one, Outlier)]
    raise conflict(attempt.info, evidence.diagnosis(), found)


def stream(
    belief: BeliefT,
    evidences: Iterable[Evidence[BeliefT, TiltT, EstimateT, MemoryT]],
    stop: Stop | None = None,
    *,
    forget: float = 1.0,
    half_life: float | None = None,
    on_conflict: str = "raise",
) -> Iterator[tuple[BeliefT, Info]]:
    """Iterate over beliefs and infos after each piece of evidence, with one in memory at a time.

    Mini-AMP (Algorithm 1) for batches of rows; ADF (Algorithm 2) for single rows with
    `Stop(max_iter=1)`. The parameters are those of `absorb`.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import Posterior, channels, evidence, priors, stream
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=50)
    >>> def batches(number):
    ...     for _ in range(number):
    ...         Phi = rng.normal(size=(20, 50)) / np.sqrt(50)
    ...         yield evidence.Batch(Phi, Phi @ x, channels.Gaussian(var=1e-4))
    >>> errors = [np.mean((b.mean - x) ** 2) for b, _ in
    ...           stream(Posterior(priors.Gaussian(), 50), batches(10))]
    >>> bool(errors[-1] < errors[0] / 10)
    True
    """
    k, total = 0, 0.0
    for evidence in evidences:
        try:
            belief, info = absorb(
                belief, evidence, stop, forget=forget, half_life=half_life, on_conflict=on_conflict
            )
        except ConflictError as error:
            raise error.in_batch(k) from error
        del evidence  # the source may need its room for the next one (enumerate would keep it)
        k += 1  # noqa: SIM113
        total += info.log_evidence
        yield belief, replace(info, log_evidence_sum=total)


def attempted(
    belief: BeliefT, evidence: Evidence[BeliefT, TiltT, EstimateT, MemoryT], stop: Stop
) -> Attempt[BeliefT, TiltT, EstimateT, MemoryT]:
    """The first sound attempt, with the given solver and then its remedies; else the last one."""
    attempt = iterated(belief, evidence, stop)
    if attempt.sound:
        return attempt
    for name, careful in evidence.remedies():
        warnings.warn(
            f"a batch is in conflict (squared residuals {attempt.info.health:.3g} times as large "
            f"as expected after {attempt.info.iterations} iterations); trying again with {name}",
            ConflictWarning,
            stacklevel=3,
        )
        attempt = iterated(belief, careful, stop, remedy=name)
        if attempt.sound:
            break
    return attempt


def iterated(
    belief: BeliefT,
    evidence: Evidence[BeliefT, TiltT, EstimateT, MemoryT],
    stop: Stop,
    remedy: str = "",
    conclude: bool = True,
) -> Attempt[BeliefT, TiltT, EstimateT, MemoryT]:
    """Iterate `evidence.refine` until `stop` is met, or the evidence reports its last step.

    Without `conclude` the attempt has the old belief, for a caller that needs no new one.
    """
    estimate, memory = evidence.start(belief)
    trace, step = evidence.refine_all(belief, estimate, memory, stop)
    while step is None or not _over(step, trace, stop):
        if step is not None:
            estimate, memory = step.estimate, step.memory
        with np.errstate(over="ignore", invalid="ignore"):  # health shows what diverges
            step = evidence.refine(belief, estimate, memory)
        trace.append(step.change)
    converged = bool(step.solved or (not step.ended and met(stop, trace, step.uncertainty)))
    info = Info(
        len(trace), converged, np.array(trace), step.health, remedy, step.solver, step.reason
    )
    finite = math.isfinite(step.change)
    new = evidence.conclude(belief, step) if finite and conclude else belief
    rows = min(evidence.rows, step.effective_rows)
    return Attempt(new, info, step, finite and _sound(info, rows), evidence)


def _over(step: Step[TiltT, EstimateT, MemoryT], trace: list[float], stop: Stop) -> bool:
    """Whether `step` is the last one."""
    ended = step.solved or step.ended or not math.isfinite(step.change)
    return ended or len(trace) >= stop.max_iter or met(stop, trace, step.uncertainty)


def met(stop: Stop, trace: Sequence[float], uncertainty: float) -> bool:
    """Whether the changes of all iterations so far allow to stop.

    Changes that shrink by a factor r add up to r/(1 - r) times the last one in all further
    iterations. `uncertainty` is the posterior standard deviation on the scale of the changes, 0
    where it is not known.
    """
    if trace[-1] < stop.tol:
        return True
    if not uncertainty * stop.slack > 0.0 or len(trace) <= WATCHED:
        return False
    last = trace[-WATCHED - 1 :]
    rate = max(new / old for old, new in pairwise(last))
    return rate < STEADY and last[-1] * rate < (1.0 - rate) * stop.slack * uncertainty


def conflict(info: Info, found: str, outliers: Sequence[Outlier] = ()) -> ConflictError:
    """The error for a batch that no attempt could absorb.

    `found` describes what is odd about the rows; the worst of `outliers`, if any, takes its place.
    """
    worst = max(outliers, key=lambda row: row.deviations, default=None)
    found = found if worst is None else worst.worded(PLAIN)
    solved = bool(np.isfinite(info.trace[-1]) and np.isfinite(info.health))
    figure = f"squared residuals {info.health:.3g} times as large as expected"
    received = figure if solved else "rows that no coefficients explain at this noise"
    return ConflictError(
        "evidence",
        f"{received}, after {info.iterations} iterations" + (f" ({found})" if found else ""),
        "about 1; the belief is unchanged" if solved else "a solution; the belief is unchanged",
        "raise the noise of the channel, use RobustBatch for correlated columns, or "
        "{on_conflict=adapt}",
        health=info.health,
        iteration=info.iterations,
        row=None if worst is None else worst.row,
        deviations=np.nan if worst is None else worst.deviations,
    )


def _adapted(
    belief: BeliefT,
    evidence: Evidence[BeliefT, TiltT, EstimateT, MemoryT],
    stop: Stop,
    *,
    drifts: bool,
) -> tuple[BeliefT, Info]:
    """The belief after the evidence, adapted where it contradicts the belief; see `absorb`."""
    past, forgotten, done = belief, tuple[Adaptation, ...](), tuple[Adaptation, ...]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConflictWarning)  # `Info` reports remedies
        attempt = attempted(past, evidence, stop)
        limit = 1.0 if attempt.step.bounded else SUSPICIOUS
        if drifts and not (attempt.sound and attempt.info.health < limit):
            past, forgotten, attempt = _after_change(belief, evidence, stop, attempt)
        for _ in range(ADAPTATIONS):
            better = evidence.adapted(past, attempt.step, sound=attempt.sound)
            if better is None:
                break
            evidence, done = better
            attempt = attempted(past, evidence, stop)
    if not attempt.sound:
        done = (Adaptation("skipped", attempt.info.health),)
        return belief, attempt.report(past, done)
    return attempt.belief, attempt.report(past, (*forgotten, *done))


def _after_change(
    belief: BeliefT,
    evidence: Evidence[BeliefT, TiltT, EstimateT, MemoryT],
    stop: Stop,
    attempt: Attempt[BeliefT, TiltT, EstimateT, MemoryT],
) -> tuple[BeliefT, tuple[Adaptation, ...], Attempt[BeliefT, TiltT, EstimateT, MemoryT]]:
    """The share of the past with which the batch is explained best, if the stream has changed.

    A change concerns all rows, an outlier only one. So the gain of a smaller share is the sum of
    the rows' leave-one-out scores, each bounded; below SUSPICIOUS without the row that gains most.
    Of labels, if most rows gain, the gain of the evidence counts too, without the row predicted
    worst. Of numbers the evidence overstates a change (dropped.md).
    """

    def scores(trial: Attempt[BeliefT, TiltT, EstimateT, MemoryT]) -> Array:
        finite = np.isfinite(trial.step.change)
        return evidence.left_out_scores(trial.step) if finite else np.full(1, -np.inf)

    def label_evidence(trial: Attempt[BeliefT, TiltT, EstimateT, MemoryT], past: BeliefT) -> float:
        return trial.report(past).log_evidence if trial.step.bounded else np.nan

    health, best, kept, past = attempt.info.health, EVIDENCE_OF_CHANGE, 1.0, belief
    mild, base_scores = attempt.sound and health < SUSPICIOUS, scores(attempt)
    base_evidence = label_evidence(attempt, belief) - float(np.min(base_scores))
    if not np.isfinite(base_scores[0]):  # any that can be computed is better
        base_scores, best = np.zeros(1), -np.inf
    # Of a past without noise a thousandth is as certain as all of it.
    least = (SHARES_OF_PAST[-1] / health,) if CONFLICT < health < np.inf else ()
    for share in (*SHARES_OF_PAST, *least):
        less = belief.scaled(share)
        trial = attempted(less, evidence, stop)
        gains = scores(trial) - base_scores
        gain = float(np.sum(gains) - mild * max(np.max(gains), 0.0))
        if np.median(gains) > 0.0:
            gain = float(np.fmax(gain, label_evidence(trial, less) - base_evidence))
        if gain > best:
            best, kept, past, attempt = gain, share, less, trial
    return past, (Adaptation("forgotten", kept),) if kept < 1.0 else (), attempt


def _remaining(forget: float, half_life: float | None, rows: int) -> float:
    """Weight of all earlier data when `rows` new observations come."""
    factor = 1.0 if forget == 1.0 else checks.number("forget", forget, above=0.0, most=1.0)
    if half_life is None:
        return factor
    if factor < 1.0:
        raise checks.refuse("half_life", half_life, "None beside forget", "give one of the two")
    return float(0.5 ** (rows / checks.number("half_life", half_life, above=0.0)))


def _sound(info: Info, rows: float) -> bool:
    """Whether the squared residuals of a batch are not much larger than expected.

    A single iteration that has not converged starts from the belief itself and cannot have gone
    wrong, so an odd row in a fully online stream is no reason to refuse it. With few rows the
    figure fluctuates like chi-squared over its degrees of freedom: three of its standard deviations
    are allowed, or what one row on a sparse coefficient may add (`ONE_ROW`).
    """
    limit = CONFLICT if info.converged else UNCONVERGED
    chance = max(3.0 * math.sqrt(2.0 / rows), ONE_ROW / rows)
    online = info.iterations == 1 and not info.converged
    return bool(online or info.health < limit * (1.0 + chance))
