"""What kinds of evidence share."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from miniamp.absorb import Evidence, Step
from miniamp.arrays import Array
from miniamp.channels.base import Channel
from miniamp.designs import Design
from miniamp.posterior import Moments
from miniamp.tilt import Tilt

#: Newton steps to the cavity of a row; one is exact for a Gaussian channel.
NEWTON = 8


class DrawnRows:
    """Evidence from observed rows: what is the same for every way of absorbing them."""

    design: Design
    y: Array
    channel: Channel

    def remedies(self) -> Iterable[tuple[str, Evidence]]:
        return ()

    def conclude(self, belief: Any, step: Step) -> Any:
        return belief.tilted(step.tilt)

    def diagnosis(self) -> str:
        return ""

    def with_channel(self, channel: Channel) -> Self:
        """The same rows seen through another channel."""
        new = copy.copy(self)
        new.channel = channel
        return new

    def total(self, belief: Any, step: Step) -> Tilt:
        """All that is said of each coefficient after `step`."""
        total: Tilt = belief.total + step.tilt
        return total

    def cavity(self, step: Step) -> tuple[Array, Array]:
        """Mean and variance of each row . x as it is known without the row itself, (M,) each.

        What learning the noise needs. From the posterior of z backwards: the omega for which
        omega + V g(omega) is the mean of z.
        """
        z, V = self.design.forecast(step.estimate.mean, step.estimate.var)
        omega = z
        for _ in range(NEWTON):
            g, curvature = self.channel.output(self.y, omega, V)
            rest = np.maximum(1.0 - V * curvature, np.finfo(np.float64).eps)
            omega = omega - (omega + V * g - z) / rest
        return omega, V


def relative_change(new: Moments, old: Moments) -> float:
    """Mean absolute change of the means, relative to the signal's scale as now believed."""
    scale = np.sqrt(power(new))
    change = float(np.mean(np.abs(new.mean - old.mean)))
    return change / scale if scale > 0.0 else change


def power(moments: Moments) -> float:
    """Mean square of the coefficients under a belief: the signal's power."""
    return float(np.mean(np.square(moments.mean) + moments.var))


def damped(new: Moments, old: Moments, damping: float) -> Moments:
    """A step of 1 - damping from old to new."""
    if damping == 0.0:
        return new
    return Moments(_mix(new.mean, old.mean, damping), _mix(new.var, old.var, damping))


def _mix(new: Array, old: Array, damping: float) -> Array:
    return (1.0 - damping) * new + damping * old
