"""The one verb: a belief absorbs a piece of evidence and becomes a new belief."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from miniamp import checks
from miniamp.arrays import Array
from miniamp.errors import ConflictError, ConflictWarning, InvalidTypeError

#: Above this figure of mean g^2 / mean(-dg) a converged batch contradicts itself. Healthy batches
#: lie between .75 and 1.25 and the failures seen at 17 and beyond; ten leaves room for a noise
#: level that is misjudged by an order of magnitude, which is wrong but does not poison the stream.
ILL = 10.0

#: The same for a batch that has not settled: its last iterate is one of many, and a wandering
#: perceptron adds a poor one at figures of 4 to 9 (2 of 20 runs at N = 2000 never recovered; with
#: this limit none). Batches that wander harmlessly near a threshold stay below 1.3.
UNSETTLED = 3.0

#: What one row may add by chance alone: where coefficients are sparse, a row that meets one of them
#: has a residual far outside its error bars (seen: 64 for a sparse row under a Laplace prior).
HEAVY = 30.0

#: Changes that shrink by less than this from iteration to iteration may be those of a plateau: near
#: a threshold they shrink ever more slowly before they grow again.
STEADY = 0.9

#: So many ratios in a row must be steady.
WATCHED = 3


@dataclass(frozen=True, slots=True)
class Stop:
    """When to stop refining a batch.

    Parameters
    ----------
    max_iter : int
        At most this many iterations (t_max of Algorithm 1). Reaching it is no error: near a
        threshold a finite problem wanders for ever at an error that is fine all the same.
    tol : float
        Stop when the mean absolute change of the estimate, relative to the signal's scale, is
        below.
    slack : float
        Also stop when all that further iterations could change is below this many posterior
        standard deviations: at 0.1 the squared error that is left over is a hundredth of the
        error that is there anyway. What is left is judged by how the changes shrink, and only
        where they shrink steadily (`STEADY`), so that a plateau that is still to be left is not
        taken for the end. 0, the default, is the paper's rule, `tol` alone.

    Examples
    --------
    >>> Stop(max_iter=1)
    Stop(max_iter=1, tol=1e-08, slack=0.0)
    """

    max_iter: int = 500
    tol: float = 1e-8
    slack: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_iter", checks.count("max_iter", self.max_iter))
        object.__setattr__(self, "tol", checks.number("tol", self.tol, least=0.0))
        object.__setattr__(self, "slack", checks.number("slack", self.slack, least=0.0))

    def met(self, trace: Sequence[float], uncertainty: float) -> bool:
        """Whether these changes, the last one latest, are small enough to stop.

        Changes that shrink by a factor r leave r/(1 - r) times the last one to go. `uncertainty` is
        the posterior standard deviation on the scale of the changes; 0 where it is not known.
        """
        if trace[-1] < self.tol:
            return True
        if not uncertainty * self.slack > 0.0 or len(trace) <= WATCHED:
            return False
        last = trace[-WATCHED - 1 :]
        rate = max(new / old for old, new in pairwise(last))
        return rate < STEADY and last[-1] * rate < (1.0 - rate) * self.slack * uncertainty


class Step(NamedTuple):
    """One refinement of what a piece of evidence says of a belief."""

    tilt: Any  #: the evidence's own tilt so far, to be added to the belief's
    estimate: Any  #: moments of the belief so tilted
    memory: Any  #: what the evidence carries to its next iteration (the Onsager term)
    change: float  #: mean absolute change of the estimate over its scale, undamped
    health: float = 1.0  #: mean g^2 / mean(-dg)
    solved: bool = False  #: nothing is left that floating point could learn from these rows
    ended: bool = False  #: not solved, but further iterations would only wander about the solution
    solver: str = ""  #: which solver is at work
    reason: str = ""  #: and, where it was chosen, why
    uncertainty: float = 0.0  #: posterior standard deviation, on the scale of `change`


Belief = TypeVar("Belief")


class Evidence(Protocol):
    """What `absorb` asks of evidence: drawn rows, or the typical batch of the theory."""

    @property
    def rows(self) -> int:
        """How many observations this is; it sets how far chance may move the health figure."""

    def start(self, belief: Any) -> tuple[Any, Any]:
        """The first estimate and an empty memory. Called once for every batch (errata B2)."""

    def refine(self, belief: Any, estimate: Any, memory: Any) -> Step:
        """One iteration; must leave its arguments as they are."""

    def remedies(self) -> Iterable[tuple[str, Evidence]]:
        """More careful ways to look at the same rows, tried in turn when this one is ill."""

    def conclude(self, belief: Any, step: Step) -> Any:
        """The belief after the last step: usually `belief.tilted(step.tilt)`."""

    def diagnosis(self) -> str:
        """In plain words, what in these rows may have led astray; asked only after a failure."""


@dataclass(frozen=True, slots=True)
class Info:
    """How a batch was absorbed.

    Attributes
    ----------
    iterations : int
        Iterations of the attempt that was taken.
    converged : bool
        Whether the change fell below the tolerance, or the rows were solved exactly.
    trace : array
        Change of the estimate at each iteration, relative to its scale.
    health : float
        mean g^2 / mean(-dg): 1 when the residuals are as large as the belief expects.
    remedy : str
        "" if the evidence was taken as it came, else the more careful way that worked.
    solver, reason : str
        The solver of the attempt that was taken, and why it was chosen.
    """

    iterations: int
    converged: bool
    trace: Array = field(repr=False)
    health: float
    remedy: str = ""
    solver: str = ""
    reason: str = ""


def absorb(
    belief: Belief,
    evidence: Evidence,
    stop: Stop | None = None,
    *,
    forget: float = 1.0,
    half_life: float | None = None,
) -> tuple[Belief, Info]:
    """The belief after `evidence`, and how it got there; the given belief stays as it is.

    Bayes' rule on a stream (`eq:bayes_rule`) within factorised beliefs: Algorithm 1 for a batch of
    rows, Algorithm 2 for one row and one iteration, Theorem 1 for a typical batch and a law.

    Parameters
    ----------
    belief : Posterior or theory.Law
        What is known so far.
    evidence : Evidence
        What is new; see `miniamp.evidence`.
    stop : Stop, optional
        When to stop iterating.
    forget : float, optional
        For drifting streams: what is known so far counts this many times, 0 < forget <= 1.
    half_life : float, optional
        The same in words: after so many rows an observation counts half.

    Raises
    ------
    ConflictError
        The rows contradict the model however carefully they are looked at.

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
        raise InvalidTypeError(
            f"stop: got {stop!r}, expected a Stop; write Stop(max_iter=..., tol=...)"
        )
    if not callable(getattr(evidence, "refine", None)):
        raise InvalidTypeError(
            f"evidence: got {type(evidence).__name__}, expected evidence; "
            "wrap the rows as evidence.Batch(Phi, y, channel)"
        )
    factor = _remaining(forget, half_life, evidence.rows)
    if factor < 1.0:
        belief = belief.scaled(factor)  # type: ignore[attr-defined]  # every belief that can forget
    new, info = _iterate(belief, evidence, stop)
    if _sound(info, evidence.rows):
        return new, info
    for name, careful in evidence.remedies():
        warnings.warn(
            f"a batch looks unsound (mean g^2 / mean(-dg) = {info.health:.3g} after "
            f"{info.iterations} iterations, about 1 expected); trying again with {name}",
            ConflictWarning,
            stacklevel=2,
        )
        new, info = _iterate(belief, careful, stop, remedy=name)
        if _sound(info, evidence.rows):
            return new, info
    raise ConflictError(
        f"evidence: mean g^2 / mean(-dg) is {info.health:.3g} after {info.iterations} iterations, "
        f"expected about 1; the belief is unchanged. {evidence.diagnosis()}",
        health=info.health,
        iteration=info.iterations,
    )


