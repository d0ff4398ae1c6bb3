"""Gaussian rows, and the Gaussian row integrals that other priors are built from."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.random import Generator
from scipy import linalg
from scipy.special import ndtri

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given, Shape
from miniamp.priors.rows.base import RowPrior, checked_covariance, checked_vector


class GaussianRows(RowPrior):
    """Rows drawn from N(mean, cov): centroids anywhere (`eq:lowrank`).

    Parameters
    ----------
    dim : int
        Length R of a row.
    mean : float or (R,) array
        Mean of a row.
    cov : float, (R,) or (R, R) array, optional
        Covariance of a row, or its variances; the identity by default.

    Examples
    --------
    >>> import numpy as np
    >>> mean, cov = GaussianRows(2).moments(np.eye(2), np.array([[2.0, 0.0]]))
    >>> mean, cov
    (array([[1., 0.]]), array([[0.5, 0. ],
           [0. , 0.5]]))
    """

    names = ("mean", "cov")
    trailing: ClassVar[dict[str, int]] = {"mean": 1, "cov": 2}
    name = "gaussian"
    widths: ClassVar[dict[str, int]] = {"cov": 2}
    centres = ("mean",)

    def __init__(self, dim: int, mean: Given = 0.0, cov: Given = 1.0) -> None:
        self.dim = checks.count("dim", dim)
        self.mean = checked_vector("mean", mean, self.dim)
        self.cov = checked_covariance("cov", cov, self.dim)

    def log_partition(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        return tilted_gaussian(self.mean, self.cov, self._matrix(A)).log_partition(B)

    def moments(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        tilted = tilted_gaussian(self.mean, self.cov, self._matrix(A))
        return tilted.means(B), tilted.cov

    def totals(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        mean, cov = self.moments(A, B)
        return mean, (mean.size // self.dim) * cov

    def drawn(self, rng: Generator, shape: Shape, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        mean, cov = self.moments(A, B)
        return np.asarray(mean + rng.normal(size=shape) @ np.linalg.cholesky(cov).T)

    def draw(self, uniforms: Array) -> Array:
        return np.asarray(
            self.mean + ndtri(uniforms[:, : self.dim]) @ np.linalg.cholesky(self.cov).T
        )

    def fitted(self, A: ArrayOrFloat, B: ArrayOrFloat, fixed: Collection[str] = ()) -> Self:
        mean, cov = self.moments(A, np.reshape(B, (-1, self.dim)))
        centre = mean.mean(axis=0) if "mean" in self._free(fixed) else self.mean
        spread = (mean - centre).T @ (mean - centre) / len(mean)
        return self._learned(self._free(fixed), mean=centre, cov=cov + spread)

    def overlap(self, A: Array, rows: Array, noise: Array) -> Array:
        return self.second_moment(rows) - self.moments(A, self.mean)[1]

    def second_moment(self, rows: Array) -> Array:
        return self.cov + np.outer(self.mean, self.mean)

    def mean_log_partition(self, A: Array, rows: Array, noise: Array) -> float:
        tilted = tilted_gaussian(self.mean, self.cov, A)
        second = self.mean @ A @ self.mean + float(np.trace(A @ self.cov))
        return float(0.5 * (second - tilted.log_det))

    @property
    def isotropic_variance(self) -> float | None:
        var = float(self.cov[0, 0])
        plain = not self.mean.any() and np.array_equal(self.cov, var * np.eye(self.dim))
        return var if plain else None

    @property
    def exchangeable(self) -> bool:
        return self.isotropic_variance is not None


class TiltedGaussian(NamedTuple):
    """N(mean, .) times exp(-x'Ax/2): what is the same for every row, whatever its B."""

    prior_mean: Array
    A: Array
    cov: Array
    log_det: float  #: of 1 + A K, with K the covariance of the prior

    def means(self, B: ArrayOrFloat) -> Array:
        return np.asarray(self.prior_mean + (B - self.A @ self.prior_mean) @ self.cov)

    def log_partition(self, B: ArrayOrFloat) -> Array:
        pull = B - self.A @ self.prior_mean
        constant = -0.5 * (self.prior_mean @ self.A @ self.prior_mean + self.log_det)
        quadratic = 0.5 * np.einsum("...k,...k->...", pull @ self.cov, pull)
        return np.asarray(constant + B @ self.prior_mean + quadratic)


def tilted_gaussian(mean: Array, cov: Array, A: Array) -> TiltedGaussian:
    """N(mean, cov) tilted by A, without inverting cov or A: both may be nearly singular."""
    # LAPACK itself: NumPy's checks take four times as long as ten clusters do.
    root, failed = linalg.lapack.dpotrf(cov, lower=1)
    inner = root.T @ A @ root
    inner.flat[:: len(mean) + 1] += 1.0
    lower, also = linalg.lapack.dpotrf(inner, lower=1)
    if failed or also:
        raise np.linalg.LinAlgError("a covariance that is not positive definite")
    half = linalg.lapack.dtrtrs(lower, root.T, lower=1)[0]
    return TiltedGaussian(mean, A, half.T @ half, 2.0 * float(np.log(lower.diagonal()).sum()))
