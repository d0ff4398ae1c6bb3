"""Memory: many rows rotated to a few, and what the others say kept in the tilt."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from miniamp.arrays import Array
from miniamp.designs.row_blocks import triangle
from miniamp.evidence.linear import Joint, Sites, solve
from miniamp.posterior import Posterior, Remembered
from miniamp.tilt import Tilt

#: Rounds of matching the variances, at most, and the share of a precision that ends them: the first
#: round already has most of it.
ROUNDS, MATCHED = 8, 1e-3


def compressed(belief: Posterior, R: Array, t: Array, joint: Joint, sites: Sites) -> Posterior:
    """The belief that has seen the rows R (m, N) with targets t, and remembers at most r of them.

    `joint` is the Gaussian of all rows under `sites`, which stand for the prior and the tilt. The
    rows are rotated so that they are orthogonal in the metric of the sites, where each coefficient
    is measured in the standard deviation that it had without the rows: what is large there is what
    the rows alone know, whatever the units. The r strongest are kept. The rest becomes a tilt,
    chosen so that every mean and every variance is exactly what it was with all rows: the
    projection of least relative entropy on beliefs with the kept rows.

    *Departure*: the plain recipe A_j = sum_m f_mj^2/(1 + V_m) for the dropped rows is where this
    starts; it takes each dropped row as independent of the others.
    """
    base = belief.remembering(None)
    if belief.memory == 0:
        return base.tilted(joint.field)
    if len(R) > R.shape[1]:
        R, t = triangle(R, t)
    if len(R) <= belief.memory:
        return base.remembering(Remembered(R, t, joint.field))
    kept, targets, dropped = strongest(R, t, 1.0 / sites.precision, belief.memory)
    A = matched_precision(kept, dropped, targets, joint, sites)
    precision = sites.precision + A
    B = precision * joint.mean + (kept @ joint.mean - targets) @ kept - sites.linear
    field = Tilt(joint.field.A - A, joint.field.B - B)
    return base.tilted(Tilt(A, B)).remembering(Remembered(kept, targets, field))


def strongest(R: Array, t: Array, var: Array, r: int) -> tuple[Array, Array, Array]:
    """The r strongest rows of the rotated stack, their targets, and the other rows."""
    scaled = R * np.sqrt(var)
    _, rotation = linalg.eigh(scaled @ scaled.T, overwrite_a=True, check_finite=False)
    rotated = rotation.T @ R
    return rotated[-r:], (rotation.T @ t)[-r:], rotated[:-r]


def matched_precision(
    kept: Array, dropped: Array, targets: Array, joint: Joint, sites: Sites
) -> Array:
    """The precisions, one per coefficient, that replace the dropped rows without moving a variance.

    Wanted is A + c(A) = c, with c the field's precision with all rows and c(A) that of the kept
    ones when A has joined the sites. c(A) grows with A, slowly, so that A <- c - c(A) settles.
    """
    c = joint.field.A
    A = np.minimum(np.square(dropped).T @ (1.0 / (1.0 + joint.variance_of(dropped))), c)
    for _ in range(ROUNDS):
        trial = solve(kept, targets, Sites(sites.precision + A, sites.linear))
        last, A = A, np.clip(0.5 * A + 0.5 * (c - trial.field.A), 0.0, c)
        if np.max(np.abs(A - last) / (sites.precision + c)) < MATCHED:
            break
    return np.asarray(A)
