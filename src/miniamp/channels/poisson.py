"""The Poisson channel: counts."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.special import expit, gammaln

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.channels.base import checked_counts
from miniamp.channels.smooth import Smooth
from miniamp.numerics.averages import V_FLOOR, tilted

#: Standard deviations of z, and of the counts, that `outcomes` covers.
_REACH = 7.5
#: Nodes of a block of counts; a block of no more counts than this is summed in full.
BLOCK_NODES = 12
#: The log-rate beyond which no count fits in a float.
_LARGEST_LOG_RATE = 300.0


class Poisson(Smooth):
    """y is a count with rate exposure * exp(z), or exposure * log(1 + exp(z)).

    Parameters
    ----------
    link : "exp" or "softplus"
        How the rate depends on z. The soft plus grows like z, so that a single large z cannot
        promise an astronomical count.
    exposure : float or (M,) array
        For how long, or over how much, was counted: exposure > 0.

    Notes
    -----
    Under the exponential link the predictive mean is exp(omega + V/2), and overflows to inf where
    that does.

    Examples
    --------
    >>> import numpy as np
    >>> mean, var = Poisson(exposure=10.0).predict(omega=0.0, V=0.0)
    >>> float(mean), float(var)
    (10.0, 10.0)
    >>> Poisson(link="softplus")
    Poisson(link='softplus', exposure=1)
    """

    name = "poisson"
    names = ("exposure",)

    def __init__(self, link: str = "exp", exposure: Given = 1.0) -> None:
        checks.choice("link", link, ("exp", "softplus"))
        self.link = link
        self.exposure = checks.parameter("exposure", exposure, above=0.0)

    def parameters(self) -> dict[str, object]:
        return {"link": self.link, **super().parameters()}

    def checked(self, y: Given) -> Array:
        return checked_counts(y)

    def rate(self, z: ArrayOrFloat) -> Array:
        """The expected count, given z."""
        return np.asarray(self.exposure * (np.exp(z) if self.link == "exp" else _softplus(z)))

    def log_likelihood(self, y: ArrayOrFloat, z: Array) -> Array:
        rate = self.rate(z)
        # log of a rate that underflowed is still z + log(exposure), under both links.
        if self.link == "exp":
            log_rate = z + np.log(self.exposure)
        else:
            log_rate = np.log(self.exposure) + _log_softplus(z)
        return np.asarray(y * log_rate - rate - gammaln(np.asarray(y) + 1.0))

    def slopes(self, y: ArrayOrFloat, z: Array) -> tuple[Array, Array]:
        if self.link == "exp":
            rate = self.rate(z)
            return np.asarray(y - rate), -rate
        # ratio = sigma(z)/softplus(z) tends to 1 for z -> -inf, where both vanish.
        sigma = expit(z)
        low = np.less(z, -30.0)
        ratio = np.where(low, 1.0, sigma / _softplus(np.where(low, 0.0, z)))
        first = y * ratio - self.exposure * sigma
        second = y * ratio * (expit(-z) - ratio) - self.exposure * sigma * expit(-z)
        return np.asarray(first), np.asarray(second)

    def feature(self, y: Array) -> tuple[ArrayOrFloat, ArrayOrFloat]:
        if self.link == "softplus":
            return super().feature(y)
        return np.log(np.maximum(y, 1.0) / self.exposure), 1.0

    def bracket(self, y: Array, omega: Array, V: Array) -> tuple[Array, Array]:
        # Between omega and where the rate is the count. For y = 0 that is -inf, and the slope at
        # omega bounds how far below it the mode can lie: it is largest there.
        with np.errstate(divide="ignore", over="ignore"):
            rate = y / self.exposure
            best = np.log(rate) if self.link == "exp" else _inverse_softplus(rate)
            pull = np.minimum(V * self.exposure * np.exp(np.minimum(omega, 700.0)), 1e300)
        if self.link != "exp":
            pull = V * self.exposure
        best = np.maximum(best, omega - np.maximum(pull, 0.0) - 1.0)
        return np.minimum(omega, best), np.maximum(omega, best)

    def predict(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        shape = self._shape_of(omega, V)
        if self.link == "exp":
            with np.errstate(over="ignore", invalid="ignore"):
                mean = self.exposure * np.exp(np.asarray(omega) + 0.5 * np.asarray(V))
                extra = np.where(np.equal(V, 0.0), 0.0, np.square(mean) * np.expm1(V))
            return np.broadcast_to(mean, shape), np.broadcast_to(mean + extra, shape)
        omega, V = (np.broadcast_to(a, shape).astype(np.float64) for a in (omega, V))
        flat = np.zeros(shape)
        law = tilted(np.zeros_like, flat, omega, np.maximum(V, V_FLOOR), flat, flat + 1.0)
        rate = self.rate(law.z)
        mean = (law.weights * rate).sum(axis=0)
        return mean, mean + (law.weights * np.square(rate - mean)).sum(axis=0)

    def sample(self, rng: np.random.Generator, z: ArrayOrFloat) -> Array:
        return rng.poisson(self.rate(z), size=self._shape_of(z)).astype(np.float64)

    def outcomes(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        shape = self._shape_of(omega, V)
        omega, V = (np.broadcast_to(a, shape).astype(np.float64) for a in (omega, V))
        ends = []
        for sign in (-1.0, 1.0):
            z = omega + sign * _REACH * np.sqrt(V)
            if sign > 0.0 and self.link == "exp":
                # E y^2 has its weight around exp(omega + 2 V), far above where y itself mostly is.
                z = z + 2.0 * V
            z = np.minimum(z, _LARGEST_LOG_RATE)
            rate = np.broadcast_to(self.rate(z), shape)
            ends.append(np.maximum(rate + sign * (_REACH * np.sqrt(rate)) + sign * 30.0, 0.0))
        # Beyond half an e-fold of the rate nothing is smooth enough for one block.
        spread = np.clip(V if self.link == "exp" else 0.0, 1e-12, 0.25) + np.zeros(shape)
        rules = [
            count_rule(float(a), float(b), float(v))
            for a, b, v in zip(ends[0].flat, ends[1].flat, spread.flat, strict=True)
        ]
        longest = max((len(y) for y, _ in rules), default=1)
        y, weights = np.zeros((2, len(rules), longest))
        for row, (nodes, w) in enumerate(rules):
            y[row, : len(nodes)], weights[row, : len(nodes)] = nodes, w
        return y.reshape(*shape, longest), weights.reshape(*shape, longest)

    def fisher(self) -> Array:
        slope = 1.0 if self.link == "exp" else 0.25 / np.log(2.0)
        return np.asarray(self.exposure * slope)


def _softplus(z: ArrayOrFloat) -> Array:
    return np.asarray(np.logaddexp(0.0, z))


def _log_softplus(z: ArrayOrFloat) -> Array:
    """log(log(1 + e^z)), which is z where e^z underflows."""
    low = np.less(z, -30.0)
    return np.asarray(np.where(low, z, np.log(_softplus(np.where(low, 0.0, z)))))


def _inverse_softplus(rate: Array) -> Array:
    large = rate > 30.0
    return np.asarray(np.where(large, rate, np.log(np.expm1(np.where(large, 1.0, rate)))))


@lru_cache(maxsize=4096)
def block_rule(count: int) -> tuple[Array, Array]:
    """Nodes and weights that sum a smooth function over 0, ..., count - 1.

    The Gauss rule of the discrete Chebyshev polynomials: exact for polynomials of degree
    2 BLOCK_NODES - 1 however long the block is. Its nodes are not whole numbers.

    Examples
    --------
    >>> nodes, weights = block_rule(1000)
    >>> len(nodes), round(float((weights * nodes**2).sum()), 3)
    (12, 332833500.0)
    """
    if count <= BLOCK_NODES:
        return np.arange(float(count)), np.ones(count)
    k = np.arange(1.0, BLOCK_NODES)
    squares = k**2 * (float(count) ** 2 - k**2) / (4.0 * (4.0 * k**2 - 1.0))
    nodes, vectors = eigh_tridiagonal(np.full(BLOCK_NODES, 0.5 * (count - 1.0)), np.sqrt(squares))
    return np.asarray(nodes, dtype=np.float64), np.asarray(count * vectors[0] ** 2)


def count_rule(least: float, most: float, spread: float) -> tuple[Array, Array]:
    """Nodes and weights that sum over the counts from least to most.

    The summand must be smooth over one standard deviation sqrt(y + spread y^2): Poisson counts
    whose log-rate has variance `spread`. In x = 2 asinh(sqrt(spread y))/sqrt(spread) that deviation
    is one, and a block is as long.
    """
    root = np.sqrt(spread)

    def to_x(y: float) -> float:
        return float(2.0 * np.arcsinh(root * np.sqrt(y)) / root)

    first, last = to_x(max(least, 0.0)), to_x(most)
    edges = np.square(np.sinh(0.5 * root * np.arange(first, last + 2.0, 1.5)) / root)
    edges = np.unique(np.floor(edges))
    nodes, weights = [], []
    for start, end in pairwise(edges):
        y, w = block_rule(int(end - start))
        nodes.append(start + y)
        weights.append(w)
    return np.concatenate(nodes), np.concatenate(weights)
