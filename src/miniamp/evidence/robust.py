"""A batch of rows, absorbed by vector AMP and expectation propagation: right for any design."""

from __future__ import annotations

from functools import cached_property, partial
from typing import NamedTuple, Self, TypeAlias

import numpy as np

from miniamp.absorb import Step
from miniamp.arrays import Array
from miniamp.designs import Design
from miniamp.evidence.base import BLIND, DrawnRows, blind, check_columns, health, relative_change
from miniamp.evidence.compress import Stack, StackSolution
from miniamp.evidence.dual import Dual, DualSolution
from miniamp.evidence.linear import (
    FAINTEST,
    NO_TILT,
    QUIETEST,
    TINY,
    Sites,
    covariance_times,
    known,
    log_mass,
    match,
    match_in_common,
    mismatch,
    moments_of,
    pulls,
    sites_of,
)
from miniamp.evidence.row_scores import Scored, scores_of
from miniamp.posterior import Moments, Posterior
from miniamp.tilt import JointSolution, Tilt

#: Rows with a Gaussian site each: any rows, sparse ones, kept products.
Linear: TypeAlias = Stack | Dual | Scored

#: The step of every iteration but the first. Full steps fail on AR designs; 0.7 converged on
#: i.i.d., ill-conditioned, AR and factor designs at noise 1e-2 to 1e-8, in 10 to 200 iterations.
STEP = 0.7
#: After so many iterations the average of the careful ones is the answer: sparse rows under a spike
#: and slab may have no stable fixed point, as where one of nine coefficients explains a large y.
LONGEST = 200
#: The step after half of them: few undecided coefficients and few rows can swing for ever at
#: 0.7 (N = 40, 26 rows) and settle at 0.2. Steps that shrink all the way to zero did worse.
CAREFUL_STEP = 0.2
#: Solved once means and variances are off by this part of a posterior standard deviation: far below
#: what the approximation itself costs.
ENOUGH = 1e-4
#: The same where only the sites of the rows have to settle, and no coefficient waits for another:
#: log loss .251 on correlated rows as with 1e-3, which takes an iteration more per batch. They
#: start from means that are solved up to this part; most later batches then take one iteration.
ROWS_ENOUGH = 1e-2
#: Coefficients get a scale each when one step that way makes the belief so much wider: some of them
#: then stand for each other, which an average over all does not see.
WIDER = 2.0
#: A solution whose mean square grows so much starts over, with care. A step that has not converged
#: is no answer if it makes the belief so much wider (from 1e-9 to 0.14), or a coefficient larger.
RISEN = 10.0


class RobustState(NamedTuple):
    """What goes from iteration to iteration."""

    sites: Sites  #: of the prior and the tilt
    rows: Sites  #: of the channel, for the next iteration
    fixed: bool  #: a Gaussian channel: its sites are exact and stay as they are
    before: float  #: the health figure of the rows under the belief before them
    common: bool  #: the sites of the coefficients change, and share their scale
    iterations: int = 0
    exact: bool = False  #: prior and tilt are Gaussian: the sites of the coefficients stay too
    blind: bool = False  #: the rows do not show the sign of z, of which nothing is known
    past: float = 0.0  #: the `volume` of the remembered rows, where that is exact
    last: tuple[Linear, Sites] | None = None  #: rows and sites of the coefficients of the last step
    average: Sites | None = None  #: of the sites of all careful steps
    common_end: RobustStep | None = None  #: the last step in common, where one each is tried


RobustStep = Step[Tilt, Moments, RobustState]


