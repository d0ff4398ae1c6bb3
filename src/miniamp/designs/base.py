"""What a design is: the holder of the rows Phi, and the only code that reads their entries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from miniamp import checks
from miniamp.arrays import Array
from miniamp.channels.base import Channel
from miniamp.designs.sequential import Columns, KernelRows, Responses, Running, Where, one_by_one
from miniamp.posterior import Prior

#: Rows are swept in blocks of about this many bytes of float64: small enough to stay in the
#: second-level cache between the way forth (Phi x) and the way back (Phi' g).
BLOCK_BYTES = 1 << 20


class Sweep(NamedTuple):
    """The result of one pass over Phi."""

    pull: Array  #: Phi' g, (N,)
    curvature: Array  #: (Phi^2)' (-dg), (N,); with a scalar variance the sum of -dg, ()
    memory: Array  #: g, for the Onsager term of the next iteration; opaque outside the design
    mean_square: float  #: mean of g^2 over the rows
    mean_curvature: float  #: mean of -dg over the rows


class LoopRows(NamedTuple):
    """Rows for a compiled loop over all iterations of a batch (`evidence.kernels.iterate`)."""

    rows: KernelRows
    mean_square: float = 0.0  #: of the entries, where variances are scalar; 0 where they are not
    threads: int = 1  #: that are to sweep them
    parts: int = 1  #: that the threads take in turns


class Design(ABC):
    """A matrix Phi of M rows and N columns.

    A design sweeps its rows for AMP (`sandwich`, `forecast`), and gives solvers of other kinds the
    products that they need. With vectors x (N,), u (M,) and weights w:

    | method | result | cost, dense | cost, sparse |
    | --- | --- | --- | --- |
    | `times(x)` | Phi x | M N | stored entries |
    | `transposed_times(u)` | Phi' u | M N | stored entries |
    | `gram(w)` | Phi diag(w) Phi', (M, M) | M^2 N | pairs of entries in a column |
    | `column_variances(K)` | diag(Phi' K Phi), (N,) | M^2 N | pairs of entries in a column |
    | `row_variances(W, D)` | diag(Phi (diag(D) - W'W) Phi'), (M,) | r M N | r x stored entries |
    | `information(w)` | Phi' diag(w) Phi, (N, N) | M N^2 | pairs of entries in a row |
    | `used_columns()` | the columns that are not empty, and the design of those | 0 | entries |

    `gram` and `information` refuse a result of more than `checks.FORMED_BYTES`, and so does
    `toarray` on a design that does not hold dense entries.

    A subclass that defines `of` is found by `as_design`; nothing else lists the designs.
    """

    shape: tuple[int, int]

    #: Whether `of` is asked about plain arrays.
    takes_arrays: ClassVar[bool] = True
    _kinds: ClassVar[list[type[Design]]] = []

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "of" in vars(cls):
            Design._kinds.insert(0, cls)  # the special ones are defined after the general ones

    @classmethod
    def of(cls, Phi: object) -> Design | None:  # noqa: ARG003
        """`Phi` as a design of this kind, None where another kind suits it better."""
        return None

    @abstractmethod
    def sandwich(
        self, x: Array, v: Array, y: Array, channel: Channel, memory: Array | None
    ) -> Sweep:
        """One pass over Phi: z and its variance out, the channel's response back.

        Parameters
        ----------
        x : (N,) array
            Means of the coefficients.
        v : (N,) array or ()
            Their variances; as a scalar it is V itself, the same for every row, and no square of
            Phi is formed.
        y : (M,) array
            The observations.
        channel : Channel
            Gives g and -dg for each row.
        memory : array or None
            `Sweep.memory` of the iteration before, None in the first.
        """

    @abstractmethod
    def forecast(self, x: Array, v: Array) -> tuple[Array, Array]:
        """Mean and variance of Phi x for coefficients of means x and variances v: (M,), (M,)."""

    def loop_square(self) -> float:
        """`mean_square` for who waits for the compiler anyway."""
        return self.mean_square

    def loop_rows(self) -> LoopRows | None:
        """The rows for a compiled loop of sweeps; None where each sweep is to be called by itself.

        That is so for rows that are elsewhere or not contiguous, and for a few long ones that are
        swept by several threads.
        """
        return None

    @property
    @abstractmethod
    def mean_square(self) -> float:
        """Mean of the squared entries of Phi, 1/N for the paper's i.i.d. designs."""

    @property
    def filled(self) -> float:
        """Share of the entries that are stored: 1 for all but sparse designs."""
        return 1.0

    def averaged(self) -> Averaged:
        """The same matrix swept with scalar variances; a design that does so already is itself.

        `design.averaged() is design` is therefore true where there is nothing left to average.
        """
        return Averaged(self)

    def toarray(self) -> Array:
        """All entries, (M, N) float64."""
        M, N = self.shape
        checks.formed_bytes(8 * M * N, f"{M} x {N} dense entries")
        return np.column_stack([self.times(unit) for unit in np.eye(N)])

    def times(self, x: Array) -> Array:
        """Phi x, (M,) for x (N,) and (M, k) for x (N, k)."""
        if x.ndim == 2:
            return np.column_stack([self.times(column) for column in x.T])
        return self.forecast(x, np.zeros(self.shape[1]))[0]

    def transposed_times(self, u: Array) -> Array:
        """Phi' u, (N,) for u (M,) and (N, k) for u (M, k)."""
        return np.asarray(self.toarray().T @ u)

    def squares_times(self, v: Array) -> Array:
        """The squared entries times v (N,), (M,)."""
        return self.forecast(np.zeros(self.shape[1]), v)[1]

    def transposed_squares_times(self, w: Array) -> Array:
        """The transpose of the squared entries times w (M,), (N,)."""
        return np.asarray(np.square(self.toarray()).T @ w)

    def gram(self, weights: Array) -> Array:
        """Products of the rows, Phi diag(weights) Phi', (M, M), for weights (N,) >= 0."""
        M = self.shape[0]
        checks.formed_bytes(8 * M * M, f"{M} x {M} products of rows")
        scaled = self.toarray() * np.sqrt(weights)
        return np.asarray(scaled @ scaled.T)

    def information(self, weights: Array) -> Array:
        """Products of the columns, Phi' diag(weights) Phi, (N, N), for weights (M,) >= 0."""
        N = self.shape[1]
        checks.formed_bytes(8 * N * N, f"{N} x {N} products of columns")
        scaled = np.sqrt(weights)[:, None] * self.toarray()
        return np.asarray(scaled.T @ scaled)

    def column_variances(self, K: Array) -> Array:
        """Diagonal of Phi' K Phi, (N,), for symmetric K (M, M): its lower triangle is read."""
        rows, out = self.toarray(), np.empty(self.shape[1])
        K = np.tril(K) + np.tril(K, -1).T
        for block in row_blocks(self.shape[1], self.shape[0]):
            part = rows[:, block]
            out[block] = np.einsum("ij,ij->j", part, K @ part)
        return out

    def row_variances(self, root: Array | None, D: Array) -> Array:
        """Variance of every row . x for x of covariance diag(D) - root' root, (M,)."""
        alone = self.forecast(np.zeros(self.shape[1]), D)[1]
        if root is None:
            return alone
        known = self.times(root.T)
        return np.asarray(alone - np.einsum("ij,ij->i", known, known))

    def used_columns(self) -> tuple[NDArray[np.intp], Design]:
        """Indices of the columns that are not empty, and the design of those columns alone.

        Only a sparse design looks: a batch of it touches few of its columns, and a solver that
        works on those alone costs the same however wide the rows are.
        """
        return np.arange(self.shape[1]), self

    def weighted(self, weights: Array, targets: Array) -> tuple[Array, Array]:
        """Rows R and targets t with the squares `|targets - weights Phi x|^2`, up to a constant.

        For solvers that decompose a batch: the rows times their weights (M,), or fewer rows with
        the same products, (m, N) and (m,).
        """
        return weights[:, None] * self.toarray(), targets

    def held(self) -> Design:
        """The same rows for a solver that decomposes them: as an array in memory.

        Rows on a cluster that can be decomposed there stay there.
        """
        return as_design(self.toarray())

    def online(
        self, running: Running, y: Array, channel: Channel, prior: Prior, responses: Responses
    ) -> None:
        """Absorb the rows one after the other, one iteration each, updating `running` in place."""
        one_by_one(self._each_row(), running, y, channel, prior, responses)

    def columns(self) -> Columns:
        """A copy by columns, for updates of one coefficient after the other."""
        return self.held().columns()

    def _each_row(self) -> Iterator[tuple[Where, Array]]:
        """Every row as (indices, entries)."""
        for row in self.toarray():
            yield slice(None), row

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]} x {self.shape[1]})"

    def diagnosis(self) -> str:
        """What in Phi may make AMP diverge, in words; computed only after a failure."""
        return ""


