"""Sparse rows: whole rows that are zero, such as features that no cluster differs in."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, Self

import numpy as np
from numpy.random import Generator
from scipy.special import expit, ndtri

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given, Shape
from miniamp.priors.rows.base import RowPrior, checked_covariance, checked_vector
from miniamp.priors.rows.gaussian import tilted_gaussian


class SparseRows(RowPrior):
    """A row is drawn from N(mean, cov) with probability rho and is zero otherwise.

    Parameters
    ----------
    dim : int
        Length R of a row.
    rho : float
        Probability that a row is not zero, 0 < rho < 1.
    mean : float or (R,) array
        Mean of a row that is not zero.
    cov : float, (R,) or (R, R) array, optional
        Its covariance, or its variances; the identity by default.

    Examples
    --------
    >>> import numpy as np
    >>> mean, _ = SparseRows(2, rho=0.5).moments(np.zeros((2, 2)), np.array([[0.0, 0.0]]))
    >>> mean
    array([[0., 0.]])
    """

    names = ("rho", "mean", "cov")
    trailing: ClassVar[dict[str, int]] = {"mean": 1, "cov": 2}
    widths: ClassVar[dict[str, int]] = {"cov": 2}
    centres = ("mean",)

    def __init__(self, dim: int, rho: float = 0.1, mean: Given = 0.0, cov: Given = 1.0) -> None:
        self.dim = checks.count("dim", dim)
        self.rho = checks.number("rho", rho, above=0.0)
        if self.rho >= 1.0:
            raise checks.refuse("rho", rho, "0 < rho < 1", "use GaussianRows for dense rows")
        self.mean = checked_vector("mean", mean, self.dim)
        self.cov = checked_covariance("cov", cov, self.dim)

    def _parts(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array, Array, Array]:
        """Log-odds of being non-zero (N,), its probability, and mean and covariance if so."""
        slab = tilted_gaussian(self.mean, self.cov, self._matrix(A))
        log_odds = np.log(self.rho) - np.log1p(-self.rho) + slab.log_partition(B)
        return log_odds, np.asarray(expit(log_odds)), slab.means(B), slab.cov

    def log_partition(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        return np.asarray(np.log1p(-self.rho) + np.logaddexp(0.0, self._parts(A, B)[0]))

    def moments(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        log_odds, active, mean, cov = self._parts(A, B)
        # active * expit(-log_odds), not active * (1 - active): the second rounds to zero too early.
        doubt = (active * expit(-log_odds))[..., None, None]
        spread = mean[..., :, None] * mean[..., None, :]
        return active[..., None] * mean, active[..., None, None] * cov + doubt * spread

    def totals(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        log_odds, active, mean, cov = self._parts(A, B)
        flat = mean.reshape(-1, self.dim)
        doubt = (active * expit(-log_odds)).reshape(-1, 1)
        return active[..., None] * mean, active.sum() * cov + (doubt * flat).T @ flat

    def inclusion_probability(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        """Probability under the tilt that a row is not zero, (N,)."""
        return self._parts(A, B)[1]

    def drawn(self, rng: Generator, shape: Shape, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        _, active, mean, cov = self._parts(A, B)
        rows = mean + rng.normal(size=shape) @ np.linalg.cholesky(cov).T
        return np.asarray(np.where((rng.random(shape[:-1]) < active)[..., None], rows, 0.0))

    def draw(self, uniforms: Array) -> Array:
        rows = self.mean + ndtri(uniforms[:, : self.dim]) @ np.linalg.cholesky(self.cov).T
        return np.asarray(np.where(uniforms[:, self.dim :] < self.rho, rows, 0.0))

    def fitted(self, A: ArrayOrFloat, B: ArrayOrFloat, fixed: Collection[str] = ()) -> Self:
        _, active, mean, cov = self._parts(A, np.reshape(B, (-1, self.dim)))
        free, total, edge = self._free(fixed), active.sum(), np.finfo(np.float64).eps
        rho = float(np.clip(active.mean(), edge, 1.0 - edge))  # the ends of (0, 1) are other models
        if not total > 0.0:  # no row to refit the others to
            return self._learned(free, rho=rho)
        centre = active @ mean / total if "mean" in free else self.mean
        spread = (active[:, None] * (mean - centre)).T @ (mean - centre) / total
        return self._learned(free, rho=rho, mean=centre, cov=cov + spread)

    @property
    def exchangeable(self) -> bool:
        plain = np.array_equal(self.cov, self.cov[0, 0] * np.eye(self.dim))
        return plain and bool((self.mean == self.mean[0]).all())