class RobustBatch(DrawnRows[RobustState]):
    """Rows (Phi, y) of any design, seen through any channel, absorbed by expectation propagation.

    The belief is approximated by one Gaussian over all coefficients: the prior and the tilt by a
    site for each coefficient, the channel by a site for each row, all with the moments that they
    should have. Where AMP replaces the correlations of the rows by their average over i.i.d.
    designs, here they are inverted; the fixed point is AMP's where AMP's assumption holds. Sites of
    a Gaussian channel are exact.

    The sites of the coefficients share one scale and steps are damped, as in vector AMP: with M the
    new and the remembered rows, O(M^2 N) once and O(M N) per iteration for a Gaussian channel,
    O(M^2 N) per iteration for others. At the end one step shows whether a scale per coefficient
    would change the result. Where that makes the belief much wider, as for columns that are copies
    of each other, or nothing has settled, the batch is solved again with a scale each.

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

    #: Sites of the rows under another Gaussian prior, to start from: rounds of EM take one or two
    #: iterations with them, about six without. Under other priors they spare a fifth at most.
    _near: Sites | None = None

    @cached_property
    def _held(self) -> Design:
        return self.design.held()

    def _dual(self, belief: Posterior) -> bool:
        return belief.memory == 0 and Dual.suits(self.design)

    def start(self, belief: Posterior) -> tuple[Moments, RobustState]:
        check_columns(self.design, belief)
        if belief.keeps_sites:
            space, volume, exact = scores_of(belief, self.design), 0.0, True
            omega, V, sites = space.omega, space.V, Sites(*belief.gaussian())
            # Iterations are on the rows alone: variances of coefficients are not asked for.
            before = Moments(space.belief.centre, space.belief.site.var)
            covariance = JointSolution.of(space.belief.lower, space.belief.linear).times
        else:
            sites, exact, past = sites_of(belief, common=True), belief.prior.is_gaussian, None
            if belief.remembered is not None:
                past = known(belief, sites if exact else sites_of(belief))
            before, volume = belief.moments, 0.0 if past is None else past.volume
            rows = self.design if self._dual(belief) else self._held
            omega, V = moments_of(belief, rows, past)
            covariance = partial(covariance_times, sites, past)
        V = np.maximum(V, TINY)
        noise = self.channel.gaussian_noise()
        if noise is not None:  # the same sites under any belief
            precision = 1.0 / np.maximum(noise, QUIETEST * V)
            first = Sites(precision, precision * self.y)
        elif self._near is not None:
            first = self._near
        else:
            # With that part of V which so many rows leave: each as if it were alone would be too
            # bold by far where all share a direction, such as that of a wide intercept.
            left = min(1.0, belief.size / self.rows) * V
            start = Sites(FAINTEST / left, FAINTEST / left * omega)
            first = start.matched(omega, left, *self.channel.output(self.y, omega, left))
            if exact:  # means are cheap; variances, which others change less, take a factorisation
                g = pulls(self.design, first, omega, covariance, ROWS_ENOUGH)
                alone = (first.linear - g * (1.0 + first.precision * left)) / first.precision
                first = first.matched(alone, left, *self.channel.output(self.y, alone, left))
        g, curvature = self.channel.output(self.y, omega, V)
        figure, unseen = health(g, curvature), blind(g, curvature, V)
        fixed, common = noise is not None, not exact
        return before, RobustState(
            sites, first, fixed, figure, common, exact=exact, past=volume, blind=unseen
        )

    def refine(self, belief: Posterior, estimate: Moments, memory: RobustState) -> RobustStep:
        try:
            step = self._refined(belief, estimate, memory)
        except np.linalg.LinAlgError:  # beyond working precision: absorb reports it by name
            return Step(NO_TILT, estimate, memory, change=np.nan, health=np.nan, solver="robust")
        if not memory.blind:
            return step
        return step._replace(estimate=estimate, change=0.0, solved=False, ended=True, reason=BLIND)

    def log_evidence(self, belief: Posterior, step: RobustStep) -> float:
        """Free energy of expectation propagation: exact where prior, tilt and channel are Gaussian.

        The Gaussian integral over all sites, times the factor by which each prior and each row
        differs in mass from its site, over the same of the belief before. One product with the
        rows, and one solution for the remembered rows where there are any.
        """
        state, solution = step.memory, _solution(step.memory)
        precision, linear, _ = solution.rows
        target = linear / (root := np.sqrt(precision))
        rows = 0.5 * np.log(precision / (2.0 * np.pi))
        if not state.fixed:
            omega, V = solution.left_out()
            spread, off = 1.0 + precision * V, np.square(target - root * omega)
            rows = self.channel.log_partition(self.y, omega, V)
            rows = rows + 0.5 * (np.log(spread) + off / spread)
        off = target - root * solution.scores
        volume = solution.log_det + float(np.sum(np.square(off))) + solution.misfit
        mass = float(np.sum(rows)) + self._repetition_term() - 0.5 * volume
        if state.exact:
            return mass + 0.5 * state.past
        base = belief.remembering(None)
        mass += log_mass(base, solution.sites, solution.field)
        if belief.remembered is None:
            return mass - base.log_partition()
        past = known(belief, sites := sites_of(belief, common=True))
        return mass - log_mass(base, sites, past.field) + 0.5 * past.volume

    def resuming(self, step: RobustStep) -> Self:
        new = self.like(self)
        new._near = step.memory.rows if step.memory.exact else None
        return new

    def conclude(self, belief: Posterior, step: RobustStep) -> Posterior:
        return belief if step.memory.blind else _solution(step.memory).absorbed(belief)

    def total(self, belief: Posterior, step: RobustStep) -> Tilt:
        # The field of all rows, the remembered ones among them.
        return belief.tilt + _solution(step.memory).field

    def cavity(self, step: RobustStep) -> tuple[Array, Array]:
        return _solution(step.memory).left_out()

    def _linear(self, belief: Posterior, state: RobustState) -> Linear:
        """The linear step of the rows under their sites."""
        if state.last is not None:
            return state.last[0].with_rows(state.rows)
        if belief.keeps_sites:
            return Scored(scores_of(belief, self.design), state.rows, state.sites)
        if self._dual(belief):
            return Dual(self.design, state.rows)
        least = 0.0 if state.fixed else float(state.sites.precision.min())
        return Stack(self._held, state.rows, belief.remembered, least)

    def _refined(self, belief: Posterior, estimate: Moments, state: RobustState) -> RobustStep:
        """One iteration: the sites of all coefficients, and of the rows, from their cavities."""
        linear, scaled = self._linear(belief, state), state.fixed and state.common
        now = linear.in_common(state.sites) if scaled else linear.at(state.sites)
        t, careful, ended = state.iterations, LONGEST // 2, state.iterations + 1 >= LONGEST
        seen = state._replace(iterations=t + 1, last=(linear, state.sites))
        size = (STEP if t < careful else CAREFUL_STEP) if t else 1.0
        figure, carried, residual = state.before, np.inf, 0.0
        if not (scaled or (state.fixed and figure < WIDER)):
            omega, V = linear.at(state.sites).left_out()
            g, curvature = self.channel.output(self.y, omega, V)
            figure = min(figure, health(g, curvature))
            carried = float(np.sum(curvature) ** 2 / np.sum(np.square(curvature)))
            if not state.fixed:
                wanted = state.rows.matched(omega, V, g, curvature)
                # Of many rows per feature each hardly counts, but all may be off alike: 7,500 rows
                # of three features once ended at a third of the coefficients.
                alike = max(1.0, self.rows / self.design.shape[1])
                residual = alike * mismatch(state.rows, wanted, Tilt(1.0 / V, omega / V))
                seen = seen._replace(rows=state.rows.towards(wanted, size))
        if state.exact:
            # Sites of another round of EM move twice at least. Else they lag behind the prior's
            # width, which then swings: .021, .011, .020, .011 where .014 is right.
            near = t > 0 or self._near is None
            if not (ended or (near and residual < ROWS_ENOUGH)):  # coefficients are not asked for
                return Step(NO_TILT, estimate, seen, residual, figure, solver="robust")
            new, sites = Moments(now.mean, now.var), state.sites
        else:
            both = (belief.remembering(None), now.field)
            new, sites = match_in_common(*both, state.sites) if state.common else match(*both)
            residual = max(residual, mismatch(state.sites, sites, now.field))
        # Or nothing is left that floating point could learn.
        resolved = np.mean(new.var) < self.channel.resolution * np.mean(np.square(new.mean))
        solved = bool(resolved) or residual < (ROWS_ENOUGH if state.exact else ENOUGH)
        # An average changes by so much less when one more joins it.
        change = relative_change(new, estimate) / (
            LONGEST - careful if ended and state.average else 1
        )
        reason = f"{sites.held} undecided coefficients held" if sites.held else ""
        step = Step(now.field, new, seen, change, figure, solver="robust", reason=reason)
        step = step._replace(solved=solved, ended=ended and not solved, effective_rows=carried)
        if solved or ended:
            before = state.common_end
            if not solved and before is not None and before.health < np.inf:
                return before
            return self._checked(belief, linear, step) if state.common else _accepted(belief, step)
        if t >= careful:
            average = state.average or state.sites
            seen = seen._replace(average=average.towards_mean(state.sites, 2.0 / (t - careful + 2)))
        if seen.average is not None and t + 2 == LONGEST:
            sites = seen.average
        elif state.common:
            sites = state.sites.towards_mean(sites, size)
        else:
            # An undecided coefficient answers its field by more than it was given: A var > 1. Two
            # that stand for each other would swing, so its step is shorter by that gain.
            sites = state.sites.towards(sites, size / np.maximum(1.0, now.field.A * new.var))
        step = _accepted(belief, step._replace(memory=seen._replace(sites=sites)))
        if t >= careful or _growth(belief, new) < RISEN:
            return step
        # It has run away, as some sparse rows do at the usual step: from the start, with care.
        new, first = self.start(belief)
        again = seen._replace(sites=first.sites, rows=first.rows, iterations=careful)
        return step._replace(estimate=new, memory=again, change=1.0, health=figure)

    def _checked(self, belief: Posterior, linear: Linear, step: RobustStep) -> RobustStep:
        """The last step in common, unless the belief would be much wider with a scale each."""
        base, state, solution = belief.remembering(None), step.memory, _solution(step.memory)
        if state.fixed and state.before > WIDER:
            answer = self.channel.output(self.y, *solution.left_out())
            step = step._replace(health=min(state.before, health(*answer)))
        moments, own = match(base, solution.field)
        wide, _ = match(base, linear.at(own).field)
        if not step.ended and np.mean(wide.var) <= WIDER * np.mean(moments.var):
            return step
        kept = _accepted(belief, step._replace(solved=False, ended=True))
        state = state._replace(sites=own, common=False, iterations=0, average=None, common_end=kept)
        return step._replace(memory=state, change=max(1.0, step.change), solved=False, ended=False)


def _accepted(belief: Posterior, step: RobustStep) -> RobustStep:
    """The step, in conflict where it has not converged and left the belief before it behind."""
    wider = np.mean(step.estimate.var) > RISEN * belief.mean_variance
    gone = wider or _growth(belief, step.estimate) > RISEN * belief.size
    return step._replace(health=np.inf) if gone and not step.solved else step


def _growth(belief: Posterior, new: Moments) -> float:
    """The mean square of the coefficients, over that before: about 1 for many of them."""
    return new.power / (float(np.mean(np.square(belief.mean))) + belief.mean_variance)


def _solution(state: RobustState) -> StackSolution | DualSolution | Scored:
    """The Gaussian behind the last step."""
    assert state.last is not None
    return state.last[0].at(state.last[1])
