"""Interfaces of beliefs and evidence, when `absorb` stops, and what it reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from miniamp import checks
from miniamp.arrays import Array


@dataclass(frozen=True, slots=True)
class Stop:
    """When to stop refining a batch.

    Parameters
    ----------
    max_iter : int
        At most this many iterations (t_max of Algorithm 1). Reaching it is no error: near a
        threshold a finite problem never settles, at an error that is fine all the same.
    tol : float
        Stop when the mean absolute change of the estimate, relative to the signal's scale, is
        below.
    slack : float
        Also stop when further iterations could change the estimate by less than this many
        posterior standard deviations: at 0.1 they would change the squared error by a
        hundredth. The remaining change is extrapolated from how the changes shrink, and only
        where they shrink steadily (`absorb.STEADY`), so that a plateau is not mistaken for
        convergence. 0, the default, is the paper's rule, `tol` alone.

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


class Naming(NamedTuple):
    """The user's names of the rows, features and classes of a batch, where they are known."""

    features: Sequence[str] | None = None
    classes: Sequence[object] | None = None
    before: int | None = None  #: rows of all earlier batches

    def row(self, index: int) -> str:
        """A row of the batch: by its index, or counted from 1 over all batches, as in a file."""
        return f"row {index if self.before is None else self.before + index + 1:,}"


#: Rows by their index in the batch, features by their index.
PLAIN = Naming()


class Outlier(NamedTuple):
    """A row that is very improbable given the belief and the other rows of its batch."""

    row: int  #: index within the batch, from 0
    received: float  #: its y
    expected: float  #: the prediction without this row
    deviations: float  #: how many standard deviations lie between the two

    def worded(self, names: Naming) -> str:
        """What is odd about it, in the user's names."""
        y, expected = f"y={self.received:.4g}", f"{self.expected:.4g}"
        if names.classes is not None:
            labels = self.received, self.expected
            y, expected = (str(names.classes[max(int(label), 0)]) for label in labels)
        off = f"{self.deviations:.3g} standard deviations off ({expected} expected)"
        return f"{names.row(self.row)}: {y} is {off}"


class OddEntry(NamedTuple):
    """An entry of X far from all others of its feature, which its target contradicts."""

    row: int  #: index within the batch, from 0
    feature: int
    received: float
    used: float  #: the mean of the feature
    low: float  #: smallest and largest of all others
    high: float

    def worded(self, names: Naming) -> str:
        """What is odd about it, in the user's names."""
        name = f"x{self.feature}" if names.features is None else names.features[self.feature]
        others = f"all others are between {self.low:.4g} and {self.high:.4g}"
        return f"{names.row(self.row)}: {name}={self.received:.4g}, where {others}"


class Adaptation(NamedTuple):
    """How a batch in conflict was changed before it was absorbed: an entry of `Info.adapted`.

    Examples
    --------
    >>> print(Adaptation("row", 0.002, Outlier(17, 50.0, 2.0, 48.0)))
    row 17: y=50 is 48 standard deviations off (2 expected); counted 0.002 times
    >>> print(Adaptation("entry", 0.0, OddEntry(17, 3, 9999.0, 41.5, 18.0, 80.0)))
    row 17: x3=9999, where all others are between 18 and 80; read as 41.5
    >>> print(Adaptation("noise", 31.0))
    the batch contradicts the past; absorbed with 31 times the noise
    """

    kind: str  #: "row", "entry", "noise", "forgotten" or "skipped"
    factor: float  #: weight of the row, factor of the noise, share of the past that was kept
    outlier: Outlier | OddEntry | None = None  #: which row or entry, where it is about one

    def __str__(self) -> str:
        return self.worded(PLAIN)

    def worded(self, names: Naming) -> str:
        """What was done and why, in the user's names."""
        why = "no solution was found for these rows"
        if self.outlier is not None:
            why = self.outlier.worded(names)
        elif np.isfinite(self.factor):
            why = f"squared residuals {self.factor:.3g} times as large as expected"
        return {
            "row": f"{why}; counted {self.factor:.2g} times",
            "entry": f"{why}; read as {getattr(self.outlier, 'used', np.nan):.4g}",
            "noise": f"the batch contradicts the past; absorbed with {self.factor:.3g} times the "
            "noise",
            "forgotten": f"the stream has changed; {self.factor:.3g} of the past was kept",
            "skipped": f"{why}; skipped",
        }[self.kind]


@dataclass(frozen=True, slots=True)
class Info:
    """How a batch was absorbed.

    Attributes
    ----------
    iterations : int
        Iterations of the attempt that was used.
    converged : bool
        Whether the change fell below the tolerance, or the rows were solved exactly.
    trace : array
        Change of the estimate at each iteration, relative to its scale.
    health : float
        mean g^2 / mean(-dg): 1 when the residuals are as large as the belief expects.
    remedy : str
        "" if the first attempt was used, else the more careful one that worked.
    solver, reason : str
        The solver of the attempt that was used, and why it was chosen.
    adapted : tuple of Adaptation
        What was done about a conflict, with `on_conflict="adapt"` or "skip"; () without one.
    log_evidence : float
        Log-probability of the batch given the belief before it, under the hyper-parameters so far
        (of the first batch, those it led to). The Bethe estimate of its solver: exact for Gaussian
        prior and channel in the robust and the exact solver; ADF sums the log-probabilities of its
        rows in turn, mean field and softmax give their variational lower bounds. nan where it is
        not known: a batch that has diverged, the typical batches of the theory.
    log_evidence_sum : float
        Its sum over the batches so far of `stream`; nan from `absorb`, which sees one batch.
    """

    iterations: int
    converged: bool
    trace: Array = field(repr=False)
    health: float
    remedy: str = ""
    solver: str = ""
    reason: str = ""
    adapted: tuple[Adaptation, ...] = ()
    log_evidence: float = np.nan
    log_evidence_sum: float = np.nan


