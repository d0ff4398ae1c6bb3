"""Outliers in X: entries far outside their feature's range that their targets contradict.

An entry that lies far from all others of its feature is only a suspicion: populations and prices
have such entries, and they predict y. So the model compares how probable y is under the entry as it
came and under the mean of the feature, after it has learned from the other rows where these are
more than all before. Entries that their targets contradict are replaced by that mean, set neither
range nor unit of their feature, and from then on rows to predict are read alike in it. Sparse rows,
and rows on a cluster, are used as they come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from miniamp.arrays import Array
from miniamp.estimators.rows import Matrix, Rows
from miniamp.estimators.scoring import (
    FAR_WIDTHS,
    LEAST_PROBABILITY,
    TINY,
    RowPrediction,
    Tally,
    class_probabilities,
    heavier,
)
from miniamp.evidence.outlying import larger
from miniamp.info import OddEntry

#: In first rows only features are looked at that have an entry so many standard deviations off: all
#: with up to 3 % of suspect entries, and of Gaussian ones few.
FAR = 4.5
#: Relative error of a mean square, generously: features with such offsets are all looked at.
ROUNDING = 1e-12
#: More than this share of a batch (but one row) is no dirt: the feature has moved.
FEW = 0.05
#: Nats by which y must be likelier with the mean than with the entry as given, or the other way
#: round, to contradict the entry, or support it. On 49 real regressions with dirt errors were 1.014
#: times those on clean rows with 2 nats (1.019 with 0, 1.022 with 5), on 29 classifications 0.96
#: (1.00, 0.97); and with 0 twice as many clean streams have an entry replaced.
DECISIVE = 2.0

#: Predictions of rows (M, N), one per target.
Predictor: TypeAlias = Callable[[Array], list[RowPrediction]]


def suspects(X: Matrix, past: Tally, now: Tally) -> list[OddEntry]:
    """The suspect entries of rows, after those of one tally, with which it becomes another."""
    if not isinstance(X, np.ndarray):
        return []
    odd = now.widens(past) if len(past.low) else _far(X, now)
    return [entry for j in np.flatnonzero(odd) for entry in _apart(X[:, j], past, int(j))]


def _far(X: Array, seen: Tally) -> NDArray[np.bool_]:
    """Which features have an entry far off, in standard deviations of all; more if in doubt."""
    mean = seen.total / len(X)
    square = np.einsum("ij,ij->j", X, X, dtype=np.float64) / len(X)
    square -= (1.0 + ROUNDING) * np.square(mean)
    far = np.maximum(seen.high - mean, mean - seen.low) > FAR * np.sqrt(np.maximum(square, 0.0))
    return np.asarray(far)


def _apart(column: Array, past: Tally, j: int) -> list[OddEntry]:
    """The suspect entries of feature j: those beyond a gap, seen from the middle outwards."""
    column = column.astype(np.float64)
    low = high = middle = float(np.median(column))
    total, count = 0.0, 0
    if len(past.low):
        low, high, total, count = past.low[j], past.high[j], past.total[j], past.rows
        middle = 0.5 * (low + high)
    away, few = np.abs(column - middle), max(1, int(FEW * len(column)))
    apart = np.argpartition(away, len(column) - few)
    inner, outwards = column[apart[:-few]], apart[-few:][np.argsort(away[apart[-few:]])]
    entries = column[outwards]
    low, high = np.min(inner, initial=low), np.max(inner, initial=high)
    if len(inner) and np.ptp(inner) == 0.0 and inner[0] in (low, high):
        return []  # rare events, such as ink at the edge of a picture, have no usual range
    lows = np.minimum.accumulate(np.append(low, entries))  # of all nearer ones
    highs = np.maximum.accumulate(np.append(high, entries))
    room = FAR_WIDTHS * (highs - lows)[:-1]
    beyond = ((entries > highs[:-1] + room) | (entries < lows[:-1] - room)) & (room > 0.0)
    if not beyond.any():
        return []
    k = int(np.argmax(beyond))
    total, count = total + inner.sum() + entries[:k].sum(), count + len(inner) + k
    facts = float(total) / count, float(lows[k]), float(highs[k])
    return [OddEntry(int(i), j, float(column[i]), *facts) for i in outwards[k:]]


def repaired(
    rows: Rows, past: Tally, now: Tally, learned: Callable[[Rows], Predictor]
) -> tuple[Rows, Tally]:
    """The rows in which less likely entries are replaced, and the tally after them.

    As the model decides that has `learned` from the rows given to it: all others, and none where
    more came before. In later batches of MNIST it decides the same, in half of the time of a batch.
    Only entries that their targets support widen the range of their feature.
    """
    found = suspects(rows.X, past, now)
    if not found:
        return rows, now
    where, places = [entry.row for entry in found], [entry.feature for entry in found]
    rest = np.setdiff1d(np.arange(len(rows)), where)
    if not past.rows and 2 * len(rest) < len(rows):
        return rows, now  # nothing can decide
    rest = rest if len(rest) > past.rows else rest[:0]
    predict, X = learned(replace(rows.at(rest), calls=rows.calls)), np.array(rows.X)
    X[where, places] = [entry.used for entry in found]
    each, at = np.unique(where, return_inverse=True)
    both = predict(np.concatenate([rows.X[each], X[each]]))
    scores = _log_probability(np.tile(rows.Y[each], (2, 1)), both, rows.Y)
    came, moved = scores[at], scores[len(each) + at]
    against, supported = moved - came > DECISIVE, came - moved > DECISIVE
    keep = np.array(where)[supported]
    X[keep] = rows.X[keep]
    ranges = past.seeing(X)
    keep = np.array(where)[~against]
    X[keep] = rows.X[keep]
    away = tuple(entry for entry, bad in zip(found, against, strict=True) if bad)
    tally = replace(past.seeing(X), low=ranges.low, high=ranges.high)
    if away:
        replaced = past.replaced.copy() if len(past.replaced) else np.zeros(X.shape[1])
        np.add.at(replaced, [entry.feature for entry in away], 1.0)
        tally = replace(tally, replaced=replaced)
    return replace(rows, X=X, ranges=None, repaired=away), tally


def _log_probability(Y: Array, predicted: list[RowPrediction], among: Array) -> Array:
    """That of the targets of each row, (M,), `among` others; a density where they are numbers.

    A number that is large, as it was predicted to be, may be further off than others.
    """
    if predicted[0].channel.predicts_probabilities:
        # Labels count as right: else none would contradict an entry.
        right = [one._replace(channel=one.channel.faded(0.0)) for one in predicted]
        probability, truth = class_probabilities(right), Y
        if Y.shape[1] == 1:
            truth = np.column_stack([-Y, Y])
        return np.log(np.maximum(probability[truth > 0.0], LEAST_PROBABILITY))
    total = np.zeros(len(Y))
    for y, others, (channel, omega, V, df) in zip(Y.T, among.T, predicted, strict=True):
        mean, var = channel.predict(omega, V)
        if channel.shift_invariant:
            beside = (omega > np.median(others)) == (y > np.median(others))
            room = np.square(np.minimum(larger(omega, others, others), larger(y, others, others)))
            room = np.where(beside, room, 1.0)
            V, var = V + (room - 1.0) * var, room * var
        total += channel.log_partition(y, omega, V)
        total += heavier(np.square(y - mean) / np.maximum(var, TINY), df)
    return total


def readable(X: Matrix, tally: Tally) -> Matrix:
    """Rows to predict, as they would be learned from in features that have had dirt."""
    where = np.flatnonzero(tally.replaced)
    if not len(where) or not isinstance(X, np.ndarray):
        return X
    part, low, high = X[:, where], tally.low[where], tally.high[where]
    room = FAR_WIDTHS * (high - low)
    far = (part > high + room) | (part < low - room)
    if not far.any():
        return X
    X = np.array(X)
    X[:, where] = np.where(far, tally.total[where] / tally.rows, part)
    return X
