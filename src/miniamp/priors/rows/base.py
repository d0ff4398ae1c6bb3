"""The base class of priors of rows: what each must have, and what it inherits."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

import numpy as np
from numpy.random import Generator

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given, Size
from miniamp.priors.base import BasePrior
from miniamp.tilt import Tilt

#: Rows whose covariances are held at once: bounds the memory at this times R^2 numbers.
CHUNK = 4096


class RowPrior(BasePrior):
    """A distribution of one row of a factor, given by its log-partition under a tilt.

    A tilt exp(-x'Ax/2 + B'x) has one A (R, R) for all rows and one B (N, R), one row per row.
    Covariances come as (R, R) where all rows share one and as (N, R, R) otherwise; message passing
    uses only `totals`, which never needs N R^2 numbers at once.
    """

    dim: int
    settings = ("dim",)

    @classmethod
    def default(cls, dim: int = 1) -> Self:
        """What `name` stands for, for rows of length `dim`."""
        return cls(dim)  # type: ignore[call-arg]  # every named prior of rows takes dim first

    def no_tilt(self, size: int) -> Tilt:
        """The empty tilt, for `size` rows."""
        return Tilt(np.zeros((self.dim, self.dim)), np.zeros((size, self.dim)))

    @abstractmethod
    def log_partition(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        """log of E exp(-x'Ax/2 + B'x) over the prior, (N,)."""

    @abstractmethod
    def moments(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        """Mean (N, R) and covariance, (R, R) if shared and (N, R, R) if not, under the tilt."""

    @abstractmethod
    def totals(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        """Mean of every row (N, R), and the sum over the rows of their covariances (R, R)."""

    def variances(self, A: ArrayOrFloat, B: Array) -> Array:
        """Variance of every component (N, R), with a bounded number of covariances at a time."""
        parts = (self.moments(A, B[i : i + CHUNK]) for i in range(0, len(B), CHUNK))
        return np.concatenate(
            [
                np.broadcast_to(np.diagonal(cov, axis1=-2, axis2=-1), mean.shape)
                for mean, cov in parts
            ]
        )

    def sample(
        self, rng: Generator, size: Size = None, A: ArrayOrFloat = 0.0, B: ArrayOrFloat = 0.0
    ) -> Array:
        """Draws under the tilt: (size, R), or of shape `size` with R last."""
        shape = (size, self.dim) if isinstance(size, int) else size
        if shape is None:
            shape = np.broadcast_shapes(np.shape(B), (self.dim,))
        return self.drawn(rng, shape, A, np.broadcast_to(np.asarray(B, dtype=np.float64), shape))

    @abstractmethod
    def draw(self, uniforms: Array) -> Array:
        """Rows (n, R) of the prior from uniforms (n, R + 1): for quasi-Monte Carlo."""

    def typical_power(self, size: int) -> float:
        mean, cov = self.moments(self.no_tilt(1).A, self.no_tilt(1).B)
        return float(np.median(np.square(mean) + np.diagonal(cov, axis1=-2, axis2=-1)))

    def inclusion_probability(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        """Posterior probability that a row is not exactly zero, (N,)."""
        return np.ones(np.shape(B)[:-1])

    # For state evolution; a closed form overrides the average over given draws.

    def overlap(self, A: Array, rows: Array, noise: Array) -> Array:
        """E x eta(A, B)' for B ~ N(A x, A), over rows (n, R) of the prior and normals (n, R)."""
        mean = self.totals(A, rows @ A + noise @ root(A))[0]
        cross = rows.T @ mean / len(rows)
        # An overlap is positive semi-definite; its average over finitely many draws may miss that.
        values, vectors = np.linalg.eigh((cross + cross.T) / 2.0)
        return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)

    def second_moment(self, rows: Array) -> Array:
        """E x x', over the same draws."""
        return np.asarray(rows.T @ rows / len(rows))

    def mean_log_partition(self, A: Array, rows: Array, noise: Array) -> float:
        """E log Z(A, B) for B ~ N(A x, A), over the same draws."""
        return float(np.mean(self.log_partition(A, rows @ A + noise @ root(A))))

    def label_loss(self, A: Array, rows: Array, noise: Array) -> float:
        """Chance that the likeliest label is wrong; nan where rows are no labels."""
        return np.nan

    @property
    def isotropic_variance(self) -> float | None:
        """The variance of a component where rows are N(0, var 1), else None."""
        return None

    @property
    def exchangeable_labels(self) -> bool:
        """Whether rows are labels, all equally likely."""
        return False

    @property
    def exchangeable(self) -> bool:
        """Whether the components of a row may change places without changing the prior."""
        return False

    def _matrix(self, A: ArrayOrFloat) -> Array:
        """A as (R, R); a plain number stands for that multiple of the identity."""
        array = np.asarray(A, dtype=np.float64)
        return array if array.ndim == 2 else array * np.eye(self.dim)

    def parameters(self) -> dict[str, object]:
        return {"dim": self.dim, **super().parameters()}


def root(A: Array) -> Array:
    """The symmetric square root of a positive semi-definite matrix."""
    values, vectors = np.linalg.eigh(A)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def checked_vector(name: str, value: Given, dim: int) -> Array:
    """A hyper-parameter with one value per component, from one number or `dim` of them."""
    given = checks.numeric(name, value)
    if given.shape not in ((), (1,), (dim,)):
        raise checks.refuse(
            name, f"shape {given.shape}", f"one number or {dim} of them", "match dim"
        )
    vector = np.array(np.broadcast_to(given, (dim,)))
    vector.setflags(write=False)
    return vector


def checked_covariance(name: str, value: Given, dim: int) -> Array:
    """A positive definite (dim, dim) matrix, from one variance, `dim` variances or the matrix."""
    matrix = checks.numeric(name, value)
    if matrix.shape in ((), (dim,)):
        matrix = np.diag(np.broadcast_to(matrix, (dim,)))
    if matrix.shape != (dim, dim):
        raise checks.refuse(
            name, f"shape {matrix.shape}", f"a variance or a ({dim}, {dim}) matrix", "match dim"
        )
    if not np.allclose(matrix, matrix.T) or np.linalg.eigvalsh(matrix).min() <= 0.0:
        raise checks.refuse(
            name,
            "a matrix that is not symmetric positive definite",
            "a covariance",
            "add a small multiple of the identity, or use variances",
        )
    matrix = (matrix + matrix.T) / 2.0
    matrix.setflags(write=False)
    return matrix