def _of_inner(name: str) -> Any:
    """A method that calls the method of this name of `inner`."""
    return lambda self, *arguments: getattr(self.inner, name)(*arguments)


class Averaged(Design):
    """A design swept with one variance for all rows and one precision for all columns.

    `eq:amp1` to `eq:amp3`: for i.i.d. entries V_mu and A_i concentrate, and their averages save the
    products with the squares of Phi, which are never formed. Not for rows or columns of very
    different scales: these need the vector variances of the plain designs (errata E6).

    *Departure*: the print has 1/N for the variance of the entries; here it is their measured mean
    square, which equals 1/N for the paper's designs and keeps others in scale.

    Parameters
    ----------
    Phi : (M, N) array, sparse matrix or Design

    Examples
    --------
    >>> import numpy as np
    >>> Averaged(np.ones((3, 2))).mean_square
    1.0
    """

    def __init__(self, Phi: object) -> None:
        self.inner = as_design(Phi)
        self.shape = self.inner.shape

    def sandwich(
        self, x: Array, v: Array, y: Array, channel: Channel, memory: Array | None
    ) -> Sweep:
        V = np.asarray(self.mean_square * v.sum())
        sweep = self.inner.sandwich(x, V, y, channel, memory)
        return sweep._replace(curvature=np.asarray(self.mean_square * sweep.curvature))

    def averaged(self) -> Self:
        return self

    @property
    def mean_square(self) -> float:
        return self.inner.mean_square

    @property
    def filled(self) -> float:
        return self.inner.filled

    def loop_rows(self) -> LoopRows | None:
        loop = self.inner.loop_rows()
        return None if loop is None else loop._replace(mean_square=self.inner.loop_square())

    forecast = _of_inner("forecast")


