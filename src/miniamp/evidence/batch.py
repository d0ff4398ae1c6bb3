"""A batch of rows, absorbed by generalised approximate message passing."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from miniamp import checks
from miniamp.absorb import ILL, Evidence, Step
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.designs import Design, Sweep, as_design
from miniamp.evidence.base import DrawnRows, damped
from miniamp.evidence.joint import row_moments
from miniamp.evidence.update import updated
from miniamp.posterior import Moments, Posterior

#: How much of the old estimate a careful second attempt keeps.
CAREFUL_DAMPING = 0.5


#: A fall of mean(-dg) by this factor in one iteration is the silence of rows that are fitted
#: exactly; while a batch is being learned it changes by factors of order one.
SILENCE = 1e-6


class Past(NamedTuple):
    """What an iteration leaves to the next."""

    sweep: Sweep
    step: Step


class Batch(DrawnRows):
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

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import Posterior, absorb, channels, priors
    >>> rows = Batch(np.eye(3), np.array([1.0, -1.0, 0.5]), channels.Gaussian(var=1.0))
    >>> absorb(Posterior(priors.Gaussian(), 3), rows)[0].mean
    array([ 0.5 , -0.5 ,  0.25])
    """

    def __init__(self, Phi: Given, y: Given, channel: Channel, *, damping: float = 0.0) -> None:
        self.design = as_design(Phi)
        self.channel = checked_channel(channel)
        self.y = checks.vector("y", channel.checked(y), size=self.design.shape[0])
        checks.fits("channel", channel.shape, self.design.shape[0])
        self.damping = checks.number("damping", damping, least=0.0)
        if self.damping >= 1.0:
            raise checks.refuse("damping", damping, "0 <= damping < 1", "1 would never move")

    @property
    def rows(self) -> int:
        return self.design.shape[0]

    def start(self, belief: Posterior) -> tuple[Moments, Any]:
        check_columns(self.design, belief)
        return belief.moments, None

    def refine(self, belief: Posterior, estimate: Moments, memory: Any) -> Step:
        x, v = estimate
        past: Past | None = memory
        onsager = None if past is None else past.sweep.memory
        sweep = self.design.sandwich(x, v, self.y, self.channel, onsager)
        if past is not None and self._silent(sweep, past.sweep):
            return past.step._replace(change=0.0, solved=True)
        tilt, new, change, power, spread = updated(belief, estimate, sweep)
        # The sweep judged the estimate before this one, so a claim to be solved is looked at again:
        # one coordinate that is wrong and certain of it would poison every batch that follows.
        certain = spread < self.channel.resolution * power
        step = Step(
            tilt=tilt,
            estimate=damped(new, estimate, self.damping),
            memory=None,
            change=change,
            health=health(sweep.mean_square, sweep.mean_curvature),
            solved=certain and self._agrees(new, sweep.memory),
            uncertainty=math.sqrt(spread / power) if power > 0.0 <= spread else 0.0,
        )
        return step._replace(memory=Past(sweep, step))

    def _silent(self, sweep: Sweep, before: Sweep) -> bool:
        """Whether rows without noise, all fitted, have nothing to say any more.

        Once the coefficients are known, every row of a perceptron is infinitely far from its margin
        and its g and -dg vanish: to go on would un-learn the batch. The tilt of the iteration
        before is what the rows said (errata E1, which tells it by the variance alone and misses it
        at small N).
        """
        fallen = sweep.mean_curvature < SILENCE * before.mean_curvature
        return fallen and self.channel.resolution > 0.0

    def _agrees(self, estimate: Moments, memory: Any) -> bool:
        """Whether the rows contradict an estimate no more than a sound batch does."""
        with np.errstate(over="ignore"):
            sweep = self.design.sandwich(*estimate, self.y, self.channel, memory)
        return health(sweep.mean_square, sweep.mean_curvature) < ILL

    def remedies(self) -> Iterable[tuple[str, Evidence]]:
        damping = max(self.damping, CAREFUL_DAMPING)
        yield "damping", Batch(self.design, self.y, self.channel, damping=damping)
        averaged = self.design.averaged()
        if averaged is not self.design:
            yield "scalar variances", Batch(averaged, self.y, self.channel)

    def diagnosis(self) -> str:
        return explain(self.design.diagnosis())


def health(mean_square: float, mean_curvature: float) -> float:
    """mean g^2 / mean(-dg): the residuals' power over what the belief expects of it.

    Rows that say nothing at all (both zero) contradict nothing: 1.
    """
    if mean_curvature == 0.0:
        return 1.0 if mean_square == 0.0 else np.inf
    return mean_square / mean_curvature


def checked_channel(channel: Given) -> Channel:
    """`channel`, if it is one."""
    if not isinstance(channel, Channel):
        raise checks.refuse(
            "channel",
            repr(channel),
            "a channel such as channels.Gaussian(var=0.01)",
            "see miniamp.channels",
        )
    return channel


def check_columns(design: Design, belief: Posterior) -> None:
    """Refuse rows that are not as long as the belief."""
    if belief.size != design.shape[1]:
        raise checks.refuse(
            "Phi",
            f"{design.shape[1]} columns",
            f"{belief.size}, the size of the belief",
            "use the same columns in every batch",
        )


def explain(found: str) -> str:
    """The advice that goes with an ill batch."""
    return (
        f"Seen in the rows: {found or 'nothing obvious'}. Either the noise is far larger than the "
        "channel says (raise its variance), or the design is not close to independent columns "
        "(standardise or drop columns, or use a solver for correlated designs)."
    )


def project(belief: Posterior, design: Design) -> tuple[Array, Array]:
    """Mean and variance of Phi x under the belief, with what it remembers of correlations."""
    if belief.remembered is None:
        return design.forecast(belief.mean, belief.var)
    return row_moments(belief, design)


def forecast(belief: Posterior, Phi: Given, channel: Channel) -> tuple[Array, Array]:
    """Mean and variance of the observations that new rows will bring, (M,) each.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import Posterior, channels, priors
    >>> forecast(Posterior(priors.Gaussian(), 2), np.eye(2), channels.Gaussian(var=1.0))
    (array([0., 0.]), array([2., 2.]))
    """
    design = as_design(Phi)
    check_columns(design, belief)
    return checked_channel(channel).predict(*project(belief, design))
