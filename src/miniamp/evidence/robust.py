"""A batch of rows, absorbed by expectation propagation: right for any design."""

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
    row_moments,
    sites_of,
    solve,
    squared,
)
from miniamp.posterior import Moments, Posterior
from miniamp.tilt import Tilt

#: A row is at least this noisy, relative to what was not known of it: rows without noise would make
#: the stack's Gram matrix singular to working precision.
QUIETEST = 1e-12
#: A row's site has at least this precision, relative to what is known of it without the row: a
#: label far on its right side says nothing, and a row that says nothing must not divide by zero.
FAINTEST = 1e-8
#: The shortest step, and by how much a step grows after a good one.
SHORTEST, GROWTH = 0.2, 1.2
#: After so many iterations without a residual a tenth smaller, there is nothing more to gain: a few
#: coefficients that compete for the same rows go on changing places.
PATIENCE = 8
#: Sites that agree this well under two different beliefs are taken as the same under all.
SAME = 1e-6
#: Solved once means and standard deviations are off by this part of a posterior standard deviation:
#: far below what the approximation itself costs.
ENOUGH = 1e-4


class _Rows(NamedTuple):
    """Gaussian sites exp(-precision z^2/2 + linear z) of the new rows."""

    precision: Array
    linear: Array


class _State(NamedTuple):
    """What goes from iteration to iteration."""

    sites: Sites  #: of the prior and the tilt
    rows: _Rows  #: of the channel
    fixed: bool  #: a Gaussian channel: its sites are exact and stay as they are
    before: float  #: the health figure of the rows under the belief before them
    step: float = 1.0  #: how far the sites move
    residual: float = np.inf
    best: float = np.inf  #: the smallest residual so far
    waited: int = 0  #: iterations since it was last bettered
    solution: tuple[Array, Array, Joint, Sites] | None = None  #: the last one, with its rows
    seen: _Rows | None = None  #: the rows' sites in it


