"""How surprising new rows are to a belief: a drift detector from the posterior itself."""

from __future__ import annotations

import numpy as np

from miniamp import checks
from miniamp.arrays import Given
from miniamp.channels.base import Channel
from miniamp.designs import as_design
from miniamp.evidence.batch import check_columns, checked_channel, project
from miniamp.posterior import Posterior


def surprise(belief: Posterior, Phi: Given, y: Given, channel: Channel) -> float:
    """By how many standard deviations the log-loss of new rows exceeds what the belief expects.

    Every forecast says how large its own log-loss will be on average, and how much that varies.
    Rows from the stream the belief has learned score about 0 +- 1; after a change of coefficients
    or noise the score is large, and forgetting (`absorb(..., forget=0.1)`) is in order.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import Posterior, absorb, channels, evidence, priors
    >>> rng = np.random.default_rng(0)
    >>> channel, x = channels.Gaussian(var=0.01), rng.normal(size=20)
    >>> Phi, more = rng.normal(size=(2, 100, 20))
    >>> y, usual = (rows @ x + 0.1 * rng.normal(size=100) for rows in (Phi, more))
    >>> belief, _ = absorb(Posterior(priors.Gaussian(), 20), evidence.RobustBatch(Phi, y, channel))
    >>> abs(surprise(belief, more, usual, channel)) < 4.0
    True
    >>> surprise(belief, more, more @ -x, channel) > 100.0
    True
    """
    design = as_design(Phi)
    check_columns(design, belief)
    channel = checked_channel(channel)
    y = checks.vector("y", channel.checked(y), size=design.shape[0])
    omega, V = project(belief, design)
    values, weights = channel.outcomes(omega, V)
    values, weights = np.broadcast_arrays(values, weights)
    scores = np.stack(
        [channel.log_partition(values[:, j], omega, V) for j in range(values.shape[-1])], axis=-1
    )
    probabilities = weights * np.exp(scores)
    finite = np.where(probabilities > 0.0, scores, 0.0)
    mean = np.sum(probabilities * finite, axis=-1)
    var = np.sum(probabilities * np.square(finite - mean[:, None]), axis=-1)
    excess = float(np.sum(mean - channel.log_partition(y, omega, V)))
    return excess / float(np.sqrt(max(np.sum(var), np.finfo(np.float64).tiny)))
