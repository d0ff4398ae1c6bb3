"""From what the rows say to the next estimate: `eq:miniamp`, with its change and its scale."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from miniamp.designs import Sweep
from miniamp.evidence.base import power, relative_change
from miniamp.kernel import kernel_of, read_only
from miniamp.posterior import Moments, Posterior
from miniamp.tilt import Tilt

#: Below this many coefficients NumPy is done before the compiled pass has begun.
WORTH_COMPILING = 1000


class Update(NamedTuple):
    """The next estimate and what is to be known of it."""

    tilt: Tilt  #: of these rows alone
    moments: Moments
    change: float  #: mean absolute change of the means, over the signal's scale
    power: float  #: mean square of the coefficients
    spread: float  #: mean variance


def updated(belief: Posterior, estimate: Moments, sweep: Sweep) -> Update:
    """The estimate after a sweep, in one compiled pass where the prior has a kernel."""
    kernel = kernel_of(belief.prior) if belief.size >= WORTH_COMPILING else None
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
        *(read_only(np.ascontiguousarray(np.atleast_1d(one))) for one in inputs),
        kernel.parameters,
        kernel.function,
        B,
        mean,
        var,
    )
    moved, total, spread = (one / belief.size for one in sums)
    change = moved / np.sqrt(total) if total > 0.0 else moved
    return Update(Tilt(sweep.curvature, B), Moments(mean, var), change, total, spread)
