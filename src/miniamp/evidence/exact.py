"""A batch of rows with Gaussian noise under a Gaussian prior: the posterior in closed form."""

from __future__ import annotations

import math
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np

from miniamp import checks
from miniamp.absorb import EVIDENCE_OF_CHANGE, Step
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.designs import Design
from miniamp.evidence.auto import ALWAYS, MOST, PER_ROW, SolverChoice
from miniamp.evidence.base import DrawnRows, check_columns, plausible
from miniamp.evidence.linear import NO_TILT
from miniamp.info import Adaptation
from miniamp.posterior import Moments, Posterior
from miniamp.tilt import Information, Tilt

#: Factorisations for a batch at most: the first must find the orders of magnitude, and so must that
#: which makes rows more than coefficients, if the noise is low, and the second, if all of it is in
#: conflict (sorted by y, a curve is straight at first). Most others need one, for a few per cent.
FIRST_ROUNDS, ROUNDS = 30, 3
#: Hyper-parameters that move by less than this part of their own standard deviation (that of a
#: logarithm is sqrt(2/n) after n rows) have settled, and coefficients that their prior moves so.
#: After the first batch 0.1 would take a fifth more rounds, for errors that are the same to 1e-3
#: (10 to 200 correlated features).
SETTLED, SETTLED_LATER = 0.1, 0.3
#: The same where a round costs as much as the products of the rows, beyond `ALWAYS` coefficients.
#: Of 600 correlated features and 10 batches of 600 (6 streams) it spares half of the rounds, leaves
#: noise and width within .3 standard deviations of the best ones and errors within 2e-4.
SETTLED_ENOUGH = 0.5
#: A round changes the logarithm of a variance at most by this, and by half a step that is reversed.
LONGEST_STEP = float(np.log(10.0))
#: Newton's method begins where MacKay's fixed point would change no variance by more than e. Where
#: noise and width can hardly be told apart, its steps would be far too long without damping. On 30
#: first batches (32 to 1000 rows, 10 to 2000 coefficients, i.i.d. or correlated, any noise) it took
#: 2 to 13 rounds to the maximum, MacKay's steps 2 to 23 to a noise up to three times too high.
NEAR, DAMPING = 1.0, 0.05
#: The least number of rows or coefficients that are divided by.
TINY = 1e-9
#: The least noise, relative to the mean square of y: sums of squares have 16 digits, and the
#: residuals are a difference of them.
LEAST_NOISE = 1e-12
#: Of the products of a column: a precision under which the rows decide, and not their rounding.
LOOSE = 1e-9


