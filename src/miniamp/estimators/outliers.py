"""Entries far outside their feature's range: dirt, or a heavy tail, as their targets tell.

An entry that lies far from all others of its feature is only a suspicion: populations and prices
have such entries, and they predict y. So the model learns from the other rows, and compares how
probable y is under the entry as it came and under the mean of the feature: the likelier of the two
is learned from. An entry that is replaced sets neither range nor unit of its feature. Sparse rows
and those on a cluster are left as they come, and so are rows to predict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from miniamp.arrays import Array
from miniamp.designs.base import row_blocks
from miniamp.errors import ConflictError
from miniamp.estimators.rows import Matrix, Rows
from miniamp.estimators.scoring import RowPrediction, Tally, class_probabilities, heavier
from miniamp.evidence.linear import TINY
from miniamp.info import OddEntry

#: An entry is suspect that is so many widths of its feature's range away from that range.
WIDTHS = 2.0
#: In first rows only features are looked at that have an entry so many standard deviations off: all
#: with up to 4 % of suspect entries, and few others.
FAR = 4.0
#: More than this share of a batch (but one row) is no dirt: the feature has moved.
FEW = 0.05
#: Nats by which y must be likelier with the mean than with the entry as it came, or the other way
#: round, to speak against the entry, or for it. On 49 real regressions with dirt errors were 1.014
#: times those on clean rows with 2 nats (1.019 with 0, 1.022 with 5), on 29 classifications 0.96
#: (1.00, 0.97); and with 0 twice as many clean streams have an entry replaced.
DECISIVE = 2.0


#: Predictions of rows.
Judge: TypeAlias = Callable[[Array], list[RowPrediction]]


class Suspects(NamedTuple):
    """Entries that lie far from all others of their feature."""

    rows: NDArray[np.int64]
    features: NDArray[np.int64]
    means: Array  #: of all other entries of these features
    low: Array  #: smallest and largest of those
    high: Array


def suspects(X: Matrix, past: Tally, now: Tally) -> Suspects | None:
    """The suspect entries of rows, after those of one tally, with which it becomes another.

    None in most batches, for the price of a comparison per feature.
    """
    if not isinstance(X, np.ndarray):
        return None
    if len(past.low):
        room = WIDTHS * (past.high - past.low)
        odd = ((now.high > past.high + room) | (now.low < past.low - room)) & (room > 0.0)
    else:
        odd = _far(X, now)
    each = [_apart(X[:, j], past, int(j)) for j in np.flatnonzero(odd)]
    found = [one for one in each if one is not None]
    return Suspects(*map(np.concatenate, zip(*found, strict=True))) if found else None


def _far(X: Array, seen: Tally) -> NDArray[np.bool_]:
    """Which features have an entry far off, in standard deviations of all."""
    mean, square = seen.total / len(X), np.zeros(X.shape[1])
    for block in row_blocks(*X.shape):
        away = X[block] - mean
        square += np.einsum("ij,ij->j", away, away)
    return np.maximum(seen.high - mean, mean - seen.low) > FAR * np.sqrt(square / len(X))


def _apart(column: Array, past: Tally, j: int) -> Suspects | None:
    """The suspect entries of feature j: those beyond a gap, seen from the middle outwards."""
    column = column.astype(np.float64)
    low = high = middle = float(np.median(column))
    total, count = 0.0, 0
    if len(past.low):
        low, high, total, count = past.low[j], past.high[j], past.total[j], past.rows
        middle = 0.5 * (low + high)
    outwards = np.argsort(np.abs(column - middle), kind="stable")
    entries = column[outwards]
    lows = np.minimum.accumulate(np.append(low, entries))[:-1]  # of all nearer ones
    highs = np.maximum.accumulate(np.append(high, entries))[:-1]
    room = WIDTHS * (highs - lows)
    beyond = ((entries > highs + room) | (entries < lows - room)) & (room > 0.0)
    beyond[: len(column) - max(1, int(FEW * len(column)))] = False
    if not beyond.any():
        return None
    k = int(np.argmax(beyond))
    mean = (total + entries[:k].sum()) / (count + k)
    each = (np.full(len(column) - k, value) for value in (j, mean, lows[k], highs[k]))
    return Suspects(outwards[k:], *each)


def repaired(
    rows: Rows,
    found: Suspects,
    past: Tally,
    learn: Callable[[Rows], Judge],
    known: Judge | None,
    policy: str,
) -> tuple[Rows, Tally]:
    """The rows in which less likely entries are replaced, and the tally after them.

    As the model judges that `learn` makes of all other rows; where most rows have suspect entries,
    the one that is `known` before them, and without one they stay as they came. Only entries that
    their targets speak for widen the range of their feature.
    """
    odd = np.unique(found.rows)
    rest = np.setdiff1d(np.arange(len(rows)), odd)
    if len(rest) >= len(odd):
        known = learn(replace(rows.at(rest), calls=rows.calls))
    if known is None:
        return rows, past.seeing(rows.X)
    X, Y = np.array(rows.X), rows.Y[odd]
    X[found.rows, found.features] = found.means
    gain = _log_densities(Y, known(X[odd])) - _log_densities(Y, known(rows.X[odd]))
    X[odd[gain < -DECISIVE]] = rows.X[odd[gain < -DECISIVE]]
    ranges = past.seeing(X)
    kept = odd[gain <= DECISIVE]
    X[kept] = rows.X[kept]
    away = [
        OddEntry(int(i), int(j), float(rows.X[i, j]), *map(float, facts))
        for i, j, *facts in zip(*found, strict=True)
        if i not in kept
    ]
    if away and policy == "raise" and rows.calls == 1:  # else it is about rows of another call
        raise ConflictError("X", str(away[0]), "entries like all others")
    replaced = np.zeros(X.shape[1])
    replaced[: len(past.replaced)] = past.replaced
    np.add.at(replaced, [one.feature for one in away], 1.0)
    tally = replace(past.seeing(X), low=ranges.low, high=ranges.high)
    tally = replace(tally, replaced=replaced if away else past.replaced)
    return replace(rows, X=X, repaired=tuple(away)), tally


def readable(X: Matrix, tally: Tally) -> Matrix:
    """Rows to predict, as they would be learned from in features that have had dirt."""
    where = np.flatnonzero(tally.replaced)
    if not len(where) or not isinstance(X, np.ndarray):
        return X
    part, low, high = X[:, where], tally.low[where], tally.high[where]
    room = WIDTHS * (high - low)
    far = (part > high + room) | (part < low - room)
    if not far.any():
        return X
    X = np.array(X)
    X[:, where] = np.where(far, tally.total[where] / tally.rows, part)
    return X


def _log_densities(Y: Array, predicted: list[RowPrediction]) -> Array:
    """Log-probability of the targets of each row."""
    if predicted[0].channel.predicts_probabilities:
        truth = Y > 0.0 if Y.shape[1] > 1 else np.column_stack([Y < 0.0, Y > 0.0])
        return np.asarray(np.log(np.maximum(class_probabilities(predicted)[truth], TINY)))
    total = np.zeros(len(Y))
    for y, (channel, omega, V, df) in zip(Y.T, predicted, strict=True):
        mean, var = channel.predict(omega, V)
        ratio = np.square(y - mean) / np.maximum(var, TINY)
        total += channel.log_partition(y, omega, V) + heavier(ratio, df)
    return total
