"""Sums of exponentials over components (points of a prior, parts of a mixture), with all digits."""

from __future__ import annotations

import numpy as np

from miniamp.arrays import Array
from miniamp.numerics.panels import Index


def log_weights(weights: Array) -> Array:
    """log of weights that may be zero."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(weights))


def leading(values: Array, index: Index) -> Array:
    """The entries of the last axis that `index` points at, with that axis kept."""
    return np.take_along_axis(values, index, axis=-1)


def shares(log_terms: Array) -> tuple[Array, Array]:
    """log of the sum of exp(log_terms) over the last axis, and the share of each term in it."""
    top = np.max(log_terms, axis=-1, keepdims=True)
    relative = np.exp(log_terms - top)
    total = np.sum(relative, axis=-1, keepdims=True)
    return (top + np.log(total))[..., 0], relative / total


def spread(share: Array, offset: Array) -> tuple[Array, Array]:
    """Mean and variance over the last axis of `offset`, distances from the largest share's place.

    That share is at least 1/K, so the difference of squares loses at most a factor K, however small
    the other shares are.
    """
    mean = np.sum(share * offset, axis=-1)
    square = np.sum(share * np.square(offset), axis=-1)
    return mean, np.maximum(square - np.square(mean), 0.0)


def choose(rng: np.random.Generator, share: Array, shape: tuple[int, ...]) -> Index:
    """A component drawn for each of `shape`, as an index with a last axis of length 1."""
    edges = np.cumsum(share, axis=-1)
    edges = np.broadcast_to(edges / edges[..., -1:], (*shape, share.shape[-1]))
    return np.asarray(np.sum(rng.random((*shape, 1)) >= edges, axis=-1, keepdims=True))
