"""The Rademacher prior: the +-1 weights of the binary perceptron."""

from __future__ import annotations

from collections.abc import Collection
from typing import Self

import numpy as np
from numpy.random import Generator
from scipy.special import expit, logit

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given, Shape
from miniamp.kernel import Kernel, packed
from miniamp.priors.base import Components, ScalarPrior


class Rademacher(ScalarPrior):
    """+1 with probability p, -1 otherwise.

    Parameters
    ----------
    p : float or (N,) array
        Probability of +1, 0 <= p <= 1.

    Examples
    --------
    >>> mean, var = Rademacher().moments(A=1.0, B=0.0)
    >>> float(mean), float(var)
    (0.0, 1.0)
    """

    names = ("p",)

    def __init__(self, p: Given = 0.5) -> None:
        self.p = checks.parameter("p", p, least=0.0, most=1.0)

    def components(self) -> Components:
        p = float(self.p)
        return Components(np.array([1.0 - p, p]), np.array([-1.0, 1.0]), np.zeros(2))

    def log_partition(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        with np.errstate(divide="ignore"):
            plus, minus = np.log(self.p), np.log1p(-self.p)
        return np.asarray(np.logaddexp(plus + B, minus - B) - 0.5 * np.asarray(A))

    def moments(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        log_odds = logit(self.p) + 2.0 * np.asarray(B) + 0.0 * np.asarray(A)
        plus, minus = expit(log_odds), expit(-log_odds)
        # 1 - mean^2 would round to zero where the variance is still known to full precision.
        return np.tanh(0.5 * log_odds), np.asarray(4.0 * plus * minus)

    def kernel(self, size: int) -> Kernel:
        from miniamp.priors import kernels  # only now: the compiler is slow to import

        return Kernel(kernels.rademacher, packed(logit(self.p)))

    def drawn(self, rng: Generator, shape: Shape, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        plus = expit(logit(self.p) + 2.0 * np.asarray(B))
        return np.asarray(np.where(rng.random(shape) < plus, 1.0, -1.0))

    def fitted(self, A: ArrayOrFloat, B: ArrayOrFloat, fixed: Collection[str] = ()) -> Self:
        """The prior after one EM step: p is the mean posterior probability of +1."""
        return self._learned(
            self._free(fixed), p=float(np.mean(expit(logit(self.p) + 2.0 * np.asarray(B))))
        )
