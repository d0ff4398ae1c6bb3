"""Assumed density filtering: rows absorbed one by one, in one compiled loop."""

from __future__ import annotations

import numpy as np

from miniamp.absorb import conflict
from miniamp.arrays import Given
from miniamp.channels.base import Channel
from miniamp.designs.sequential import Responses, private
from miniamp.evidence.base import DrawnRows, check_columns, health, relative_change
from miniamp.info import Info
from miniamp.posterior import Moments, Posterior
from miniamp.tilt import Tilt


def adf(belief: Posterior, Phi: Given, y: Given, channel: Channel) -> tuple[Posterior, Info]:
    """The belief after every row of (Phi, y) in turn, each seen once: Algorithm 2 (`eq:adf`).

    Equals `stream` over batches of one row with `Stop(max_iter=1)`, in one loop. The order of the
    rows matters a little: each is read in the light of those before it. With a sparse Phi a row
    costs as much as it has entries.

    Parameters
    ----------
    belief : Posterior
        What is known so far; it stays as it is.
    Phi : (M, N) array, scipy.sparse matrix or Design
        The rows.
    y : (M,) array
        What was observed.
    channel : Channel
        How it came about.

    Returns
    -------
    belief : Posterior
    info : Info
        One iteration per row; `trace` has one entry, the change of the estimate by all rows, and
        `log_evidence` is the sum of the log-probabilities that each row had before it was seen.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import Posterior, channels, priors
    >>> rows, y = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([2.0, -2.0])
    >>> adf(Posterior(priors.Gaussian(), 2), rows, y, channels.Gaussian(var=1.0))[0].mean.round(3)
    array([ 0.667, -0.667])
    """
    rows: DrawnRows[None] = DrawnRows(Phi, y, channel)
    check_columns(rows.design, belief)
    before = belief.total
    running = private(before, belief.moments)
    responses = Responses.empty(rows.rows)
    moments = Moments(running.mean, running.var)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused just below
        rows.design.online(running, rows.y, channel, belief.prior, responses)
        info = Info(
            rows.rows,
            True,
            np.array([relative_change(moments, belief.moments)]),
            health(responses.g, responses.curvature),
            log_evidence=float(np.sum(channel.log_partition(rows.y, responses.omega, responses.V))),
        )
    if not np.isfinite(info.trace[0]):
        raise conflict(info, "the estimate is no longer finite")
    gained = Tilt(running.A - before.A, running.B - before.B)
    return belief.tilted(gained), info
