"""Sums over a table of samples, dense or sparse, without making it dense."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from miniamp.arrays import Array


def stacked(above: Any, below: Any) -> Any:
    """The rows of both."""
    if hasattr(above, "tocsr") or hasattr(below, "tocsr"):
        return sp.vstack([above, below], format="csr")
    return np.concatenate([above, below])


def scaled(X: Any, unit: Array | None) -> Any:
    """X with every feature divided by its unit, where there are units."""
    if unit is None:
        return X
    if not hasattr(X, "tocsr"):
        return X / unit
    copy: Any = X.tocsr(copy=True)
    copy.data = copy.data / unit[copy.indices]
    return copy


def row_squares(X: Any) -> Array:
    """Sum of squares of each row, (M,)."""
    if hasattr(X, "tocsr"):
        return np.asarray(X.power(2).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->i", X, X), dtype=np.float64)


def mean_square(Y: Any) -> float:
    """Mean square of an entry."""
    return float(row_squares(Y).sum() / (Y.shape[0] * Y.shape[1]))


def feature_variances(X: Any) -> Array:
    """Variance of each column, (N,)."""
    mean = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
    squares = row_squares(X.T) / X.shape[0]
    return np.asarray(np.maximum(squares - np.square(mean), 0.0))


def residual(Y: Any, U: Array, V: Array) -> float:
    """Mean square of Y - U V', without forming it (the paper's rule for the noise)."""
    cross = float(np.vdot(np.asarray(Y @ V), U))
    total = float(row_squares(Y).sum()) - 2.0 * cross + float(np.vdot(U.T @ U, V.T @ V))
    return max(total, 0.0) / float(Y.shape[0] * Y.shape[1])
