"""The observed matrix as low-rank message passing sees it: scores at w = 0, and where to start."""

from __future__ import annotations

import functools
from functools import cached_property
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.designs import Design, Distributed
from miniamp.errors import InvalidTypeError
from miniamp.priors import RowPrior

#: A Fisher information from here on belongs to a channel without noise, whose floor it is.
NOISELESS = 1e28
#: Spread of the random fields of a "noise" start: small, since message passing amplifies it itself.
NOISE = 0.1
#: Spread of the fields of a "spectral" start: enough for labels to lean on the leading directions.
LEAN = 2.0


class FactorScores:
    """J = scale d log P(Y | w = 0)/dw (N, M), and beta, the Fisher information that goes with it.

    Any channel is thereby a Gaussian one of noise 1/beta. A sparse Y is never densified: where an
    absent entry (a zero) has a score of its own, as a count has, J is a sparse matrix plus that
    constant. Where the channel has one hyper-parameter a row of Y, rows are brought to unit Fisher
    information: the factor that is inferred is then sqrt(fisher_i) U_i. `log_null` is
    log P(Y | w = 0).

    Parameters
    ----------
    Y : (N, M) array or scipy.sparse matrix
        What was observed, a column a sample.
    channel : Channel
        How it came about, shared or one per row.
    scale : float, optional
        w_ij = scale U_i . V_j; 1/sqrt(N) by default.
    """

    def __init__(self, Y: Given, channel: Channel, scale: float | None) -> None:
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
        self.scale = 1.0 / np.sqrt(self.shape[0]) if scale is None else scale
        self.beta = float(self.scale**2 * (1.0 if fisher.size > 1 else fisher))
        self._score(values, channel)

    def _score(self, values: Any, channel: Channel) -> None:
        weight = self.scale / (1.0 if self.row_scale is None else self.row_scale)
        weight = np.broadcast_to(weight, self.shape[:1])
        self.unit = 1.0
        if not self.sparse:
            self.absent = np.zeros(self.shape[0])
            noise = _shared_noise(channel)
            if noise is not None:  # the scores are proportional to Y, which is used as it is
                self.J: Any = values
                self.unit = self.scale / noise
                total = values.size * np.log(2.0 * np.pi * noise)
                self.log_null = -0.5 * float(total + self.square / (self.unit**2 * noise))
                return
            rows = _one_per_row(channel) if channel.shape else channel
            self.J = weight[:, None] * rows.score(values)
            self.log_null = float(np.sum(rows.log_partition(values, 0.0, 0.0)))
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
        none = channel.log_partition(np.zeros(self.shape[0]), 0.0, 0.0)
        stored = float(np.sum(each.log_partition(values.data, 0.0, 0.0)))
        self.log_null = stored + float(np.sum(empty * none))

    @cached_property
    def square(self) -> float:
        """Sum of squares of all entries of J."""
        return float(self.column_squares().sum())

    def times(self, V: Array) -> Array:
        """J V, (N, R)."""
        product = self._product(self.J, V)
        return product + np.outer(self.absent, V.sum(axis=0)) if self.absent.any() else product

    def transposed_times(self, U: Array) -> Array:
        """J' U, (M, R)."""
        product = self._product(self.J.T, U)
        return product + self.absent @ U if self.absent.any() else product

    def _product(self, J: Any, factor: Array) -> Array:
        """J times a factor, in the precision of the rows: with float32 about 1e-6 off."""
        product = np.asarray(J @ factor.astype(J.dtype, copy=False), dtype=np.float64)
        return product if self.unit == 1.0 else self.unit * product

    def column_squares(self) -> Array:
        """Sum of squares of each column of J, (M,)."""
        if not self.sparse:
            squares = np.einsum("ij,ij->i", self.J.T, self.J.T)
            return np.asarray(self.unit**2 * squares.astype(np.float64))
        square = np.asarray(self.J.multiply(self.J).sum(axis=0)).ravel()
        if not self.absent.any():
            return square
        cross = np.asarray(self.J.T @ self.absent).ravel()
        return np.asarray(square + 2.0 * cross + self.absent @ self.absent)


class FarScores(FactorScores):
    """What `FactorScores` is to a matrix at hand, for the rows of a distributed design.

    J' U goes out and comes back as N and M numbers per component, J V as M and N; the entries and
    their scores stay where they are. Every product is the sum, or the stack, of the blocks' own.

    Parameters
    ----------
    rows : designs.Distributed
        Samples by features, (M, N): the transpose of Y.
    channel, scale
        As for `FactorScores`.
    """

    def __init__(self, rows: Distributed, channel: Channel, scale: float | None) -> None:
        self.shape = (rows.shape[1], rows.shape[0])
        self._made = rows.derive(functools.partial(_scores_here, channel=channel, scale=scale))
        self.scale, self.beta = (float(self._made.each(name)[0]) for name in ("scale", "beta"))
        self.log_null = float(sum(self._made.each("log_null")))

    def times(self, V: Array) -> Array:
        """J V, (N, R)."""
        return np.asarray(self._made.total("times", V))

    def transposed_times(self, U: Array) -> Array:
        """J' U, (M, R)."""
        return np.concatenate(self._made.each("transposed_times", U))

    def column_squares(self) -> Array:
        """Sum of squares of each column of J, (M,)."""
        return np.concatenate(self._made.each("column_squares"))


