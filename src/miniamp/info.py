"""Interfaces of beliefs and evidence, the stopping rule of `absorb`, and its report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from miniamp import checks
from miniamp.arrays import Array


@dataclass(frozen=True, slots=True)
class Stop:
    """Stopping rule of the iterations on a batch.

    Parameters
    ----------
    max_iter : int
        Maximum number of iterations (t_max of Algorithm 1). Reaching it is no error: near a
        threshold the iterations of a finite problem fluctuate for ever, at a small error.
    tol : float
        Tolerance of the mean absolute change of the estimate, relative to its root mean square.
    slack : float
        Also stop when further iterations would change the estimate by less than this many
        posterior standard deviations: at 0.1 they would change the squared error by a hundredth.
        Their change is extrapolated from the ratio of the latest changes, if that is steady
        (`absorb.STEADY`), so that a plateau is not mistaken for convergence. 0, the default, is
        the paper's rule, `tol` alone.

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
    """Names of rows, features and classes that messages about a batch use, where there are any."""

    features: Sequence[str] | None = None
    classes: Sequence[object] | None = None
    before: int | None = None  #: rows of all earlier batches

    def row(self, index: int) -> str:
        """Name of a row: its index in the batch, or its number from 1 over all batches."""
        return f"row {index if self.before is None else self.before + index + 1:,}"


#: Rows by their index in the batch, features by their index.
PLAIN = Naming()


class Outlier(NamedTuple):
    """A row that is very improbable given the belief and the other rows of its batch."""

    row: int  #: index within the batch, from 0
    received: float  #: its y
    expected: float  #: the leave-one-out prediction
    deviations: float  #: distance of the two in standard deviations

    def worded(self, names: Naming) -> str:
        """Description of the outlier with these names."""
        y, expected = f"y={self.received:.4g}", f"{self.expected:.4g}"
        if names.classes is not None:
            labels = self.received, self.expected
            y, expected = (str(names.classes[max(int(label), 0)]) for label in labels)
        off = f"{self.deviations:.3g} standard deviations off ({expected} expected)"
        return f"{names.row(self.row)}: {y} is {off}"


class OddEntry(NamedTuple):
    """An entry of X far from all others of its feature, and contradicted by the target."""

    row: int  #: index within the batch, from 0
    feature: int
    received: float
    used: float  #: mean of the feature, which replaces it
    low: float  #: smallest of all other entries
    high: float  #: largest of them

    def worded(self, names: Naming) -> str:
        """Description of the entry with these names."""
        name = f"x{self.feature}" if names.features is None else names.features[self.feature]
        others = f"all others are between {self.low:.4g} and {self.high:.4g}"
        return f"{names.row(self.row)}: {name}={self.received:.4g}, where {others}"


class Adaptation(NamedTuple):
    """Change with which a batch in conflict was absorbed: an entry of `Info.adapted`.

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
    outlier: Outlier | OddEntry | None = None  #: the row or entry of kind "row" or "entry"

    def __str__(self) -> str:
        return self.worded(PLAIN)

    def worded(self, names: Naming) -> str:
        """Reason for the change, and the change, with these names."""
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
    """Report on how a batch was absorbed.

    Attributes
    ----------
    iterations : int
        Number of iterations.
    converged : bool
        Whether the change fell below the tolerance, or the rows were solved exactly.
    trace : array
        Change of the estimate at each iteration, relative to its scale.
    health : float
        mean g^2 / mean(-dg): 1 when the residuals are as large as the belief expects.
    remedy : str
        Name of the more careful solver that was needed; "" if none was.
    solver, reason : str
        Solver of the batch, and why it was chosen.
    adapted : tuple of Adaptation
        Changes because of a conflict, with `on_conflict="adapt"` or "skip"; () without one.
    log_evidence : float
        Log-probability of the batch given the belief before it, under the hyper-parameters before
        it (of the first batch, those after it). It is the Bethe estimate of the solver: exact for
        Gaussian prior and channel in the robust and the exact solver. ADF sums the
        log-probabilities of its rows in turn, mean field and softmax give their variational lower
        bounds. nan where it is not known: if the batch has diverged, and in the theory.
    log_evidence_sum : float
        Its sum over the batches of `stream` so far; nan from `absorb`.
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
    """Interface of beliefs that `absorb` updates: a posterior, a model or a law of the theory."""

    def scaled(self, factor: float) -> Self:
        """The belief with all data weighted by `factor`: 0.5 forgets half of them."""


