"""The Gaussian prior, what other priors are built from, and a prior with a Gaussian intercept."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Self, TypeAlias

import numpy as np
from numpy.random import Generator

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given, Shape
from miniamp.kernel import Kernel, packed, read_only
from miniamp.parametric import Places
from miniamp.priors.base import BasePrior, Components, MeanAndVariance, ScalarPrior
from miniamp.tilt import Tilt

#: A and B of some coefficients.
Tilts: TypeAlias = tuple[Array, Array]


class Gaussian(MeanAndVariance):
    """Coefficients drawn from N(mean, var): ridge regression as a belief.

    Parameters
    ----------
    mean, var : float or (N,) array
        Mean and variance, var > 0.

    Examples
    --------
    >>> mean, var = Gaussian(mean=0.0, var=1.0).moments(A=1.0, B=2.0)
    >>> float(mean), float(var)
    (1.0, 0.5)
    """

    name = "gaussian"
    candidate = True

    @property
    def is_gaussian(self) -> bool:
        return True

    def typical_power(self, size: int) -> float:
        return float(np.median(np.square(self.mean) + self.var))

    def components(self) -> Components:
        return Components(np.ones(1), self.mean.reshape(1), self.var.reshape(1))

    def log_partition(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        return gaussian_log_partition(self.mean, self.var, A, B)

    def moments(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        mean, var = gaussian_moments(self.mean, self.var, A, B)
        return mean, var if var.shape == mean.shape else np.broadcast_to(var, mean.shape)

    def kernel(self, size: int) -> Kernel:
        from miniamp.priors import kernels  # only now: the compiler is slow to import

        return Kernel(kernels.gaussian, packed(self.mean, self.var))

    def drawn(self, rng: Generator, shape: Shape, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        mean, var = self.moments(A, B)
        return np.asarray(mean + np.sqrt(var) * rng.normal(size=shape))

    def refitted(
        self, mean: Array, var: Array, weight: Array, free: frozenset[str]
    ) -> tuple[Array, Array]:
        if not weight.shape == mean.shape == var.shape:
            weight, mean, var = np.broadcast_arrays(weight, mean, var)
        total = np.sum(weight)
        if not total > 0.0:
            return self.mean, self.var
        centre = self.mean
        if "mean" in free:
            # The change is averaged, not the value: what does not move keeps its every bit.
            change = np.sum(weight * (mean - self.mean) / self.var) / np.sum(weight / self.var)
            centre = np.asarray(self.mean.flat[0] + change)
        spread = weight * (var + np.square(mean - centre))
        return centre, np.asarray(np.sum(spread) / total)


def gaussian_log_partition(
    mean: ArrayOrFloat, var: ArrayOrFloat, A: ArrayOrFloat, B: ArrayOrFloat
) -> Array:
    """log of E exp(-A x^2/2 + B x) for x ~ N(mean, var).

    Written without 1/var, so that var = 0 is a point mass, and without differences of large terms.
    """
    A, B = np.asarray(A), np.asarray(B)
    shrink = 1.0 + A * var
    return np.asarray(
        (var * np.square(B) + 2.0 * mean * B - A * np.square(mean)) / (2.0 * shrink)
        - 0.5 * np.log1p(A * var)
    )


def gaussian_moments(
    mean: ArrayOrFloat, var: ArrayOrFloat, A: ArrayOrFloat, B: ArrayOrFloat
) -> tuple[Array, Array]:
    """Mean and variance of N(mean, var) under the tilt (A, B)."""
    A, B = np.asarray(A), np.asarray(B)
    shrink = 1.0 + A * var
    return np.asarray((mean + var * B) / shrink), np.asarray(var / shrink)


class WithIntercept(BasePrior):
    """The prior `inner` for all coefficients but the last, which is N(0, intercept_var).

    The last column of the rows is then constant (`evidence.Frame` appends it). Arguments have the
    coefficients along their last axis.

    Parameters
    ----------
    inner : ScalarPrior
        Prior of the other coefficients; its hyper-parameters are shared, or one per coefficient.
    intercept_var : float
        Variance of the intercept: wide, so that it hardly matters.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp.priors import GaussBernoulli
    >>> prior = WithIntercept(GaussBernoulli(rho=0.1), intercept_var=100.0)
    >>> prior.moments(np.ones(3), np.zeros(3))[1].round(3)
    array([0.036, 0.036, 0.99 ])
    """

    names = ("inner", "intercept_var")
    #: Where among the coefficients the intercept is; elsewhere than last in a part (`at`) only.
    _place = -1

    def __init__(self, inner: ScalarPrior, intercept_var: Given = 1e4) -> None:
        self.inner = inner
        self.intercept_var = checks.number("intercept_var", intercept_var, above=0.0)
        self._kept: Kernel | None = None

    @cached_property
    def last(self) -> Gaussian:
        """The prior of the intercept."""
        return Gaussian(var=self.intercept_var)

    @property
    def is_gaussian(self) -> bool:
        return self.inner.is_gaussian

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.inner.shape[0] + 1,) if self.inner.shape else ()

    def no_tilt(self, size: int) -> Tilt:
        """The empty tilt, for `size` coefficients, the intercept among them."""
        return Tilt(np.zeros(size), np.zeros(size))

    def at(self, where: Places, size: int) -> BasePrior:
        """The prior of the coefficients at `where`, out of `size` with the intercept."""
        if isinstance(where, slice):
            places = np.arange(*where.indices(size))
        else:
            places = np.atleast_1d(where)
            places = np.where(places < 0, places + size, places)
        intercepts = np.flatnonzero(places == size - 1)
        others = self.inner.at(np.delete(places, intercepts), size - 1)
        if intercepts.size == 0:
            return others
        if intercepts.size == places.size:
            return self.last
        if others is self.inner and intercepts[-1] == places.size - 1:
            return self
        part = self.replaced(inner=others)
        part._place = int(intercepts[0])
        return part

    def log_partition(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        others, last = self._split(A, B)
        return self._joined(self.inner.log_partition(*others), self.last.log_partition(*last))

    def moments(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        others, last = self._split(A, B)
        (mean, var), (last_mean, last_var) = self.inner.moments(*others), self.last.moments(*last)
        return self._joined(mean, last_mean), self._joined(var, last_var)

    def kernel(self, size: int) -> Kernel | None:
        # Kept, since every iteration needs it: at N = 20,000 the table takes half of an update.
        if self._kept is None or len(self._kept.parameters) != size:
            self._kept = self._made(size)
        return self._kept

    def _made(self, size: int) -> Kernel | None:
        inner = self.inner.kernel(size - 1)
        if inner is None:
            return None
        from miniamp.priors import kernels  # only now: the compiler is slow to import

        shared = len(inner.parameters) == 1
        table = np.zeros((size, 2 + inner.parameters.shape[1]))
        table[-1, 0] = self.intercept_var
        table[:-1, 1] = inner.address if shared else -inner.address
        table[:-1, 2:] = inner.parameters
        return Kernel(kernels.with_intercept, read_only(table))

    def __getstate__(self) -> dict[str, object]:
        """What it was made of: the address of a kernel means nothing in another process."""
        return {name: v for name, v in self.__dict__.items() if name != "last"} | {"_kept": None}

    def inclusion_probability(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        others, last = self._split(A, B)
        return self._joined(
            self.inner.inclusion_probability(*others), self.last.inclusion_probability(*last)
        )

    def drawn(self, rng: Generator, shape: Shape, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        """Draws under the tilt (A, B); the intercept is the last of each."""
        others, last = self._split(np.broadcast_to(A, shape), np.broadcast_to(B, shape))
        return self._joined(
            self.inner.sample(rng, (*shape[:-1], shape[-1] - 1), *others),
            self.last.sample(rng, (*shape[:-1], 1), *last),
        )

    def fitted(self, A: ArrayOrFloat, B: ArrayOrFloat, fixed: Collection[str] = ()) -> Self:
        """The prior with `inner` after one EM step; the intercept's width stays."""
        return self.replaced(inner=self.inner.fitted(*self._split(A, B)[0], fixed))

    @property
    def coefficients(self) -> ScalarPrior:
        return self.inner

    def rescaled(self, factor: float, fixed: Collection[str] = ()) -> Self:
        return type(self)(self.inner.rescaled(factor, fixed), self.intercept_var)

    def free_widths(self, fixed: Collection[str] = ()) -> tuple[str, ...]:
        return self.inner.free_widths(fixed)

    def scale_slope(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        return self.inner.scale_slope(*self._split(A, B)[0])

    def typical_power(self, size: int) -> float:
        return self.inner.typical_power(size - 1) if size > 1 else float(self.intercept_var)

    def with_intercept_var(self, var: float) -> Self:
        return type(self)(self.inner, var)

    def change_from(self, old: Self) -> float:
        own = abs(self.intercept_var - old.intercept_var) / self.intercept_var
        return max(own, self.inner.change_from(old.inner))

    def _outer(self, name: str) -> tuple[int, ...]:
        return self.shape if name == "inner" else ()

    def _split(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Tilts, Tilts]:
        """(A, B) of all other coefficients, and of the intercept, which keeps its axis."""
        A, B = np.asarray(A, dtype=np.float64), np.asarray(B, dtype=np.float64)
        if A.shape != B.shape:
            A, B = np.broadcast_arrays(A, B)
        k = self._place
        if k == -1:
            return (A[..., :-1], B[..., :-1]), (A[..., -1:], B[..., -1:])
        others = np.delete(A, k, axis=-1), np.delete(B, k, axis=-1)
        return others, (A[..., k : k + 1], B[..., k : k + 1])

    def _joined(self, others: Array, last: Array) -> Array:
        k = others.shape[-1] if self._place == -1 else self._place
        return np.concatenate([others[..., :k], last, others[..., k:]], axis=-1)
