"""A batch of rows with Gaussian noise under a Gaussian prior: the posterior in closed form."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Self

import numpy as np

from miniamp import checks
from miniamp.absorb import Step
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.designs import Design
from miniamp.evidence.auto import Choice, choose
from miniamp.evidence.base import DrawnRows, check_columns
from miniamp.info import Adaptation
from miniamp.posterior import Moments, Posterior, Prior
from miniamp.remembered import Information
from miniamp.tilt import Tilt

#: Factorisations for a batch at most: the first batch must find the orders of magnitude. Later ones
#: move hyper-parameters by a few per cent, and most need one.
FIRST_ROUNDS, ROUNDS = 30, 3
#: Hyper-parameters that move by less than this part of themselves have settled: far below their own
#: uncertainty, sqrt(2/n) after n rows.
SETTLED = 1e-3
#: A round changes a variance at most by this factor.
LARGEST_STEP = 10.0
#: The least noise, relative to the mean square of y: sums of squares have 16 digits, and the
#: residuals are a difference of them.
LEAST_NOISE = 1e-12
#: Up to so many coefficients an update costs less than an iteration of other solvers with batches
#: of 32 rows or more.
ALWAYS = 500
#: Up to so many their products are kept: 134 MB, and 1.5 s per batch.
MOST = 4096
#: Beyond ALWAYS a batch has at least one row for so many coefficients: an update costs the same for
#: fewer rows, and remembered rows are cheaper.
PER_ROW = 4


def choose_exact(
    design: Design, belief: Posterior, channel: Channel, *, memory: int | None = None
) -> Choice | None:
    """The choice of `ExactBatch` and its reason, None where another solver is cheaper or needed.

    Parameters
    ----------
    design : Design
        The rows.
    belief : Posterior
        What will absorb them.
    channel : Channel
        How their y came about.
    memory : int, optional
        How many rows may be remembered, where that is limited: fewer than coefficients are too few.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import Posterior, channels, priors
    >>> from miniamp.designs import as_design
    >>> belief, rows = Posterior(priors.Gaussian(), 3), as_design(np.eye(3))
    >>> choose_exact(rows, belief, channels.Gaussian(var=0.1)).solver
    'exact'
    >>> choose_exact(rows, belief, channels.Probit()) is None
    True
    """
    (rows, size), noise = design.shape, channel.gaussian_noise()
    suits = belief.prior.is_gaussian and noise is not None
    if not suits or size > MOST or (memory is not None and memory < size):
        return None
    if belief.information is not None:
        return Choice("exact", "the belief keeps the products of all rows")
    if size <= ALWAYS:
        return Choice("exact", "few features: their products are kept")
    if rows * PER_ROW < size:
        return None
    other = choose(design, remembers=belief.remembered is not None)
    if other.solver == "amp":
        return None
    return Choice("exact", f"{other.reason}; the products of {size} columns are kept")


class Round(NamedTuple):
    """What goes from round to round."""

    past: Information  #: before the batch
    seen: Information  #: with the batch, under the hyper-parameters of this round
    prior: Prior
    number: int = 0
    health: float = np.nan
    log_evidence: float = np.nan


ExactStep = Step[Tilt, Moments, Round]


class ExactBatch(DrawnRows[Round]):
    """Rows (Phi, y) with Gaussian noise, absorbed in closed form by beliefs with a Gaussian prior.

    The belief keeps the sums of all products, Phi'Phi, Phi'y and y'y (`remembered.Information`),
    which are all that such rows tell. A batch costs one product of its columns, O(M N^2), and one
    Cholesky factorisation, O(N^3/3), per round. It does not matter how the rows are cut into
    batches.

    The variances of prior and noise can be learned: each round is a step of MacKay's fixed point to
    the largest evidence of all rows so far. With h the share of the variance of y that the prior
    expects to explain, the evidence is multiplied by sqrt(h (1 - h)): the weight of one row, that
    keeps both variances from zero where there are fewer rows than coefficients.

    Parameters
    ----------
    Phi : (M, N) array, scipy.sparse matrix or Design
        The rows.
    y : (M,) array
        What was observed.
    channel : channels.Gaussian
        Its noise; where the noise is learned, that of the belief so far.
    prior, noise : bool
        Whether the width of the prior and the noise are learned.
    fixed : collection of str
        Hyper-parameters of the prior that stay as they are.
    known : float
        Number of rows that told the noise before the belief kept products.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import Posterior, absorb, channels, priors
    >>> rng = np.random.default_rng(0)
    >>> Phi, x = rng.normal(size=(40, 20)), rng.normal(size=20)
    >>> rows = ExactBatch(Phi, Phi @ x, channels.Gaussian(var=1e-2))
    >>> belief, info = absorb(Posterior(priors.Gaussian(), 20), rows)
    >>> exact = np.linalg.solve(Phi.T @ Phi / 1e-2 + np.eye(20), Phi.T @ Phi @ x / 1e-2)
    >>> bool(np.allclose(belief.mean, exact)), info.solver
    (True, 'exact')
    """

    def __init__(
        self,
        Phi: Given,
        y: Given,
        channel: Channel,
        *,
        prior: bool = False,
        noise: bool = False,
        fixed: Collection[str] = (),
        known: float = 0.0,
        reason: str = "",
    ) -> None:
        super().__init__(Phi, y, channel)
        if self.channel.gaussian_noise() is None:
            raise checks.refuse(
                "channel", repr(channel), "Gaussian noise", "use RobustBatch for other channels"
            )
        self.learns_prior, self.learns_noise = prior, noise
        self.fixed, self.known, self.reason = fixed, known, reason

    def start(self, belief: Posterior) -> tuple[Moments, Round]:
        check_columns(self.design, belief)
        if not belief.prior.is_gaussian:
            raise checks.refuse(
                "prior", repr(belief.prior), "a Gaussian prior", "use RobustBatch for other priors"
            )
        noise, weights = self._noise()
        past = self._past(belief, noise)
        each = np.ones(self.rows) if weights is None else weights
        weighted = each * self.y
        seen = past.including(
            self.design.information(each),
            self.design.transposed_times(weighted),
            float(weighted @ self.y),
            float(each.sum()),
        )
        return Moments(np.zeros(1), np.ones(1)), Round(past, seen, belief.prior)

    def refine(self, belief: Posterior, estimate: Moments, memory: Round) -> ExactStep:
        past, seen, prior, number = memory[:4]
        try:
            mean, var = seen.solution[:2]
        except np.linalg.LinAlgError:  # beyond working precision: absorb reports it by name
            nothing = Tilt(np.zeros(()), np.zeros(()))
            return Step(nothing, estimate, memory, change=np.nan, health=np.nan, solver="exact")
        if number == 0 or past.count == 0.0:
            told = seen.count - past.count
            before = (past.misfit, past.log_evidence) if past.count else (0.0, 0.0)
            memory = memory._replace(
                health=max(seen.misfit - before[0], 0.0) / told,
                log_evidence=seen.log_evidence - before[1],
            )
        next_prior, next_noise = self._learned(belief, memory)
        next_belief = belief.remembering(None).with_prior(next_prior)
        precision, linear = next_belief.gaussian()
        change = max(
            float(np.max(np.abs(np.log(precision / seen.precision)))),
            abs(np.log(next_noise / seen.noise)),
        )
        last = number + 1 >= (ROUNDS if past.count else FIRST_ROUNDS)
        if not (change < SETTLED or last):
            following = Information(
                seen.S, seen.b, seen.square, seen.count, next_noise, precision, linear
            )
            memory = memory._replace(seen=following, prior=next_prior)
        return Step(
            tilt=Tilt(np.zeros(()), np.zeros(())),
            estimate=Moments(mean, var),
            memory=memory._replace(number=number + 1),
            change=change,
            health=memory.health,
            solved=change < SETTLED or last,
            solver="exact",
            reason=self.reason,
            carried_by=2.0 * self.known if self.learns_noise and self.known else np.inf,
            log_evidence=memory.log_evidence,
        )

    def conclude(self, belief: Posterior, step: ExactStep) -> Posterior:
        return belief.informed(step.memory.prior, step.memory.seen)

    def total(self, belief: Posterior, step: ExactStep) -> Tilt:
        return belief.tilt + step.memory.seen.field

    def cavity(self, step: ExactStep) -> tuple[Array, Array]:
        seen = step.memory.seen
        _, weights = self._noise()
        precision = (1.0 if weights is None else weights) / seen.noise
        var = self.design.row_powers(seen.solution.root)
        rest = np.maximum(1.0 - precision * var, np.finfo(np.float64).eps)
        omega = (self.design.times(seen.solution.mean) - precision * var * self.y) / rest
        return omega, var / rest

    def adapted(
        self, belief: Posterior, step: ExactStep, *, sound: bool
    ) -> tuple[Self, tuple[Adaptation, ...]] | None:
        if not np.isfinite(step.change):
            return None
        now = self.with_channel(self.plain.with_noise(step.memory.seen.noise))
        better = DrawnRows.adapted(now, belief, step, sound=sound)
        return None if better is None else (better[0].with_channel(self.plain), better[1])

    def left_out_score(self, step: ExactStep) -> float:
        now = self.with_channel(self.plain.with_noise(step.memory.seen.noise))
        return DrawnRows.left_out_score(now, step)

    def _noise(self) -> tuple[float, Array | None]:
        """The noise of a row that counts once, and how often each counts (None is once)."""
        unit, own = self.channel.unweighted().gaussian_noise(), self.channel.gaussian_noise()
        assert unit is not None
        assert own is not None
        # With the geometric mean for a unit, sum log(var) is that of `count` rows of this noise.
        noise = float(np.exp(np.mean(np.log(unit))))
        return noise, np.broadcast_to(noise / own, self.y.shape) if own.size > 1 else None

    def _past(self, belief: Posterior, noise: float) -> Information:
        remembered, N = belief.remembered, belief.size
        if remembered is None:
            return Information(np.zeros((N, N)), np.zeros(N), 0.0, 0.0, noise, *belief.gaussian())
        return remembered.information(noise, self.known, belief.gaussian)

    def _learned(self, belief: Posterior, memory: Round) -> tuple[Prior, float]:
        """Prior and noise after one step of MacKay's fixed point."""
        seen, prior = memory.seen, memory.prior
        mean, var = seen.solution[:2]
        nothing = np.zeros(belief.size)
        centre, width = prior.moments(nothing, nothing)
        # The intercept is not among the coefficients that share a width.
        shared = prior.rescaled(2.0, self.fixed).moments(nothing, nothing)[1] != width
        signal = float(np.sum((width * np.diagonal(seen.S))[shared])) / seen.count
        share = signal / (signal + seen.noise)
        noise = seen.noise
        if self.learns_noise:
            free = max(seen.free, LEAST_NOISE * seen.count)
            noise = _step(noise, (seen.residual + share * noise) / free)
            power = seen.square / seen.count
            noise = float(np.clip(noise, LEAST_NOISE * power, power)) if power > 0.0 else noise
        if self.learns_prior and shared.any():
            used = np.sum((1.0 - var * (seen.precision - belief.tilt.A))[shared])
            moved = float(np.sum((np.square(mean - centre) / width)[shared])) + 1.0 - share
            factor = _step(1.0, moved / max(float(used), LEAST_NOISE))
            prior = prior.rescaled(float(np.sqrt(factor)), self.fixed)
        return prior, noise


def _step(old: float, new: float) -> float:
    return float(np.clip(new, old / LARGEST_STEP, old * LARGEST_STEP))