class Belief(Protocol):
    """Interface of beliefs, as `absorb` uses it: a posterior, a model or a law of the theory."""

    def scaled(self, factor: float) -> Self:
        """The belief with all data weighted by `factor`: 0.5 forgets half of them."""


BeliefT = TypeVar("BeliefT", bound=Belief)
TiltT = TypeVar("TiltT")
EstimateT = TypeVar("EstimateT")
MemoryT = TypeVar("MemoryT")


class Step(NamedTuple, Generic[TiltT, EstimateT, MemoryT]):
    """One iteration of a piece of evidence on a belief."""

    tilt: TiltT  #: the evidence's own tilt so far, to be added to the belief's
    estimate: EstimateT  #: moments of the belief so tilted
    memory: MemoryT  #: what the evidence carries to its next iteration (the Onsager term)
    change: float  #: mean absolute change of the estimate over its scale, undamped
    health: float = 1.0  #: mean g^2 / mean(-dg)
    solved: bool = False  #: nothing is left that floating point could learn from these rows
    ended: bool = False  #: not solved, but further iterations would not improve the estimate
    solver: str = ""  #: which solver is at work
    reason: str = ""  #: and why it was chosen
    uncertainty: float = 0.0  #: posterior standard deviation, on the scale of `change`
    #: How many rows carry `health`, (sum of -dg)^2 / sum of dg^2: few where most labels are certain
    carried_by: float = np.inf
    bounded: bool = False  #: residuals of labels are: a change may hardly raise their health figure


class Evidence(Protocol[BeliefT, TiltT, EstimateT, MemoryT]):
    """Interface of evidence, as `absorb` uses it: rows, or the typical batch of the theory."""

    @property
    def rows(self) -> int:
        """Number of observations; it sets how far chance may move the health figure."""

    def start(self, belief: BeliefT) -> tuple[EstimateT, MemoryT]:
        """The first estimate and an empty memory. Called once for every batch (errata B2)."""

    def refine(
        self, belief: BeliefT, estimate: EstimateT, memory: MemoryT
    ) -> Step[TiltT, EstimateT, MemoryT]:
        """One iteration; must leave its arguments as they are."""

    def refine_all(
        self, belief: BeliefT, estimate: EstimateT, memory: MemoryT, stop: Stop
    ) -> tuple[list[float], Step[TiltT, EstimateT, MemoryT] | None]:
        """The iterations of `refine` until `stop`, in one compiled call: changes, and last step.

        For evidence whose iterations are short against the time between two calls. It may leave off
        anywhere, also before the first one ([] and None): `absorb` continues with `refine`.
        """

    def conclude(self, belief: BeliefT, step: Step[TiltT, EstimateT, MemoryT]) -> BeliefT:
        """The belief after the last step: usually `belief.tilted(step.tilt)`."""

    def log_evidence(self, belief: BeliefT, step: Step[TiltT, EstimateT, MemoryT]) -> float:
        """Log-probability of the whole batch given the belief, after the last step."""

    def remedies(self) -> Iterable[tuple[str, Self]]:
        """More careful ways to solve the same rows, tried in turn when this one fails."""

    def adapted(
        self, belief: BeliefT, step: Step[TiltT, EstimateT, MemoryT], *, sound: bool
    ) -> tuple[Self, tuple[Adaptation, ...]] | None:
        """The same rows, down-weighted or with more noise after `step`, and what was changed.

        None if nothing has to be changed, or nothing can be.
        """

    def left_out_scores(self, step: Step[TiltT, EstimateT, MemoryT]) -> Array:
        """Log-probability of each row given all others; [0] where no rows were drawn."""

    def diagnosis(self) -> str:
        """Likely cause of a failure in these rows, in words; called only after one."""


class PlainEvidence:
    """Base class of evidence that is refined step by step, without remedies."""

    def refine_all(
        self, belief: object, estimate: object, memory: object, stop: Stop
    ) -> tuple[list[float], None]:
        return [], None

    def remedies(self) -> Iterable[tuple[str, Self]]:
        return ()

    def diagnosis(self) -> str:
        return ""


class WholeEvidence(PlainEvidence):
    """Base class of evidence that is absorbed as a whole: its rows cannot be down-weighted."""

    def log_evidence(self, belief: Any, step: Any) -> float:
        return np.nan

    def adapted(self, belief: object, step: object, *, sound: bool) -> None:
        return None

    def left_out_scores(self, step: object) -> Array:
        return np.zeros(1)
