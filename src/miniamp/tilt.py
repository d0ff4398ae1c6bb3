"""What a belief has learned: a tilt, and optionally pseudo-rows or the information matrix."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TypeAlias

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
#: Steps of the power method to the direction of which least is known: one that no row has seen
#: stands out by the number of rows.
POWER_STEPS = 3
#: Up to so many coefficients their variances are added up; of more the sum is estimated from random
#: vectors, so many, or where these are not enough one for so many coefficients. That costs a fifth
#: of the inverse of the factor, and the error of a sum between 0 and N stays below 3 whatever N. It
#: may be this part of the standard deviation of what it is used for, which adds 5 % to it: the
#: noise of n rows is known as if n were uncertain by sqrt(2 n).
FEW, PROBES, PER_PROBE, PRECISE = 256, 32, 16, 1.0 / 3.0
#: Rows whose variances are computed at once; pivots so far from rounding need no closer look.
BLOCK, FAR = 4096, 1e3
#: Rows of a triangle that LAPACK inverts at a time; products with the rest are those of matrices.
#: An inverse of order 500 takes 2.1 ms instead of 3.6, 784 x 500 solutions 9 instead of 13.
PANEL = 96


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
        """The zero tilt, for `shape` coordinates."""
        return cls(np.zeros(()), np.zeros(shape))

    def __add__(self, other: Tilt) -> Tilt:
        return Tilt(self.A + other.A, self.B + other.B)

    def scaled(self, factor: float) -> Tilt:
        """The same evidence weighted by `factor`: 0.5 forgets half of it."""
        return Tilt(self.A * factor, self.B * factor)

    def stretched(self, factor: ArrayOrFloat) -> Tilt:
        """The same evidence about factor * x instead of x: a change of units."""
        return Tilt(self.A / np.square(factor), self.B / factor)


@dataclass(frozen=True, slots=True, eq=False)
class Remembered:
    """Pseudo-observations that a belief carries beside its tilt: exp(-|targets - rows x|^2/2)."""

    rows: Array  #: (k, N) rows with unit noise
    targets: Array  #: (k,) what was seen of each
    #: Tilt of each coefficient by these rows, the others averaged out: the marginals are those of
    #: the prior under `tilt + field`.
    field: Tilt

    def scaled(self, factor: float, apart: Sites, now: Sites) -> Remembered:
        """The same rows weighted by `factor`, where the coefficients are `apart` without them.

        Their field falls by less: coefficients are known less well, but the rows' own share grows.
        """
        precision, linear = apart()
        R, t, D = np.sqrt(factor) * self.rows, np.sqrt(factor) * self.targets, 1.0 / precision
        K = np.eye(len(R)) + (R * D) @ R.T
        known = D * np.einsum("ij,ij->j", R, np.linalg.solve(K, R))
        rest = np.maximum(1.0 - known, np.finfo(np.float64).eps)
        pull = np.linalg.solve(K, t - R @ (D * linear)) @ R
        return Remembered(R, t, Tilt(precision * known / rest, (pull + known * linear) / rest))

    def stretched(self, factor: ArrayOrFloat) -> Remembered:
        """The same observations of factor * x instead of x."""
        return Remembered(self.rows / factor, self.targets, self.field.stretched(factor))

    def beside(self, now: Sites) -> Remembered:
        """The same observations beside another prior; their field stays as it was found."""
        return self

    def information(self, noise: float, known: float, now: Sites) -> Information:
        """The products of these rows at this noise, which `known` more rows have determined."""
        R, t = self.rows, self.targets
        square, count = noise * (float(t @ t) + known), len(R) + known
        return Information(noise * (R.T @ R), noise * (t @ R), square, count, noise, *now())


@dataclass(frozen=True, eq=False)
class JointSolution:
    """The Gaussian exp(-x'Kx/2 + h'x): its mean, and its variances, computed when needed."""

    mean: Array  #: (N,)
    lower: Array  #: (N, N) lower triangular L with u K u = L L'
    log_det: float  #: of K
    unit: ArrayOrFloat = 1.0  #: u, in which L was found; (N,) where units have changed since
    inverse: Array | None = None  #: of L, where it was found first; else it is computed when needed

    @classmethod
    def of(cls, lower: Array, h: Array) -> JointSolution:
        """The Gaussian of K = L L'."""
        return cls(linalg.lapack.dpotrs(lower, h, lower=1)[0], lower, log_det(lower))

    @cached_property
    def root(self) -> Array:
        """(N, N) lower triangular T with covariance T'T."""
        inverse = self.inverse
        if inverse is None:
            inverse = np.asarray(linalg.lapack.dtrtri(self.lower, lower=1)[0])
        return inverse if isinstance(self.unit, float) else inverse * self.unit

    @cached_property
    def var(self) -> Array:
        """(N,) variances."""
        return np.asarray(np.einsum("ij,ij->j", self.root, self.root))

    def times(self, vectors: Array) -> Array:
        """The covariance times vectors, (N,) or (N, k)."""
        if "root" in self.__dict__:
            return np.asarray(self.root.T @ (self.root @ vectors))
        unit = self.unit if vectors.ndim == 1 else np.reshape(self.unit, (-1, 1))
        solved = linalg.lapack.dpotrs(self.lower, unit * vectors, lower=1, overwrite_b=1)[0]
        return np.asarray(unit * solved)

    def row_variances(self, rows: Array) -> Array:
        """Variance of row . x for each row, (M,); for many rows L is inverted first."""
        found, unit = np.empty(len(rows)), np.reshape(self.unit, (-1, 1))
        for k in range(0, len(rows), BLOCK):
            part = rows[k : k + BLOCK].T
            if len(rows) > len(self.mean):
                half = linalg.blas.dtrmm(1.0, self.root, part, lower=1)
            else:
                half = solved(self.lower, unit * part)
            found[k : k + BLOCK] = np.einsum("ij,ij->j", half, half)
        return found

    def stretched(self, factor: Array) -> JointSolution:
        """The Gaussian of factor * x."""
        log_det = self.log_det - 2.0 * float(np.log(np.abs(factor)).sum())
        known = self.__dict__ if isinstance(self.unit, float) else {}  # the inverse, if needed
        inverse, unit = known.get("root", self.inverse), factor * self.unit
        return JointSolution(factor * self.mean, self.lower, log_det, unit, inverse)


