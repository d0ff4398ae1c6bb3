"""The sparse non-negative prior: a spike at zero and a normal cut to x >= 0."""

from __future__ import annotations

from miniamp.priors.gauss_bernoulli import SpikeAndSlab
from miniamp.priors.non_negative_gaussian import NonNegativeGaussian


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
    slab = NonNegativeGaussian
