"""Rows of independent components, by mean field: any scalar prior, and non-negative rows."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, Self

import numpy as np
from numpy.random import Generator
from scipy.special import ndtri

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given, Shape
from miniamp.priors.base import ScalarPrior
from miniamp.priors.non_negative_gaussian import NonNegativeGaussian
from miniamp.priors.rows.base import CHUNK, RowPrior

#: Sweeps over the components of a row; hard labels make A diagonal, and then one is enough.
MAX_SWEEPS = 500
#: A sweep that moves no component by more than this share of the largest is the last.
SWEEP_TOL = 1e-13


class MeanFieldRows(RowPrior):
    """Rows whose components are independent draws of a scalar prior.

    A tilt with off-diagonal A couples the components. Their means solve the mean-field equations
    m_k = eta(A_kk, B_k - sum_{l != k} A_kl m_l), swept one component after another, and the
    covariance is their exact response to B, (diag(1/sigma) + A_off)^-1: the derivatives of the
    mean-field log-partition, so that this is a prior like any other, and exact where A is diagonal.

    *Departure* (errata L16, L17): print has a factor 1/2 in the field and in a covariance that is
    cut at first order and loses positivity; tests/priors/test_mean_field_rows.py has the integrals
    that decide.

    Parameters
    ----------
    prior : ScalarPrior
        Prior of a component.
    dim : int
        Length R of a row.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import priors
    >>> rows = MeanFieldRows(priors.Rademacher(), 2)
    >>> rows.moments(np.eye(2), np.zeros((1, 2)))[1]
    array([[[1., 0.],
            [0., 1.]]])
    """

    names = ("prior",)

    def __init__(self, prior: Given, dim: int) -> None:
        if not isinstance(prior, ScalarPrior) or prior.shape:
            raise checks.refuse(
                "prior",
                repr(prior),
                "a scalar prior with shared hyper-parameters",
                "see miniamp.priors",
            )
        self.prior: ScalarPrior = prior
        self.dim = checks.count("dim", dim)

    def log_partition(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        precision, off, mean, field = self._solve(A, B)
        pairs = np.einsum("...k,...k->...", mean @ off, mean)
        return np.asarray(self.prior.log_partition(precision, field).sum(axis=-1) + 0.5 * pairs)

    def moments(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        precision, off, mean, field = self._solve(A, B)
        return mean, _response(self.prior.moments(precision, field)[1], off)

    def totals(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        precision, off, mean, field = self._solve(A, B)
        var = self.prior.moments(precision, field)[1].reshape(-1, self.dim)
        if not off.any():
            return mean, np.diag(var.sum(axis=0))
        chunks = (var[i : i + CHUNK] for i in range(0, len(var), CHUNK))
        return mean, np.sum([_response(chunk, off).sum(axis=0) for chunk in chunks], axis=0)

    def _solve(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array, Array, Array]:
        """The diagonal of A and the rest of it, consistent means, and the field on components."""
        A, B = self._matrix(A), np.asarray(B, dtype=np.float64)
        precision = np.diag(A)
        off = A - np.diag(precision)
        mean = np.asarray(self.prior.moments(precision, B)[0])
        for _ in range(MAX_SWEEPS if off.any() else 0):
            moved = 0.0
            for k in range(self.dim):
                new = self.prior.moments(precision[k], B[..., k] - mean @ off[k])[0]
                moved = max(moved, float(np.max(np.abs(new - mean[..., k]), initial=0.0)))
                mean[..., k] = new
            if moved <= SWEEP_TOL * float(np.max(np.abs(mean), initial=0.0)):
                break
        return precision, off, mean, B - mean @ off

    def drawn(self, rng: Generator, shape: Shape, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        """Draws from the factorised law that the mean field finds, (size, R)."""
        precision, _, _, field = self._solve(A, B)
        return self.prior.sample(rng, shape, precision, field)

    def draw(self, uniforms: Array) -> Array:
        # Sorted draws of the scalar prior stand for its quantiles, so any prior can be stratified.
        rng = np.random.default_rng(int(uniforms.flat[0] * 2**32))
        quantiles = np.sort(self.prior.sample(rng, uniforms.size))
        return np.asarray(quantiles[(uniforms[:, : self.dim] * quantiles.size).astype(np.int64)])

    def fitted(self, A: ArrayOrFloat, B: ArrayOrFloat, fixed: Collection[str] = ()) -> Self:
        precision, _, _, field = self._solve(A, np.reshape(B, (-1, self.dim)))
        fitted = self.prior.fitted(np.broadcast_to(precision, field.shape).ravel(), field.ravel())
        return self._learned(self._free(fixed), prior=fitted)

    def rescaled(self, factor: float, fixed: Collection[str] = ()) -> Self:
        if "prior" in fixed:
            return self
        return self.replaced(prior=self.prior.rescaled(factor, fixed))

    def free_widths(self, fixed: Collection[str] = ()) -> tuple[str, ...]:
        return () if "prior" in fixed else self.prior.free_widths(fixed)

    @property
    def exchangeable(self) -> bool:
        return True


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
    widths: ClassVar[dict[str, int]] = {"var": 2}
    name = "nonnegative"

    def __init__(self, dim: int, var: Given = 1.0) -> None:
        super().__init__(NonNegativeGaussian(var=checks.number("var", var, above=0.0)), dim)
        self.var = checks.number("var", var, above=0.0)

    def fitted(self, A: ArrayOrFloat, B: ArrayOrFloat, fixed: Collection[str] = ()) -> Self:
        precision, _, _, field = self._solve(A, np.reshape(B, (-1, self.dim)))
        mean, var = self.prior.moments(precision, field)
        return self._learned(self._free(fixed), var=float(np.mean(np.square(mean) + var)))

    rescaled, free_widths = RowPrior.rescaled, RowPrior.free_widths

    def draw(self, uniforms: Array) -> Array:
        return np.asarray(np.sqrt(self.var) * ndtri(0.5 + 0.5 * uniforms[:, : self.dim]))


def _response(var: Array, off: Array) -> Array:
    """(diag(1/var) + off)^-1 for each row, also where a variance has underflowed to zero.

    With S = diag(sqrt(var)) it is S (1 + S off S)^-1 S, which never divides by var.
    """
    root = np.sqrt(var)
    inner = np.eye(var.shape[-1]) + root[..., :, None] * off * root[..., None, :]
    return np.asarray(root[..., :, None] * np.linalg.inv(inner) * root[..., None, :])
