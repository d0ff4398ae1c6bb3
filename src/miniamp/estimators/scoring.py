"""Scores of predictions, made for each batch before it is learned from; class probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, log_ndtr, ndtr, ndtri, stdtr, stdtrit

from miniamp.arrays import Array
from miniamp.channels.base import Channel
from miniamp.estimators.history import Entry

#: Level of the intervals whose coverage is recorded.
LEVEL = 0.9
#: Residuals of more standard deviations than this are outliers: six in a million if Gaussian.
OUTLYING = 4.5
#: A Student t of more degrees of freedom is a Gaussian, to six digits.
MOST_DF = 1e6
#: Quantiles of a Student t of more degrees of freedom are expanded in their inverse: 2e-8 off
#: within 3 standard deviations.
EXPANDED = 200.0
#: Probabilities are scored as at least this: a certain mistake costs much, not infinitely much.
LEAST_PROBABILITY = 1e-15
#: For counts in bins it is one from here on: the distribution functions differ by 1.6e-4 at most.
COUNTED_DF = 1e3
#: Bins of the calibration records: quantiles of predictive distributions, and probabilities.
QUANTILE_BINS, PROBABILITY_BINS = 20, 10
#: Nodes of the trapezoidal rule, and how far it reaches beyond the margins, in units of the noise:
#: the error is 1e-13 for margins that are close and 1e-8 for those that are 16 apart.
NODES, REACH = 41, 8.5
#: Rows per block: NODES numbers for each of their margins are held.
BLOCK_ROWS = 4096
#: Margins are kept within this, so that no chance is zero: that of the smallest is 1e-295 then.
FARTHEST = 26.0


class RowPrediction(NamedTuple):
    """Predictions of z = x . coef + intercept for new rows, for one target."""

    channel: Channel  #: how y comes from z
    omega: Array  #: (M,) means
    V: Array  #: (M,) variances
    df: Array  #: (M,) degrees of freedom of y's Student t, infinite where the noise is certain

    def quantile(self, level: float) -> Array:
        """Quantile of y in standard deviations from its mean, (M,).

        A variance that was learned is uncertain itself, so that y has the tails of a Student t.
        """
        z, found = float(ndtri(level)), np.empty_like(self.df)
        few = self.df < EXPANDED
        found[few] = stdtrit(self.df[few], level)
        # Fisher's expansion; exact quantiles take longer than an update.
        u = 1.0 / self.df[~few]
        first, second = (z**3 + z) / 4.0, (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0
        third = (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0
        found[~few] = z + u * (first + u * (second + u * third))
        return found


#: Scores of a batch, from its targets (M, K) and the predictions of each.
Scorer: TypeAlias = Callable[[Array, list[RowPrediction]], Entry]


def score_numbers(Y: Array, predicted: list[RowPrediction]) -> Entry:
    """Scores of a regression: log-density, squared error, and calibration.

    `surprise` is the mean squared residual over its predicted value: 1, give or take
    `surprise_std`, where the model is right. `calibration` counts the rows whose y fell in each
    twentieth of its predictive distribution: equally many where the model is right.
    """
    y, (channel, omega, V, df) = Y[:, 0], predicted[0]
    mean, var = channel.predict(omega, V)
    var = np.maximum(var, np.finfo(np.float64).tiny)
    square = np.square(y - mean)
    inside = square <= np.square(predicted[0].quantile(0.5 + LEVEL / 2.0)) * var
    density = channel.log_partition(y, omega, V)
    # Outliers are improbable under the model's own noise, which may have heavy tails.
    fall = channel.log_partition(mean, omega, V) - density
    ratio = square / var
    # Of Gaussian noise the squared residuals' own variance is known; heavier tails show theirs.
    spread = 2.0 if np.allclose(2.0 * fall, ratio, rtol=1e-3) else max(2.0, float(np.var(ratio)))
    chance = np.sqrt(spread / len(y))
    return {
        "task": "regression",
        "score": float(np.mean(density + _heavier(ratio, df))),
        "error": float(np.mean(square)),
        "error_std": float(np.std(square) / np.sqrt(len(y))),
        "expected_error": float(np.mean(var)),
        "surprise": float(np.mean(ratio)),
        "surprise_std": float(chance),
        "coverage": float(np.mean(inside)),
        "outliers": int(np.sum(fall > 0.5 * OUTLYING**2)),
        "calibration": _quantiles((y - mean) / np.sqrt(var), df),
    }


def score_labels(Y: Array, predicted: list[RowPrediction]) -> Entry:
    """Scores of a classification: log-probability, share of mistakes, and calibration.

    `surprise` is the Brier score over the value that the probabilities themselves predict for it.
    `calibration` has, for each tenth of the probabilities, how often a class had such a
    probability, their sum, and how often the class was the true one.
    """
    probability = class_probabilities(predicted)
    truth = Y > 0.0 if Y.shape[1] > 1 else np.column_stack([Y < 0.0, Y > 0.0])
    given = np.maximum(probability[truth], LEAST_PROBABILITY)
    wrong = np.argmax(probability, axis=1) != np.argmax(truth, axis=1)
    # (t - p)^2 summed over the classes, with one class true: its mean and variance under p.
    brier = np.square(truth - probability).sum(axis=1)
    outcome = 1.0 - 2.0 * probability + np.square(probability).sum(axis=1, keepdims=True)
    expected = np.sum(probability * outcome, axis=1)
    spread = np.sum(probability * np.square(outcome), axis=1) - np.square(expected)
    total = max(float(expected.sum()), np.finfo(np.float64).tiny)
    error = float(np.mean(wrong))
    return {
        "task": "classification",
        "score": float(np.mean(np.log(given))),
        "error": error,
        "error_std": float(np.std(wrong) / np.sqrt(len(wrong))),
        "expected_error": float(np.mean(1.0 - probability.max(axis=1))),
        "surprise": float(brier.sum()) / total,
        "surprise_std": float(np.sqrt(max(float(spread.sum()), 0.0))) / total,
        "coverage": None,
        "calibration": _reliability(probability, truth),
    }


def _heavier(ratio: Array, df: Array) -> Array:
    """Log-density of a Student t over that of a Gaussian, at squared residuals over variances."""
    nu = np.minimum(df, MOST_DF)
    norm = gammaln(0.5 * nu + 0.5) - gammaln(0.5 * nu) - 0.5 * np.log(0.5 * nu)
    extra = norm - 0.5 * (nu + 1.0) * np.log1p(ratio / nu) + 0.5 * ratio
    return np.asarray(np.where(df < MOST_DF, extra, 0.0))


def _quantiles(residual: Array, df: Array) -> list[int]:
    """How many standardised residuals lie in each of equally likely bins."""
    below, few = ndtr(residual), df < COUNTED_DF
    below[few] = stdtr(df[few], residual[few])
    place = np.minimum((QUANTILE_BINS * below).astype(np.int64), QUANTILE_BINS - 1)
    return [int(count) for count in np.bincount(place, minlength=QUANTILE_BINS)]


def _reliability(probability: Array, truth: NDArray[np.bool_]) -> list[list[float]]:
    """Counts, sums of the probabilities and hits, for each tenth of the probabilities."""
    given, came = probability.ravel(), truth.ravel().astype(np.float64)
    place = np.minimum((PROBABILITY_BINS * given).astype(np.int64), PROBABILITY_BINS - 1)
    weights = (np.ones_like(given), given, came)
    return [np.bincount(place, w, minlength=PROBABILITY_BINS).tolist() for w in weights]


def class_probabilities(predicted: list[RowPrediction]) -> Array:
    """Probability of each class, (M, classes), from the channels' own.

    Two classes have one model. More have one each, this class against the others: each gives the
    probability of its class as a margin in standard deviations, and the class is the one whose
    margin is the largest after unit noise is added to all.

    *Departure* from common practice: probabilities divided by their sum are too cautious where
    classes are far apart, since no single plane separates one class from all others (digits: log
    loss .154, against .098), and odds divided by their sum too bold where labels are noisy (four
    similar classes: 11 % off on average, against 5 %). tests/estimators has both.
    """
    if predicted[0].channel.joint:
        omega, V = (
            np.stack([getattr(one, n) for one in predicted], axis=1) for n in ("omega", "V")
        )
        return predicted[0].channel.joint_probabilities(omega, V)
    chances = [channel.predict_proba(omega, V) for channel, omega, V, _ in predicted]
    if len(chances) == 1:
        return np.asarray(chances[0])
    minus, plus = np.moveaxis(np.stack(chances), -1, 0)
    # From the smaller of the two, which has all its digits.
    margins = np.where(plus < 0.5, ndtri(plus), -ndtri(minus))
    return chances_of_largest(margins.T)


def chances_of_largest(margins: Array) -> Array:
    """P(margin_k + noise_k is the largest), (M, K), for margins (M, K) and standard normal noise.

    P_k = integral of phi(u - m_k) prod_{j != k} Phi(u - m_j) du, all classes on one grid in u.

    Examples
    --------
    >>> chances_of_largest(np.array([[0.0, 0.0, -30.0]])).round(12)
    array([[0.5, 0.5, 0. ]])
    """
    blocks = range(0, len(margins), BLOCK_ROWS)
    return np.concatenate([_chances(margins[i : i + BLOCK_ROWS]) for i in blocks] or [margins])


def _chances(margins: Array) -> Array:
    m = np.clip(margins, -FARTHEST, FARTHEST)
    top, low = m.max(axis=1), m.min(axis=1)
    # An unlikely class is the largest half way up to the most likely one.
    start, end = 0.5 * (top + low) - REACH, top + REACH
    u = start + np.linspace(0.0, 1.0, NODES)[:, None] * (end - start)
    above = u[..., None] - m  # (nodes, M, K)
    below = log_ndtr(above)
    height = below.sum(axis=2)[..., None] - below - 0.5 * np.square(above)
    largest = height.max(axis=0)
    chance = np.exp(largest) * np.exp(height - largest).sum(axis=0)
    return np.asarray(chance / chance.sum(axis=1, keepdims=True))
