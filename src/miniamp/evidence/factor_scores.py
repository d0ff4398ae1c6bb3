"""The observed matrix as low-rank message passing sees it: scores at w = 0, dense or sparse."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.errors import InvalidTypeError

#: A Fisher information from here on belongs to a channel without noise, whose floor it is.
NOISELESS = 1e28


class Scores:
    """J = scale d log P(Y | w = 0)/dw (N, M), and beta, the Fisher information that goes with it.

    Any channel is thereby a Gaussian one of noise 1/beta. A sparse Y is never densified: where an
    absent entry (a zero) has a score of its own, as a count has, J is a sparse matrix plus that
    constant. Where the channel has one hyper-parameter a row of Y, rows are brought to unit Fisher
    information: the factor that is inferred is then sqrt(fisher_i) U_i.

    Parameters
    ----------
    Y : (N, M) array or scipy.sparse matrix
        What was observed, a column a sample.
    channel : Channel
        How it came about, shared or one a row.
    scale : float
        w_ij = scale U_i . V_j.
    """

    def __init__(self, Y: Given, channel: Channel, scale: float) -> None:
        self.sparse = sp.issparse(Y)
        values: Any = _checked_sparse(Y, channel) if self.sparse else _checked_dense(Y, channel)
        self.shape: tuple[int, int] = values.shape
        checks.fits("channel", channel.shape, self.shape[0])
        fisher = np.asarray(channel.fisher(), dtype=np.float64)
        if not ((fisher < NOISELESS).all() and (fisher > 0.0).all()):
            raise checks.refuse(
                "channel",
                repr(channel),
                "finite noise: a Fisher information at 0 that is finite and not 0",
                "give the channel some noise",
            )
        self.row_scale = np.sqrt(fisher) if fisher.size > 1 else None
        self.beta = float(scale**2 * (1.0 if fisher.size > 1 else fisher))
        self.scale = scale
        self._score(values, channel)

    def _score(self, values: Any, channel: Channel) -> None:
        weight = self.scale / (1.0 if self.row_scale is None else self.row_scale)
        weight = np.broadcast_to(weight, self.shape[:1])
        if not self.sparse:
            rows = channel if channel.shape in ((), (1,)) else _one_a_row(channel)
            self.J: Any = weight[:, None] * rows.score(values)
            self.absent = np.zeros(self.shape[0])
            self.square = float(np.vdot(self.J, self.J))
            return
        at = (
            values.indices
            if values.format == "csc"
            else np.repeat(np.arange(self.shape[0]), np.diff(values.indptr))
        )
        each = channel.at(cast(Any, at))
        zero = np.broadcast_to(channel.score(np.zeros(self.shape[0])), self.shape[:1])
        full = weight[at] * each.score(values.data)
        self.absent = weight * zero
        self.J = values._with_data(full - self.absent[at])
        empty = self.shape[1] - np.bincount(at, minlength=self.shape[0])
        self.square = float(np.vdot(full, full) + empty @ np.square(self.absent))

    def times(self, V: Array) -> Array:
        """J V, (N, R)."""
        product = np.asarray(self.J @ V)
        return product + np.outer(self.absent, V.sum(axis=0)) if self.absent.any() else product

    def transposed_times(self, U: Array) -> Array:
        """J' U, (M, R)."""
        product = np.asarray(self.J.T @ U)
        return product + self.absent @ U if self.absent.any() else product

    def column_squares(self) -> Array:
        """Sum of squares of each column of J, (M,)."""
        if not self.sparse:
            return np.asarray(np.einsum("ij,ij->j", self.J, self.J))
        square = np.asarray(self.J.multiply(self.J).sum(axis=0)).ravel()
        if not self.absent.any():
            return square
        cross = np.asarray(self.J.T @ self.absent).ravel()
        return np.asarray(square + 2.0 * cross + self.absent @ self.absent)

    def columns(self, where: Array) -> Array:
        """Some columns of J, dense, (len(where), N)."""
        chosen = self.J[:, where]
        dense = chosen.toarray() if self.sparse else np.asarray(chosen)
        return np.asarray(dense.T + self.absent)


def _one_a_row(channel: Channel) -> Channel:
    """The channel with hyper-parameters (N, 1), to meet a matrix row by row."""
    broad = object.__new__(type(channel))
    broad.__dict__.update(channel.__dict__)
    for name in channel.names:
        value = np.asarray(getattr(channel, name))
        if value.ndim == 1 and value.size > 1:
            broad.__dict__[name] = value[:, None]
    return broad


def _checked_dense(Y: Given, channel: Channel) -> Array:
    values = checks.numeric("Y", Y)
    _checked_shape(values.shape)
    return channel.checked(values)


def _checked_sparse(Y: Any, channel: Channel) -> Any:
    if Y.format not in ("csr", "csc"):
        Y = Y.tocsr()
    _checked_shape(Y.shape)
    if Y.dtype.kind not in "fiub":
        raise InvalidTypeError(
            f"Y: got a sparse matrix of {Y.dtype}, expected real numbers; convert it"
        )
    Y = Y.astype(np.float64, copy=False)
    if Y.nnz < Y.shape[0] * Y.shape[1]:
        channel.checked(np.zeros(1))  # absent entries are zeros, and must be possible outcomes
    channel.checked(checks.numeric("Y", Y.data))
    return Y


def _checked_shape(shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or 0 in shape:
        raise checks.refuse(
            "Y", f"shape {shape}", "a matrix with rows and columns", "reshape it to (N, M)"
        )
