"""A prior for coefficients of which the last is an intercept."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Self

import numpy as np

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.parametric import Parametric
from miniamp.priors.base import ScalarPrior
from miniamp.priors.gaussian import Gaussian
from miniamp.tilt import Tilt


class WithIntercept(Parametric):
    """The prior `inner` for all coefficients but the last, which is N(0, intercept_var).

    The last column of the rows is then constant (`evidence.Frame` appends it). Arguments have the
    coefficients along their last axis.

    Parameters
    ----------
    inner : ScalarPrior
        Prior of the other coefficients.
    intercept_var : float
        Variance of the intercept: wide, so that it says nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp.priors import GaussBernoulli
    >>> prior = WithIntercept(GaussBernoulli(rho=0.1), intercept_var=100.0)
    >>> prior.moments(np.ones(3), np.zeros(3))[1].round(3)
    array([0.036, 0.036, 0.99 ])
    """

    names = ("inner", "intercept_var")

    def __init__(self, inner: ScalarPrior, intercept_var: Given = 1e4) -> None:
        self.inner = inner
        self.intercept_var = checks.parameter("intercept_var", intercept_var, above=0.0)
        self.last = Gaussian(var=self.intercept_var)

    @property
    def shape(self) -> tuple[int, ...]:
        shared = self.inner.shape in ((), (1,))
        return () if shared else (self.inner.shape[0] + 1,)

    def no_tilt(self, size: int) -> Tilt:
        """The tilt that says nothing, for `size` coordinates, the intercept among them."""
        return Tilt(np.zeros(size), np.zeros(size))

    def log_partition(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        (a, b), (a_last, b_last) = _split(A, B)
        return _joined(self.inner.log_partition(a, b), self.last.log_partition(a_last, b_last))

    def moments(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        others, last = _split(A, B)
        pairs = zip(self.inner.moments(*others), self.last.moments(*last), strict=True)
        mean, var = (_joined(a, b) for a, b in pairs)
        return mean, var

    def sample(
        self,
        rng: np.random.Generator,
        size: int | tuple[int, ...] | None = None,
        A: ArrayOrFloat = 0.0,
        B: ArrayOrFloat = 0.0,
    ) -> Array:
        """Draws under the tilt (A, B), of shape `size`; the intercept is the last of each."""
        if size is None:
            size = np.broadcast_shapes(np.shape(A), np.shape(B))
        shape = (size,) if isinstance(size, int) else size
        others, last = _split(np.broadcast_to(A, shape), np.broadcast_to(B, shape))
        return _joined(
            self.inner.sample(rng, (*shape[:-1], shape[-1] - 1), *others),
            self.last.sample(rng, (*shape[:-1], 1), *last),
        )

    def fitted(self, A: ArrayOrFloat, B: ArrayOrFloat, fixed: Collection[str] = ()) -> Self:
        """The prior with `inner` after one EM step; the intercept's width stays."""
        (a, b), _ = _split(A, B)
        return self.replaced(inner=self.inner.fitted(a, b, fixed))

    def _outer(self, name: str) -> tuple[int, ...]:
        return self.shape if name == "inner" else ()


def _split(A: ArrayOrFloat, B: ArrayOrFloat) -> Any:
    """(A, B) of all coefficients but the last, and of the last, which keeps its axis."""
    A, B = np.broadcast_arrays(np.asarray(A, dtype=np.float64), np.asarray(B, dtype=np.float64))
    return (A[..., :-1], B[..., :-1]), (A[..., -1:], B[..., -1:])


def _joined(others: Array, last: Array) -> Array:
    return np.concatenate([others, last], axis=-1)
