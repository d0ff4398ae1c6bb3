"""Sums over all rows of a stream: what reports show beyond the history of its batches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import logit

from miniamp.arrays import Array
from miniamp.estimators.rows import Matrix
from miniamp.estimators.scoring import RowPrediction, class_probabilities

#: Bins of predicted values, between so many units either side of the first rows' mean.
VALUE_BINS, WIDEST_VALUE = 32, 4.0
#: Bins of log-odds, between so many either side of zero: probabilities of 3e-4 and less are one.
ODDS_BINS, WIDEST_ODDS = 80, 8.0


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts and sums of a stream; frozen, and of a size that does not depend on its rows.

    Attributes
    ----------
    low, high : (N,) arrays
        Smallest and largest value of each feature; empty before the first rows.
    targets : (3,) array
        Number, sum and sum of squares of the targets that were predicted, in standardised units.
    residuals : (VALUE_BINS, 3) array
        Number, sum and sum of squares of the residuals of these, by predicted value.
    confusion : (K, K) array
        Rows by true and by predicted class; empty for a regression.
    odds : (K, 2, ODDS_BINS) array
        Rows by the predicted log-odds of a class: those of other classes, and its own.
    """

    low: Array = field(default_factory=lambda: np.zeros(0))
    high: Array = field(default_factory=lambda: np.zeros(0))
    targets: Array = field(default_factory=lambda: np.zeros(3))
    residuals: Array = field(default_factory=lambda: np.zeros((VALUE_BINS, 3)))
    confusion: Array = field(default_factory=lambda: np.zeros((0, 0)))
    odds: Array = field(default_factory=lambda: np.zeros((0, 2, ODDS_BINS)))

    def seeing(self, X: Matrix) -> Tally:
        """The tally that also knows the range of these rows."""
        if X.shape[1] == 0:
            return self
        low, high = _range(X)
        if len(self.low):
            low, high = np.minimum(low, self.low), np.maximum(high, self.high)
        return replace(self, low=low, high=high)

    def scored(
        self, Y: Array, predicted: list[RowPrediction], centre: float, scale: float
    ) -> Tally:
        """The tally with predictions of targets (M, K), whose zero and unit are given."""
        if predicted[0].channel.predicts_probabilities:
            truth = Y.argmax(axis=1) if Y.shape[1] > 1 else (Y[:, 0] > 0.0).astype(np.int64)
            return self.with_labels(truth, class_probabilities(predicted))
        mean = predicted[0].channel.predict(predicted[0].omega, predicted[0].V)[0]
        return self.with_numbers((Y[:, 0] - centre) / scale, (mean - centre) / scale)

    def with_numbers(self, y: Array, predicted: Array) -> Tally:
        """The tally with predictions of numbers, both in standardised units."""
        place = _places(predicted, VALUE_BINS, WIDEST_VALUE)
        residual = y - predicted
        sums = [
            np.bincount(place, weights, VALUE_BINS)
            for weights in (np.ones_like(y), residual, np.square(residual))
        ]
        return replace(
            self,
            targets=self.targets + np.array([len(y), y.sum(), np.square(y).sum()]),
            residuals=self.residuals + np.stack(sums, axis=1),
        )

    def with_labels(self, truth: NDArray[np.int64], probability: Array) -> Tally:
        """The tally with predictions of classes: true ones (M,) and probabilities (M, K)."""
        K = probability.shape[1]
        confusion, odds = np.zeros((K, K)), np.zeros((K, 2, ODDS_BINS))
        np.add.at(confusion, (truth, probability.argmax(axis=1)), 1.0)
        with np.errstate(divide="ignore"):
            place = _places(logit(probability), ODDS_BINS, WIDEST_ODDS)
        for k in range(K):
            np.add.at(odds[k], ((truth == k).astype(np.int64), place[:, k]), 1.0)
        old = len(self.confusion)  # classes may be added at the end
        if old:
            confusion[:old, :old] += self.confusion
            odds[:old] += self.odds
        return replace(self, confusion=confusion, odds=odds)

    @property
    def r2(self) -> float | None:
        """Share of the variance of the targets that the predictions explain; None without any."""
        count, total, square = self.targets
        variance = square - total**2 / count if count > 1 else 0.0
        return 1.0 - float(self.residuals[:, 2].sum() / variance) if variance > 0.0 else None

    def roc(self, k: int) -> tuple[Array, Array]:
        """Shares of false and of true positives of class k, from the strictest limit on."""
        counts = self.odds[k, :, ::-1].cumsum(axis=1)
        shares = counts / np.maximum(counts[:, -1:], 1.0)
        false, true = np.hstack([np.zeros((2, 1)), shares])
        return false, true

    @property
    def auc(self) -> float | None:
        """Area under the ROC curve; with several classes its mean over them."""
        known = [k for k in range(len(self.odds)) if self.odds[k].sum(axis=1).all()]
        known = known[1:] if len(self.odds) == 2 else known
        curves = [self.roc(k) for k in known]
        areas = [np.diff(false) @ (true[1:] + true[:-1]) / 2.0 for false, true in curves]
        return float(np.mean(areas)) if areas else None


def _places(values: Array, bins: int, widest: float) -> NDArray[np.int64]:
    scaled = (values / widest + 1.0) * 0.5 * bins
    return np.clip(np.nan_to_num(scaled, posinf=bins, neginf=0.0), 0, bins - 1).astype(np.int64)


def _range(X: Matrix) -> tuple[Array, Array]:
    """Smallest and largest value of each column; of sparse ones most have no entry but zeros."""
    if isinstance(X, np.ndarray):
        return X.min(axis=0).astype(float), X.max(axis=0).astype(float)
    X = sp.csr_array(X)
    full = np.bincount(X.indices, minlength=X.shape[1]) == X.shape[0]
    low, high = np.where(full, np.inf, 0.0), np.where(full, -np.inf, 0.0)
    np.minimum.at(low, X.indices, X.data)
    np.maximum.at(high, X.indices, X.data)
    return low, high
