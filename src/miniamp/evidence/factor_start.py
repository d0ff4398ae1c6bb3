"""How a factorisation begins when the belief does not yet tell its components apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from miniamp.arrays import Array
from miniamp.evidence.factor_scores import Scores
from miniamp.priors import RowPrior

#: Spread of the random fields of a "noise" start: small, since message passing amplifies it itself.
NOISE = 0.1
#: Spread of the fields of a "spectral" start: enough for labels to lean on the leading directions.
LEAN = 2.0


def noise_start(scores: Scores, prior_v: RowPrior, rng: np.random.Generator) -> Array:
    """Means of V under small random fields, (M, R)."""
    fields = NOISE * rng.normal(size=(scores.shape[1], prior_v.dim))
    return prior_v.totals(np.zeros((prior_v.dim,) * 2), fields)[0]


def spectral_start(scores: Scores, prior_v: RowPrior, rng: np.random.Generator) -> Array:
    """Means of V under fields along the leading singular vectors of J, randomly rotated, (M, R)."""
    directions = leading_columns(scores, min(prior_v.dim, *scores.shape), rng)
    directions = directions / np.maximum(directions.std(axis=0), np.finfo(np.float64).tiny)
    turn = np.linalg.qr(rng.normal(size=(prior_v.dim, prior_v.dim)))[0][: directions.shape[1]]
    fields = LEAN * directions @ turn
    return prior_v.totals(np.zeros((prior_v.dim,) * 2), fields)[0]


def kmeans_start(scores: Scores, prior_v: RowPrior, rng: np.random.Generator) -> Array:
    """One-hot labels of the nearest of R columns picked far apart (k-means++), (M, R)."""
    return np.asarray(np.eye(prior_v.dim)[kmeans_labels(scores, prior_v.dim, rng)])


def kmeans_labels(scores: Scores, clusters: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Labels (M,) by k-means++: each new centre falls on a column with chance as its distance^2."""
    squares = scores.column_squares()
    nearest = np.full(len(squares), np.inf)
    labels = np.zeros(len(squares), dtype=np.int64)
    for k in range(clusters):
        total = nearest.sum()
        chances = nearest / total if np.isfinite(total) and total > 0.0 else None
        pick = int(rng.choice(len(squares), p=chances))
        centre = scores.columns(np.array([pick]))[0]
        away = squares - 2.0 * scores.transposed_times(centre[:, None])[:, 0] + centre @ centre
        away = np.maximum(away, 0.0)
        away[pick] = 0.0
        labels[away < nearest] = k
        labels[pick] = k
        nearest = np.minimum(nearest, away)
    return labels


def leading_columns(scores: Scores, rank: int, rng: np.random.Generator) -> Array:
    """Leading right singular vectors of J (M, rank), by randomised subspace iteration."""
    block = rng.normal(size=(scores.shape[1], rank))
    for _ in range(12):
        block = np.linalg.qr(scores.transposed_times(scores.times(block)))[0]
    return np.asarray(block)


#: The starts by name.
STARTS = {"noise": noise_start, "spectral": spectral_start, "kmeans++": kmeans_start}
