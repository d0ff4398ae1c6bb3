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
from miniamp.evidence.auto import SolverChoice, choose
from miniamp.evidence.base import PLAUSIBLE, DrawnRows, check_columns
from miniamp.info import Adaptation
from miniamp.posterior import Moments, Posterior
from miniamp.tilt import Information, Tilt

#: Factorisations for a batch at most: the first batch must find the orders of magnitude. Later ones
#: move hyper-parameters by a few per cent, and most need one.
FIRST_ROUNDS, ROUNDS = 30, 3
#: Hyper-parameters that move by less than this part of their own standard deviation (that of a
#: logarithm is sqrt(2/n) after n rows) have settled.
SETTLED = 0.1
#: The same where a round costs as much as the products of the rows, beyond `ALWAYS` coefficients.
SETTLED_ENOUGH = 0.4
#: The prior of a coefficient follows the units of its feature when they change by more than this.
SAME_UNITS = 0.02
#: A round changes a variance at most by this factor.
LARGEST_STEP = 10.0
#: The least number of rows or coefficients that are divided by.
TINY = 1e-9
#: The least noise, relative to the mean square of y: sums of squares have 16 digits, and the
#: residuals are a difference of them.
LEAST_NOISE = 1e-12
#: Up to so many coefficients rows are absorbed in closed form whatever the batch: at 500, batches
#: of 32 rows take 18 ms, and 49 ms in the robust solver with 256 remembered rows.
ALWAYS = 500
#: Up to so many their products are kept: 134 MB, and 2 s for each round of a batch.
MOST = 4096
#: Beyond ALWAYS a batch has at least one row for so many coefficients: the factorisation costs the
#: same however few the rows are. Chosen by this count of operations, not by a measured crossing.
PER_ROW = 4


def choose_exact(
    design: Design, belief: Posterior, channel: Channel, *, memory: int | None = None
) -> SolverChoice | None:
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
        return SolverChoice("exact", "the products of all rows are kept")
    if size <= ALWAYS:
        return SolverChoice("exact", "few features: their products are kept")
    if rows * PER_ROW < size:
        return None
    other = choose(design, remembers=belief.remembered is not None)
    if other.solver == "amp":
        return None
    return SolverChoice("exact", f"{other.reason}; the products of {size} columns are kept")


class Round(NamedTuple):
    """What goes from round to round."""

    past: Information  #: before the batch
    seen: Information  #: with the batch, under the hyper-parameters of this round
    width: Array  #: (N,) variances of the prior before the batch
    linear: Array  #: (N,) the linear part of prior and tilt
    shared: Array  #: (N,) which widths are learned: all but an intercept's
    factor: float = 1.0  #: by which those are multiplied
    number: int = 0
    health: float = np.nan
    log_evidence: float = np.nan


ExactStep = Step[Tilt, Moments, Round]
NO_TILT = Tilt(np.zeros(()), np.zeros(()))


