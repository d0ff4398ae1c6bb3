"""Sums over counts 0, 1, 2, ... by few terms."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy.linalg import eigh_tridiagonal

from miniamp.arrays import Array

#: Nodes of a block; a block of no more counts than this is summed in full.
BLOCK_NODES = 12


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
