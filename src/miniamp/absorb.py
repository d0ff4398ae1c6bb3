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

#: A batch is in conflict from this health figure on (mean g^2 / mean(-dg)). Healthy batches lie
#: between .75 and 1.25 and the failures seen at 17 and beyond; ten leaves room for a noise level
#: that is wrong by an order of magnitude, which is inaccurate but does not spoil the stream.
CONFLICT = 10.0

#: The same for a batch that has not converged: its last iterate is one of many, and a perceptron
#: that does not settle adds a poor one at figures of 4 to 9 (2 of 20 runs at N = 2000 never
#: recovered; with this limit none). Batches that fluctuate near a threshold stay below 1.3.
UNCONVERGED = 3.0

#: What one row may add by chance alone: where coefficients are sparse, a row that meets one of them
#: has a residual far outside its error bars (seen: 64 for a sparse row under a Laplace prior).
ONE_ROW = 30.0

#: Attempts at a batch in conflict: weights of a Student t settle in two or three.
ADAPTATIONS = 5

#: From this health figure on (labels: 1) a batch of a stream that forgets may come after a change:
#: the share of the past with which its rows predict each other so many nats (150 to 1) better.
SUSPICIOUS, KEPT, CHANGED = 2.0, (0.1, 0.01, 0.001), 5.0

#: Changes that shrink by less than this from iteration to iteration may be those of a plateau: near
#: a threshold they shrink ever more slowly before they grow again.
STEADY = 0.9
#: So many ratios in a row must be steady.
WATCHED = 3

#: What `absorb` does with a batch that contradicts the model or the past.
POLICIES = ("raise", "skip", "adapt")