class ExactBatch(DrawnRows[Round]):
    """Rows (Phi, y) with Gaussian noise, absorbed in closed form by beliefs with a Gaussian prior.

    The belief keeps the sums of all products, Phi'Phi, Phi'y and y'y (`tilt.Information`),
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
        Number of rows that the noise was learned from before the belief kept products.
    products : dict, optional
        Where Phi' diag(w) Phi is kept for other batches with the same rows, by their weights w.

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
        fixed: Collection[str] = ("mean",),
        known: float = 0.0,
        reason: str = "",
        products: dict[bytes, Array] | None = None,
    ) -> None:
        super().__init__(Phi, y, channel)
        if self.channel.gaussian_noise() is None:
            raise checks.refuse(
                "channel", repr(channel), "Gaussian noise", "use RobustBatch for other channels"
            )
        self.learns_prior, self.learns_noise = prior, noise
        self.fixed, self.known, self.reason = fixed, known, reason
        self.products = {} if products is None else products

    def start(self, belief: Posterior) -> tuple[Moments, Round]:
        check_columns(self.design, belief)
        if not belief.prior.is_gaussian:
            raise checks.refuse(
                "prior", repr(belief.prior), "a Gaussian prior", "use RobustBatch for other priors"
            )
        noise, each, count = self._noise()
        past = self._past(belief, noise)
        weighted = each * self.y
        seen = past.including(
            self._products(each),
            self.design.transposed_times(weighted),
            float(weighted @ self.y),
            count,
        )
        prior, nothing = belief.prior, np.zeros(belief.size)
        centre, width = prior.moments(nothing, nothing)
        shared = np.zeros(belief.size, dtype=bool)
        if self.learns_prior:
            shared = prior.rescaled(2.0, self.fixed).moments(nothing, nothing)[1] != width
        return Moments(np.zeros(1), np.ones(1)), Round(
            past, seen, width, centre / width + belief.tilt.B, shared
        )

    def refine(self, belief: Posterior, estimate: Moments, memory: Round) -> ExactStep:
        past, seen, number = memory.past, memory.seen, memory.number + 1
        try:
            mean, var = seen.solution[:2]
        except np.linalg.LinAlgError:  # beyond working precision: absorb reports it by name
            return Step(NO_TILT, estimate, memory, change=np.nan, health=np.nan, solver="exact")
        if number == 1 or past.count == 0.0:
            misfit, log_evidence = self._compared(past, seen)
            memory = memory._replace(
                health=misfit / float(np.sum(self.repeats()[0])), log_evidence=log_evidence
            )
        following, factor, change = self._learned(belief, memory)
        last = number >= (ROUNDS if past.count else FIRST_ROUNDS)
        enough = SETTLED if belief.size <= ALWAYS else SETTLED_ENOUGH
        solved = change < enough or last
        return Step(
            tilt=NO_TILT,
            estimate=Moments(mean, var),
            memory=memory._replace(number=number)
            if solved
            else memory._replace(number=number, seen=following, factor=factor),
            change=change,
            health=memory.health,
            solved=solved,
            solver="exact",
            reason=self.reason,
            carried_by=2.0 * self.known if self.learns_noise and self.known else np.inf,
        )

    def log_evidence(self, belief: Posterior, step: ExactStep) -> float:
        return step.memory.log_evidence

    def conclude(self, belief: Posterior, step: ExactStep) -> Posterior:
        prior, factor = belief.prior, step.memory.factor
        if factor != 1.0:
            prior = prior.rescaled(float(np.sqrt(factor)), self.fixed)
        return belief.informed(prior, step.memory.seen)

    def total(self, belief: Posterior, step: ExactStep) -> Tilt:
        return belief.tilt + step.memory.seen.field

    def cavity(self, step: ExactStep) -> tuple[Array, Array]:
        seen = step.memory.seen
        precision = self._noise()[1] / seen.noise
        var = self.design.row_powers(seen.solution.root)
        rest = np.maximum(1.0 - precision * var, np.finfo(np.float64).eps)
        omega = (self.design.times(seen.solution.mean) - precision * var * self.y) / rest
        return omega, var / rest

    def adapted(
        self, belief: Posterior, step: ExactStep, *, sound: bool
    ) -> tuple[Self, tuple[Adaptation, ...]] | None:
        if not np.isfinite(step.change):
            return None
        seen = step.memory.seen
        away = np.abs(self.y - self.design.times(step.estimate.mean)) * np.sqrt(self._noise()[1])
        if sound and self.weights is None and away.max() < PLAUSIBLE * np.sqrt(seen.noise):
            return None  # as most batches: no row can be an outlier
        now = self.with_channel(self.plain.with_noise(seen.noise))
        better = DrawnRows.adapted(now, belief, step, sound=sound)
        return None if better is None else (better[0].with_channel(self.plain), better[1])

    def left_out_score(self, step: ExactStep) -> float:
        now = self.with_channel(self.plain.with_noise(step.memory.seen.noise))
        return DrawnRows.left_out_score(now, step)

    def _products(self, weights: Array) -> Array:
        """The products of the columns; those of the latest weights are kept for other targets."""
        key = weights.tobytes()
        if key not in self.products:
            self.products.clear()
            self.products[key] = self.design.information(weights)
        return self.products[key]

    def _noise(self) -> tuple[float, Array, float]:
        """A unit of noise, weights (M,) with which all rows have it, and how many rows these are.

        The unit of noise that differs from row to row is the geometric mean, with which the
        evidence is the right one.
        """
        unit, own = self.channel.unweighted().gaussian_noise(), self.channel.gaussian_noise()
        assert unit is not None
        assert own is not None
        if own.ndim == 0:
            return float(own), np.ones(self.rows), float(self.rows)
        noise = float(np.exp(np.mean(np.log(unit)))) if unit.size > 1 else float(unit)
        count = float(np.sum(np.broadcast_to(unit / own, self.y.shape)))
        return noise, np.broadcast_to(noise / own, self.y.shape), count

    def _past(self, belief: Posterior, noise: float) -> Information:
        remembered, N = belief.remembered, belief.size
        if remembered is None:
            return Information(np.zeros((N, N)), np.zeros(N), 0.0, 0.0, noise, *belief.gaussian())
        return remembered.information(noise, self.known, belief.gaussian)

    def _compared(self, past: Information, seen: Information) -> tuple[float, float]:
        """Squared residuals and distance from the past, a chi-squared, and the log-evidence.

        From the rows themselves: a difference of the sums of squares of all rows would lose the
        digits that the noise has less than y (7 of 16 at a noise of 1e-8).
        """
        mean, width = seen.solution.mean, seen.precision
        away, volume = mean - seen.linear / width, float(np.sum(np.log(width)))
        if past.count:
            away, volume = mean - past.solution.mean, past.solution.log_det
        rows = float(self._noise()[1] @ np.square(self.y - self.design.times(mean)))
        misfit = (rows + float(away @ past.S @ away)) / seen.noise + float(width @ np.square(away))
        given, left = self.repeats()
        noise = float(given @ np.log(2.0 * np.pi * seen.noise / left))
        return misfit, -0.5 * (noise + seen.solution.log_det - volume + misfit)

    def _learned(self, belief: Posterior, memory: Round) -> tuple[Information, float, float]:
        """After one step of MacKay's fixed point: the information, the factor, and the change.

        The change is in standard deviations of what is learned.
        """
        seen, width, shared = memory.seen, memory.width, memory.shared
        now = np.where(shared, memory.factor * width, width)
        signal = float(np.sum((now * np.diagonal(seen.S))[shared])) / seen.count
        share = signal / (signal + seen.noise)
        noise, factor, change = seen.noise, memory.factor, 0.0
        if self.learns_noise:
            free = max(seen.free, TINY)
            noise = _step(noise, (seen.residual + share * noise) / free)
            power = seen.square / seen.count
            noise = min(max(noise, LEAST_NOISE * power), power) if power > 0.0 else noise
            change = abs(np.log(noise / seen.noise)) * np.sqrt(0.5 * free)
        precision = 1.0 / width
        if shared.any():
            mean, var = seen.solution[:2]
            used = float(np.sum((1.0 - var * (seen.precision - belief.tilt.A))[shared]))
            moved = float(np.sum((np.square(mean) / now)[shared])) + 1.0 - share
            factor *= _step(1.0, moved / max(used, TINY))
            precision = np.where(shared, 1.0 / (factor * width), precision)
            change = max(
                change, abs(np.log(factor / memory.factor)) * np.sqrt(0.5 * max(used, 1.0))
            )
        precision = precision + belief.tilt.A
        units = float(np.max(np.abs(np.log(precision / seen.precision))))
        if units > SAME_UNITS:
            change = max(change, units / SAME_UNITS)
        sums = seen.S, seen.b, seen.square, seen.count
        after = Information(*sums, noise, precision, memory.linear)
        return after, factor, change


def _step(old: float, new: float) -> float:
    return min(max(new, old / LARGEST_STEP), old * LARGEST_STEP)
