"""A Gaussian belief that keeps all that was seen as one N x N information matrix."""

from __future__ import annotations

from functools import cached_property
from typing import Self

import numpy as np
from scipy import linalg

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat
from miniamp.designs.base import row_blocks
from miniamp.posterior import Moments, Posterior, Prior
from miniamp.tilt import FEW, PANEL, PROBES, Information, Remembered, Tilt, cholesky, signs

#: Directions of which less is known than this, relative to the best known one, are rounding.
UNSEEN = 1e-13


class InformationPosterior(Posterior):
    """A belief about N coefficients with a Gaussian prior and all correlations of the data.

    The density is prior times exp(-x'Px/2 + b'x): `Posterior` with memory = N in its natural form,
    N^2 numbers to which rows are added without a decomposition. Moments are computed when asked
    for; `remembered` gives the same as pseudo-observations.

    Parameters
    ----------
    prior : Prior
        A Gaussian one, with or without an intercept.
    size : int
        The number N of coefficients.
    information : (N, N) array, optional
        P, symmetric; none by default.
    linear : (N,) array, optional
        b; none by default.
    memory : int, optional
        As for `Posterior`; all N pseudo-observations are kept whatever it is.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import priors
    >>> P = np.array([[3.0, 1.0], [1.0, 3.0]])
    >>> belief = InformationPosterior(priors.Gaussian(var=1.0), 2, P, np.array([5.0, 5.0]))
    >>> belief.mean.round(3), belief.scaled(0.5).mean.round(3)
    (array([1., 1.]), array([0.833, 0.833]))
    """

    products: Array
    linear: Array
    keeps_sites = True

    def __init__(
        self,
        prior: Prior,
        size: int,
        information: Array | None = None,
        linear: Array | None = None,
        *,
        memory: int | None = None,
    ) -> None:
        super().__init__(prior, size, memory=size if memory is None else memory)
        P = np.zeros((size, size)) if information is None else np.asarray(information)
        b = np.zeros(size) if linear is None else np.asarray(linear)
        if P.shape != (size, size) or b.shape != (size,):
            raise checks.refuse(
                "information, linear",
                f"shapes {P.shape} and {b.shape}",
                f"{(size, size)} and {(size,)}",
                "give one row and column per coefficient",
            )
        self.__dict__.update(products=P, linear=b)
        del self.__dict__["remembered"]  # computed when asked for

    @classmethod
    def of(cls, belief: Posterior) -> InformationPosterior:
        """The same belief in this form; one that has it already is itself."""
        if isinstance(belief, cls):
            return belief
        P, b = np.diag(np.broadcast_to(belief.tilt.A, (belief.size,))).copy(), belief.tilt.B
        seen = belief.remembered
        if seen is not None:
            P, b = P + seen.rows.T @ seen.rows, b + seen.targets @ seen.rows
        return cls(belief.prior, belief.size, P, b, memory=belief.memory)

    def with_sites(self, rows: Array, precision: Array, linear: Array) -> Self:
        """The belief that also holds exp(-precision z^2/2 + linear z) of z = rows x, (M,) each."""
        weighted = np.sqrt(precision)[:, None] * rows
        added = weighted.T @ weighted
        added += self.products
        return self._but(products=added, linear=self.linear + linear @ rows)

    def tilted(self, tilt: Tilt) -> Self:
        P = self.products.copy()
        P[np.diag_indices_from(P)] += tilt.A
        return self._but(products=P, linear=self.linear + tilt.B)

    def remembering(self, remembered: Remembered | Information | None) -> Self:
        rows = np.zeros((0, self.size)) if remembered is None else remembered.rows
        targets = np.zeros(0) if remembered is None else remembered.targets
        return self._but(products=rows.T @ rows, linear=targets @ rows)

    @property
    def remembers(self) -> bool:
        return bool(self.products.any())

    @property
    def information(self) -> None:
        """None: these are products of sites, not of rows with Gaussian noise."""
        return

    def _beside(self) -> Self:
        return self  # nothing that was computed under another prior is kept

    def scaled(self, factor: float) -> Self:
        return self._but(products=factor * self.products, linear=factor * self.linear)

    def stretched(self, factor: ArrayOrFloat) -> Self:
        unit = 1.0 / np.broadcast_to(np.asarray(factor, dtype=np.float64), (self.size,))
        P = np.empty_like(self.products)
        for part in row_blocks(*P.shape):  # in the cache
            np.multiply(self.products[part], unit, out=P[part])
            P[part] *= unit[part, None]
        return self._but(products=P, linear=self.linear * unit)

    @cached_property
    def site(self) -> Moments:
        """Mean and variance of each coefficient before any data, (N,) each."""
        zeros = np.zeros(self.size)
        return Moments(*self.prior.moments(zeros, zeros))

    @property
    def precision(self) -> Array:
        """Inverse covariance, (N, N)."""
        total = self.products.copy()
        total.flat[:: self.size + 1] += 1.0 / self.site.var
        return total

    @cached_property
    def lower(self) -> Array:
        """The lower Cholesky factor of the inverse covariance, (N, N)."""
        return cholesky(self.precision, lambda: self.precision)

    @cached_property
    def centre(self) -> Array:
        """Means of the coefficients, (N,)."""
        wanted = self.linear + self.site.mean / self.site.var
        return np.asarray(linalg.cho_solve((self.lower, True), wanted, check_finite=False))

    def solved(self) -> Self:
        """A copy that has been solved: who keeps it may be kept by this belief.

        A cycle would hold N x N matrices until the next collection: 40 MB per batch of 1000 rows.
        """
        return self._but(site=self.site, lower=self.lower, centre=self.centre)

    @cached_property
    def moments(self) -> Moments:
        root = inverted(self.lower.copy(order="F"))
        return Moments(self.centre, np.einsum("ij,ij->j", root, root))

    @property
    def mean(self) -> Array:
        return self.centre  # without the variances, which take longer

    def probed(self, lower: Array) -> Array:
        """L^-1 u for random signs u and a factor L like `lower`, (N, PROBES)."""
        u = signs(self.size)[:, :PROBES]
        return np.asarray(linalg.solve_triangular(lower, u, lower=True, check_finite=False))

    @cached_property
    def mean_variance(self) -> float:
        """Mean over the coefficients of their variances; of many, by an unbiased estimate.

        `E |L^-1 u|^2 / N` for random signs u, with a standard deviation of about sqrt(2/(PROBES N))
        of it, spares a sixth of the time of an update.
        """
        if self.size <= FEW:
            return float(np.mean(self.moments.var))
        return float(np.mean(np.square(self.probed(self.lower))))

    @property
    def total(self) -> Tilt:
        mean, var = self.moments
        own = 1.0 / self.site.var
        A = np.maximum(1.0 / var - own, 0.0)
        return Tilt(A, (A + own) * mean - own * self.site.mean)

    @cached_property
    def remembered(self) -> Remembered | None:  # type: ignore[override]
        """The same information as pseudo-observations; None where nothing was seen."""
        squares, V = linalg.eigh(self.products, check_finite=False)
        some = squares > UNSEEN * max(float(squares[-1]), 0.0)
        if not some.any():
            return None
        root = np.sqrt(squares[some])
        rows = root[:, None] * V[:, some].T
        return Remembered(rows, (self.linear @ V[:, some]) / root, self.total)

    def _constants(self) -> dict[str, object]:
        names = ("prior", "size", "tilt", "memory", "products", "linear")
        return {name: getattr(self, name) for name in names}

    def __getstate__(self) -> dict[str, object]:
        """What defines it, without what was computed."""
        return self._constants()


def inverted(lower: Array) -> Array:
    """L^-1 in the place of L (M, M), by halves: large products take 2/3 of the time of LAPACK's."""
    half = len(lower) // 2
    if len(lower) <= PANEL:
        lower[:] = linalg.lapack.dtrtri(lower, lower=1)[0]
        return lower
    first, last = inverted(lower[:half, :half]), inverted(lower[half:, half:])
    below = linalg.blas.dtrmm(-1.0, first, lower[half:, :half], side=1, lower=1)
    lower[half:, :half] = linalg.blas.dtrmm(1.0, last, below, lower=1, overwrite_b=1)
    return lower
