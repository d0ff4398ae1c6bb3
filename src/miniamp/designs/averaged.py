"""Scalar variances: the AMP of the paper's main text, on whatever design."""

from __future__ import annotations

from typing import Any

import numpy as np

from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.designs.base import Design, Sweep
from miniamp.designs.choose import as_design
from miniamp.designs.columns import Columns


class Averaged(Design):
    """A design swept with one variance for all rows and one precision for all columns.

    `eq:amp1` to `eq:amp3`: for i.i.d. entries V_mu and A_i concentrate, and their averages save the
    products with the squares of Phi, which are never formed. Not for rows or columns of very
    different scales: there the vector variances of the plain designs are indispensable (errata E6).

    *Departure*: the print has 1/N for the variance of the entries; here it is their measured mean
    square, which equals 1/N for the paper's designs and keeps others in scale.

    Parameters
    ----------
    Phi : (M, N) array, sparse matrix or Design

    Examples
    --------
    >>> import numpy as np
    >>> Averaged(np.ones((3, 2))).mean_square
    1.0
    """

    def __init__(self, Phi: Given) -> None:
        self.inner = as_design(Phi)
        self.shape = self.inner.shape

    def sandwich(self, x: Array, v: Array, y: Array, channel: Channel, memory: Any) -> Sweep:
        V = np.asarray(self.mean_square * v.sum())
        sweep = self.inner.sandwich(x, V, y, channel, memory)
        return sweep._replace(curvature=np.asarray(self.mean_square * sweep.curvature))

    def forecast(self, x: Array, v: Array) -> tuple[Array, Array]:
        return self.inner.forecast(x, v)

    @property
    def mean_square(self) -> float:
        return self.inner.mean_square

    def columns(self) -> Columns:
        return self.inner.columns()

    def toarray(self) -> Array:
        return self.inner.toarray()

    def averaged(self) -> Averaged:
        return self

    def diagnosis(self) -> str:
        return self.inner.diagnosis()
