"""Rows as users hold them: arrays, sparse matrices, tables of any library, Dask collections."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeGuard

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.errors import InvalidTypeError
from miniamp.evidence.auto import MOST as JOINT
from miniamp.evidence.auto import PER_ROW
from miniamp.evidence.frame import Frame, Ranges
from miniamp.info import OddEntry

if TYPE_CHECKING:
    from distributed import Client

#: Rows that scikit-learn has validated: a float array (M, N), or a sparse one.
Matrix: TypeAlias = Array | sp.csr_array
#: A Dask array or frame. Dask has no types.
Collection: TypeAlias = Any
#: Arguments of scikit-learn's validation.
ACCEPTED: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
#: Numbers whose squares neither over- nor underflow, with room for sums of them.
LEAST, MOST = 1e-140, 1e140
#: Sparse rows of up to so many features, one of which is mostly filled, are learned from as dense
#: ones, which have centres: a mean of 2000 would hide a spread of 1.
DENSE_FEATURES = 1024
#: Whole weights repeat rows until there would be so many times as many.
MOST_COPIES = 8
#: Rows wait for so many, or more of many features (`Rows.group`), and are learned from together,
#: so that the cut of a stream does not matter: units, noise and first guesses from fewer rows would
#: be poor, and an update costs about the same for one row as for thirty.
GROUP = 32
#: The first rows of a classifier wait for so many of each class: with fewer the scale of the labels
#: cannot be told (on 45 real data sets where it made a difference, 28 got better).
EACH_CLASS = 8
#: Those of two classes wait for so many per feature too: later rows hardly change the scale that
#: the first ones show. Log loss by 20 over that of one batch after 32, 128 and 256 first rows:
#: breast cancer (30 features, 8 orders) 1.11, 1.07 and 0.99, spambase 1.16, 1.07 and 1.01.
PER_FEATURE = 8
#: But no more rows than this wait; of each class where rows come in blocks of one class.
MOST_WAITING = 256
#: Rows come in blocks of one class where the label changes so many times as often as in a random
#: order, or less: iris, wine, digits and breast cancer sorted by label are at 0.004 to 0.02, and in
#: random order at 0.98 to 1.08. Streams whose labels persist lie between, and are to pass.
BLOCKS = 0.1
#: The largest forgetting factor of a stream that may change.
ALMOST_ONE = float(np.nextafter(1.0, 0.0))
#: Entries of an array that is made of sparse rows: 64 MB.
BLOCK = 2**23
#: The first rows of a collection, from which units are taken and the solver is chosen.
FIRST_ROWS = 2000


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows X (M, N) with targets Y (M, K) and weights (M,), None where every row counts once."""

    X: Matrix
    Y: Array
    weights: Array | None = None
    calls: int = 1  #: number of batches that they came in
    left_out: int = 0  #: number of rows that these stand for besides themselves (`thinned`)
    changes: int = 0  #: how often the label changed from one row to the next
    repaired: tuple[OddEntry, ...] = ()  #: entries of X that were replaced
    ranges: Ranges | None = None  #: of the columns of X, where they are known

    def __len__(self) -> int:
        return len(self.Y)

    @classmethod
    def weighted(
        cls, X: Matrix, Y: Array, weights: Array | None, ranges: Ranges | None = None
    ) -> Rows:
        """Rows repeated by whole weights, with the weights that then remain."""
        if weights is None:
            return cls(X, Y, ranges=ranges)
        used, rest = repeated(weights)
        return cls(X[used], Y[used], rest)

    def at(self, places: NDArray[np.int64]) -> Rows:
        """The rows at these places."""
        if len(places) == len(self):  # one batch of all rows, in their own order
            return self
        weights = None if self.weights is None else self.weights[places]
        return Rows(self.X[places], self.Y[places], weights)

    @property
    def count(self) -> int:
        """Number of rows, with those that these stand for."""
        return len(self) + self.left_out

    def kept(self, forget: float, learned: bool) -> float:
        """What still counts of all before, when these rows are learned from with `forget`.

        A `learned` factor is one per batch, and below 1, so that sudden changes are looked for.
        """
        return min(forget, ALMOST_ONE) if learned else forget**self.calls

    def group(self, solver: str) -> int:
        """How many are learned from together, at least: enough for an update of N x N numbers."""
        features, swept = self.X.shape[1], solver == "amp" or sp.issparse(self.X)
        return GROUP if swept or features > JOINT else max(GROUP, features // PER_ROW)

    def enough_at_first(self, labels: bool, group: int, *, drifts: bool) -> bool:
        """Whether there are enough rows to start learning from, a `group` or more.

        Labels are not enough while they come in blocks of one class: one tells little where all
        others were the same. Rows of a stream that drifts wait for fewer.
        """
        count = self.count
        if not labels:
            varied = bool(np.ptp(self.Y, axis=0).all())
            return count >= (group if varied else max(group, MOST_WAITING))
        positive = np.average(self.Y > 0.0, axis=0, weights=self.weights)
        shares = positive if self.Y.shape[1] > 1 else np.append(positive, 1.0 - positive)
        expected = count * (1.0 - np.sum(np.square(shares)))
        per_feature = PER_FEATURE if self.Y.shape[1] == 1 and not drifts else 0
        least = min(max(GROUP, per_feature * self.X.shape[1]), MOST_WAITING)
        if count < least or self.changes < max(2.0, BLOCKS * expected):
            return False
        return count >= MOST_WAITING or bool(count * shares.min() >= EACH_CLASS)

    def and_then(self, more: Rows) -> Rows:
        """These rows, and more below them."""
        weighted = self.weights is not None or more.weights is not None
        parts = [np.ones(len(r)) if r.weights is None else r.weights for r in (self, more)]
        return Rows(
            stacked(self.X, more.X),
            np.concatenate([self.Y, more.Y]),
            np.concatenate(parts) if weighted else None,
            self.calls + more.calls,
            self.left_out + more.left_out,
            self.changes + more.changes + bool((self.Y[-1] != more.Y[0]).any()),
        )

    def thinned(self, most: int) -> Rows:
        """A random sample with at most so many rows of each class, which stand for all of them.

        The last row stays, so that changes of the label can be counted on.
        """
        labels = self.Y.argmax(axis=1) if self.Y.shape[1] > 1 else self.Y[:, 0]
        weights = np.ones(len(self)) if self.weights is None else self.weights.copy()
        keep, rng = np.ones(len(self), dtype=bool), np.random.default_rng(self.count)
        for label in np.unique(labels):
            own = np.flatnonzero(labels == label)
            if len(own) <= most:
                continue
            total = weights[own].sum()
            chosen = rng.choice(own, most, replace=False, p=weights[own] / total)
            if own[-1] == len(self) - 1:
                chosen[-1] = own[-1]
            keep[own], keep[chosen] = False, True
            weights[own] = total / most
        if keep.all():
            return self
        left_out = self.left_out + int(np.sum(~keep))
        return Rows(self.X[keep], self.Y[keep], weights[keep], self.calls, left_out, self.changes)

    def measured(self, frame: Frame | None, solver: str) -> Rows:
        """The rows as they are learned from; dense ones with the ranges of their columns."""
        X = with_centres(self.X)
        if self.ranges is not None or not isinstance(X, np.ndarray):
            return self
        return replace(self, X=X, ranges=ranges_of(X, frame, solver))

    def owned(self) -> Rows:
        """The rows in an array of their own: the caller may write the next ones to the same."""
        return replace(self, X=self.X.copy())

    def normalised(self) -> Rows:
        """The rows with weights of mean one, where some stand for others."""
        if self.weights is None or not self.left_out:
            return self
        return replace(self, weights=self.weights / self.weights.mean())

    def state(self) -> dict[str, object]:
        """The rows in plain values, for a file."""
        X = matrix_state(self.X)
        others = {name: getattr(self, name) for name in ("calls", "left_out", "changes")}
        return {"X": X, "Y": self.Y, "weights": self.weights, **others}

    @classmethod
    def from_state(cls, state: dict[str, Any] | None) -> Self | None:
        """The way back from `state`."""
        return None if state is None else cls(**{**state, "X": matrix_of(state["X"])})


def require_shape(name: str, value: object, *shape: int | None) -> None:
    """Refuse an array of a file that has not the shape that the rest of the file states.

    Examples
    --------
    >>> require_shape("Y", np.zeros((7, 2)), None, 2)
    """
    received: tuple[int, ...] = getattr(value, "shape", ())
    pairs = zip(received, shape, strict=False)
    if len(received) != len(shape) or any(s not in (None, r) for r, s in pairs):
        raise checks.refuse(name, f"shape {received}", f"{shape}", "save it again")


def entries(X: Matrix) -> Array:
    """The numbers of an array, or those that a sparse one stores."""
    return np.asarray(sp.csr_array(X).data if sp.issparse(X) else X)


def with_centres(X: Matrix) -> Matrix:
    """Sparse rows as an array, if one of few columns is mostly filled."""
    few = sp.issparse(X) and X.shape[1] <= DENSE_FEATURES
    filled = np.bincount(sp.csr_array(X).indices).max(initial=0) if few else 0
    return sp.csr_array(X).toarray() if 2 * filled > X.shape[0] else X


def stacked(above: Matrix, below: Matrix) -> Matrix:
    """The rows of both."""
    if sp.issparse(above) or sp.issparse(below):
        return sp.vstack([sp.csr_array(above), sp.csr_array(below)], format="csr")
    return np.concatenate([above, below])


def matrix_state(X: Matrix) -> Array | dict[str, object]:
    """Rows as an array, or where they are sparse as their parts."""
    if not sp.issparse(X):
        return X
    X, shape = sp.csr_array(X), [int(n) for n in X.shape]
    return {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": shape}


def matrix_of(state: Any) -> Matrix:
    """The way back from `matrix_state`."""
    if isinstance(state, np.ndarray):
        return state
    parts = (state["data"], state["indices"], state["indptr"])
    X = sp.csr_array(parts, shape=tuple(state["shape"]))
    X.check_format(full_check=True)  # indices out of range would be used by compiled code
    return X


def repeated(weights: Array) -> tuple[NDArray[np.int64], Array | None]:
    """Which rows to use, repeated by whole weights, and the weights that then remain."""
    if not weights.any():
        raise checks.refuse(
            "sample_weight", "zeros only", "a weight > 0", "drop the batch, or leave weights out"
        )
    times = np.rint(weights).astype(np.int64)
    if times.sum() <= MOST_COPIES * len(weights) + 1000 and np.array_equal(times, weights):
        return np.repeat(np.arange(len(weights)), times), None
    used = np.flatnonzero(weights)
    return used, weights[used]


def require_measurable(name: str, values: Matrix) -> None:
    """Refuse numbers so large or so small that their squares are not representable.

    Examples
    --------
    >>> require_measurable("X", np.array([1.0, 1e300]))
    Traceback (most recent call last):
    miniamp.errors.InvalidInputError: X: got 1e+300, expected numbers below 1e+140; change the units
    """
    numbers = entries(values)
    largest = float(max(numbers.max(), -numbers.min())) if numbers.size else 0.0
    if largest > MOST:
        raise checks.refuse(name, f"{largest:g}", f"numbers below {MOST:g}", "change the units")
    if 0.0 < largest < LEAST:
        received, expected = f"{largest:g} as the largest", f"zeros, or numbers above {LEAST:g}"
        raise checks.refuse(name, received, expected, "change the units")


def ranges_of(X: Array, frame: Frame | None, solver: str) -> Ranges:
    """The ranges of the columns, in one compiled pass where AMP will sweep the rows."""
    return Ranges.of(X, frame.centre if frame and solver == "amp" else None)


def ready(X: Given, features: int, frame: Frame | None = None, solver: str = "") -> Ranges | None:
    """The ranges of X, if it is of finite, measurable floats and fits: no more checks are needed.

    Of a batch of 32 rows and 10 features those of scikit-learn took a fifth of the time.
    """
    own = ranges_of(X, frame, solver) if are_floats(X, features) else None
    largest = 0.0 if own is None else max(float(own.high.max()), -float(own.low.min()))
    return own if own and LEAST <= largest <= MOST and np.isfinite(own.total).all() else None


def are_floats(X: Given, features: int) -> TypeGuard[Array]:
    """Whether X is an array of floats with so many columns."""
    array = X if type(X) is np.ndarray else np.zeros(0, dtype=bool)
    return array.dtype.char in "fd" and array.size > 0 and array.shape[1:] == (features,)


def ready_targets(y: Given, X: Given) -> bool:
    """Whether the same is true of y, one number per row of X."""
    if type(y) is not np.ndarray or type(X) is not np.ndarray or y.dtype.kind not in "fiu":
        return False
    if y.shape != X.shape[:1] or not y.size:
        return False
    # As floats: limits of narrow ones, and the negatives of unsigned ones, would overflow.
    largest = max(float(y.max()), -float(y.min()))
    return largest == 0.0 or LEAST <= largest <= MOST


def plain(X: Given) -> Given:
    """`X` in a form that scikit-learn accepts: Arrow tables become frames, Dask is computed.

    Anything else comes back as it is.
    """
    table: Any = X
    if is_dask(X):
        return plain(table.compute())
    if type(X).__module__.split(".")[0] != "pyarrow":
        return X
    if hasattr(table, "column_names"):
        if importlib.util.find_spec("pandas") is not None:
            return table.to_pandas()
        return np.column_stack([column.to_numpy() for column in table.columns])
    return table.to_numpy(zero_copy_only=False) if hasattr(X, "to_numpy") else np.asarray(X)


def numbers(name: str, X: Given) -> Given:
    """`X` in a form that scikit-learn accepts, without what it would convert in silence.

    NumPy drops masks, counts dates in nanoseconds and reads the digits of text.
    """
    X = checks.unmasked(name, plain(X))
    X = checks.array_of(name, X) if isinstance(X, (list, tuple)) else X
    one = hasattr(type(X), "dtype")  # of an array or a series, not of a frame
    for dtype in [getattr(X, "dtype", None)] if one else getattr(X, "dtypes", ()):
        kind = getattr(dtype, "kind", "")
        text = str(dtype).lower().startswith(("str", "date", "time", "duration"))
        if text or kind in ("c", "m", "M", "S", "U"):
            why = " (Complex data not supported)" if kind == "c" else ""  # scikit-learn's words
            raise _no_numbers(name, f"values of dtype {dtype}{why}")
        if kind == "O":
            for value in np.asarray(X).flat:
                if isinstance(value, checks.NO_NUMBERS):
                    raise _no_numbers(name, f"{value!r:.60} of type {type(value).__name__}")
    return X


def _no_numbers(name: str, received: str) -> InvalidTypeError:
    remedy = "encode text, dates and categories first, or use miniamp.from_formula"
    return InvalidTypeError(name, received, "real numbers", remedy)


def is_dask(X: Given) -> bool:
    """Whether this is a Dask collection, without importing Dask."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "compute")


def blocks_of(X: Collection) -> Iterator[Given]:
    """The rows of a Dask array or frame, or of a sparse matrix as arrays, a block at a time."""
    if sp.issparse(X):
        starts = range(0, max(1, X.shape[0]), size := max(1, BLOCK // X.shape[1]))
        yield from (sp.csr_array(X)[start : start + size].toarray() for start in starts)
    elif _is_frame(X):
        yield from (X.partitions[k].compute() for k in range(X.npartitions))
    else:
        whole = X.rechunk({1: -1})
        yield from (whole.blocks[k].compute() for k in range(whole.numblocks[0]))


def first_rows(X: Collection) -> Given:
    """The first rows of a Dask array or frame, in memory; a frame keeps the names of columns."""
    if _is_frame(X):
        return X.head(FIRST_ROWS, npartitions=-1)
    return np.asarray(X[:FIRST_ROWS].compute(), dtype=np.float64)


def current_client(X: Collection) -> Client | None:
    """The current Dask client, where there is one and it can hold these rows."""
    if not (hasattr(X, "chunks") or _is_frame(X)):
        return None
    try:
        from distributed import get_client  # noqa: PLC0415 (optional)

        return get_client()
    except (ImportError, ValueError):
        return None


def as_dask_array(X: Collection) -> Collection:
    """The rows as a Dask array whose blocks hold whole rows, of known sizes."""
    if _is_frame(X):
        X = X.to_dask_array(lengths=True)
    if any(np.isnan(size) for size in X.chunks[0]):
        X = X.compute_chunk_sizes()
    return X.rechunk({1: -1})


def _is_frame(X: Collection) -> bool:
    return hasattr(X, "partitions") and hasattr(X, "npartitions") and not hasattr(X, "chunks")