def stream(
    belief: Belief,
    evidences: Iterable[Evidence],
    stop: Stop | None = None,
    *,
    forget: float = 1.0,
    half_life: float | None = None,
) -> Iterator[tuple[Belief, Info]]:
    """Belief and info after each piece of evidence, lazily, holding one piece at a time.

    Mini-AMP (Algorithm 1) for batches of rows; ADF (Algorithm 2) for single rows with
    `Stop(max_iter=1)`.

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
    k = 0
    for evidence in evidences:
        try:
            belief, info = absorb(belief, evidence, stop, forget=forget, half_life=half_life)
        except ConflictError as error:
            raise ConflictError(
                f"batch {k}: {error}", health=error.health, iteration=error.iteration, batch=k
            ) from error
        del evidence  # the source may need its room for the next one (enumerate would keep it)
        k += 1  # noqa: SIM113
        yield belief, info


def _remaining(forget: float, half_life: float | None, rows: int) -> float:
    """How much of what is known still counts when `rows` new observations come."""
    factor = checks.number("forget", forget, above=0.0, most=1.0)
    if half_life is None:
        return factor
    if factor < 1.0:
        raise checks.refuse("half_life", half_life, "None beside forget", "give one of the two")
    return float(0.5 ** (rows / checks.number("half_life", half_life, above=0.0)))


def _iterate(
    belief: Belief, evidence: Evidence, stop: Stop, remedy: str = ""
) -> tuple[Belief, Info]:
    estimate, memory = evidence.start(belief)
    trace: list[float] = []
    converged = False
    while len(trace) < stop.max_iter and not converged:
        with np.errstate(over="ignore", invalid="ignore"):  # health tells what diverges
            step = evidence.refine(belief, estimate, memory)
        estimate, memory = step.estimate, step.memory
        trace.append(step.change)
        converged = bool(step.solved or stop.met(trace, step.uncertainty))
        if step.ended or not np.isfinite(step.change):
            break
    info = Info(
        len(trace), converged, np.array(trace), step.health, remedy, step.solver, step.reason
    )
    return (evidence.conclude(belief, step) if np.isfinite(step.change) else belief), info


def _sound(info: Info, rows: int) -> bool:
    """Whether the batch may be added: it is finite, and its residuals agree with its error bars.

    A single iteration that has not converged starts from the belief itself and cannot have gone
    astray, so one strange row in a fully online stream is no reason to refuse it. With few rows the
    figure fluctuates like chi-squared over its degrees of freedom: three of its standard deviations
    are allowed for, or what a single row on a sparse coefficient may bring (`HEAVY`).
    """
    if not np.isfinite(info.trace[-1]):
        return False
    limit = ILL if info.converged else UNSETTLED
    chance = max(3.0 * np.sqrt(2.0 / rows), HEAVY / rows)
    first_look = info.iterations == 1 and not info.converged
    return first_look or info.health < limit * (1.0 + chance)
