"""One-hot rows: the labels of a clustering."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, Self

import numpy as np
from numpy.random import Generator

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given, Shape
from miniamp.numerics.panels import shares
from miniamp.priors.rows.base import RowPrior, root


class OneHot(RowPrior):
    """Row e_k with probability weights[k]: which cluster a column belongs to (`eq:lowrank`).

    Parameters
    ----------
    dim : int
        The number R of clusters.
    weights : (R,) array, optional
        Their probabilities, brought to sum 1; equal by default.

    Examples
    --------
    >>> import numpy as np
    >>> OneHot(2).moments(np.zeros((2, 2)), np.array([[0.0, np.log(3.0)]]))[0]
    array([[0.25, 0.75]])
    """

    names = ("weights",)
    trailing: ClassVar[dict[str, int]] = {"weights": 1}

    def __init__(self, dim: int, weights: Given = None) -> None:
        self.dim = checks.count("dim", dim)
        given = np.ones(self.dim) if weights is None else weights
        vector = checks.vector("weights", given, size=self.dim)
        self.weights = checks.probabilities("weights", vector)

    def _log_odds(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        with np.errstate(divide="ignore"):  # a cluster of weight 0 never occurs
            return np.asarray(np.log(self.weights) + B - 0.5 * np.diag(self._matrix(A)))

    def log_partition(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        return shares(self._log_odds(A, B))[0]

    def moments(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        mean = shares(self._log_odds(A, B))[1]
        cov = mean[..., :, None] * (np.eye(self.dim) - mean[..., None, :])
        return mean, cov

    def totals(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        mean = shares(self._log_odds(A, B))[1]
        flat = mean.reshape(-1, self.dim)
        return mean, np.diag(flat.sum(axis=0)) - flat.T @ flat

    def drawn(self, rng: Generator, shape: Shape, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        # The largest of log-odds plus Gumbel noise falls on k with its softmax probability.
        winner = np.argmax(self._log_odds(A, B) + rng.gumbel(size=shape), axis=-1)
        return np.asarray(np.eye(self.dim)[winner])

    def draw(self, uniforms: Array) -> Array:
        edges = np.cumsum(self.weights)[:-1]
        return np.asarray(np.eye(self.dim)[np.searchsorted(edges, uniforms[:, self.dim])])

    def fitted(self, A: ArrayOrFloat, B: ArrayOrFloat, fixed: Collection[str] = ()) -> Self:
        mean = shares(self._log_odds(A, B))[1]
        return self._learned(self._free(fixed), weights=mean.reshape(-1, self.dim).mean(axis=0))

    def label_loss(self, A: Array, rows: Array, noise: Array) -> float:
        # The chance that the likeliest label is right is its posterior probability: averaging that
        # has less noise than counting hits, and is exact where nothing is known.
        log_odds = self._log_odds(A, rows @ A + noise @ root(A))
        return float(1.0 - np.mean(np.max(shares(log_odds)[1], axis=-1)))

    @property
    def exchangeable_labels(self) -> bool:
        return bool(np.allclose(self.weights, 1.0 / self.dim, rtol=1e-12, atol=0.0))

    @property
    def exchangeable(self) -> bool:
        return self.exchangeable_labels