def _scores_here(design: Design, channel: Channel, scale: float | None) -> FactorScores:
    """On the worker: the scores of one block of rows."""
    held: Any = getattr(design, "Phi", None)
    return FactorScores((design.toarray() if held is None else held).T, channel, scale)


def scores_of(Y: Given, channel: Channel, scale: float | None) -> FactorScores:
    """The scores of Y (N, M), or of the rows of a distributed design."""
    if isinstance(Y, Distributed):
        return FarScores(Y, channel, scale)
    return FactorScores(Y, channel, scale)


def noise_start(scores: FactorScores, prior_v: RowPrior, rng: np.random.Generator) -> Array:
    """Means of V under small random fields, (M, R)."""
    fields = NOISE * rng.normal(size=(scores.shape[1], prior_v.dim))
    return prior_v.totals(np.zeros((prior_v.dim,) * 2), fields)[0]


def spectral_start(scores: FactorScores, prior_v: RowPrior, rng: np.random.Generator) -> Array:
    """Means of V under fields along the leading singular vectors of J, randomly rotated, (M, R)."""
    directions = leading_columns(scores, min(prior_v.dim, *scores.shape), rng)
    directions = directions / np.maximum(directions.std(axis=0), np.finfo(np.float64).tiny)
    turn = np.linalg.qr(rng.normal(size=(prior_v.dim, prior_v.dim)))[0][: directions.shape[1]]
    fields = LEAN * directions @ turn
    return prior_v.totals(np.zeros((prior_v.dim,) * 2), fields)[0]


def kmeans_start(scores: FactorScores, prior_v: RowPrior, rng: np.random.Generator) -> Array:
    """One-hot labels of the nearest of R columns picked far apart (k-means++), (M, R)."""
    return np.asarray(np.eye(prior_v.dim)[kmeans_labels(scores, prior_v.dim, rng)])


def kmeans_labels(
    scores: FactorScores, clusters: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Labels (M,) by k-means++: each new centre falls on a column with chance as its distance^2."""
    squares = scores.column_squares()
    nearest = np.full(len(squares), np.inf)
    labels = np.zeros(len(squares), dtype=np.int64)
    for k in range(clusters):
        total = nearest.sum()
        chances = nearest / total if np.isfinite(total) and total > 0.0 else None
        pick = int(rng.choice(len(squares), p=chances))
        centre = scores.times(np.eye(1, len(squares), pick).T)[:, 0]
        away = squares - 2.0 * scores.transposed_times(centre[:, None])[:, 0] + centre @ centre
        away = np.maximum(away, 0.0)
        away[pick] = 0.0
        labels[away < nearest] = k
        labels[pick] = k
        nearest = np.minimum(nearest, away)
    return labels


def leading_columns(scores: FactorScores, rank: int, rng: np.random.Generator) -> Array:
    """Leading right singular vectors of J (M, rank), by randomised subspace iteration."""
    block = rng.normal(size=(scores.shape[1], rank))
    for _ in range(12):
        block = np.linalg.qr(scores.transposed_times(scores.times(block)))[0]
    return np.asarray(block)


#: The starts by name.
STARTS = {"noise": noise_start, "spectral": spectral_start, "kmeans++": kmeans_start}


def _one_per_row(channel: Channel) -> Channel:
    """The channel with hyper-parameters (N, 1), to meet a matrix row by row."""
    broad = object.__new__(type(channel))
    broad.__dict__.update(channel.__dict__)
    for name, value in channel.__dict__.items():
        if isinstance(value, np.ndarray) and value.ndim == 1 and value.size > 1:
            broad.__dict__[name] = value[:, None]
    return broad


def _shared_noise(channel: Channel) -> float | None:
    """The variance of Gaussian noise that all entries have; None where they do not."""
    noise = channel.gaussian_noise()
    return float(noise) if noise is not None and noise.ndim == 0 else None


def _checked_dense(Y: Given, channel: Channel) -> Array:
    values = checks.array_of("Y", Y)
    _checked_shape(values.shape)
    narrow = values.dtype == np.float32 and _shared_noise(channel) is not None
    with np.errstate(over="ignore", invalid="ignore"):
        if narrow and np.isfinite(values.max() - values.min()):
            return values  # kept as they come
    return channel.checked(checks.numeric("Y", values))


def _checked_sparse(Y: Any, channel: Channel) -> Any:
    if Y.format not in ("csr", "csc"):
        Y = Y.tocsr()
    _checked_shape(Y.shape)
    if Y.dtype.kind not in "fiub":
        raise InvalidTypeError("Y", f"a sparse matrix of {Y.dtype}", "real numbers", "convert it")
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