def choose_exact(
    design: Design, belief: Posterior, channel: Channel, *, memory: int | None = None
) -> SolverChoice | None:
    """The choice of `ExactBatch` and its reason, None where another solver is cheaper or needed.

    For rows of a design that a belief will absorb through a channel. A `memory` of fewer rows than
    coefficients, where it is limited, is too small.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import Posterior, channels, priors
    >>> from miniamp.designs import as_design
    >>> belief, rows = Posterior(priors.Gaussian(), 3), as_design(np.eye(3))
    >>> choose_exact(rows, belief, channels.Gaussian(var=0.1)).solver
    'exact'
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
    return SolverChoice("exact", f"the products of {size} columns are kept")


class Round(NamedTuple):
    """What goes from round to round."""

    past: Information  #: before the batch
    seen: Information  #: with the batch, under the hyper-parameters of this round
    weights: Array  #: (M,) with which all rows have the same noise
    own: Array  #: (k,) precisions of the prior that are learned, of the first k coefficients
    others: Array  #: (N,) of all else: a width that is not learned, and the tilt
    linear: Array  #: (N,) the linear part of prior and tilt
    factor: float = 1.0  #: by which the learned widths are multiplied
    step: tuple[float, float] = (0.0, 0.0)  #: the latest one, of the logarithms of noise and width
    reach: float = LONGEST_STEP  #: and how far the next one may go
    number: int = 0
    health: float = np.nan
    log_evidence: float = np.nan
    residuals: Array | None = None  #: (M,) at the mean of `seen`, where they were needed


ExactStep = Step[Tilt, Moments, Round]


class ExactBatch(DrawnRows[Round]):
    """Rows (Phi, y) with Gaussian noise, absorbed in closed form by beliefs with a Gaussian prior.

    The belief keeps the sums of all products, Phi'Phi, Phi'y and y'y (`tilt.Information`),
    which are all that such rows tell. A batch costs one product of its columns, O(M N^2), and one
    Cholesky factorisation, O(N^3/3), per round. It does not matter how the rows are cut into
    batches.

    The variances of prior and noise can be learned: each round is a step of Newton's method, or of
    MacKay's fixed point while far away, to the largest evidence of all rows so far. With h the
    share of the variance of y that the prior expects to explain, the evidence is multiplied by
    sqrt(h (1 - h)): the weight of one row, that keeps both variances from zero where there are
    fewer rows than coefficients.

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
        self.fixed, self.known, self.reason, self.products = fixed, known, reason, products

    def start(self, belief: Posterior) -> tuple[Moments, Round]:
        check_columns(self.design, belief)
        if not belief.prior.is_gaussian:
            raise checks.refuse(
                "prior", repr(belief.prior), "a Gaussian prior", "use RobustBatch for other priors"
            )
        noise, weights, count = self.common_noise()
        N, weighted = belief.size, weights * self.y
        if belief.remembered is None:
            none = np.zeros((N, N)), np.zeros(N), 0.0, 0.0
            past = Information(*none, noise, *belief.gaussian())
        else:
            past = belief.remembered.information(noise, self.known, belief.gaussian)
        square, linear = float(weighted @ self.y), self.design.transposed_times(weighted)
        sums = past.b + linear, past.square + square, past.count + count, past.noise
        site, kappa = (past.precision, past.linear), (past.kappa * past.count + count) / sums[2]
        S = self._with_products(past.S, weights)
        seen = Information(S, *sums, *site, self.noise_factor > 1.0, kappa)
        prior, nothing = belief.prior, np.zeros(N)
        centre, width = prior.moments(nothing, nothing)
        own = 1.0 / width
        linear, others, learned = own * centre + belief.tilt.B, nothing + belief.tilt.A, 0
        if self.learns_prior and "var" not in self.fixed:
            learned = N - (prior.coefficients is not prior)  # the last may be an intercept
        others[learned:] += own[learned:]
        first = Round(past, seen, weights, own[:learned], others, linear)
        return Moments(np.zeros(1), np.ones(1)), first

    def refine(self, belief: Posterior, estimate: Moments, memory: Round) -> ExactStep:
        past, seen, number = memory.past, memory.seen, memory.number + 1
        try:
            mean = seen.solution.mean
        except np.linalg.LinAlgError:  # beyond working precision: absorb reports it by name
            return Step(NO_TILT, estimate, memory, change=np.nan, health=np.nan, solver="exact")
        if number == 1 or past.count == 0.0:
            memory = self._compared(memory)
        enough = SETTLED_LATER if past.count else SETTLED
        enough = enough if belief.size <= ALWAYS else SETTLED_ENOUGH
        following, change = self._learned(belief, memory, enough)
        most = NEAR if self.keeps_weight else np.inf
        near = past.count > 0.0 and -NEAR < following.step[0] < most
        solved = change < enough or number >= (ROUNDS if near else FIRST_ROUNDS)
        kept, figure = memory._replace(number=number), 1.0 if self.keeps_weight else memory.health
        following = self._highest(kept) if solved else following
        solved = following is kept
        estimate = Moments(mean, estimate.var)  # no step needs variances
        carried = 2.0 * self.known if self.learns_noise and self.known else np.inf
        step = Step(NO_TILT, estimate, kept if solved else following, change, figure, solved=solved)
        return step._replace(solver="exact", reason=self.reason, effective_rows=carried)

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
        precision = step.memory.weights / seen.noise
        var = seen.solution.row_variances(self.design.toarray())
        rest = np.maximum(1.0 - precision * var, np.finfo(np.float64).eps)
        omega = (self.design.times(seen.solution.mean) - precision * var * self.y) / rest
        return omega, var / rest

    def adapted(
        self, belief: Posterior, step: ExactStep, *, sound: bool
    ) -> tuple[Self, tuple[Adaptation, ...]] | None:
        if not np.isfinite(step.change):
            return None
        seen = step.memory.seen
        away = step.memory.residuals
        away = self.y - self.design.times(step.estimate.mean) if away is None else away
        away = np.abs(away) * np.sqrt(step.memory.weights / seen.noise)
        if sound and self.heavy_tailed is None and self.weights is None and plausible(away):
            return None
        now = self.with_channel(self.plain.with_noise(seen.noise))
        better = DrawnRows.adapted(now, belief, step, sound=sound)
        if better is None:
            return None
        new, past = better[0].with_channel(self.plain), belief.information
        if new.noise_factor > 1.0 and self.learns_noise and past is not None:
            in_full = past.contradicted or 2.0 * past.count < self.rows
            new = new.keeping_weight() if in_full else new
        return new, better[1]

    def left_out_scores(self, step: ExactStep) -> Array:
        now = self.with_channel(self.plain.with_noise(step.memory.seen.noise))
        return DrawnRows.left_out_scores(now, step)

    def _with_products(self, S: Array, weights: Array) -> Array:
        """S and the products of the columns; those of the latest weights are kept for others."""
        if self.products is None:
            total = self.design.information(weights)
            total += S
            return total
        key = weights.tobytes()
        if key not in self.products:
            self.products.clear()
            self.products[key] = self.design.information(weights)
        return S + self.products[key]

    def _compared(self, memory: Round) -> Round:
        """With squared residuals and distance from the past over the rows, and the log-evidence.

        From the rows themselves: a difference of the sums of squares of all rows would lose the
        digits that the noise has less than y (7 of 16 at a noise of 1e-8).
        """
        past, seen = memory.past, memory.seen
        mean, width = seen.solution.mean, seen.precision
        if past.count:
            away, volume = mean - past.solution.mean, past.solution.log_det
        else:
            away, volume = mean - seen.linear / width, float(np.sum(np.log(width)))
        residuals = self.y - self.design.times(mean)
        rows = float((memory.weights * residuals) @ residuals)
        misfit = (rows + float(away @ past.S @ away)) / seen.noise + float(width @ (away * away))
        given, left = self.weight_factors()
        noise = float(given @ np.log(2.0 * np.pi * seen.noise / left))
        value = -0.5 * (noise + seen.solution.log_det - volume + misfit)
        health = misfit / float(given.sum())
        return memory._replace(health=health, log_evidence=value, residuals=residuals)

    def _highest(self, memory: Round) -> Round:
        """This round, or that of the fit without a prior where the evidence is larger.

        It may have two maxima: a y that is a small difference of large features can be taken for
        noise (log-evidence -554, not 1066). Looked for up to `ALWAYS` features as rows double.
        """
        seen, own, others = memory.seen, memory.own, memory.others
        k, diagonal, exponent = len(own), seen.S.diagonal(), math.frexp(seen.count)[1]
        learns = self.learns_noise and 0 < k <= ALWAYS and seen.count > len(others)
        if not learns or exponent <= math.frexp(memory.past.count)[1]:
            return memory
        loose = np.where(diagonal > 0.0, LOOSE * diagonal / seen.noise, seen.precision)
        with suppress(np.linalg.LinAlgError):  # features that cannot be told apart
            fit = replace(seen, precision=loose)
            factor = max(float(own @ np.square(fit.solution.mean[:k])) / k, TINY * memory.factor)
            noise = max(fit.residual, LEAST_NOISE * seen.square) / (seen.count - len(others))
            precision = others + np.append(own / factor, np.zeros(len(others) - k))
            other = replace(seen, noise=noise, precision=precision)
            least = _evidence_of_all(seen) + EVIDENCE_OF_CHANGE
            if 0.0 < noise < seen.noise and least < _evidence_of_all(other):
                return memory._replace(seen=other, factor=factor, residuals=None)
        return memory

    def _learned(self, belief: Posterior, memory: Round, enough: float) -> tuple[Round, float]:
        """After one step to the largest evidence: the next round, and the change.

        The change is in standard deviations of what is learned; one below `enough` may be less.
        """
        seen, noise, factor, change = memory.seen, memory.seen.noise, memory.factor, 0.0
        step, reach = memory.step, memory.reach
        if self.learns_noise or len(memory.own):
            step, free, used = self._step(seen, memory.own / factor)
            if step[0] * memory.step[0] + step[1] * memory.step[1] < 0.0:
                reach = 0.5 * max(map(abs, memory.step))
            part = min(1.0, reach / max(*map(abs, step), TINY))
            step = part * step[0], part * step[1]
            noise, factor = noise * math.exp(step[0]), factor * math.exp(step[1])
            power = seen.square / seen.count
            if self.learns_noise and power > 0.0:
                noise = min(max(noise, LEAST_NOISE * power), power)
            moved = abs(math.log(noise / seen.noise)) * math.sqrt(0.5 * free)
            change = max(moved, abs(step[1]) * math.sqrt(0.5 * max(used, 1.0)))
        precision = memory.others.copy()
        precision[: len(memory.own)] += memory.own / factor
        moves = np.abs(np.log(precision / seen.precision))
        if moves.max() >= enough:
            # Units of features, and with them their priors, change too: posteriors by a part of
            # their standard deviations that is the smaller, the more is known beside the prior.
            left = seen.precision / np.square(seen.solution.lower.diagonal())
            moves *= np.sqrt(np.maximum(left, 1.0 - seen.determined / belief.size))
        after = replace(seen, noise=noise, precision=precision, linear=memory.linear)
        new = memory._replace(seen=after, factor=factor, step=step, reach=reach, residuals=None)
        new = new._replace(number=memory.number + 1)
        return new, max(change, float(moves.max()))

    def _step(self, seen: Information, own: Array) -> tuple[tuple[float, float], float, float]:
        """A step of the logarithms of noise and width, and how many rows determine each."""
        k, mean = len(own), seen.solution.mean
        free = max(seen.free, TINY)
        used = max(k - seen.variance_sum(own) - float(seen.fading[:k].sum()), TINY)
        signal = float((seen.S.diagonal()[:k] / own).sum()) / seen.count
        share = signal / (signal + seen.noise)
        noise = seen.residual / seen.noise + share
        width = float(own @ np.square(mean[:k])) + 1.0 - share
        learns = self.learns_noise, signal > 0.0  # features that never varied tell no width
        step = (
            math.log(max(noise, TINY) / free) if learns[0] else 0.0,
            math.log(max(width, TINY) / used) if learns[1] else 0.0,
        )
        if max(map(abs, step)) >= NEAR:
            return step, free, used
        a, b, c = _curvature(seen, k)
        a, c = a + DAMPING * free, c + DAMPING * used
        noise, width, volume = noise - free, width - used, a * c - b * b
        if all(learns):
            step = (c * noise - b * width) / volume, (a * width - b * noise) / volume
        else:
            step = (noise / a, 0.0) if learns[0] else (0.0, width / c)
        return step, free, used


def _evidence_of_all(seen: Information) -> float:
    """Log-probability of the targets of all rows, up to a constant."""
    mean, width = seen.solution.mean, seen.precision
    apart = mean - seen.linear / width
    misfit = seen.residual / seen.noise + float(width @ (apart * apart))
    volume = seen.solution.log_det - float(np.sum(np.log(width)))
    return -0.5 * (seen.count * math.log(seen.noise) + volume + misfit)


def _curvature(seen: Information, k: int) -> tuple[float, float, float]:
    """Minus twice that of the log-evidence in the logarithms of noise and width: (a b; b c).

    Of the width of the first k coefficients. The mean of the observed and the expected one, in
    which the traces of large matrices cancel ("average information", Gilmour, Thompson and Cullis
    1995).
    """
    mean = seen.solution.mean
    both = np.zeros((len(mean), 2), order="F")
    pull = seen.precision * mean
    both[:, 0], both[:k, 1] = pull - seen.linear, pull[:k]
    (a, b), (_, c) = (both.T @ seen.solution.times(both)).tolist()
    return seen.residual / seen.noise - a, b, float(pull[:k] @ mean[:k]) - c
