"""Assumed density filtering: rows absorbed one by one, in one compiled loop."""

from __future__ import annotations

import numpy as np

from miniamp import checks
from miniamp.absorb import Info
from miniamp.arrays import Given
from miniamp.channels.base import Channel
from miniamp.designs import as_design
from miniamp.designs.sequential import Responses, private
from miniamp.errors import ConflictError
from miniamp.evidence.base import relative_change
from miniamp.evidence.batch import check_columns, checked_channel, health
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
        One iteration a row; `trace` has one entry, the change of the estimate by all rows together.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import Posterior, channels, priors
    >>> rows, y = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([2.0, -2.0])
    >>> adf(Posterior(priors.Gaussian(), 2), rows, y, channels.Gaussian(var=1.0))[0].mean.round(3)
    array([ 0.667, -0.667])
    """
    design = as_design(Phi)
    checked_channel(channel)
    y = checks.vector("y", channel.checked(y), size=design.shape[0])
    checks.fits("channel", channel.shape, design.shape[0])
    check_columns(design, belief)
    before = belief.total
    running = private(before, belief.moments)
    responses = Responses(np.empty(len(y)), np.empty(len(y)))
    moments = Moments(running.mean, running.var)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused just below
        design.online(running, y, channel, belief.prior, responses)
        change = relative_change(moments, belief.moments)
        figure = health(float(np.mean(np.square(responses.g))), float(np.mean(responses.curvature)))
    if not np.isfinite(change):
        raise ConflictError(
            "evidence: the estimate is no longer finite; the belief is unchanged. Look for rows of "
            "extreme size, or raise the noise of the channel",
            health=figure,
            iteration=len(y),
        )
    gained = Tilt(running.A - before.A, running.B - before.B)
    return belief.tilted(gained), Info(len(y), True, np.array([change]), figure)