class Attempt(NamedTuple, Generic[BeliefT, TiltT, EstimateT, MemoryT]):
    """One run of a piece of evidence to its end."""

    belief: BeliefT  #: the belief after it; as it was where the run did not stay finite
    info: Info
    step: Step[TiltT, EstimateT, MemoryT]  #: the last one
    sound: bool  #: whether the residuals agree with their error bars
    evidence: Evidence[BeliefT, TiltT, EstimateT, MemoryT]  #: what was run

    def report(self, past: BeliefT, adapted: tuple[Adaptation, ...] = ()) -> Info:
        """The `Info` with the log-evidence, which is computed for the final attempt only."""
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

    The given belief stays as it is. Bayes' rule on a stream (`eq:bayes_rule`) for factorised
    beliefs: Algorithm 1 for a batch, Algorithm 2 for one row, Theorem 1 for a typical batch.

    Parameters
    ----------
    belief : Posterior, learning.Model or theory.Law
        What is known so far.
    evidence : Evidence
        What is new; see `miniamp.evidence`.
    stop : Stop, optional
        When to stop iterating.
    forget : float, optional
        Forgetting factor for drifting streams, 0 < forget <= 1: weight of all that was learned.
    half_life : float, optional
        The same as a number of rows, after which an observation counts half.
    on_conflict : {"raise", "skip", "adapt"}
        What to do with a batch that contradicts the model. "raise", the default here, is for
        experiments: a contradiction means that prior, channel or solver are wrong, and should be
        seen. "skip" returns the belief as it was. "adapt", the default of the estimators, absorbs
        what it can: outliers are down-weighted as by a Student t noise; a batch that
        contradicts the past is absorbed with the noise that it shows, or, where the stream forgets
        (`forget` < 1) and the batch is better explained so, with less of the past. `Info.adapted`
        lists what was done.

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
    raise conflict(
        attempt.info, evidence.diagnosis(), [o for o in outliers if isinstance(o, Outlier)]
    )


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
    """The first sound attempt, of the evidence as given, then with its remedies; else the last."""
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
    """Iterate `evidence.refine` until `stop` is met, the rows are solved, or the evidence ends.

    Without `conclude` the attempt has the old belief: a caller that tries again needs no new one.
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
    rows = min(evidence.rows, step.carried_by)
    return Attempt(new, info, step, finite and _sound(info, rows), evidence)


def _over(step: Step[TiltT, EstimateT, MemoryT], trace: list[float], stop: Stop) -> bool:
    """Whether `step` is the last one."""
    ended = step.solved or step.ended or not math.isfinite(step.change)
    return ended or len(trace) >= stop.max_iter or met(stop, trace, step.uncertainty)


def met(stop: Stop, trace: Sequence[float], uncertainty: float) -> bool:
    """Whether these changes, the last one latest, are small enough to stop.

    Changes that shrink by a factor r leave r/(1 - r) times the last one to go. `uncertainty` is
    the posterior standard deviation on the scale of the changes; 0 where it is not known.
    """
    if trace[-1] < stop.tol:
        return True
    if not uncertainty * stop.slack > 0.0 or len(trace) <= WATCHED:
        return False
    last = trace[-WATCHED - 1 :]
    rate = max(new / old for old, new in pairwise(last))
    return rate < STEADY and last[-1] * rate < (1.0 - rate) * stop.slack * uncertainty


def conflict(info: Info, found: str, outliers: Sequence[Outlier] = ()) -> ConflictError:
    """The error for a batch that no attempt could absorb: the one place that describes it.

    `found` is what the rows themselves show, in words; `outliers` are rows at fault.
    """
    worst = max(outliers, key=lambda row: row.deviations, default=None)
    found = found if worst is None else worst.worded(PLAIN)
    solved = bool(np.isfinite(info.trace[-1]) and np.isfinite(info.health))
    figure = f"squared residuals {info.health:.3g} times as large as their error bars"
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
    """The belief after the evidence, with rows down-weighted or noise added where they conflict."""
    past, kept, done = belief, tuple[Adaptation, ...](), tuple[Adaptation, ...]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConflictWarning)  # `Info` reports remedies
        attempt = attempted(past, evidence, stop)
        limit = 1.0 if attempt.step.bounded else SUSPICIOUS
        if drifts and not (attempt.sound and attempt.info.health < limit):
            past, kept, attempt = _changed(belief, evidence, stop, attempt)
        for _ in range(ADAPTATIONS):
            better = evidence.adapted(past, attempt.step, sound=attempt.sound)
            if better is None:
                break
            evidence, done = better
            attempt = attempted(past, evidence, stop)
    if not attempt.sound:
        done = (Adaptation("skipped", attempt.info.health),)
        return belief, attempt.report(past, done)
    return attempt.belief, attempt.report(past, (*kept, *done))


def _changed(
    belief: BeliefT,
    evidence: Evidence[BeliefT, TiltT, EstimateT, MemoryT],
    stop: Stop,
    attempt: Attempt[BeliefT, TiltT, EstimateT, MemoryT],
) -> tuple[BeliefT, tuple[Adaptation, ...], Attempt[BeliefT, TiltT, EstimateT, MemoryT]]:
    """As much of the past as explains the batch, where the stream may have changed.

    A change moves all rows, an outlier one: with a cap on what each row may say, and without the
    one that gains most below SUSPICIOUS, rows predict each other better with less of the past. Of
    labels, where most rows gain, so does the evidence without the row predicted worst: rows of one
    batch outvote a past that they contradict. Of numbers it overstates a change (dropped.md).
    """

    def scores(trial: Attempt[BeliefT, TiltT, EstimateT, MemoryT]) -> Array:
        finite = np.isfinite(trial.step.change)
        return evidence.left_out_scores(trial.step) if finite else np.full(1, -np.inf)

    def whole(trial: Attempt[BeliefT, TiltT, EstimateT, MemoryT], past: BeliefT) -> float:
        return trial.report(past).log_evidence if trial.step.bounded else np.nan

    mild = attempt.sound and attempt.info.health < SUSPICIOUS
    before, best, kept, past = scores(attempt), CHANGED, 1.0, belief
    entire = whole(attempt, belief) - float(np.min(before))
    if not np.isfinite(before[0]):  # any that can be computed is better
        before, best = np.zeros(1), -np.inf
    # Of a past without noise a thousandth is as certain as all of it.
    least = (KEPT[-1] / attempt.info.health,) if CONFLICT < attempt.info.health < np.inf else ()
    for factor in (*KEPT, *least):
        less = belief.scaled(factor)
        trial = attempted(less, evidence, stop)
        each = scores(trial) - before
        gain = float(np.sum(each) - mild * max(np.max(each), 0.0))
        if np.median(each) > 0.0:
            gain = float(np.fmax(gain, whole(trial, less) - entire))
        if gain > best:
            best, kept, past, attempt = gain, factor, less, trial
    return past, (Adaptation("forgotten", kept),) if kept < 1.0 else (), attempt


def _remaining(forget: float, half_life: float | None, rows: int) -> float:
    """How much of what is known still counts when `rows` new observations come."""
    factor = 1.0 if forget == 1.0 else checks.number("forget", forget, above=0.0, most=1.0)
    if half_life is None:
        return factor
    if factor < 1.0:
        raise checks.refuse("half_life", half_life, "None beside forget", "give one of the two")
    return float(0.5 ** (rows / checks.number("half_life", half_life, above=0.0)))


def _sound(info: Info, rows: float) -> bool:
    """Whether the residuals of a batch agree with its error bars.

    A single iteration that has not converged starts from the belief itself and cannot have gone
    wrong, so one strange row in a fully online stream is no reason to refuse it. With few rows the
    figure fluctuates like chi-squared over its degrees of freedom: three of its standard deviations
    are allowed for, or what a single row on a sparse coefficient may bring (`ONE_ROW`).
    """
    limit = CONFLICT if info.converged else UNCONVERGED
    chance = max(3.0 * math.sqrt(2.0 / rows), ONE_ROW / rows)
    first_look = info.iterations == 1 and not info.converged
    return bool(first_look or info.health < limit * (1.0 + chance))
