"""Typical batches of columns: the evidence that the laws of low-rank models absorb.

Y = U V'/sqrt(N) + noise of variance Delta (errata L1), beta = 1/Delta (errata L2). U is kept, V
arrives with the columns. A_U = beta lambda_V and A_V = beta M_U, and the overlap of V accumulates:
lambda_V <- lambda_V + alpha_b E V eta_V' (errata L8 to L10).
"""

from __future__ import annotations

from typing import Any, Generic, Protocol, Self, TypeVar

from miniamp import checks
from miniamp.absorb import Step, Stop, WholeEvidence, absorb
from miniamp.arrays import Given

#: A matrix law stops when its overlaps move by less than this share.
CONVERGED = Stop(max_iter=2000, tol=1e-10)


State = TypeVar("State")


class ColumnLaw(Protocol[State]):
    """What a typical batch of columns asks of a law."""

    def entry(self, alpha: float, informed: bool) -> State:
        """The estimate before the first iteration."""

    def refined(self, estimate: State, alpha: float) -> State:
        """The estimate after one more iteration on a batch of alpha N columns."""

    def settled(self, estimate: State, alpha: float) -> State | None:
        """The fixed point that iterations lead to; None where they have to be done."""

    def distance(self, new: State, old: State) -> float:
        """The change between two estimates, relative to their scale."""

    def after(self, estimate: State, alpha: float) -> Self:
        """The law after a batch of alpha N columns that ended at this estimate."""

    def energy(self, after: Self) -> float:
        """Free energy of the batch that led from here to `after`; the posterior has the lowest."""

    @property
    def state(self) -> State:
        """The estimate at which the last batch ended."""


LawT = TypeVar("LawT", bound=ColumnLaw[Any])


class TypicalColumns(WholeEvidence, Generic[State]):
    """alpha N columns drawn at random: the twin of `evidence.FactorBatch`.

    Parameters
    ----------
    alpha : float
        Columns of the batch per row of U, alpha_b.
    informed : bool
        Start from the true labels: the best fixed point rather than the algorithm's.

    Examples
    --------
    >>> from miniamp import Stop, absorb
    >>> from miniamp.theory.lowrank import LabelLaw, Mixture
    >>> law, info = absorb(LabelLaw(Mixture(5, 0.1), a=1e-3), TypicalColumns(0.5), Stop(max_iter=3))
    >>> info.iterations, round(law.mse, 6)
    (3, 0.800612)
    """

    #: Infinitely many columns: chance plays no part.
    rows = 2**53

    def __init__(self, alpha: Given, informed: bool = False) -> None:
        self.alpha = checks.number("alpha_b", alpha, above=0.0)
        self.informed = informed

    def start(self, belief: ColumnLaw[State]) -> tuple[State, None]:
        return belief.entry(self.alpha, self.informed), None

    def refine(
        self, belief: ColumnLaw[State], estimate: State, memory: None
    ) -> Step[State, State, None]:
        new = belief.refined(estimate, self.alpha)
        return Step(new, new, None, change=belief.distance(new, estimate))

    def conclude(self, belief: LawT, step: Step[State, State, None]) -> LawT:
        return belief.after(step.tilt, self.alpha)

    def diagnosis(self) -> str:
        return "The state evolution diverges: the belief is too far from the truth."


class ConvergedColumns(TypicalColumns[State]):
    """Typical columns iterated to convergence, by a root search where the law has one number.

    Examples
    --------
    >>> from miniamp import absorb
    >>> from miniamp.theory.lowrank import LabelLaw, Mixture
    >>> law, _ = absorb(LabelLaw(Mixture(R=5, noise=0.1)), ConvergedColumns(0.5))
    >>> round(law.mse, 10)
    0.6001355145
    """

    def refine(
        self, belief: ColumnLaw[State], estimate: State, memory: None
    ) -> Step[State, State, None]:
        found = belief.settled(estimate, self.alpha)
        if found is None:
            return super().refine(belief, estimate, memory)
        return Step(found, found, None, change=0.0, solved=True)


class OptimalColumns(ConvergedColumns[State]):
    """Typical columns under exact inference: the fixed point of lowest free energy.

    Examples
    --------
    >>> from miniamp import absorb
    >>> from miniamp.theory.lowrank import LabelLaw, Mixture
    >>> hard = LabelLaw(Mixture(R=8, noise=0.05))
    >>> kinds = ConvergedColumns, OptimalColumns
    >>> [round(absorb(hard, kind(0.15))[0].label_error, 3) for kind in kinds]
    [0.875, 0.489]
    """

    def start(self, belief: ColumnLaw[State]) -> tuple[State, None]:
        ends = [
            absorb(belief, ConvergedColumns(self.alpha, informed), CONVERGED)[0]  # type: ignore[misc]
            for informed in (False, True)
        ]
        return min(ends, key=belief.energy).state, None