#: All but the sweep is the wrapped design's.
for _name in (
    *("toarray", "times", "transposed_times", "squares_times", "transposed_squares_times", "gram"),
    *("information", "column_variances", "row_variances", "used_columns", "weighted", "held"),
    *("online", "columns", "diagnosis"),
):
    setattr(Averaged, _name, _of_inner(_name))


def as_design(Phi: object) -> Design:
    """`Phi` as a design: itself if it is one, else the design that suits its kind.

    A Dask array or frame becomes `Distributed`, on the client that is current.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> as_design(np.ones((2, 3))), as_design(np.ones((500, 300))), as_design(sparse.eye(3))
    (Dense(2 x 3), Fused(500 x 300), Sparse(3 x 3))
    """
    if isinstance(Phi, Design):
        return Phi
    array = isinstance(Phi, np.ndarray)
    found = (kind.of(Phi) for kind in Design._kinds if kind.takes_arrays or not array)
    return next(design for design in found if design is not None)


def row_blocks(rows: int, columns: int) -> list[slice]:
    """Slices that cut `rows` rows into blocks which fit the cache."""
    step = max(1, BLOCK_BYTES // (8 * max(columns, 1)))
    return [slice(k, min(k + step, rows)) for k in range(0, rows, step)]


def triangle(R: Array, t: Array) -> tuple[Array, Array]:
    """The same rows rotated to at most N of them: |t - R x|^2 up to a constant."""
    if len(R) <= R.shape[1]:
        return R, t
    N = R.shape[1]
    both = np.empty((len(R), N + 1), order="F")
    both[:, :N], both[:, N] = R, t
    # The targets are rotated with the rows: the rotation itself takes as long as the triangle.
    (square,) = linalg.qr(both, mode="r", overwrite_a=True, check_finite=False)
    return np.ascontiguousarray(square[:N, :N]), square[:N, N].copy()
