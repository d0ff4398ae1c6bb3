"""The linear step of wide sparse rows: M x M numbers, and nothing of size M x N."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import linalg

from miniamp.arrays import Array
from miniamp.designs import Design
from miniamp.evidence.linear import Sites
from miniamp.evidence.row_scores import OnRows, TiedRows
from miniamp.posterior import Posterior
from miniamp.tilt import Tilt

#: Rows with fewer stored entries than this share are solved as they are, not as a dense matrix.
SPARSE = 0.25


class Dual:
    """Rows of a sparse design with a Gaussian site each, solved on the rows' side.

    With D = 1/precision of the coefficients' sites, S = Phi D Phi' and T = diag(precision) of the
    rows, all follows from (T^-1 + S)^-1. It costs O(M^3) and the pairs of entries in a column.

    Parameters
    ----------
    design : Design
        The rows (M, N).
    rows : Sites
        Their sites.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from miniamp.designs import as_design
    >>> rows = Sites(np.ones(1), np.array([7.0]))
    >>> Phi = as_design(sparse.csr_array([[1.0, 2.0, 0.0]]))
    >>> Dual(Phi, rows).at(Sites(2.0 * np.ones(3), np.zeros(3))).mean
    array([1., 2., 0.])
    """

    def __init__(self, design: Design, rows: Sites) -> None:
        self.design, self.rows = design, rows
        #: What is known for the latest sites: their precision, Phi D Phi', Phi D linear.
        self._prepared: tuple[Sites, Array, Array] | None = None
        self._solved: DualSolution | None = None

    @staticmethod
    def suits(design: Design) -> bool:
        """Whether rows are solved as they are, by the M x M products of sparse rows."""
        M, N = design.shape
        return M < N and design.filled < SPARSE

    def with_rows(self, rows: Sites) -> Dual:
        """The same rows under other sites of their own."""
        if rows is self.rows:
            return self
        new = Dual(self.design, rows)
        new._prepared = self._prepared
        return new

    def at(self, sites: Sites) -> DualSolution:
        """The Gaussian under these sites; the latest answer is kept."""
        if self._solved is None or self._solved.sites is not sites:
            if self._prepared is None or self._prepared[0] is not sites:
                D = 1.0 / sites.precision
                self._prepared = sites, self.design.gram(D).T, self.design.times(D * sites.linear)
            self._solved = DualSolution(self.design, self.rows, *self._prepared)
        return self._solved

    in_common = at  # a factor costs as much as any other change


class DualSolution(OnRows):
    """The Gaussian of a `Dual`; what is asked of single coefficients is computed when asked."""

    def __init__(self, design: Design, rows: Sites, sites: Sites, S: Array, start: Array) -> None:
        self._tied = TiedRows(S, rows.precision)
        super().__init__(self._tied, start, rows, sites)
        self.design = design

    def absorbed(self, belief: Posterior) -> Posterior:
        """The belief with the tilt of the rows; it remembers none of them."""
        return belief.tilted(self.field)

    @cached_property
    def _marginals(self) -> tuple[Array, Array, Tilt]:
        """Mean, variance and field, without a difference of nearly equal numbers; see `solve`."""
        D, linear = 1.0 / self.sites.precision, self.sites.linear
        half = self._tied.inverse * self._tied.root
        q = self.design.column_variances(linalg.lapack.dlauum(half, lower=1, overwrite_c=1)[0])
        rest = np.maximum(1.0 - D * q, np.finfo(np.float64).eps)
        pull = self.design.transposed_times(self.pull)
        field = Tilt(q / rest, (pull + D * q * linear) / rest)
        return D * (linear + pull), D * rest, field

    @property
    def mean(self) -> Array:
        return self._marginals[0]

    @property
    def var(self) -> Array:
        return self._marginals[1]

    @property
    def field(self) -> Tilt:
        return self._marginals[2]
