"""The chance of each of several noisy margins to be the largest."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr

from miniamp.arrays import Array

#: Nodes of the trapezoidal rule, and how far it reaches beyond the margins, in units of the noise:
#: the error is 1e-13 for margins that are close and 1e-8 for those that are 16 apart.
NODES, REACH = 41, 8.5
#: So many rows at a time: NODES numbers for each of their margins are held.
ROWS = 4096
#: Margins are held within this, so that no chance is zero: that of the smallest is 1e-295 then.
FARTHEST = 26.0


def chances_of_largest(margins: Array) -> Array:
    """P(margin_k + noise_k is the largest), (M, K), for margins (M, K) and standard normal noise.

    P_k = integral of phi(u - m_k) prod_{j != k} Phi(u - m_j) du, all classes on one grid in u.

    Examples
    --------
    >>> chances_of_largest(np.array([[0.0, 0.0, -30.0]])).round(12)
    array([[0.5, 0.5, 0. ]])
    """
    blocks = range(0, len(margins), ROWS)
    return np.concatenate([_chances(margins[i : i + ROWS]) for i in blocks] or [margins])


def _chances(margins: Array) -> Array:
    m = np.clip(margins, -FARTHEST, FARTHEST)
    top, low = m.max(axis=1), m.min(axis=1)
    # An unlikely class is the largest half way up to the likeliest.
    start, end = 0.5 * (top + low) - REACH, top + REACH
    u = start + np.linspace(0.0, 1.0, NODES)[:, None] * (end - start)
    above = u[..., None] - m  # (nodes, M, K)
    below = log_ndtr(above)
    height = below.sum(axis=2)[..., None] - below - 0.5 * np.square(above)
    largest = height.max(axis=0)
    chance = np.exp(largest) * np.exp(height - largest).sum(axis=0)
    return np.asarray(chance / chance.sum(axis=1, keepdims=True))
