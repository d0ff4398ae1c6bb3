"""What kinds of evidence share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from miniamp.absorb import Evidence, Step
from miniamp.arrays import Array
from miniamp.posterior import Moments


class DrawnRows:
    """Evidence from observed rows: what is the same for every way of absorbing them."""

    def remedies(self) -> Iterable[tuple[str, Evidence]]:
        return ()

    def conclude(self, belief: Any, step: Step) -> Any:
        return belief.tilted(step.tilt)

    def diagnosis(self) -> str:
        return ""


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
