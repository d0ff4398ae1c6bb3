"""Entries of X far outside their feature's range: dirt or a heavy tail, as the targets tell."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from miniamp.arrays import Array
from miniamp.estimators.rows import Matrix
from miniamp.estimators.scoring import RowPrediction, Tally, class_probabilities, log_density
from miniamp.evidence import Frame

REACH = 2.0
FAR = 4.0
FEW = 0.05
MARGIN = 0.0
READING = "end"


class Suspects(NamedTuple):
    rows: NDArray[np.int64]
    features: NDArray[np.int64]
    used: Array
    deviations: Array


def suspects(X: Matrix, past: Tally, now: Tally, frame: Frame) -> Suspects | None:
    low, high = past.low, past.high
    if not isinstance(X, np.ndarray):
        return None
    if len(low):
        room = REACH * (high - low)
        with np.errstate(invalid="ignore"):
            odd = ((now.high > high + room) | (now.low < low - room)) & (room > 0.0)
    else:
        odd = np.maximum(now.high - frame.centre, frame.centre - now.low) > FAR * frame.scale
        odd &= frame.scale > 0
    if not odd.any():
        return None
    found = []
    for j in np.flatnonzero(odd):
        ends = (low[j], high[j]) if len(low) else None
        rows, used = _apart(X[:, j], ends, frame.centre[j])
        away = np.abs(X[rows, j] - frame.centre[j]) / max(frame.scale[j], 1e-300)
        found.append((rows, np.full(len(rows), j), used, away))
    made = Suspects(*map(np.concatenate, zip(*found, strict=True)))
    return made if len(made.rows) else None


def _apart(column, ends, centre):
    column = column.astype(np.float64)
    M = len(column)
    middle = np.median(column) if ends is None else 0.5 * (ends[0] + ends[1])
    lo, hi = (middle, middle) if ends is None else ends
    order = np.argsort(np.abs(column - middle), kind="stable")
    v = column[order]
    low = np.minimum.accumulate(np.concatenate([[lo], v]))[:-1]
    high = np.maximum.accumulate(np.concatenate([[hi], v]))[:-1]
    room = REACH * (high - low)
    beyond = ((v > high + room) | (v < low - room)) & (room > 0.0)
    beyond[: M - max(1, int(FEW * M))] = False
    if not beyond.any():
        return np.zeros(0, dtype=int), np.zeros(0)
    k = int(np.argmax(beyond))
    rows = order[k:]
    used = np.where(v[k:] > high[k], high[k], low[k])
    if READING == "centre":
        used = np.full(len(rows), np.median(column) if ends is None else centre)
    return rows, used


def log_densities(Y: Array, predicted: list[RowPrediction]) -> Array:
    """(M,)"""
    if predicted[0].channel.predicts_probabilities:
        truth = Y > 0.0 if Y.shape[1] > 1 else np.column_stack([Y < 0.0, Y > 0.0])
        return np.log(np.maximum(class_probabilities(predicted)[truth], 1e-15))
    return sum(log_density(y, one) for y, one in zip(Y.T, predicted, strict=True))
