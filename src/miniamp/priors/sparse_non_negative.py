"""The sparse non-negative prior: a spike at zero and a normal cut to x >= 0."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from miniamp.arrays import Array, ArrayOrFloat
from miniamp.priors.gauss_bernoulli import SpikeAndSlab
from miniamp.priors.non_negative_gaussian import (
    cut_log_partition,
    cut_moments,
    cut_sample,
    fit_half_line,
)


class SparseNonNegative(SpikeAndSlab):
    """Zero with probability 1 - rho, else N(mean, var) cut to x >= 0.

    Parameters
    ----------
    rho : float or (N,) array
        Probability of being non-zero, 0 < rho <= 1.
    mean, var : float or (N,) array
        Mean and variance of the normal before it is cut, var > 0.

    Examples
    --------
    >>> prior = SparseNonNegative(rho=0.1)
    >>> [round(float(p), 3) for p in prior.inclusion_probability(A=100.0, B=[-50.0, 0.0, 50.0])]
    [0.002, 0.011, 1.0]
    """

    name = "sparse-nonnegative"

    def _slab_log_partition(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        return cut_log_partition(self.mean, self.var, A, B)

    def _slab_moments(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        return cut_moments(self.mean, self.var, A, B)

    def _slab_sample(
        self, rng: Generator, shape: tuple[int, ...], A: ArrayOrFloat, B: ArrayOrFloat
    ) -> Array:
        return cut_sample(rng, shape, self.mean, self.var, A, B)

    def _slab_fitted(
        self, mean: Array, var: Array, weight: Array, free: frozenset[str]
    ) -> tuple[Array, Array]:
        return fit_half_line(self.mean, self.var, mean, var + np.square(mean), weight, free)
