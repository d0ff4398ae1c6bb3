"""Non-negative rows: centroids of intensities and frequencies."""

from __future__ import annotations

from collections.abc import Collection
from typing import Self

import numpy as np
from scipy.special import ndtri

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.priors.non_negative_gaussian import NonNegativeGaussian
from miniamp.priors.rows.mean_field import MeanFieldRows


class NonNegativeRows(MeanFieldRows):
    """Rows of independent N(0, var) components, cut to be non-negative.

    The prior of the paper's experiments on real data (its appendix D, with errata L15 to L17);
    means and covariances by mean field, see `MeanFieldRows`.

    Parameters
    ----------
    dim : int
        Length R of a row.
    var : float
        Variance of the Gaussian before it is cut.

    Examples
    --------
    >>> import numpy as np
    >>> mean, _ = NonNegativeRows(2, var=1.0).moments(np.eye(2), np.array([[-9.0, 9.0]]))
    >>> bool(mean.min() >= 0.0), float(mean[0, 1].round(3))
    (True, 4.5)
    """

    names = ("var",)
    name = "nonnegative"

    def __init__(self, dim: int, var: Given = 1.0) -> None:
        super().__init__(NonNegativeGaussian(var=checks.number("var", var, above=0.0)), dim)
        self.var = checks.number("var", var, above=0.0)

    def fitted(self, A: ArrayOrFloat, B: ArrayOrFloat, fixed: Collection[str] = ()) -> Self:
        A = self._matrix(A)
        _, field = self._solve(A, np.reshape(np.asarray(B, dtype=np.float64), (-1, self.dim)))
        mean, var = self.prior.moments(np.diag(A), field)
        return self._learned(self._free(fixed), var=float(np.mean(np.square(mean) + var)))

    def rescaled(self, factor: float, fixed: Collection[str] = ()) -> Self:
        return self if "var" in fixed else self.replaced(var=self.var * factor**2)

    def free_widths(self, fixed: Collection[str] = ()) -> tuple[str, ...]:
        return () if "var" in fixed else ("var",)

    def draw(self, uniforms: Array) -> Array:
        return np.asarray(np.sqrt(self.var) * ndtri(0.5 + 0.5 * uniforms[:, : self.dim]))

    def __repr__(self) -> str:
        return f"NonNegativeRows(dim={self.dim}, var={self.var:g})"
