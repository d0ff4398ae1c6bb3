"""A batch of rows, absorbed by generalised approximate message passing."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import NamedTuple, Self

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from miniamp import checks
from miniamp.absorb import CONFLICT, STEADY, WATCHED, Step
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.designs import Design, Sweep
from miniamp.evidence.base import (
    BLIND,
    UNMOVED,
    DrawnRows,
    MemoryT,
    blind,
    check_columns,
    ratio,
    relative_change,
)
from miniamp.info import Stop
from miniamp.kernel import flat
from miniamp.posterior import Moments, Posterior
from miniamp.tilt import Tilt

#: How much of the old estimate a careful second attempt keeps.
CAREFUL_DAMPING = 0.5
#: A fall of mean(-dg) by this factor in one iteration means that all rows are fitted exactly;
#: while a batch is being learned it changes by factors of order one.
SILENCE = 1e-6
#: The share of the variance that a start assumes to be explained, and has in its means, so
#: that rows see the power of z that they expect. At .1 and below random starts under a sparse prior
#: ended in conflict (4 of 4 at N = 400, y = |z| + noise), at .5 none.
LEAN = 0.5
#: The least E z^2 | y over V in a spectral start: rows with y = |z| near zero would else outweigh
#: all others. And the tolerance of its eigenvector.
NARROWEST, EIGEN = 0.1, 1e-3
#: The compiled pass takes a third of NumPy's time at any size (17 us against 46 at N = 100, 25
#: against 89 at N = 2000), but its compiler takes half a second to import: small problems, whose
#: sweeps are NumPy's too, are done before.
WORTH_COMPILING = 500


#: Named starts.
STARTS = ("belief", "random", "spectral")


class Past(NamedTuple):
    """What an iteration leaves to the next."""

    sweep: Sweep
    step: AmpStep | None


AmpStep = Step[Tilt, Moments, Past | None]


class Batch(DrawnRows[Past | None]):
    """Rows (Phi, y) seen through a channel: one batch of Mini-AMP, or all of AMP.

    `eq:gamp` with the update of `eq:miniamp`; with `designs.Averaged(Phi)`, `eq:amp1` to `eq:amp3`.

    Parameters
    ----------
    Phi : (M, N) array, scipy.sparse matrix or Design
        The rows.
    y : (M,) array
        What was observed.
    channel : Channel
        How it came about.
    damping : float, optional
        Share of the old estimate that is kept at each iteration, 0 <= damping < 1. Not needed for
        i.i.d. designs, where it delays the escape from a bad minimum: off by default.
    start : {"belief", "random", "spectral"} or (N,) array
        Means to start from. "belief" suits all channels but those that do not show the sign of z,
        such as `y = |z| + noise`: these learn nothing from a mean of zero, as `Info.reason` says.
        There "random" breaks the symmetry by a little noise, and "spectral" by the leading
        eigenvector of Phi' T(y) Phi, with the T that finds it from the fewest rows; where the
        belief knows the signs already, both start from it. An array is always used.
    rng : numpy.random.Generator or int
        For a random start.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import Posterior, absorb, channels, priors
    >>> rows = Batch(np.eye(3), np.array([1.0, -1.0, 0.5]), channels.Gaussian(var=1.0))
    >>> absorb(Posterior(priors.Gaussian(), 3), rows)[0].mean
    array([ 0.5 , -0.5 ,  0.25])
    """

    damping: float = 0.0
    given_start: str | Array = "belief"
    rng: Given = 0
    _latest: tuple[Moments, Design, tuple[Array, Array]] | None = None

    def __init__(
        self,
        Phi: Given,
        y: Given,
        channel: Channel,
        *,
        damping: float = 0.0,
        start: Given = "belief",
        rng: Given = 0,
    ) -> None:
        super().__init__(Phi, y, channel)
        self.damping = checks.number("damping", damping, least=0.0, most=0.999)  # 1 never moves
        self.rng = rng
        self.given_start = _checked_start(start, self.design.shape[1])

    def start(self, belief: Posterior) -> tuple[Moments, None]:
        check_columns(self.design, belief)
        if isinstance(self.given_start, str):
            known = self.given_start == "belief"
            return (belief.moments if known else self._broken(belief)), None
        return belief.moments._replace(mean=self.given_start), None

    def _broken(self, belief: Posterior) -> Moments:
        """The belief where it knows signs, else a start that breaks the symmetry between them."""
        mean, var = belief.moments
        omega, V = self.design.forecast(mean, var)
        g, curvature = self.channel.output(self.y, omega, V)
        if not blind(g, curvature, V):
            return belief.moments
        rng, root, N = checks.generator("rng", self.rng), np.sqrt(var), len(mean)
        lean = rng.normal(size=N)
        if self.given_start == "spectral":
            # E z^2 | y over V is 1 - V c; the best T is 1 less its inverse, over V.
            T = -curvature / np.maximum(1.0 - V * curvature, NARROWEST)
            through = self.design.times, self.design.transposed_times

            def product(u: Array) -> Array:
                return np.asarray(root * through[1](T * through[0](root * u.ravel())))

            operator = LinearOperator((N, N), matvec=product, dtype=np.float64)
            _, leading = eigsh(operator, k=1, which="LA", v0=lean, tol=EIGEN)
            lean = np.sqrt(N) * leading[:, 0]
        return Moments(mean + np.sqrt(LEAN) * root * lean, (1.0 - LEAN) * var)

    def refine(self, belief: Posterior, estimate: Moments, memory: Past | None) -> AmpStep:
        past, share = memory, 1.0 - self.damping
        onsager = None if past is None else past.sweep.memory
        sweep = self.design.sandwich(*estimate, self.y, self.channel, onsager)
        if past is not None and past.step is not None and self._silent(sweep, past.sweep):
            return past.step._replace(change=0.0, solved=True)
        if past is None and self._blind(sweep.mean_square, estimate):
            none = Tilt(np.zeros_like(sweep.curvature), np.zeros(belief.size))
            return Step(none, estimate, Past(sweep, None), 0.0, ended=True, reason=BLIND)
        tilt, new, change, power, spread = updated(belief, estimate, sweep)
        # The sweep tested the estimate before this one, so a claim to be solved is tested again:
        # one coordinate that is wrong and certain of it would spoil every batch that follows.
        certain = spread < self.channel.resolution * power
        step: AmpStep = Step(
            tilt=tilt,
            estimate=new if share == 1.0 else _between(estimate, new, share),
            memory=None,
            change=change,
            health=ratio(sweep.mean_square, sweep.mean_curvature),
            solved=certain and self._agrees(new, sweep.memory),
            uncertainty=_uncertainty(power, spread),
        )
        return step._replace(memory=Past(sweep, step))

    def refine_all(
        self, belief: Posterior, estimate: Moments, memory: Past | None, stop: Stop
    ) -> tuple[list[float], AmpStep | None]:
        loop, output = self.design.loop_rows(), self.channel.kernel()
        moments = belief.prior.kernel(belief.size)
        if loop is None or output is None or moments is None or memory is not None:
            return [], None
        from miniamp.designs.shared_kernels import assisted  # only now: the compiler is slow
        from miniamp.evidence import kernels

        (M, N), averaged, trace = self.design.shape, loop.mean_square > 0.0, np.empty(stop.max_iter)
        x, v, pull, B = (np.zeros((2, N)) for _ in range(4))
        A, g, figures = np.zeros((2, 1 if averaged else N)), np.zeros((2, M)), np.zeros((2, 4))
        x[0], v[0] = estimate
        rows = (loop.rows, flat(self.y), output.parameters, output.address)
        with assisted(loop, (*rows, not averaged, x, v, g)) as team:
            done, last = kernels.iterate(
                *rows, flat(belief.total.A), flat(belief.total.B), moments.parameters,
                moments.address, loop.mean_square, self.damping, self.channel.resolution, SILENCE,
                np.array([stop.tol, stop.slack, STEADY, WATCHED]),
                trace, x, v, pull, A, B, g, figures, team,
            )  # fmt: skip
        if done == 0:
            return [], None
        mean_square, mean_curvature, power, spread = (float(one) for one in figures[last])
        if done == 1 and self._blind(mean_square, estimate):
            return [], None  # `refine` says so
        curvature = np.asarray(A[last, 0]) if averaged else A[last]
        step: AmpStep = Step(
            tilt=Tilt(curvature, B[last]),
            estimate=Moments(x[last], v[last]),
            memory=None,
            change=float(trace[done - 1]),
            health=ratio(mean_square, mean_curvature),
            uncertainty=_uncertainty(power, spread),
        )
        sweep = Sweep(pull[last], curvature, g[last], mean_square, mean_curvature)
        return trace[:done].tolist(), step._replace(memory=Past(sweep, step))

    def log_evidence(self, belief: Posterior, step: AmpStep) -> float:
        """The Bethe log-evidence of the rows, stationary where the iteration has converged.

        sum_i [log Z_x(A + A_i, B + B_i) - log Z_x(A, B) + A_i (v_i + x_i^2)/2 - B_i x_i]
        + sum_mu [log Z_z(y, omega, V) + V g^2/2], with omega = Phi x - V g and V = Phi^2 v: one
        more product with the rows.
        """
        z, V = self._predicted(step.estimate)
        past = step.memory
        if past is not None and past.sweep.memory.shape == z.shape:
            away = V * past.sweep.memory
            omega, moved = z - away, away * past.sweep.memory
        else:  # g has stayed with distant rows, or was not kept
            omega = self._cavity_mean(z, V)
            moved = np.square(z - omega) / np.where(V > 0.0, V, 1.0)
        rows = self.channel.log_partition(self.y, omega, V) + 0.5 * moved
        return tilt_evidence(belief, step) + float(np.sum(rows)) + self._repetition_term()

    def cavity(self, step: AmpStep) -> tuple[Array, Array]:
        z, V = self._predicted(step.estimate)
        return self._cavity_mean(z, V), V

    def _fitted(self, step: AmpStep) -> Array:
        return self._predicted(step.estimate)[0]

    def _predicted(self, estimate: Moments) -> tuple[Array, Array]:
        """Mean and variance of each row . x, (M,) each; the latest are kept, for all who ask."""
        known = self._latest
        if known is None or known[0] is not estimate or known[1] is not self.design:
            known = self._latest = estimate, self.design, self.design.forecast(*estimate)
        return known[2]

    def _blind(self, mean_square: float, estimate: Moments) -> bool:
        """Whether the rows do not show the sign of z, of which nothing is known either."""
        V = self.design.mean_square * float(np.sum(estimate.var))
        if mean_square * V > UNMOVED:
            return False
        omega, spread = self.design.forecast(*estimate)
        return blind(*self.channel.output(self.y, omega, spread), spread)

    def _silent(self, sweep: Sweep, before: Sweep) -> bool:
        """Whether rows without noise, all fitted, have nothing to say any more.

        Once the coefficients are known, every row of a perceptron is infinitely far from its margin
        and its g and -dg vanish: to go on would un-learn the batch. The tilt of the iteration
        before is what the rows said (errata E1, which tells it by the variance alone and misses it
        at small N).
        """
        fallen = sweep.mean_curvature < SILENCE * before.mean_curvature
        return fallen and self.channel.resolution > 0.0

    def _agrees(self, estimate: Moments, memory: Array | None) -> bool:
        """Whether the rows contradict an estimate no more than a sound batch does."""
        with np.errstate(over="ignore"):
            sweep = self.design.sandwich(*estimate, self.y, self.channel, memory)
        return ratio(sweep.mean_square, sweep.mean_curvature) < CONFLICT

    def diagnosis(self) -> str:
        return self.design.diagnosis()  # columns that AMP cannot take; other solvers can

    def remedies(self) -> Iterable[tuple[str, Self]]:
        careful = copy.copy(self)
        careful.damping = max(self.damping, CAREFUL_DAMPING)
        yield "damping", careful
        averaged = self.design.averaged()
        if averaged is not self.design:
            scalar = copy.copy(self)
            scalar.design = averaged
            yield "scalar variances", scalar


class Update(NamedTuple):
    """The next estimate and what is to be known of it."""

    tilt: Tilt  #: of these rows alone
    moments: Moments
    change: float  #: mean absolute change of the means, over the signal's scale
    power: float  #: mean square of the coefficients
    spread: float  #: mean variance


def updated(belief: Posterior, estimate: Moments, sweep: Sweep) -> Update:
    """The estimate after a sweep, in one compiled pass where the prior has a kernel."""
    kernel = belief.prior.kernel(belief.size) if belief.size >= WORTH_COMPILING else None
    if kernel is None:
        tilt = Tilt(sweep.curvature, sweep.pull + sweep.curvature * estimate.mean)
        new = belief.tilted(tilt).moments
        change = relative_change(new, estimate)
        return Update(tilt, new, change, new.power, float(np.mean(new.var)))
    from miniamp.evidence import kernels  # only now: the compiler is slow to import

    B, mean, var = (np.empty(belief.size) for _ in range(3))
    before = belief.total
    inputs = (before.A, before.B, sweep.curvature, sweep.pull, estimate.mean)
    sums: tuple[float, float, float] = kernels.update(  # type: ignore[call-arg]
        *map(flat, inputs),  # type: ignore[arg-type]
        kernel.parameters,
        kernel.address,
        B,
        mean,
        var,
    )
    moved, total, spread = (one / belief.size for one in sums)
    change = moved / math.sqrt(total) if total > 0.0 else moved
    return Update(Tilt(sweep.curvature, B), Moments(mean, var), change, total, spread)


def _uncertainty(power: float, spread: float) -> float:
    """Posterior standard deviation on the scale of the coefficients."""
    return math.sqrt(spread / power) if power > 0.0 <= spread else 0.0


def _checked_start(start: Given, size: int) -> str | Array:
    if not isinstance(start, str):
        return checks.vector("start", start, size)
    if start not in STARTS:
        raise checks.refuse("start", repr(start), f"one of {STARTS}", "or an (N,) array of means")
    return start


def _between(old: Moments, new: Moments, share: float) -> Moments:
    """A step of `share` from old to new."""
    mean, var = (share * n + (1.0 - share) * o for n, o in zip(new, old, strict=True))
    return Moments(mean, var)


def tilt_evidence(belief: Posterior, step: Step[Tilt, Moments, MemoryT]) -> float:
    """Minus the relative entropy of the coefficients after `step` from the belief before it."""
    before, tilt, (x, v) = belief.total, step.tilt, step.estimate
    after = before + tilt
    each = belief.prior.log_partition(after.A, after.B) + 0.5 * tilt.A * (v + np.square(x))
    return float(np.sum(each - tilt.B * x - belief.prior.log_partition(before.A, before.B)))
