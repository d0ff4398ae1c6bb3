"""Coordinate updates by products of columns, for rows that are elsewhere."""

from __future__ import annotations

import numpy as np

from miniamp.arrays import Array
from miniamp.channels.gaussian import Gaussian
from miniamp.designs.base import Design
from miniamp.designs.columns import Columns
from miniamp.designs.online import Running
from miniamp.posterior import Prior


class GramColumns(Columns):
    """Columns that are known by their products alone.

    A coordinate update needs Phi_i' (y - Phi x), and all that changes in it when x_j does is
    (Phi' Phi)_ij: with the products in hand a sweep over all coordinates asks the rows only twice,
    for Phi' residual before it and Phi x after it. The updates are those of the columns themselves,
    up to rounding.

    Parameters
    ----------
    design : Design
        Who has the rows.
    gram : (N, N) array
        Phi' Phi.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp.designs import Dense
    >>> design = Dense(np.array([[1.0, 2.0], [0.0, 1.0]]))
    >>> GramColumns(design, design.gram()).power
    array([1., 5.])
    """

    def __init__(self, design: Design, gram: Array) -> None:
        self._design, self._gram = design, gram
        self.power = np.array(np.diag(gram))

    def descend(
        self, belief: Running, prior: Prior, noise: float, mean: Array, var: Array, residual: Array
    ) -> tuple[Array, Array]:
        nothing = np.zeros(len(mean))
        # The channel of unit noise gives back what it is shown, so that Phi' g is Phi' residual.
        pull = self._design.sandwich(nothing, np.zeros(()), residual, Gaussian(1.0), None).pull
        correlation, before = np.array(pull), mean.copy()
        A, B = self.power / noise, np.empty(len(mean))
        for i, column in enumerate(self._gram):
            here = slice(i, i + 1)
            B[i] = correlation[i] / noise + A[i] * mean[i]
            own = prior.at(here) if hasattr(prior, "at") else prior
            new, var[here] = own.moments(belief.A[here] + A[here], belief.B[here] + B[here])
            correlation -= (new - mean[here]) * column
            mean[here] = new
        residual -= self._design.forecast(mean - before, nothing)[0]
        return A, B
