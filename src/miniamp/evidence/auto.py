"""A batch of rows, absorbed by the solver that suits them: the one place where that is decided.

`choose` returns a `SolverChoice`, the name of a solver and why, for a design and a belief;
`AutoBatch` calls it once per batch. Who knows the rows of several batches or targets beforehand (an
estimator with one model per class, a function that cuts data into batches) calls it once and hands
the answer on:

    choice = choose(design, solver="auto", remembers=model.posterior.remembered is not None)
    rows = functools.partial(AutoBatch, choice=choice)   # a solver for learning.Learn
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import numpy as np

from miniamp import checks
from miniamp.absorb import Step
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.designs import Design
from miniamp.evidence.base import DrawnRows
from miniamp.evidence.batch import Batch
from miniamp.evidence.dual import Dual
from miniamp.evidence.robust import RobustBatch
from miniamp.info import Stop
from miniamp.posterior import Moments, Posterior
from miniamp.tilt import Tilt

#: The names that a user may give.
SOLVERS = ("auto", "amp", "robust")
#: For so few rows or features the robust solver is cheap, and exact where AMP is right for many.
FEW_ROWS, FEW_FEATURES = 4, 64
#: Where a belief can remember a row per coefficient, AMP is used from so many rows per coefficient
#: on. It keeps marginals only, and what these lose grows with the signal: 100 independent features,
#: a Laplace prior and 400 rows by 7 end at up to 40,000 times the error of the robust solver where
#: the noise is 1e-8 of the signal, at 1.3 to 7 times where it is 1e-4, and take twice as long.
#: From two rows per coefficient on the two agree within 10 %, and AMP is 2 to 6 times as fast.
ROWS_FOR_AMP = 2
#: The excess of the rows' squared singular values over that of independent entries (`correlation`)
#: up to which AMP is used. Independent entries give 0 +- 0.02; AR(.45) features 0.1 to 0.5, where
#: the error of AMP is 1.65 times the robust solver's; AR(.3) 0.04 to 0.2.
TRUSTED = 0.06
#: The same where earlier rows were correlated, or looked it: AMP adds to what is remembered of them
#: but does not use it, so rows must look independent beyond doubt. One false alarm then does not
#: keep the robust solver for good.
RETURNING = 0.02
#: Products with the rows and back that estimate it, for a standard deviation of 0.02 or less; rows
#: so few that as many products give their whole Gram matrix need no estimate.
PROBED_ROWS = 600
#: Up to so many coefficients rows are absorbed in closed form whatever the batch: at 500, batches
#: of 32 rows take 18 ms, and 49 ms in the robust solver with 256 remembered rows.
ALWAYS = 500
#: Up to so many their products are kept: 134 MB, and 2 s for each round of a batch.
MOST = 4096
#: Beyond ALWAYS a batch has at least one row for so many coefficients, and rows wait for others
#: till then: the factorisation costs the same however few they are. Chosen by this count of
#: operations, not by a measured crossing.
PER_ROW = 4


class SolverChoice(NamedTuple):
    """A solver, and why it was chosen."""

    solver: str  #: "amp" or "robust"
    reason: str


def choose(
    design: Design, *, solver: str = "auto", remembers: bool = False, room: int = 0
) -> SolverChoice:
    """The solver for these rows, and why.

    Parameters
    ----------
    design : Design
        The rows.
    solver : {"auto", "amp", "robust"}
        What the user asked for.
    remembers : bool
        Whether the belief that will absorb them remembers rows: AMP makes no use of these.
    room : int
        How many rows it can remember.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp.designs import as_design
    >>> Phi = np.random.default_rng(0).normal(size=(100, 200))
    >>> choose(as_design(Phi)).solver, choose(as_design(Phi + 1.0)).solver
    ('amp', 'robust')
    >>> near = as_design(Phi + 0.19)  # nearly independent
    >>> choose(near).solver, choose(near, remembers=True).solver
    ('amp', 'robust')
    """
    if solver not in SOLVERS:
        raise checks.refuse("solver", repr(solver), f"one of {SOLVERS}", "{solver=auto} suits any")
    if solver != "auto":
        return SolverChoice(solver, "as asked")
    if design.shape[0] < FEW_ROWS:
        return SolverChoice("robust", "few rows")
    if design.shape[1] <= FEW_FEATURES:
        return SolverChoice("robust", "few features: the robust solver is cheap and exact there")
    rows, size = design.shape
    if size <= room and rows < ROWS_FOR_AMP * size:
        return SolverChoice("robust", "all that rows tell of so few features is remembered")
    if Dual.suits(design):
        return SolverChoice("robust", "few entries per row: the robust solver is cheap there")
    excess, limit = correlation(design), RETURNING if remembers else TRUSTED
    reason = f"excess correlation of the rows {excess:.3f}, up to {limit:g} is independent"
    if remembers and excess >= limit:
        reason += " where rows are remembered"
    return SolverChoice("amp" if excess < limit else "robust", reason)


class Chosen(NamedTuple):
    """What goes from iteration to iteration."""

    choice: SolverChoice
    memory: Any  #: of the solver that was chosen


AutoStep = Step[Tilt, Moments, Chosen]
_Solver = Batch | RobustBatch


class AutoBatch(DrawnRows[Chosen]):
    """Rows (Phi, y), absorbed by AMP where the design allows it and by the robust solver elsewhere.

    AMP is right for designs whose singular values are those of independent entries, once rows and
    columns are brought to one scale (`choose`). A batch that looks independent and yet comes out in
    conflict is solved again by the robust solver. `Info` has the solver and the reason.

    Parameters
    ----------
    Phi : (M, N) array, scipy.sparse matrix or Design
        The rows.
    y : (M,) array
        What was observed.
    channel : Channel
        How it came about.
    solver : {"auto", "amp", "robust"}
        "auto", or the solver to use.
    choice : SolverChoice, optional
        The answer of `choose`, where it is known already.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import Posterior, absorb, channels, priors
    >>> rng = np.random.default_rng(0)
    >>> Phi = rng.normal(size=(50, 100)) + 2.0
    >>> rows = AutoBatch(Phi, Phi @ rng.normal(size=100), channels.Gaussian(var=0.01))
    >>> belief, info = absorb(Posterior(priors.Gaussian(), 100), rows)
    >>> info.solver
    'robust'
    """

    def __init__(
        self,
        Phi: Given,
        y: Given,
        channel: Channel,
        *,
        solver: str = "auto",
        choice: SolverChoice | None = None,
    ) -> None:
        super().__init__(Phi, y, channel)
        if solver not in SOLVERS:
            choose(self.design, solver=solver)  # refuses it
        self.solver = solver
        #: By whether the belief remembers rows; shared with copies, so that each is made once.
        self._choices: dict[bool, SolverChoice] = (
            {} if choice is None else {True: choice, False: choice}
        )
        self._solvers: dict[str, _Solver] = {}

    def choice(self, belief: Posterior) -> SolverChoice:
        """The solver for these rows and this belief, and why."""
        remembers = belief.remembers
        if remembers not in self._choices:
            room = belief.memory
            made = choose(self.design, solver=self.solver, remembers=remembers, room=room)
            self._choices[remembers] = made
        return self._choices[remembers]

    def start(self, belief: Posterior) -> tuple[Moments, Chosen]:
        choice = self.choice(belief)
        estimate, memory = self._chosen(choice).start(belief)
        return estimate, Chosen(choice, memory)

    def refine(self, belief: Posterior, estimate: Moments, memory: Chosen) -> AutoStep:
        choice, inner = memory
        return _outer(self._chosen(choice).refine(belief, estimate, inner), choice)

    def refine_all(
        self, belief: Posterior, estimate: Moments, memory: Chosen, stop: Stop
    ) -> tuple[list[float], AutoStep | None]:
        choice, inner = memory
        trace, step = self._chosen(choice).refine_all(belief, estimate, inner, stop)
        return trace, None if step is None else _outer(step, choice)

    def log_evidence(self, belief: Posterior, step: AutoStep) -> float:
        return self._chosen(step.memory.choice).log_evidence(belief, _inner(step))

    def conclude(self, belief: Posterior, step: AutoStep) -> Posterior:
        return self._chosen(step.memory.choice).conclude(belief, _inner(step))

    def total(self, belief: Posterior, step: AutoStep) -> Tilt:
        return self._chosen(step.memory.choice).total(belief, _inner(step))

    def cavity(self, step: AutoStep) -> tuple[Array, Array]:
        return self._chosen(step.memory.choice).cavity(_inner(step))

    def _fitted(self, step: AutoStep) -> Array:
        return self._chosen(step.memory.choice)._fitted(_inner(step))

    def diagnosis(self) -> str:
        return self.design.diagnosis() if self.solver == "amp" else ""

    def remedies(self) -> Iterable[tuple[str, Self]]:
        if self.solver == "auto":
            careful = copy.copy(self)
            careful._choices = dict.fromkeys(
                (True, False), SolverChoice("robust", "AMP was in conflict")
            )
            yield "the robust solver", careful

    def with_channel(self, channel: Channel) -> Self:
        new = super().with_channel(channel)
        new._solvers = {n: s.with_channel(channel) for n, s in self._solvers.items()}
        return new

    def weighted(self, weights: Array) -> Self:
        new = super().weighted(weights)
        new._solvers = {n: s.weighted(weights) for n, s in self._solvers.items()}
        return new

    def resuming(self, step: AutoStep) -> Self:
        choice, new = step.memory.choice, self.like(self)
        solver: Any = self._chosen(choice)
        new._solvers = {**self._solvers, choice.solver: solver.resuming(_inner(step))}
        return new

    def with_design(self, design: Design) -> Self:
        new = super().with_design(design)
        new._solvers = {}
        return new

    def _chosen(self, choice: SolverChoice) -> _Solver:
        if choice.solver not in self._solvers:
            amp = choice.solver == "amp"
            made: _Solver = Batch.like(self) if amp else RobustBatch.like(self)
            del made.__dict__["_solvers"]  # which has it: a cycle would keep the rows in memory
            self._solvers[choice.solver] = made
        return self._solvers[choice.solver]


def _outer(step: Step[Tilt, Moments, Any], choice: SolverChoice) -> AutoStep:
    """A step of the chosen solver, with the choice and its reason."""
    reason = "; ".join(filter(None, [choice.reason, step.reason]))
    return step._replace(memory=Chosen(choice, step.memory), solver=choice.solver, reason=reason)


def _inner(step: AutoStep) -> Step[Tilt, Moments, Any]:
    """The step of the solver that was chosen."""
    return step._replace(memory=step.memory.memory)


def correlation(design: Design) -> float:
    """The mean fourth power of the rows' singular values over that of independent entries, less 1.

    Of the entries Phi_ij / (a_i b_j), with a and b the scales of rows and columns: different scales
    alone do AMP no harm. With G the Gram matrix of the shorter side (n x n, mean eigenvalue 1) and
    c = n over the longer side, independent entries have tr G^2 / n = 1 + c. It is estimated from a
    few products u'p(G)u with p(x) = x^2 - (2 + c) x + 1, whose mean is tr G^2 / n - 1 - c and whose
    variance for independent entries is the least that a quadratic can have: p is orthogonal to all
    of lower degree under the Marchenko-Pastur law.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp.designs import as_design
    >>> Phi = np.random.default_rng(0).normal(size=(200, 300))
    >>> correlation(as_design(Phi)) < 0.05 < correlation(as_design(Phi + 1.0))
    True
    """
    M, N = design.shape
    # Columns, rows, columns again: after one round a few large columns would still set the scale of
    # all rows.
    b = _inverse_root(design.transposed_squares_times(np.ones(M)), M)
    a = _inverse_root(design.squares_times(np.square(b)), N)
    if not a.any():
        return 0.0
    b = _inverse_root(design.transposed_squares_times(np.square(a)), M)
    live_rows, live_columns = int((a > 0.0).sum()), int((b > 0.0).sum())

    def forth(u: Array) -> Array:
        return np.asarray(a * design.times(b * u))

    def back(w: Array) -> Array:
        return np.asarray(b * design.transposed_times(a * w))

    wide = live_rows <= live_columns
    n, longer = sorted((live_rows, live_columns))
    c, rng = n / longer, np.random.default_rng(0)
    found = []
    for _ in range(-(-PROBED_ROWS // n)):
        u = rng.choice([-1.0, 1.0], size=M if wide else N) * ((a if wide else b) > 0.0)
        half = back(u) if wide else forth(u)
        whole = forth(half) if wide else back(half)
        size = float(half @ half) / longer  # u'Gu, up to the mean eigenvalue
        square = float(whole @ whole) / longer**2
        found.append((size, square))
    sizes, squares = np.mean(found, axis=0) / n
    return float(squares - (2.0 + c) * sizes + 1.0) / (1.0 + c)


def _inverse_root(total: Array, count: int) -> Array:
    """1 over the root mean square of `count` entries with this sum of squares; 0 for none."""
    some = total > 0.0
    return np.where(some, np.sqrt(count / np.where(some, total, 1.0)), 0.0)
