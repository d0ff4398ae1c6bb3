"""From what the rows say to the next estimate: `eq:miniamp`, with its change and its scale."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from miniamp.designs import Sweep
from miniamp.evidence.base import power, relative_change
from miniamp.kernel import flat
from miniamp.posterior import Moments, Posterior
from miniamp.tilt import Tilt

#: The compiled pass takes a third of NumPy's time at any size (17 us against 46 at N = 100, 25
#: against 89 at N = 2000), but its compiler takes half a second to import: small problems, whose
#: sweeps are NumPy's too, are done before.
WORTH_COMPILING = 500


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
        return Update(tilt, new, change, power(new), float(np.mean(new.var)))
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
