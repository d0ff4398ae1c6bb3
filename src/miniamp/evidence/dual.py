"""The linear step of wide sparse rows: M x M numbers, and nothing of size M x N."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import linalg

from miniamp.arrays import Array
from miniamp.designs import Design
from miniamp.evidence.linear import ROUNDING, TINY, RowSites, Sites
from miniamp.posterior import Posterior
from miniamp.tilt import Tilt, cholesky, log_det


class Dual:
    """Rows of a sparse design with a Gaussian site each, solved on the rows' side.

    With D = 1/precision of the coefficients' sites, S = Phi D Phi' and T = diag(precision) of the
    rows, all follows from (T^-1 + S)^-1. It costs O(M^3) and the pairs of entries in a column.

    Parameters
    ----------
    design : Design
        The rows (M, N).
    rows : RowSites
        Their sites.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from miniamp.designs import as_design
    >>> rows = RowSites(np.ones(1), np.array([7.0]))
    >>> Phi = as_design(sparse.csr_array([[1.0, 2.0, 0.0]]))
    >>> Dual(Phi, rows).at(Sites(2.0 * np.ones(3), np.zeros(3))).mean
    array([1., 2., 0.])
    """

    def __init__(self, design: Design, rows: RowSites) -> None:
        self.design, self.rows = design, rows
        #: What is known for the latest sites: their precision, Phi D Phi', Phi D linear.
        self._prepared: tuple[Sites, Array, Array] | None = None
        self._solved: tuple[Sites, DualSolution] | None = None

    def with_rows(self, rows: RowSites) -> Dual:
        """The same rows under other sites of their own."""
        if rows is self.rows:
            return self
        new = Dual(self.design, rows)
        new._prepared = self._prepared
        return new

    def in_common(self, sites: Sites) -> Dual:
        """Itself: a factor costs as much as any other change."""
        return self

    def at(self, sites: Sites) -> DualSolution:
        """The Gaussian under these sites; the latest answer is kept."""
        if self._solved is None or self._solved[0] is not sites:
            if self._prepared is None or self._prepared[0] is not sites:
                D = 1.0 / sites.precision
                self._prepared = sites, self.design.gram(D), self.design.times(D * sites.linear)
            self._solved = sites, DualSolution(self.design, self.rows, *self._prepared)
        return self._solved[1]


class DualSolution:
    """The Gaussian of a `Dual`; what is asked of single coefficients is computed when asked."""

    def __init__(
        self, design: Design, rows: RowSites, sites: Sites, S: Array, start: Array
    ) -> None:
        self.design, self.rows, self.sites, self.start = design, rows, sites, start
        self._root = np.sqrt(rows.precision)
        K = self._root[:, None] * S
        K *= self._root
        K[np.diag_indices_from(K)] += 1.0
        self._lower = cholesky(K)
        self.log_det = log_det(self._lower)
        #: K^-1 (t - Phi D linear), in units of the rows' noise
        off = rows.linear / self._root - self._root * start
        self._g = linalg.cho_solve((self._lower, True), off, check_finite=False)

    @cached_property
    def _inverse(self) -> Array:
        """K^-1, its lower triangle, in the place of the factor, which is not needed again."""
        lower, self._lower = self._lower, np.empty((0, 0))
        return np.asarray(linalg.lapack.dpotri(lower, lower=1, overwrite_c=1)[0])

    def left_out(self) -> tuple[Array, Array]:
        """Mean and variance of each row . x without the row itself, (M,) each; see `Joint`."""
        k = np.diagonal(self._inverse)
        V = np.maximum(1.0 / k - 1.0, ROUNDING)
        omega = (self.rows.linear / self._root - self._g / k) / self._root
        return omega, np.maximum(V / self.rows.precision, TINY)

    def absorbed(self, belief: Posterior) -> Posterior:
        """The belief tilted by what the rows say; it remembers none of them."""
        return belief.tilted(self.field)

    @cached_property
    def _marginals(self) -> tuple[Array, Array, Tilt]:
        """Mean, variance and field, without a difference of nearly equal numbers; see `solve`."""
        D, linear = 1.0 / self.sites.precision, self.sites.linear
        weighted = self._inverse.T * self._root[:, None]
        weighted *= self._root
        q = self.design.column_variances(weighted.T)
        rest = np.maximum(1.0 - D * q, np.finfo(np.float64).eps)
        pull = self.design.transposed_times(self._root * self._g)
        field = Tilt(q / rest, (pull + D * q * linear) / rest)
        return D * (linear + pull), D * rest, field

    @property
    def scores(self) -> Array:
        return self.design.times(self.mean)

    @property
    def misfit(self) -> float:
        return self.sites.misfit(self.mean)

    @property
    def mean(self) -> Array:
        return self._marginals[0]

    @property
    def var(self) -> Array:
        return self._marginals[1]

    @property
    def field(self) -> Tilt:
        return self._marginals[2]