class RobustBatch(DrawnRows):
    """Rows (Phi, y) of any design, seen through any channel, absorbed by expectation propagation.

    The belief is approximated by one Gaussian over all coefficients: the prior and the tilt by a
    site for each coefficient, the channel by a site for each row, all with the moments that they
    should have. Where AMP replaces the correlations of the rows by their average over i.i.d.
    designs, here they are inverted, O(M^2 N) an iteration with M the new and the remembered rows
    (and at most N); the fixed point is AMP's where AMP's assumption holds. Sites of a Gaussian
    channel are exact.

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
        rows, fixed = self._first_rows(omega, np.maximum(V, TINY))
        before = _health(*self.channel.output(self.y, omega, np.maximum(V, TINY)))
        return belief.moments, _State(sites_of(belief), rows, fixed, before)

    def refine(self, belief: Posterior, estimate: Moments, memory: _State) -> Step:
        try:
            R, t, joint, _ = self._solved(belief, memory)
        except np.linalg.LinAlgError:  # beyond working precision: absorb says so by name
            return Step(NOTHING, estimate, memory, change=np.nan, health=np.nan, solver="robust")
        new, sites = match(belief.remembering(None), joint.field)
        omega, V = self._left_out(R, t, joint, memory.rows)
        g, curvature = self.channel.output(self.y, omega, V)
        rows = memory.rows if memory.fixed else _matched_rows(memory.rows, omega, V, g, curvature)
        residual = max(_mismatch(new, sites, joint), _row_mismatch(memory.rows, omega, V, g))
        grown = residual < memory.residual
        step = min(1.0, GROWTH * memory.step) if grown else max(SHORTEST, memory.step / 2.0)
        # An undecided coefficient answers its field by more than it was given: field.A var > 1. Two
        # that stand for each other would swing, so its step is shorter by that gain.
        waited = 0 if residual < 0.9 * memory.best else memory.waited + 1
        return Step(
            tilt=joint.field,
            estimate=new,
            memory=_State(
                memory.sites.towards(sites, step / np.maximum(1.0, joint.field.A * new.var)),
                _Rows(*(_mix(a, b, step) for a, b in zip(memory.rows, rows, strict=True))),
                memory.fixed,
                memory.before,
                step,
                residual,
                residual if waited == 0 else memory.best,
                waited,
                (R, t, joint, memory.sites),
                memory.rows,
            ),
            change=relative_change(new, estimate),
            # Rows contradict the model if they do so both before and after they were learned. A
            # single row left out of a heavy-tailed coefficient leaves a site that is no forecast.
            health=min(memory.before, _health(g, curvature)),
            solved=residual < ENOUGH
            or float(np.mean(new.var)) < self.channel.resolution * power(new),
            ended=waited >= PATIENCE,
            solver="robust",
            reason=f"{sites.held} undecided coefficients held" if sites.held else "",
        )

    def conclude(self, belief: Posterior, step: Step) -> Posterior:
        return compressed(belief, *step.memory.solution)

    def total(self, belief: Posterior, step: Step) -> Tilt:
        field: Tilt = step.tilt  # of all rows, the remembered ones among them
        return belief.tilt + field

    def cavity(self, step: Step) -> tuple[Array, Array]:
        R, t, joint, _ = step.memory.solution
        return self._left_out(R, t, joint, step.memory.seen)

    def diagnosis(self) -> str:
        return explain(self.design.diagnosis())

    def _first_rows(self, omega: Array, V: Array) -> tuple[_Rows, bool]:
        """The rows' sites under the belief before them, and whether they are the same under any."""
        start = _Rows(FAINTEST / V, FAINTEST / V * omega)
        here, there = (
            self.channel.output(self.y, o, v)
            for o, v in ((omega, V), (omega + np.sqrt(V), 2.0 * V))
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            one, other = here[1] / (1.0 - V * here[1]), there[1] / (1.0 - 2.0 * V * there[1])
        if not np.allclose(one, other, rtol=SAME, atol=0.0):
            return _matched_rows(start, omega, V, *here), False
        # At V = 0 nothing is subtracted, and the site is exact to the last digit.
        g, curvature = self.channel.output(self.y, omega, np.zeros_like(V))
        precision = np.minimum(curvature, 1.0 / (QUIETEST * V))
        return _Rows(precision, precision * (omega + g / curvature)), True

    def _solved(self, belief: Posterior, state: _State) -> tuple[Array, Array, Joint, Sites]:
        """The Gaussian of all rows, remembered and new, under the sites of this iteration."""
        if state.fixed and state.solution is not None:
            R, t = state.solution[:2]
        else:
            root = np.sqrt(state.rows.precision)
            R, t = self._held.weighted(root, state.rows.linear / root)
            if belief.remembered is not None:
                R = np.vstack([belief.remembered.rows, R])
                t = np.concatenate([belief.remembered.targets, t])
            R, t = squared(R, t)
        return R, t, solve(R, t, state.sites), state.sites

    def _left_out(self, R: Array, t: Array, joint: Joint, rows: _Rows) -> tuple[Array, Array]:
        """Mean and variance of each new row . x had this one row not been seen, (M,) each."""
        precision, linear = rows
        if len(R) < R.shape[1]:
            omega, V = joint.left_out(t, slice(len(R) - self.rows, None))
            return omega / np.sqrt(precision), np.maximum(V / precision, TINY)
        var = self._held.spread(joint.root, joint.D)
        rest = np.maximum(1.0 - precision * var, ROUNDING)
        mean = self._held.means(joint.mean)
        return (mean - var * linear) / rest, np.maximum(var / rest, TINY)


def _matched_rows(old: _Rows, omega: Array, V: Array, g: Array, curvature: Array) -> _Rows:
    """The sites with which z ~ N(omega, V) gets the mean and variance that the channel gives it.

    Rows whose channel would widen z (a curvature that is not positive) keep the site they had.
    """
    rest = 1.0 - V * curvature
    sound = (curvature >= 0.0) & (rest > 0.0)
    precision = np.clip(
        np.where(sound, curvature / np.where(sound, rest, 1.0), old.precision),
        FAINTEST / V,
        1.0 / (QUIETEST * V),
    )
    return _Rows(precision, np.where(sound, g + precision * (omega + V * g), old.linear))


def _health(g: Array, curvature: Array) -> float:
    return health(float(np.mean(np.square(g))), float(np.mean(curvature)))


def _mismatch(new: Moments, sites: Sites, joint: Joint) -> float:
    """How far the Gaussian is from the moments it should have, in posterior standard deviations."""
    wanted = 1.0 / (joint.field.A + sites.precision)
    off = np.square(new.mean - joint.mean) / np.maximum(wanted, joint.var)
    spread = np.square(wanted - joint.var) / np.square(np.maximum(wanted, joint.var))
    return float(np.sqrt(np.mean(off) + np.mean(spread)))


def _row_mismatch(rows: _Rows, omega: Array, V: Array, g: Array) -> float:
    """The same for z: the channel's mean against that of the row's site."""
    shrink = 1.0 / (1.0 + rows.precision * V)
    off = (omega + V * g) - (omega + V * rows.linear) * shrink
    return float(np.sqrt(np.mean(np.square(off) / (V * shrink))))


def _mix(old: Array, new: Array, step: float) -> Array:
    return (1.0 - step) * old + step * new
