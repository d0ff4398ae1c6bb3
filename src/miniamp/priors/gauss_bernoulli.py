"""The Gauss-Bernoulli prior: the paper's sparse coefficients, and what all such priors share."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.random import Generator
from scipy.special import expit, logit

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given, Shape
from miniamp.kernel import Kernel, packed
from miniamp.priors.base import Components, MeanAndVariance, ScalarPrior
from miniamp.priors.gaussian import Gaussian


class SpikeAndSlab(ScalarPrior):
    """Zero with probability 1 - rho, else drawn from a density of `mean` and `var`, the slab."""

    names = ("rho", "mean", "var")
    widths: ClassVar[dict[str, int]] = {"var": 2}
    centres = ("mean",)
    #: The kind of density of what is not zero.
    slab: ClassVar[type[MeanAndVariance]]

    def __init__(self, rho: Given = 0.1, mean: Given = 0.0, var: Given = 1.0) -> None:
        self.rho = checks.parameter("rho", rho, above=0.0, most=1.0)
        self.mean = checks.parameter("mean", mean)
        self.var = checks.parameter("var", var, above=0.0)

    @classmethod
    def default(cls) -> Self:
        return cls(rho=0.5)

    @cached_property
    def _slab(self) -> MeanAndVariance:
        return self.slab(self.mean, self.var)

    def log_odds(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        """log of the odds that the coefficient is not zero; never overflows, unlike the odds."""
        return np.asarray(logit(self.rho) + self._slab.log_partition(A, B))

    def inclusion_probability(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        """Posterior probability that the coefficient is not zero."""
        return np.asarray(expit(self.log_odds(A, B)))

    def log_partition(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        slab = self._slab.log_partition(A, B)
        with np.errstate(divide="ignore"):
            return np.asarray(np.logaddexp(np.log1p(-self.rho), np.log(self.rho) + slab))

    def moments(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        log_odds = self.log_odds(A, B)
        # expit of both signs: 1 - expit(l) would lose the small probability to rounding.
        included, excluded = expit(log_odds), expit(-log_odds)
        mean, var = self._slab.moments(A, B)
        return np.asarray(included * mean), np.asarray(
            included * (var + excluded * np.square(mean))
        )

    def drawn(self, rng: Generator, shape: Shape, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        included = rng.random(shape) < self.inclusion_probability(A, B)
        return np.asarray(np.where(included, self._slab.sample(rng, shape, A, B), 0.0))

    def fitted(self, A: ArrayOrFloat, B: ArrayOrFloat, fixed: Collection[str] = ()) -> Self:
        """The prior after one EM step: mean inclusion, and the slab refitted where included."""
        free = self._free(fixed)
        included = self.inclusion_probability(A, B)
        mean, var = self._slab.refitted(*self._slab.moments(A, B), included, free)
        # rho = 0 could never grow again.
        rho = np.maximum(np.mean(included), np.finfo(np.float64).tiny)
        return self._learned(free, rho=rho, mean=mean, var=var)


class GaussBernoulli(SpikeAndSlab):
    """Zero with probability 1 - rho, else N(mean, var): the spike and slab of sparse regression.

    Parameters
    ----------
    rho : float or (N,) array
        Probability of being non-zero, 0 < rho <= 1.
    mean, var : float or (N,) array
        Mean and variance of the non-zero part, var > 0.

    Examples
    --------
    >>> prior = GaussBernoulli(rho=0.1)
    >>> [round(float(p), 3) for p in prior.inclusion_probability(A=100.0, B=[0.0, 20.0, 50.0])]
    [0.011, 0.074, 1.0]
    """

    name = "sparse"
    candidate = True
    slab = Gaussian

    def components(self) -> Components:
        weights = np.array([1.0 - float(self.rho), float(self.rho)])
        means, variances = np.array([0.0, float(self.mean)]), np.array([0.0, float(self.var)])
        return Components(weights, means, variances)

    def kernel(self, size: int) -> Kernel:
        from miniamp.priors import kernels  # only now: the compiler is slow to import

        return Kernel(kernels.gauss_bernoulli, packed(logit(self.rho), self.mean, self.var))
