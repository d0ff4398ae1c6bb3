"""A batch of rows, absorbed by vector AMP and expectation propagation: right for any design."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from miniamp.absorb import Step
from miniamp.arrays import Array
from miniamp.channels.base import Channel
from miniamp.designs import Design
from miniamp.designs.row_blocks import triangle
from miniamp.evidence.base import DrawnRows, check_columns, health, power, relative_change
from miniamp.evidence.compress import compressed
from miniamp.evidence.linear import (
    ROUNDING,
    TINY,
    Joint,
    Marginals,
    Sites,
    Spectrum,
    match,
    match_in_common,
    row_moments,
    sites_of,
    solve,
)
from miniamp.posterior import Moments, Posterior
from miniamp.tilt import Tilt

#: The step of every iteration but the first. Full steps fail on AR designs; 0.7 converged on
#: i.i.d., ill-conditioned, AR and factor designs at noise 1e-2 to 1e-8, in 10 to 200 iterations.
STEP = 0.7
#: The step from this iteration on: few undecided coefficients and few rows can swing for ever at
#: 0.7 (N = 40, 26 rows) and settle at 0.2, which takes three times as long elsewhere.
CAREFUL_STEP, CAREFUL_FROM = 0.2, 100
#: Solved once means and variances are off by this part of a posterior standard deviation: far below
#: what the approximation itself costs.
ENOUGH = 1e-4
#: So many iterations are a failure: one of 64 designs above took more, at an error that was fine.
LONGEST = 400
#: Coefficients get a scale each when one step that way makes the belief so much wider: some of them
#: then stand for each other, which an average over all does not see.
WIDER = 2.0
#: A step that has not converged is no answer if it makes the belief so much wider than before: one
#: once went from 1e-9 to 0.14. Undecided copies of a column may be twice as wide as their prior.
RISEN = 10.0
#: A row is at least this noisy, relative to what was not known of it: rows without noise would make
#: the stack's Gram matrix singular to working precision.
QUIETEST = 1e-12
#: A row's site has at least this precision, relative to what is known of it without the row: a
#: label far on its right side says nothing, and a row that says nothing must not divide by zero.
FAINTEST = 1e-8
#: Sites that agree this well under two different beliefs are taken as the same under all.
SAME = 1e-6


class RowSites(NamedTuple):
    """Gaussians exp(-precision z^2/2 + linear z), one per row: what a channel says of Phi x."""

    precision: Array
    linear: Array

    def matched(self, omega: Array, V: Array, g: Array, curvature: Array) -> RowSites:
        """The sites with which z ~ N(omega, V) gets the mean and variance that the channel gives.

        Rows whose channel would widen z (a curvature that is not positive) keep the site they had.
        """
        rest = 1.0 - V * curvature
        sound = (curvature >= 0.0) & (rest > 0.0)
        precision = np.clip(
            np.where(sound, curvature / np.where(sound, rest, 1.0), self.precision),
            FAINTEST / V,
            1.0 / (QUIETEST * V),
        )
        return RowSites(precision, np.where(sound, g + precision * (omega + V * g), self.linear))

    def towards(self, other: RowSites, step: float) -> RowSites:
        """A step in natural parameters, which keeps precisions positive."""
        return RowSites(*((1.0 - step) * a + step * b for a, b in zip(self, other, strict=True)))

    def mismatch(self, other: RowSites, omega: Array, V: Array) -> float:
        """How far z ~ N(omega, V) is from that with the other sites, in its standard deviations."""
        var, wanted = (V / (1.0 + sites.precision * V) for sites in (self, other))
        off = var * (self.linear + omega / V) - wanted * (other.linear + omega / V)
        return float(np.sqrt(np.mean(np.square(off) / var + np.square(1.0 - wanted / var))))


class State(NamedTuple):
    """What goes from iteration to iteration."""

    sites: Sites  #: of the prior and the tilt
    rows: RowSites  #: of the channel
    fixed: bool  #: a Gaussian channel: its sites are exact and stay as they are
    before: float  #: the health figure of the rows under the belief before them
    common: bool = True  #: the sites of the coefficients share their scale
    iterations: int = 0
    stack: tuple[Array, Array] | None = None  #: all rows and targets, while they stay as they are
    spectrum: Spectrum | None = None  #: the decomposition of all rows
    seen: tuple[Sites, RowSites] | None = None  #: the sites behind the last step
    solution: tuple[Array, Array, Joint] | None = None  #: and the Gaussian that they give


RobustStep = Step[Tilt, Moments, State]


class RobustBatch(DrawnRows[State]):
    """Rows (Phi, y) of any design, seen through any channel, absorbed by expectation propagation.

    The belief is approximated by one Gaussian over all coefficients: the prior and the tilt by a
    site for each coefficient, the channel by a site for each row, all with the moments that they
    should have. Where AMP replaces the correlations of the rows by their average over i.i.d.
    designs, here they are inverted; the fixed point is AMP's where AMP's assumption holds. Sites of
    a Gaussian channel are exact.

    The sites of the coefficients share one scale and every step is damped by the same factor, as in
    vector AMP: with M the new and the remembered rows, O(M^2 N) once and O(M N) per iteration for a
    Gaussian channel, O(M^2 N) per iteration for others. At the end one step shows whether a scale
    per coefficient would change the result. Where that makes the belief much wider, as for columns
    that are copies of each other, the batch is solved again with a scale each.

    A belief with `memory` remembers the strongest rows, and the solver starts from what they had
    said; one without keeps only the marginals, the paper's program with another solver.

    Parameters
    ----------
    Phi : (M, N) array, scipy.sparse matrix or Design
        The rows.
    y : (M,) array
        What was observed.
    channel : Channel
        How it came about.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import Posterior, absorb, channels, priors
    >>> rng = np.random.default_rng(0)
    >>> Phi = rng.normal(size=(40, 20)) + 3.0 * rng.normal(size=(40, 1))  # strongly correlated
    >>> x = rng.normal(size=20)
    >>> rows = RobustBatch(Phi, Phi @ x, channels.Gaussian(var=1e-2))
    >>> belief, info = absorb(Posterior(priors.Gaussian(), 20, memory=20), rows)
    >>> exact = np.linalg.solve(Phi.T @ Phi / 1e-2 + np.eye(20), Phi.T @ Phi @ x / 1e-2)
    >>> bool(np.allclose(belief.mean, exact)), info.converged
    (True, True)
    """

    @cached_property
    def _held(self) -> Design:
        return self.design.held()

    def start(self, belief: Posterior) -> tuple[Moments, State]:
        check_columns(self.design, belief)
        omega, V = row_moments(belief, self._held)
        V = np.maximum(V, TINY)
        left = min(1.0, belief.size / self.rows)  # of V, when so many rows have been seen
        rows, fixed = first_sites(self.channel, self.y, omega, V, left)
        before = health(*self.channel.output(self.y, omega, V))
        # Relative scales are the prior's and the tilt's, the rest is what remembered rows said.
        base, remembered = belief.remembering(None), belief.remembered
        sites = sites_of(base)
        if remembered is not None:
            sites = match_in_common(base, remembered.field, sites)[1]
        return belief.moments, State(sites, rows, fixed, before)

    def refine(self, belief: Posterior, estimate: Moments, memory: State) -> RobustStep:
        try:
            return self._refined(belief, estimate, memory)
        except np.linalg.LinAlgError:  # beyond working precision: absorb reports it by name
            nothing = Tilt(np.zeros(()), np.zeros(()))
            return Step(nothing, estimate, memory, change=np.nan, health=np.nan, solver="robust")

    def conclude(self, belief: Posterior, step: RobustStep) -> Posterior:
        sites, _ = _seen(step.memory)
        return compressed(belief, *_solution(step.memory), sites)

    def total(self, belief: Posterior, step: RobustStep) -> Tilt:
        return belief.tilt + step.tilt  # the field of all rows, the remembered ones among them

    def cavity(self, step: RobustStep) -> tuple[Array, Array]:
        return self._left_out(*_solution(step.memory), _seen(step.memory)[1])

    def _refined(self, belief: Posterior, estimate: Moments, state: State) -> RobustStep:
        """One iteration: the sites of all coefficients, and of the rows, from their cavities."""
        base = belief.remembering(None)
        R, t = state.stack or self._stack(belief, state.rows)
        spectrum, solution = state.spectrum, None
        now: Joint | Marginals
        if state.fixed and state.common:
            spectrum = spectrum or Spectrum(R, t, state.sites.precision)
            now = spectrum.at(state.sites)
        else:
            now = solve(R, t, state.sites)
            solution = R, t, now
        if state.common:
            new, sites = match_in_common(base, now.field, state.sites)
        else:
            new, sites = match(base, now.field)
        residual = _mismatch(new, now.field.A + sites.precision, now)
        rows, figure, carried = state.rows, state.before, np.inf
        if solution is not None:
            omega, V = self._left_out(*solution, state.rows)
            g, curvature = self.channel.output(self.y, omega, V)
            figure = min(figure, health(g, curvature))
            carried = float(np.sum(curvature) ** 2 / np.sum(np.square(curvature)))
            if not state.fixed:
                rows = rows.matched(omega, V, g, curvature)
                residual = max(residual, state.rows.mismatch(rows, omega, V))
        solved = residual < ENOUGH or _resolved(new, self.channel)
        ended = state.iterations + 1 >= LONGEST
        seen = state._replace(
            iterations=state.iterations + 1,
            stack=(R, t) if state.fixed else None,
            spectrum=spectrum,
            seen=(state.sites, state.rows),
            solution=solution,
        )
        step = Step(
            tilt=now.field,
            estimate=new,
            memory=seen,
            change=relative_change(new, estimate),
            health=figure,
            solved=solved,
            ended=ended and not solved,
            solver="robust",
            reason=f"{sites.held} undecided coefficients held" if sites.held else "",
            carried_by=carried,
        )
        if solved or ended:
            return self._checked(belief, step) if state.common else _accepted(belief, step)
        size = STEP if state.iterations < CAREFUL_FROM else CAREFUL_STEP
        size = size if state.iterations else 1.0
        if state.common:
            sites = state.sites.towards_mean(sites, size)
        else:
            # An undecided coefficient answers its field by more than it was given: A var > 1. Two
            # that stand for each other would swing, so its step is shorter by that gain.
            sites = state.sites.towards(sites, size / np.maximum(1.0, now.field.A * new.var))
        then = seen._replace(sites=sites, rows=state.rows.towards(rows, size))
        return _accepted(belief, step._replace(memory=then))

    def _checked(self, belief: Posterior, step: RobustStep) -> RobustStep:
        """The last step in common, unless the belief would be much wider with a scale each."""
        base, state = belief.remembering(None), step.memory
        R, t, joint = _solution(state)
        state = state._replace(solution=(R, t, joint))
        if state.fixed and state.before > WIDER:
            answer = self.channel.output(self.y, *self._left_out(R, t, joint, state.rows))
            step = step._replace(health=min(state.before, health(*answer)))
        moments, own = match(base, joint.field)
        wide, _ = match(base, solve(R, t, own).field)
        if not step.ended and np.mean(wide.var) <= WIDER * np.mean(moments.var):
            return step._replace(memory=state)
        state = state._replace(sites=own, common=False, iterations=0)
        return step._replace(
            memory=state, change=max(1.0, step.change), solved=False, ended=False
        )  # a new start

    def _stack(self, belief: Posterior, rows: RowSites) -> tuple[Array, Array]:
        """All rows with unit noise, remembered and new, and their targets; at most N of them."""
        root, remembered = np.sqrt(rows.precision), belief.remembered
        R, t = self._held.weighted(root, rows.linear / root)
        if remembered is not None:
            R = np.vstack([remembered.rows, R])
            t = np.concatenate([remembered.targets, t])
        return triangle(R, t)

    def _left_out(self, R: Array, t: Array, joint: Joint, rows: RowSites) -> tuple[Array, Array]:
        """Mean and variance of each new row . x without the row itself, (M,) each."""
        if len(R) < R.shape[1]:
            omega, V = joint.left_out(t, slice(len(R) - self.rows, None))
            return omega / np.sqrt(rows.precision), np.maximum(V / rows.precision, TINY)
        var = self._held.row_variances(joint.root, joint.D)
        rest = np.maximum(1.0 - rows.precision * var, ROUNDING)
        omega = (self._held.times(joint.mean) - var * rows.linear) / rest
        return omega, np.maximum(var / rest, TINY)


def first_sites(
    channel: Channel, y: Array, omega: Array, V: Array, left: float = 1.0
) -> tuple[RowSites, bool]:
    """The sites of rows z ~ N(omega, V), and whether they are the same under any other belief.

    Those that are not are taken where the rows together leave this part of V: each as if it were
    alone would be too bold by far where all share a direction, such as that of a wide intercept.
    """
    here, there = (channel.output(y, o, v) for o, v in ((omega, V), (omega + np.sqrt(V), 2.0 * V)))
    with np.errstate(divide="ignore", invalid="ignore"):
        # The noise of a Gaussian site: 1/curvature less what was not known before.
        one, other = 1.0 / here[1] - V, 1.0 / there[1] - 2.0 * V
        same = np.abs(one - other) <= SAME * np.abs(one) + QUIETEST * V
    if not same.all():
        V = left * V
        start = RowSites(FAINTEST / V, FAINTEST / V * omega)
        return start.matched(omega, V, *channel.output(y, omega, V)), False
    # Where there is noise, nothing is subtracted at V = 0, and the site is exact to the last digit.
    quiet = one <= QUIETEST * V
    g, curvature = channel.output(y, omega, np.where(quiet, QUIETEST * V, 0.0))
    return RowSites(curvature, curvature * omega + g), True


def _accepted(belief: Posterior, step: RobustStep) -> RobustStep:
    """The step, in conflict where it has not converged and is wider than the belief before it."""
    risen = np.mean(step.estimate.var) > RISEN * np.mean(belief.var)
    return step._replace(health=np.inf) if risen and not step.solved else step


def _seen(state: State) -> tuple[Sites, RowSites]:
    assert state.seen is not None  # there is a last step
    return state.seen


def _solution(state: State) -> tuple[Array, Array, Joint]:
    """All rows, their targets and the Gaussian behind the last step."""
    if state.solution is not None:
        return state.solution
    assert state.stack is not None  # the rows of a Gaussian channel are kept
    R, t = state.stack
    return R, t, solve(R, t, _seen(state)[0])


def _resolved(new: Moments, channel: Channel) -> bool:
    """Nothing is left that floating point could learn."""
    return float(np.mean(new.var)) < channel.resolution * power(new)


def _mismatch(new: Moments, precision: Array, now: Joint | Marginals) -> float:
    """How far the Gaussian is from the moments it should have, in posterior standard deviations."""
    wanted = 1.0 / precision
    off = np.square(new.mean - now.mean) / np.maximum(wanted, now.var)
    spread = np.square(wanted - now.var) / np.square(np.maximum(wanted, now.var))
    return float(np.sqrt(np.mean(off) + np.mean(spread)))
