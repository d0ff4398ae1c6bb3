"""The softmax channel: one of several classes, by the scores of all of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from scipy.special import ndtri

from miniamp.arrays import Array, Given
from miniamp.channels.logistic import Logistic
from miniamp.channels.smooth import LearnedShare, nothing_told

#: Points of the average over the scores of a row, half of them the mirror images of the others. On
#: ten classes with scores of variance 4 a probability is off by 0.006 (root mean square), with 32
#: points by 0.013.
POINTS = 64
#: Rows per block of an average: POINTS numbers per row and class are held, in cache. 500 rows of
#: ten classes take 2.5 ms, in one block 3.5; in single precision two fifths of the time.
BLOCK_ROWS = 128
#: What `Softmax.joint_output` gives.
Averages: TypeAlias = tuple[Array, Array, Array]


class Softmax(LearnedShare, Logistic):
    """One of K classes, class k with probability exp(z_k) / sum_j exp(z_j), or a wrong label.

    A share of the labels is wrong, that is any of the K with equal probability: one of `SHARES`, as
    earlier labels tell. So no label can pull on the scores for more than a share of wrong ones is
    worth, and where all agree with their scores the share is as good as none.

    Two classes need the difference of their scores alone: the methods of one z are those of
    `Logistic`, of this class against a class of score 0. `joint_probabilities` is for K classes.

    Parameters
    ----------
    told : (7,) array
        Log-likelihood of each of `SHARES` so far.

    Examples
    --------
    >>> import numpy as np
    >>> scores, uncertain = np.array([[2.0, 0.0, 0.0]]), np.array([[9.0, 0.0, 0.0]])
    >>> Softmax().joint_probabilities(scores, np.zeros((1, 3))).round(3)
    array([[0.787, 0.107, 0.107]])
    >>> Softmax().joint_probabilities(scores, uncertain).round(2)
    array([[0.65, 0.18, 0.18]])
    """

    name = None  # type: ignore[assignment]  # nothing to choose: several classes have it
    names, recorded = ("told",), ("wrong",)
    joint = True

    def __init__(self, told: Given = None) -> None:
        self.told = nothing_told(told)

    def joint_probabilities(self, omega: Array, V: Array) -> Array:
        """Probability of each class, (M, K), for independent scores z ~ N(omega, V), (M, K).

        Of what a label will be, right or wrong.
        """
        p = _averages(omega, V, POINTS, np.dtype(np.float64))[0]
        return p if self.wrong == 0.0 else (1.0 - self.wrong) * p + self.wrong / p.shape[1]

    def joint_output(self, omega: Array, V: Array, points: int = POINTS) -> Averages:
        """E p and E p (1 - p), (M, K) each, and E log sum exp z, (M,), for scores z ~ N(omega, V).

        E log p_y is omega_y less the last. Its gradient in omega is y - E p (y as 0 and 1), and its
        curvature in each score by itself -E p (1 - p). To six digits: more than the points have.
        """
        return _averages(omega, V, points, np.dtype(np.float32))


def _averages(omega: Array, V: Array, points: int, kind: np.dtype[Any]) -> Averages:
    M, K = omega.shape
    normals = _normals(K, points).astype(kind)[:, :, None]
    mean, square, total, most = np.empty((K, M)), np.empty((K, M)), np.empty(M), omega.max(axis=1)
    # Classes first: sums over them are then sums of whole arrays.
    centre = np.ascontiguousarray(omega.T - most, dtype=kind)
    root = np.ascontiguousarray(np.sqrt(V.T), dtype=kind)
    for i in range(0, M, BLOCK_ROWS):
        part = slice(i, i + BLOCK_ROWS)
        z = root[:, None, part] * normals
        z += centre[:, None, part]
        top = z.max(axis=0)
        z -= top
        np.exp(z, out=z)
        sums = z.sum(axis=0)
        z *= 1.0 / sums
        mean[:, part] = z.mean(axis=1)
        square[:, part] = np.einsum("ksm,ksm->km", z, z) / points
        total[part] = np.mean(top + np.log(sums), axis=0)
    return mean.T, np.maximum(mean - square, 0.0).T, most + total


@lru_cache(maxsize=8)
def _normals(classes: int, points: int) -> Array:
    """So many standard normal vectors of so many classes, (classes, points), well spread."""
    from scipy.stats import qmc  # takes as long to load as all the rest of the core

    even = qmc.Sobol(classes, seed=0).random(points // 2)
    half = ndtri(np.clip(even, 1e-9, 1.0 - 1e-9)).T
    both = np.concatenate([half, -half], axis=1)
    return np.asarray(both / np.sqrt(np.mean(np.square(both), axis=1, keepdims=True)))
