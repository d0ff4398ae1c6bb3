"""What data have told a belief: a tilt, and beside it pseudo-rows or the information matrix.

The tilt exp(-A x^2/2 + B x) is two natural parameters that add.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy import linalg

from miniamp.arrays import Array, ArrayOrFloat

#: Gives Gaussians exp(-precision x^2/2 + linear x) of the coefficients when they are needed.
Sites: TypeAlias = Callable[[], tuple[Array, Array]]
#: Added to the diagonal of a matrix that rounding has made indefinite, relative to it, in turn.
JITTER = (0.0, 1e-15, 1e-13, 1e-11)
#: Rounding of products, relative to them, times 1e7: where it exceeds what the prior knows of the
#: coefficients, digits beyond the seventh would depend on the order of the rows.
ROUNDED = 1e7 * np.finfo(np.float64).eps


@dataclass(frozen=True, slots=True, eq=False)
class Tilt:
    """An exponential tilt exp(-x'Ax/2 + B'x) of a prior; the sum of two is the evidence of both.

    Everything that is carried from batch to batch (`eq:eff-prior`): Lambda is A, Theta is B.

    Parameters
    ----------
    A : array
        Precision: a shared scalar, one per coefficient (N,), or for rows (R, R).
    B : array
        Linear part, (N,) or for rows (N, R).

    Examples
    --------
    >>> import numpy as np
    >>> both = Tilt(np.array(2.0), np.array([1.0, 0.0])) + Tilt(np.array(1.0), np.array([0.5, 3.0]))
    >>> both.A, both.B
    (np.float64(3.0), array([1.5, 3. ]))
    """

    A: Array
    B: Array

    @classmethod
    def none(cls, shape: int | tuple[int, ...]) -> Tilt:
        """The tilt that says nothing, for `shape` coordinates."""
        return cls(np.zeros(()), np.zeros(shape))

    def __add__(self, other: Tilt) -> Tilt:
        return Tilt(self.A + other.A, self.B + other.B)

    def scaled(self, factor: float) -> Tilt:
        """The same evidence counted `factor` times: 0.5 forgets half of it."""
        return Tilt(self.A * factor, self.B * factor)

    def stretched(self, factor: ArrayOrFloat) -> Tilt:
        """The same evidence about factor * x instead of x: a change of units."""
        return Tilt(self.A / np.square(factor), self.B / factor)


@dataclass(frozen=True, slots=True, eq=False)
class Remembered:
    """Pseudo-observations that a belief carries beside its tilt: exp(-|targets - rows x|^2/2)."""

    rows: Array  #: (k, N) rows with unit noise
    targets: Array  #: (k,) what was seen of each
    #: What these rows say of each coefficient, the others being averaged out: with it the marginals
    #: are those of the prior under `tilt + field`.
    field: Tilt

    def scaled(self, factor: float, apart: Sites, now: Sites) -> Remembered:
        """The same observations counted `factor` times.

        The field is that of the scaled rows where the coefficients are `apart` without them. It
        falls by less than `factor`: what others do not know any more, the rows know less of each
        coefficient, but the rows' own share of it grows.
        """
        precision, linear = apart()
        R, t, D = np.sqrt(factor) * self.rows, np.sqrt(factor) * self.targets, 1.0 / precision
        K = np.eye(len(R)) + (R * D) @ R.T
        known = D * np.einsum("ij,ij->j", R, np.linalg.solve(K, R))
        rest = np.maximum(1.0 - known, np.finfo(np.float64).eps)
        pull = np.linalg.solve(K, t - R @ (D * linear)) @ R
        return Remembered(R, t, Tilt(precision * known / rest, (pull + known * linear) / rest))

    def stretched(self, factor: ArrayOrFloat) -> Remembered:
        """The same observations of factor * x in the place of x."""
        return Remembered(self.rows / factor, self.targets, self.field.stretched(factor))

    def beside(self, now: Sites) -> Remembered:
        """The same observations beside another prior; their field stays as it was found."""
        return self

    def information(self, noise: float, known: float, now: Sites) -> Information:
        """The products of these rows as rows of this noise; `known` more have told the noise."""
        R, t = self.rows, self.targets
        square, count = noise * (float(t @ t) + known), len(R) + known
        return Information(noise * (R.T @ R), noise * (t @ R), square, count, noise, *now())


class JointSolution(NamedTuple):
    """The Gaussian exp(-x'Kx/2 + h'x): its mean, its variances, and a root of its covariance."""

    mean: Array  #: (N,)
    var: Array  #: (N,)
    root: Array  #: (N, N) lower triangular T with covariance T'T
    log_det: float  #: of K


@dataclass(frozen=True, eq=False)
class Information:
    """All rows that a belief has seen, as their products: exp(-(x'Sx/2 - b'x + square/2)/noise).

    What is remembered of `memory` = N rows in its natural form. Rows with Gaussian noise are known
    by these sums alone, whatever their number and however they were cut into batches; and while
    the noise is being learned, all of them count with its latest value.

    Examples
    --------
    >>> import numpy as np
    >>> rows, y = np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([3.0, 1.0])
    >>> seen = Information(rows.T @ rows, rows.T @ y, 10.0, 2.0, 0.5, np.ones(2), np.zeros(2))
    >>> K, h = seen.S / 0.5 + np.eye(2), seen.b / 0.5
    >>> bool(np.allclose(seen.solution.mean, np.linalg.solve(K, h)))
    True
    """

    S: Array  #: (N, N) sum over the rows of their outer products
    b: Array  #: (N,) sum over the rows of y times the row
    square: float  #: sum of y^2
    count: float
    noise: float  #: variance of the noise
    precision: Array  #: (N,) the prior and the tilt beside them, exp(-precision x^2/2 + linear x)
    linear: Array

    def information(self, noise: float, known: float, now: Sites) -> Information:
        """The same information on x, told by rows of this noise."""
        return self if noise == self.noise else self._times(noise / self.noise, noise)

    def beside(self, now: Sites) -> Information:
        """The same rows beside another prior and tilt."""
        precision, linear = now()
        return replace(self, precision=precision, linear=linear)

    def scaled(self, factor: float, apart: Sites, now: Sites) -> Information:
        """The same rows counted `factor` times, beside the prior and tilt of `now`."""
        return self._times(factor, self.noise).beside(now)

    def stretched(self, factor: ArrayOrFloat) -> Information:
        """The same belief about factor * x in the place of x, the Gaussians beside them too."""
        f = np.broadcast_to(factor, self.b.shape)
        S, b = self.S / np.multiply.outer(f, f), self.b / f
        new = replace(self, S=S, b=b, precision=self.precision / f**2, linear=self.linear / f)
        if "solution" in self.__dict__:  # its triangular root stays triangular
            mean, var, root, log_det = self.solution
            log_det -= 2.0 * float(np.sum(np.log(f)))
            new.__dict__["solution"] = JointSolution(f * mean, f**2 * var, root * f, log_det)
        return new

    def including(self, S: Array, b: Array, square: float, count: float) -> Information:
        """With these sums over more rows."""
        return replace(
            self, S=self.S + S, b=self.b + b, square=self.square + square, count=self.count + count
        )

    @cached_property
    def solution(self) -> JointSolution:
        """The posterior: one Cholesky factorisation, and the inverse of its factor."""
        K = self.S / self.noise
        if ROUNDED * float(np.sum(np.diagonal(K) / self.precision)) > 1.0:
            return self._without_rounding()
        K.flat[:: len(K) + 1] += self.precision
        h = self.b / self.noise + self.linear
        lower = cholesky(K)
        root, _ = linalg.lapack.dtrtri(lower, lower=1)
        mean, _ = linalg.lapack.dpotrs(lower, h, lower=1)
        var = np.einsum("ij,ij->j", root, root)
        return JointSolution(mean, var, root, log_det(lower))

    def _without_rounding(self) -> JointSolution:
        """The posterior where the noise is so small that rounding of the products would show.

        Directions that no row has seen have eigenvalues of rounding error, and as much of b.
        Divided by the noise that would be information; the prior alone is left there.
        """
        width = 1.0 / np.sqrt(self.precision)
        values, vectors = linalg.eigh(self.S * np.multiply.outer(width, width), check_finite=False)
        b, linear = (width * self.b) @ vectors, (width * self.linear) @ vectors
        seen = values > len(values) * np.finfo(np.float64).eps * values[-1]
        K, h = 1.0 + np.where(seen, values, 0.0) / self.noise, np.where(seen, b, 0.0) / self.noise
        h += linear
        square_root = vectors.T / np.sqrt(K)[:, None]
        upper = np.asarray(np.linalg.qr(square_root[:, ::-1], mode="r"))
        mean, log_det = width * (vectors @ (h / K)), float(np.sum(np.log(K * self.precision)))
        root = width * upper[::-1, ::-1]
        return JointSolution(mean, np.einsum("ij,ij->j", root, root), root, log_det)

    @property
    def field(self) -> Tilt:
        """What the rows say of each coefficient, the others being averaged out."""
        mean, var = self.solution[:2]
        return Tilt(np.maximum(1.0 / var - self.precision, 0.0), mean / var - self.linear)

    @property
    def free(self) -> float:
        """Number of rows less the number of coefficients that they determine."""
        return self.count - float(np.sum(1.0 - self.solution.var * self.precision))

    @property
    def residual(self) -> float:
        """Sum of the squared residuals at the posterior mean."""
        mean = self.solution.mean
        return max(self.square - 2.0 * float(mean @ self.b) + float(mean @ (self.S @ mean)), 0.0)

    @cached_property
    def rows(self) -> Array:
        """Rows with unit noise that have these products: for solvers that work on rows."""
        values, vectors = linalg.eigh(self.S / self.noise, check_finite=False)
        some = values > len(values) * np.finfo(np.float64).eps * values[-1]
        return np.ascontiguousarray((vectors[:, some] * np.sqrt(values[some])).T)

    @property
    def targets(self) -> Array:
        """The targets of `rows`."""
        R = self.rows
        return np.asarray((R @ self.b) / (self.noise * np.einsum("ij,ij->i", R, R)))

    def _times(self, factor: float, noise: float) -> Information:
        return Information(
            factor * self.S,
            factor * self.b,
            factor * self.square,
            self.count if noise != self.noise else factor * self.count,
            noise,
            self.precision,
            self.linear,
        )


def cholesky(K: Array) -> Array:
    """The lower Cholesky factor of K, with a little added to its diagonal where it needs it.

    The diagonal of K is overwritten. In Fortran order only its lower triangle is read.
    """
    diagonal, symmetric = np.diagonal(K).copy(), K if K.flags.f_contiguous else K.T
    for jitter in JITTER:
        if jitter:
            np.fill_diagonal(K, diagonal * (1.0 + jitter * len(K)))
        lower, failed = linalg.lapack.dpotrf(symmetric, lower=1)
        if not failed and np.isfinite(lower[-1, -1]):
            return np.asarray(lower)
    raise np.linalg.LinAlgError("rows beyond working precision")


def log_det(lower: Array) -> float:
    """Log-determinant of the matrix with this Cholesky factor."""
    return 2.0 * float(np.sum(np.log(np.diagonal(lower))))
