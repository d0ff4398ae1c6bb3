"""What forecasts were worth: scored on each batch before it is learned from."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from miniamp.arrays import Array
from miniamp.estimators.knowledge import Judge, Seen
from miniamp.estimators.largest import chances_of_largest

#: Level of the intervals whose coverage is recorded.
LEVEL = 0.9
#: Residuals of more standard deviations than this are outliers: six in a million if Gaussian.
OUTLYING = 4.5
#: Probabilities are scored as at least this: a certain mistake costs much, not infinitely much.
LEAST_PROBABILITY = 1e-15
#: Bins of the calibration records: quantiles of forecasts at which numbers fell, and probabilities
#: that were given to classes.
QUANTILE_BINS, PROBABILITY_BINS = 20, 10


def judge_numbers(Y: Array, seen: list[Seen]) -> dict[str, Any]:
    """Scores of a regression: log-density, squared error, and whether the error bars were right.

    `surprise` is the mean squared residual in units of its own forecast: 1, give or take
    `surprise_std`, where the model is right. `calibration` counts the rows whose y fell in each
    twentieth of its forecast: equally many in each where it is right.
    """
    y, (channel, omega, V) = Y[:, 0], seen[0]
    mean, var = channel.predict(omega, V)
    var = np.maximum(var, np.finfo(np.float64).tiny)
    square = np.square(y - mean)
    inside = square <= ndtri(0.5 + LEVEL / 2.0) ** 2 * var
    return {
        "task": "regression",
        "score": float(np.mean(channel.log_partition(y, omega, V))),
        "error": float(np.mean(square)),
        "error_std": float(np.std(square) / np.sqrt(len(y))),
        "expected_error": float(np.mean(var)),
        "surprise": float(np.mean(square / var)),
        "surprise_std": float(np.sqrt(2.0 / len(y))),
        "coverage": float(np.mean(inside)),
        "outliers": int(np.sum(square > OUTLYING**2 * var)),
        "calibration": _quantiles((y - mean) / np.sqrt(var)),
    }


def judge_labels(Y: Array, seen: list[Seen]) -> dict[str, Any]:
    """Scores of a classification: log-probability, share of mistakes, and calibration.

    `surprise` is the Brier score in units of what the probabilities themselves expect of it.
    `calibration` has, for each tenth of the probabilities, how often such a one was given to a
    class, their sum, and how often that class came.
    """
    probability = class_probabilities(seen)
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


def judge_weighted(judge: Judge, Y: Array, seen: list[Seen]) -> dict[str, Any]:
    """The same scores for rows that count a fraction each.

    Theory, and mean g^2 / mean(-dg), speak of rows that count once: nothing is said of them.
    """
    return {**judge(Y, seen), "weighted": True, "theory_error": None}


def _quantiles(residual: Array) -> list[int]:
    """How many standardised residuals lie in each of equally likely bins."""
    place = np.minimum((QUANTILE_BINS * ndtr(residual)).astype(np.int64), QUANTILE_BINS - 1)
    return [int(count) for count in np.bincount(place, minlength=QUANTILE_BINS)]


def _reliability(probability: Array, truth: Any) -> list[list[float]]:
    """Counts, sums of the probabilities and hits, for each tenth of the probabilities."""
    given, came = probability.ravel(), truth.ravel().astype(np.float64)
    place = np.minimum((PROBABILITY_BINS * given).astype(np.int64), PROBABILITY_BINS - 1)
    weights = (np.ones_like(given), given, came)
    return [np.bincount(place, w, minlength=PROBABILITY_BINS).tolist() for w in weights]


def class_probabilities(seen: list[Seen]) -> Array:
    """Probability of each class, (M, classes), from the channels' own.

    Two classes have one belief. More have one each, this class against the others: each says with
    which chance the class is true, as a margin in standard deviations, and the class whose margin
    is the largest once noise of that size is added to all is the one that comes.

    *Departure* from what is common: the chances divided by their sum are too cautious where classes
    are far apart, since no single plane tells one class from all others (digits: log-loss .154,
    against .098 so), and their odds divided by their sum too bold where labels are noisy (four
    classes that are nearly alike: 11 % off on average, against 5 %). tests/estimators has both.
    """
    chances = [channel.predict_proba(omega, V) for channel, omega, V in seen]
    if len(chances) == 1:
        return np.asarray(chances[0])
    minus, plus = np.moveaxis(np.stack(chances), -1, 0)
    # From the smaller of the two, which has all its digits.
    margins = np.where(plus < 0.5, ndtri(plus), -ndtri(minus))
    return chances_of_largest(margins.T)