BeliefT = TypeVar("BeliefT", bound=Belief)
TiltT = TypeVar("TiltT")
EstimateT = TypeVar("EstimateT")
MemoryT = TypeVar("MemoryT")


class Step(NamedTuple, Generic[TiltT, EstimateT, MemoryT]):
    """One iteration of a piece of evidence on a belief."""

    tilt: TiltT  #: tilt of the evidence so far, to be added to that of the belief
    estimate: EstimateT  #: moments of the belief with both
    memory: MemoryT  #: state of the evidence for its next iteration (the Onsager term)
    change: float  #: mean absolute change of the estimate over its scale, undamped
    health: float = 1.0  #: mean g^2 / mean(-dg)
    solved: bool = False  #: whether this is the solution, up to rounding or what matters
    ended: bool = False  #: whether further iterations would not improve it, although not solved
    solver: str = ""
    reason: str = ""  #: why the solver was chosen
    uncertainty: float = 0.0  #: posterior standard deviation, on the scale of `change`
    #: Effective sample size of `health`, (sum of -dg)^2 / sum of dg^2: small if most labels are
    #: certain.
    effective_rows: float = np.inf
    #: Whether residuals are bounded, as those of labels: a change hardly raises their `health`.
    bounded: bool = False


class Evidence(Protocol[BeliefT, TiltT, EstimateT, MemoryT]):
    """Interface of evidence that `absorb` uses: rows, or the typical batch of the theory."""

    @property
    def rows(self) -> int:
        """Number of observations, on which the standard deviation of the health figure depends."""

    def start(self, belief: BeliefT) -> tuple[EstimateT, MemoryT]:
        """Initial estimate and state. Called once for every batch (errata B2)."""

    def refine(
        self, belief: BeliefT, estimate: EstimateT, memory: MemoryT
    ) -> Step[TiltT, EstimateT, MemoryT]:
        """One iteration; does not change its arguments."""

    def refine_all(
        self, belief: BeliefT, estimate: EstimateT, memory: MemoryT, stop: Stop
    ) -> tuple[list[float], Step[TiltT, EstimateT, MemoryT] | None]:
        """All iterations in one compiled call: the change of each, and the last step.

        For evidence whose iterations are short compared with a call from Python. It may end after
        any of them, also before the first one ([] and None): `absorb` continues with `refine`.
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
        """The same rows with less weight or more noise, and the changes; None without any."""

    def left_out_scores(self, step: Step[TiltT, EstimateT, MemoryT]) -> Array:
        """Leave-one-out log-probability of each row, (M,); [0] for the theory."""

    def diagnosis(self) -> str:
        """Description of the likely cause of a failure in these rows."""


class PlainEvidence:
    """Base class of evidence without compiled iterations and without remedies."""

    def refine_all(
        self, belief: object, estimate: object, memory: object, stop: Stop
    ) -> tuple[list[float], None]:
        return [], None

    def remedies(self) -> Iterable[tuple[str, Self]]:
        return ()

    def diagnosis(self) -> str:
        return ""


class WholeEvidence(PlainEvidence):
    """Base class of evidence whose rows cannot be weighted one by one."""

    def log_evidence(self, belief: Any, step: Any) -> float:
        return np.nan

    def adapted(self, belief: object, step: object, *, sound: bool) -> None:
        return None

    def left_out_scores(self, step: object) -> Array:
        return np.zeros(1)
