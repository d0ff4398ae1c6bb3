"""A batch of rows, absorbed by vector AMP and expectation propagation: right for any design."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from miniamp import checks
from miniamp.absorb import Step
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.designs import as_design
from miniamp.evidence.base import DrawnRows, power, relative_change
from miniamp.evidence.batch import checked_channel, explain, health
from miniamp.evidence.compress import compressed
from miniamp.evidence.joint import (
    NOTHING,
    ROUNDING,
    TINY,
    Joint,
    Sites,
    match,
    prior_sites,
    row_moments,
    solve,
    squared,
)
from miniamp.evidence.row_sites import RowSites, first_sites
from miniamp.evidence.spectrum import Marginals, Spectrum, common_scale
from miniamp.posterior import Moments, Posterior, Remembered
from miniamp.tilt import Tilt

#: The shortest step, and by how much a step grows after a good one.
SHORTEST, GROWTH = 0.2, 1.2
#: After so many iterations without a residual a tenth smaller, there is nothing more to gain: a few
#: coefficients that compete for the same rows go on changing places.
PATIENCE = 8
#: Solved once means and standard deviations are off by this part of a posterior standard deviation:
#: far below what the approximation itself costs.
ENOUGH = 1e-4
#: The rows' sites are brought up to date, and the rows decomposed anew, once what is left to gain
#: without it is this part of what their variances are off; at ALIKE they are as good as right.
STALE, ALIKE = 0.3, 1e-3
#: At most so many times a batch.
RENEWALS = 12
#: Below this health figure no batch is refused, and none need be looked at again.
SOUND = 2.0
#: Coefficients get a scale each when one step that way makes the belief so much wider: some of them
#: then stand for each other, which an average over all does not see.
WIDER = 2.0


class _State(NamedTuple):
    """What goes from iteration to iteration."""

    sites: Sites  #: of the prior and the tilt
    rows: RowSites  #: of the channel
    fixed: bool  #: a Gaussian channel: its sites are exact and stay as they are
    before: float  #: the health figure of the rows under the belief before them
    remembered: Remembered | None  #: rows of the past, solved with the new ones
    common: bool = True  #: the sites of the coefficients share their scale
    stack: tuple[Array, Array] | None = None  #: all rows and targets, while they stay as they are
    spectrum: Spectrum | None = None  #: the decomposition of all rows
    renewals: int = 0  #: how often the rows were decomposed anew
    scale: float = 1.0  #: of the sites, over those of the decomposition
    step: float = 1.0  #: how far the sites move
    residual: float = np.inf
    best: float = np.inf  #: the smallest residual so far
    waited: int = 0  #: iterations since it was last bettered
    seen: tuple[Sites, RowSites] | None = None  #: the sites behind the last step
    solution: tuple[Array, Array, Joint] | None = None  #: and what they say, once asked for

    def watched(self, residual: float) -> _State:
        """The state with this residual noted, and the step that it suggests."""
        grown = residual < self.residual
        waited = 0 if residual < 0.9 * self.best else self.waited + 1
        return self._replace(
            step=min(1.0, GROWTH * self.step) if grown else max(SHORTEST, self.step / 2.0),
            residual=residual,
            best=residual if waited == 0 else self.best,
            waited=waited,
            seen=(self.sites, self.rows),
            solution=None,
        )


class RobustBatch(DrawnRows):
    """Rows (Phi, y) of any design, seen through any channel, absorbed by expectation propagation.

    The belief is approximated by one Gaussian over all coefficients: the prior and the tilt by a
    site for each coefficient, the channel by a site for each row, all with the moments that they
    should have. Where AMP replaces the correlations of the rows by their average over i.i.d.
    designs, here they are inverted; the fixed point is AMP's where AMP's assumption holds. Sites of
    a Gaussian channel are exact.

    First the sites of the coefficients share one scale, as in vector AMP: with M the new and the
    remembered rows, O(M^2 N) once and O(M N) an iteration. Channels that are not Gaussian decompose
    their rows again when their precisions have moved: a few times a batch, and in every iteration
    where M > N. Then one step asks whether a scale each would say something else. Where that makes
    the belief much wider, as for columns that are copies of each other, the batch is done again by
    expectation propagation with a scale each, O(M^2 N) an iteration.

    A belief with `memory` remembers the strongest rows; one without keeps only the marginals, the
    paper's program with another solver.

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

    def __init__(self, Phi: Given, y: Given, channel: Channel) -> None:
        self.design = as_design(Phi)
        self.channel = checked_channel(channel)
        self.y = checks.vector("y", channel.checked(y), size=self.design.shape[0])
        checks.fits("channel", channel.shape, self.design.shape[0])
        self._held = self.design.held()

    @property
    def rows(self) -> int:
        return self.design.shape[0]

    def start(self, belief: Posterior) -> tuple[Moments, _State]:
        if belief.size != self.design.shape[1]:
            raise checks.refuse(
                "Phi",
                f"{self.design.shape[1]} columns",
                f"{belief.size}, the size of the belief",
                "use the same columns in every batch",
            )
        omega, V = row_moments(belief, self._held)
        V = np.maximum(V, TINY)
        left = min(1.0, belief.size / self.rows)  # of V, when so many rows have been seen
        rows, fixed = first_sites(self.channel, self.y, omega, V, left)
        before = _health(*self.channel.output(self.y, omega, V))
        # What remembered rows had decided is open again: they are solved with the new ones.
        return belief.moments, _State(prior_sites(belief), rows, fixed, before, belief.remembered)

    def refine(self, belief: Posterior, estimate: Moments, memory: _State) -> Step:
        refined = self._in_common if memory.common else self._on_their_own
        try:
            return refined(belief.remembering(None), estimate, memory)
        except np.linalg.LinAlgError:  # beyond working precision: absorb says so by name
            return Step(NOTHING, estimate, memory, change=np.nan, health=np.nan, solver="robust")

    def conclude(self, belief: Posterior, step: Step) -> Posterior:
        return compressed(belief, *self._solution(step.memory), step.memory.seen[0])

    def total(self, belief: Posterior, step: Step) -> Tilt:
        field: Tilt = step.tilt  # of all rows, the remembered ones among them
        return belief.tilt + field

    def cavity(self, step: Step) -> tuple[Array, Array]:
        return self._left_out(*self._solution(step.memory), step.memory.seen[1])

    def diagnosis(self) -> str:
        return explain(self.design.diagnosis())

    def _in_common(self, base: Posterior, estimate: Moments, state: _State) -> Step:
        """An iteration of vector AMP: the sites of all coefficients move by one factor."""
        R, t = state.stack or self._stack(state.rows, state.remembered)
        wide, spectrum, shape = len(R) < R.shape[1], state.spectrum, state.sites.precision
        now: Joint | Marginals
        if wide or state.fixed:
            spectrum = spectrum or Spectrum(R, shape)
            shape = spectrum.shape
            now = spectrum.at(state.scale, state.sites.linear, t)
        else:  # a tall stack is rotated to fewer rows: new targets cost as much as new rows
            now = solve(R, t, state.sites)
        A, new = now.field.A, base.tilted(now.field).moments
        scale = common_scale(shape, A, new.var, state.scale)
        residual = _mismatch(new, A + scale * shape, now.mean, now.var)
        rows, renewed, figure = state.rows, False, state.before
        if wide or not state.fixed or figure >= SOUND:
            if wide and spectrum is not None:
                new_rows = slice(len(R) - self.rows, None)
                omega, V = _in_units(spectrum.left_out(state.scale, now.white, t, new_rows), rows)
            else:
                joint = now if isinstance(now, Joint) else solve(R, t, state.sites)
                omega, V = self._left_out(R, t, joint, rows)
            g, curvature = self.channel.output(self.y, omega, V)
            figure = min(figure, _health(g, curvature))
        if not state.fixed:
            residual = max(residual, rows.mismatch(omega, V, g))
            wanted = rows.matched(omega, V, g, curvature)
            stale = rows.sharper(wanted, V)
            if not wide:
                residual, renewed = max(residual, stale), residual >= ENOUGH or stale >= ENOUGH
            elif state.renewals < RENEWALS:
                # Means that run away under variances that are too wide need new ones at once.
                needed = residual < STALE * stale or residual >= state.residual
                renewed = stale > ALIKE and needed
            rows = wanted if renewed else rows.centred(omega, V, g, curvature)
        then = state.watched(residual)
        solved = not renewed and (residual < ENOUGH or _resolved(new, self.channel))
        step = Step(
            tilt=now.field,
            estimate=new,
            memory=then,
            change=relative_change(new, estimate),
            health=figure,
            solver="robust",
        )
        if solved or then.waited >= PATIENCE:
            return self._checked(base, step, solved=solved)
        moved = (1.0 - then.step) * state.scale + then.step * scale
        linear = (A + moved * shape) * new.mean - now.field.B
        linear = (1.0 - then.step) * state.sites.linear + then.step * linear
        then = then._replace(
            sites=Sites(moved * shape, linear), rows=state.rows.towards(rows, then.step)
        )
        if not renewed:
            stack = (R, t) if state.fixed else (R, self._targets(then.rows, state.remembered))
            return step._replace(memory=then._replace(stack=stack, spectrum=spectrum, scale=moved))
        then = then._replace(stack=None, spectrum=None, scale=1.0, renewals=state.renewals + 1)
        return step._replace(memory=then._replace(best=np.inf, waited=0) if wide else then)

    def _checked(self, base: Posterior, step: Step, *, solved: bool) -> Step:
        """The last step in common, unless the belief would be much wider with a scale each."""
        state: _State = step.memory
        R, t, joint = self._solution(state)
        state = state._replace(solution=(R, t, joint))
        moments, own = match(base, joint.field)
        wide, _ = match(base, solve(R, t, own).field)
        if np.mean(wide.var) <= WIDER * np.mean(moments.var):
            return step._replace(memory=state, solved=solved, ended=not solved)
        state = state._replace(
            sites=prior_sites(base), common=False, step=1.0, residual=np.inf, best=np.inf, waited=0
        )
        return step._replace(memory=state, change=max(1.0, step.change))  # a new beginning

    def _on_their_own(self, base: Posterior, estimate: Moments, state: _State) -> Step:
        """An iteration of expectation propagation: every site as its coefficient wants it."""
        R, t = self._stack(state.rows, state.remembered)
        joint = solve(R, t, state.sites)
        new, sites = match(base, joint.field)
        omega, V = self._left_out(R, t, joint, state.rows)
        g, curvature = self.channel.output(self.y, omega, V)
        rows = state.rows if state.fixed else state.rows.matched(omega, V, g, curvature)
        residual = max(
            _mismatch(new, joint.field.A + sites.precision, joint.mean, joint.var),
            state.rows.mismatch(omega, V, g),
        )
        then = state.watched(residual)
        # An undecided coefficient answers its field by more than it was given: field.A var > 1. Two
        # that stand for each other would swing, so its step is shorter by that gain.
        steps = then.step / np.maximum(1.0, joint.field.A * new.var)
        return Step(
            tilt=joint.field,
            estimate=new,
            memory=then._replace(
                sites=state.sites.towards(sites, steps),
                rows=state.rows.towards(rows, then.step),
                solution=(R, t, joint),
            ),
            change=relative_change(new, estimate),
            # Rows contradict the model if they do so both before and after they were learned. A
            # single row left out of a heavy-tailed coefficient leaves a site that is no forecast.
            health=min(state.before, _health(g, curvature)),
            solved=residual < ENOUGH or _resolved(new, self.channel),
            ended=then.waited >= PATIENCE,
            solver="robust",
            reason=f"{sites.held} undecided coefficients held" if sites.held else "",
        )

    def _targets(self, rows: RowSites, remembered: Remembered | None) -> Array:
        t = rows.linear / np.sqrt(rows.precision)
        return t if remembered is None else np.concatenate([remembered.targets, t])

    def _stack(self, rows: RowSites, remembered: Remembered | None) -> tuple[Array, Array]:
        """All rows with unit noise, remembered and new, and their targets; at most N of them."""
        root = np.sqrt(rows.precision)
        R, t = self._held.weighted(root, rows.linear / root)
        if remembered is not None:
            R = np.vstack([remembered.rows, R])
            t = np.concatenate([remembered.targets, t])
        return squared(R, t)

    def _solution(self, state: _State) -> tuple[Array, Array, Joint]:
        """All rows, their targets and the Gaussian behind the last step."""
        if state.solution is not None:
            return state.solution
        sites, rows = state.seen  # type: ignore[misc]  # there is a last step
        R, t = self._stack(rows, state.remembered)
        return R, t, solve(R, t, sites)

    def _left_out(self, R: Array, t: Array, joint: Joint, rows: RowSites) -> tuple[Array, Array]:
        """Mean and variance of each new row . x had this one row not been seen, (M,) each."""
        if len(R) < R.shape[1]:
            return _in_units(joint.left_out(t, slice(len(R) - self.rows, None)), rows)
        return self._cavities(joint.mean, joint.root, joint.D, rows)

    def _cavities(self, mean: Array, root: Array, D: Array, rows: RowSites) -> tuple[Array, Array]:
        """The same from the Gaussian of all coefficients, of covariance diag(D) - root' root."""
        var = self._held.row_variances(root, D)
        rest = np.maximum(1.0 - rows.precision * var, ROUNDING)
        omega = (self._held.times(mean) - var * rows.linear) / rest
        return omega, np.maximum(var / rest, TINY)


def _in_units(left_out: tuple[Array, Array], rows: RowSites) -> tuple[Array, Array]:
    """Rows of unit noise in the units of what was seen."""
    omega, V = left_out
    return omega / np.sqrt(rows.precision), np.maximum(V / rows.precision, TINY)


def _resolved(new: Moments, channel: Channel) -> bool:
    """Nothing is left that floating point could learn."""
    return float(np.mean(new.var)) < channel.resolution * power(new)


def _health(g: Array, curvature: Array) -> float:
    return health(float(np.mean(np.square(g))), float(np.mean(curvature)))


def _mismatch(new: Moments, precision: Array, mean: Array, var: Array) -> float:
    """How far the Gaussian is from the moments it should have, in posterior standard deviations."""
    wanted = 1.0 / precision
    off = np.square(new.mean - mean) / np.maximum(wanted, var)
    spread = np.square(wanted - var) / np.square(np.maximum(wanted, var))
    return float(np.sqrt(np.mean(off) + np.mean(spread)))