@lru_cache(maxsize=2)
def signs(size: int) -> Array:
    """Random signs in columns, (size, PROBES) or more, always the same."""
    count = max(PROBES, size // PER_PROBE)
    return np.asfortranarray(np.random.default_rng(0).choice([-1.0, 1.0], size=(size, count)))


@dataclass(frozen=True, eq=False)
class Information:
    """Sufficient statistics of all rows so far: exp(-(x'Sx/2 - b'x + square/2)/noise).

    The form of `memory` = N for Gaussian noise. Nothing else matters of the rows, however many
    there are and however they are divided into batches; while the noise is learned, all rows count
    with its latest value.

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
    contradicted: bool = False  #: whether the latest batch was far off what those before predict
    kappa: float = 1.0  #: sum of the squared weights of the rows over `count`: below 1 if they fade

    def information(self, noise: float, known: float, now: Sites) -> Information:
        """The same information about x, as rows of this noise."""
        return self if noise == self.noise else self._times(noise / self.noise, noise)

    def beside(self, now: Sites) -> Information:
        """The same rows with another prior and tilt."""
        precision, linear = now()
        return replace(self, precision=precision, linear=linear)

    def scaled(self, factor: float, apart: Sites, now: Sites) -> Information:
        """The same rows weighted by `factor`, with the prior and tilt of `now`."""
        return self._times(factor, self.noise).beside(now)

    def stretched(self, factor: ArrayOrFloat) -> Information:
        """The same belief about factor * x instead of x, with its prior and tilt."""
        f = factor * np.ones(len(self.b))
        unit = 1.0 / f
        S = self.S * unit
        S *= unit[:, None]
        precision, linear = self.precision * (unit * unit), self.linear * unit
        new = replace(self, S=S, b=self.b * unit, precision=precision, linear=linear)
        new.__dict__["solution"] = self.solution.stretched(f)
        return new

    @cached_property
    def solution(self) -> JointSolution:
        """The posterior: one Cholesky factorisation."""
        diagonal = self.S.diagonal() / self.noise + self.precision
        lower = cholesky(self._products(), self._products)
        found = JointSolution.of(lower, self.b / self.noise + self.linear)
        pivots = float((diagonal / np.square(lower.diagonal())).max())
        least = min(float((diagonal / self.precision).sum()), FAR * len(diagonal) * pivots)
        if ROUNDED * least > 1.0:
            # The least known direction in units of the products: Cholesky's error is relative to
            # these, so that features that were never seen do not count.
            unit, vector, known = np.sqrt(diagonal), signs(len(diagonal))[:, 0], 1.0
            for _ in range(POWER_STEPS):
                vector = unit * found.times(unit * vector) / known
                known = float(np.linalg.norm(vector))
            if ROUNDED * len(diagonal) * known > 1.0:
                return self._without_rounding()
        return found

    def _products(self) -> Array:
        """The inverse covariance, (N, N)."""
        K = self.S / self.noise
        K.flat[:: len(K) + 1] += self.precision
        return K

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
        root = np.asfortranarray(width * upper[::-1, ::-1])
        return JointSolution(mean, linalg.lapack.dtrtri(root, lower=1)[0], log_det, inverse=root)

    @property
    def field(self) -> Tilt:
        """The tilt of each coefficient by the rows, the others averaged out."""
        mean, var = self.solution.mean, self.solution.var
        return Tilt(np.maximum(1.0 / var - self.precision, 0.0), mean / var - self.linear)

    def variance_sum(self, weights: Array) -> float:
        """Sum of the first k variances with weights (k,); of many coefficients an estimate."""
        k = len(weights)
        if len(self.b) <= FEW:
            return float(weights @ self.solution.var[:k])
        return float(np.mean((weights / self.precision[:k]) @ self._shares[:k]))

    @cached_property
    def _shares(self) -> Array:
        """Terms of u sqrt(P) C sqrt(P) u, (N, k), on average tr PC: for few signs if these do."""
        scaled = np.sqrt(self.precision)[:, None] * signs(len(self.b))
        few, more = scaled[:, :PROBES], scaled[:, PROBES:]
        found = few * self.solution.times(few)
        if more.size and not self._precise(found.sum(axis=0)):
            found = np.hstack([found, more * self.solution.times(more)])
        return found

    def _precise(self, sums: Array) -> bool:
        """Whether the mean of these sums estimates `determined` precisely enough."""
        known, error = len(self.b) - float(sums.mean()), float(sums.std()) / math.sqrt(len(sums))
        return error < PRECISE * math.sqrt(2.0 * max(min(known, self.count - known), 0.0))

    @cached_property
    def determined(self) -> float:
        """The number of coefficients that the rows determine, up to `PRECISE`."""
        if len(self.b) > FEW and self._precise(self._shares.sum(axis=0)):
            return len(self.b) - self.variance_sum(self.precision)
        return len(self.b) - float(self.precision @ self.solution.var)

    @property
    def free(self) -> float:
        """Expected squared residuals of unit noise: rows less coefficients they determine."""
        return self.count - self.kappa * self.determined + float(self.fading.sum())

    @cached_property
    def fading(self) -> Array:
        """(N,) (1 - kappa) g (1 - g) of coefficients, of which the rows determine the share g.

        Rows that fade are as noisy as others. Their squares count less, but they pull less too.
        """
        if self.kappa == 1.0:
            return np.zeros(len(self.b))
        if len(self.b) > FEW:
            each = np.mean(self._shares - np.square(self._shares), axis=1)
        else:
            left, own = self.solution.times(np.diag(self.precision)), self.precision
            each = left.diagonal() - np.square(left).T @ own / own
        return np.asarray((1.0 - self.kappa) * each)

    @cached_property
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
        left = factor if noise == self.noise else 1.0
        S, b, square = factor * self.S, factor * self.b, factor * self.square
        counts = left * self.count, noise, self.precision, self.linear
        return Information(S, b, square, *counts, self.contradicted, left * self.kappa)


def cholesky(K: Array, again: Callable[[], Array] | None = None) -> Array:
    """The lower Cholesky factor of K, with jitter on its diagonal where that is needed.

    The diagonal of K is overwritten, and all of it where `again` gives another one. In Fortran
    order only its lower triangle is read.
    """
    diagonal = np.diagonal(K).copy()
    for jitter in JITTER:
        if jitter:
            K = K if again is None else again()
            np.fill_diagonal(K, diagonal * (1.0 + jitter * len(K)))
        symmetric = K if K.flags.f_contiguous else K.T
        small = len(K) <= FEW
        lower, failed = linalg.lapack.dpotrf(
            symmetric, lower=1, clean=small, overwrite_a=again is not None
        )
        if not failed and np.isfinite(lower[-1, -1]):
            return np.asarray(lower) if small else _cleared(lower)
    raise np.linalg.LinAlgError("rows beyond working precision")


def _cleared(lower: Array) -> Array:
    """The triangle with zeros above its diagonal: LAPACK's wrapper takes 2 ms for 784 columns."""
    for part in (slice(i, i + PANEL) for i in range(0, len(lower), PANEL)):
        lower[: part.start, part] = 0.0
        lower[part, part] *= np.tri(len(lower[part]))
    return lower


def solved(lower: Array, columns: Array) -> Array:
    """L^-1 B for a lower triangle L (N, N) and B (N, M)."""
    out = np.empty(columns.shape)
    for i in range(0, len(out), PANEL):
        j = i + PANEL
        part = columns[i:j] - lower[i:j, :i] @ out[:i] if i else columns[:j]
        inverse = linalg.lapack.dtrtri(lower[i:j, i:j], lower=1)[0]
        np.matmul(inverse, part, out=out[i:j])
    return out


def log_det(lower: Array) -> float:
    """Log-determinant of the matrix with this Cholesky factor."""
    return 2.0 * float(np.log(lower.diagonal()).sum())
