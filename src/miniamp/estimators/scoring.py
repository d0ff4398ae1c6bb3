"""Scores of predictions made before each batch is learned from, and sums over all rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaln, logit, ndtr, ndtri, stdtr, stdtrit

from miniamp.arrays import Array
from miniamp.channels.base import Channel
from miniamp.designs import Design
from miniamp.designs.dense import trusted
from miniamp.estimators.history import Entry
from miniamp.estimators.rows import Matrix, require_shape
from miniamp.evidence.base import expected_score
from miniamp.evidence.frame import Ranges
from miniamp.learning import Model
from miniamp.numerics.normal import chances_of_largest
from miniamp.posterior import Posterior

#: Number of rows of a larger batch that are scored, where there are more than so many coefficients
#: and the variance of a prediction takes N^2 operations: as much time as learning. Health uses 200
#: rows or more.
SCORED, NARROW = 256, 64
#: Their distance in rows, modulo the number of rows: a prime, so that none comes twice and no
#: period of the rows is met. A random choice takes ten times as long.
SAMPLE_STEP = 2_654_435_761
#: The smallest variance that is divided by.
TINY = float(np.finfo(np.float64).tiny)
#: Level of the intervals whose coverage is recorded.
LEVEL = 0.9
#: Residuals of more standard deviations than this are outliers: six in a million if Gaussian.
OUTLYING = 4.5
#: Smallest number of degrees of freedom of a prediction: below, a Student t has no mean.
LEAST_DF = 1.0
#: A Student t of more degrees of freedom is a Gaussian, to six digits.
MOST_DF = 1e6
#: Quantiles of a Student t of more degrees of freedom are expanded in their inverse, with errors of
#: 2e-8 within 3 standard deviations.
EXPANDED = 200.0
#: Smallest probability in a score, so that a certain mistake has a finite cost.
LEAST_PROBABILITY = 1e-15
#: Residuals are binned as Gaussian with more degrees of freedom than this: the distribution
#: functions differ by 1.6e-4 at most.
BINNED_DF = 1e3
#: Bins of the calibration records: quantiles of predictive distributions, and probabilities.
QUANTILE_BINS, PROBABILITY_BINS = 20, 10
#: Bins of predicted values, up to so many standardised units on either side of the mean.
VALUE_BINS, WIDEST_VALUE = 32, 4.0
#: Bins of log-odds, up to so many on either side of zero: all probabilities below 3e-4 share one.
ODDS_BINS, WIDEST_ODDS = 80, 8.0
#: Distance of an entry from the range of its feature, in widths of it, from which it is suspect.
FAR_WIDTHS = 2.0
#: Scores of several targets that are averaged. Targets may depend on each other, so that standard
#: deviations do not shrink with their number.
AVERAGED = ("error", "error_std", "expected_error", "surprise", "surprise_std", "coverage")


class RowPrediction(NamedTuple):
    """Predictions of z = x . coef + intercept for new rows, for one target."""

    channel: Channel  #: distribution of y given z
    omega: Array  #: (M,) means
    V: Array  #: (M,) variances
    df: Array  #: (M,) degrees of freedom of the Student t of y, infinite for a given noise

    @classmethod
    def of(cls, model: Model, omega: Array, V: Array, unit: tuple[float, float]) -> RowPrediction:
        """The prediction by a model of z ~ N(omega, V), for a target of this centre and scale.

        The logarithm of a learned noise Delta has the standard deviation 1/sqrt(noise_known). So
        the variance V + Delta is uncertain by Delta/sqrt(noise_known), and y is a Student t of
        2 (1 + V/Delta)^2 noise_known degrees of freedom; infinitely many if the noise was given.
        """
        (centre, scale), noise_df = unit, 2.0 * model.noise_known
        if noise_df > 0.0:
            df = np.maximum(noise_df * np.square(1.0 + V * model.channel.fisher()), LEAST_DF)
        else:
            df = np.full(len(V), np.inf)
        return cls(model.channel.in_units(scale), centre + scale * omega, scale**2 * V, df)

    def quantile(self, level: float) -> Array:
        """Quantile of y in standard deviations from its mean, that of a Student t, (M,)."""
        # Fisher's expansion; exact quantiles take longer than an update.
        z, u = float(ndtri(level)), 1.0 / self.df
        first, second = (z**3 + z) / 4.0, (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0
        third = (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0
        found = np.asarray(z + u * (first + u * (second + u * third)))
        if self.df.min() < EXPANDED:
            few = self.df < EXPANDED
            found[few] = stdtrit(self.df[few], level)
        return found


def scored_rows(belief: Posterior, design: Design, Y: Array, seed: int) -> tuple[Design, Array]:
    """The rows whose predictions by a belief are scored, and their targets: all, or a sample."""
    if belief.information is None or belief.size <= NARROW or len(Y) <= SCORED:
        return design, Y
    sample = (seed + SAMPLE_STEP * np.arange(SCORED)) % len(Y)
    return trusted(design.toarray()[sample]), Y[sample]


#: Function that scores a batch, given its targets (M, K) and the predictions of each.
Scorer: TypeAlias = Callable[[Array, list[RowPrediction]], Entry]


def score_numbers(Y: Array, predicted: list[RowPrediction]) -> Entry:
    """Scores of a regression: log-density, squared error, and calibration.

    `surprise` is the mean squared residual over its expectation: 1 +- `surprise_std` if the model
    is right. (For heavy tails, log-densities below their maximum take the place of squares.)
    `calibration` counts the rows whose y fell in each twentieth of its predictive distribution:
    equally many if the model is right. Log-densities and counts are sums over the targets.
    """
    scores = [_score_target(y, one) for y, one in zip(Y.T, predicted, strict=True)]
    if len(scores) == 1:
        return scores[0]
    table = {name: [cast("dict[str, float]", one)[name] for one in scores] for name in scores[0]}
    means = {name: float(np.mean(table[name])) for name in AVERAGED}
    return cast(
        Entry,
        {
            "task": "regression",
            **means,
            "score": float(np.sum(table["score"])),
            "outliers": int(np.sum(table["outliers"])),
            "calibration": np.sum(table["calibration"], axis=0).tolist(),
        },
    )


def _score_target(y: Array, predicted: RowPrediction) -> Entry:
    channel, omega, V, df = predicted
    mean, var = channel.predict(omega, V)
    var, residual = np.maximum(var, TINY), y - mean
    square = np.square(residual)
    ratio = square / var
    density = channel.log_partition(y, omega, V)
    # Outliers are improbable under the noise of the model, which may have heavy tails. The variance
    # of squared residuals is known for Gaussian noise, and that of the rows for other noise.
    gaussian, surprises = channel.gaussian_noise() is not None, ratio
    fall = 0.5 * ratio if gaussian else channel.log_partition(mean, omega, V) - density
    variance = 2.0 if gaussian else max(2.0, float(ratio.var()))
    if channel.shift_invariant and not gaussian:
        # Squared residuals of heavy tails have no variance, and their mean depends on rare rows.
        middle = np.argsort(V)[[len(V) // 2]]
        one, z, v = channel.at(middle), omega[middle], V[middle]
        average, score_variance = expected_score(one, z, v)
        expected_fall = one.log_partition(z, z, v) - average
        surprises = fall / expected_fall
        variance = float(score_variance[0] / expected_fall[0] ** 2)
    inside = ratio <= np.square(predicted.quantile(0.5 + LEVEL / 2.0))
    terms, count = (density, student_excess(ratio, df), square, var, surprises, square**2), len(y)
    # One by one: half the time of a table.
    log_density, excess, error, expected, surprise, fourth = (
        float(np.add.reduce(term)) / count for term in terms
    )
    return {
        "task": "regression",
        "score": log_density + excess,
        "error": error,
        "error_std": math.sqrt(max(fourth - error**2, 0.0) / count),
        "expected_error": expected,
        "surprise": surprise,
        "surprise_std": math.sqrt(variance / count),
        "coverage": int(np.count_nonzero(inside)) / count,
        "outliers": int(np.count_nonzero(fall > 0.5 * OUTLYING**2)),
        "calibration": _quantiles(residual / np.sqrt(var), df),
    }


def score_labels(Y: Array, predicted: list[RowPrediction]) -> Entry:
    """Scores of a classification: log-probability, error rate, and calibration.

    `surprise` is the Brier score over its expectation under the predicted probabilities.
    `calibration` has for each tenth of the probabilities how often a class had such a probability,
    their sum, and how often the class was the true one.
    """
    probability = class_probabilities(predicted)
    truth = Y > 0.0 if Y.shape[1] > 1 else np.column_stack([Y < 0.0, Y > 0.0])
    of_truth = np.maximum(probability[truth], LEAST_PROBABILITY)
    wrong = np.argmax(probability, axis=1) != np.argmax(truth, axis=1)
    # (t - p)^2 summed over the classes, with one class true: its mean and variance under p.
    brier = np.square(truth - probability).sum(axis=1)
    outcome = 1.0 - 2.0 * probability + np.square(probability).sum(axis=1, keepdims=True)
    expected = np.sum(probability * outcome, axis=1)
    variance = np.sum(probability * np.square(outcome), axis=1) - np.square(expected)
    total = max(float(expected.sum()), TINY)
    return {
        "task": "classification",
        "score": float(np.mean(np.log(of_truth))),
        "error": float(np.mean(wrong)),
        "error_std": float(np.std(wrong) / np.sqrt(len(wrong))),
        "expected_error": float(np.mean(1.0 - probability.max(axis=1))),
        "surprise": float(brier.sum()) / total,
        "surprise_std": float(np.sqrt(max(float(variance.sum()), 0.0))) / total,
        "coverage": None,
        "classes": truth.sum(axis=0).tolist(),
        "calibration": _reliability(probability, truth),
    }


def score_reweighted(Y: Array, predicted: list[RowPrediction]) -> Entry:
    """Scores of reweighted classes, whose probabilities do not predict their own Brier score."""
    entry = score_labels(Y, predicted)
    del entry["surprise"], entry["surprise_std"]
    return entry


def student_excess(ratio: Array, df: Array) -> Array:
    """Log-density of a Student t less that of a Gaussian, at squared residuals over variances."""
    least = df.min()
    if least >= MOST_DF:
        return np.zeros_like(ratio)
    u = 1.0 / np.minimum(df, MOST_DF)
    if least < EXPANDED:
        half = 0.5 / u
        norm = gammaln(half + 0.5) - gammaln(half) - 0.5 * np.log(half)
    else:  # Stirling's series, to all digits
        norm = u * (u * u * (1.0 / 24.0 - 0.05 * u * u) - 0.25)
    extra = norm - 0.5 * (1.0 / u + 1.0) * np.log1p(ratio * u) + 0.5 * ratio
    return extra if df.max() < MOST_DF else np.where(df < MOST_DF, extra, 0.0)


def _quantiles(residual: Array, df: Array) -> list[int]:
    """Number of standardised residuals in each of equally probable bins."""
    below = ndtr(residual)
    if df.min() < BINNED_DF:
        few = df < BINNED_DF
        below[few] = stdtr(df[few], residual[few])
    bins = np.minimum((QUANTILE_BINS * below).astype(np.int64), QUANTILE_BINS - 1)
    counts: list[int] = np.bincount(bins, minlength=QUANTILE_BINS).tolist()
    return counts


def _reliability(probability: Array, truth: NDArray[np.bool_]) -> list[list[float]]:
    """Count, sum of the probabilities and number of true classes, by tenth of probability."""
    p, true = probability.ravel(), truth.ravel().astype(np.float64)
    bins = np.minimum((PROBABILITY_BINS * p).astype(np.int64), PROBABILITY_BINS - 1)
    weights = (np.ones_like(p), p, true)
    return [np.bincount(bins, w, minlength=PROBABILITY_BINS).tolist() for w in weights]


def class_probabilities(predicted: list[RowPrediction]) -> Array:
    """Probability of each class, (M, classes), from the predictions of all targets.

    Two classes have one model. Of more, each has a model of this class against the others, whose
    probability is expressed as a margin in standard deviations: the class is that of the largest
    margin after unit noise is added to all.

    *Departure* from common practice: probabilities divided by their sum are too close to each other
    where classes are far apart, since no single plane separates one class from all others (digits:
    log loss .154 instead of .098), and odds divided by their sum are too extreme where labels are
    noisy (four similar classes: 11 % off on average instead of 5 %). tests/estimators has both.
    """
    if predicted[0].channel.joint:
        omega = np.stack([one.omega for one in predicted], axis=1)
        V = np.stack([one.V for one in predicted], axis=1)
        return predicted[0].channel.joint_probabilities(omega, V)
    binary = [channel.predict_proba(omega, V) for channel, omega, V, _ in predicted]
    if len(binary) == 1:
        return np.asarray(binary[0])
    minus, plus = np.moveaxis(np.stack(binary), -1, 0)
    # From the smaller of the two, which has all its digits.
    margins = np.where(plus < 0.5, ndtri(plus), -ndtri(minus))
    return chances_of_largest(margins.T)


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts and sums over all rows of a stream; frozen."""

    #: Smallest and largest value of each feature, (N,) each; empty before the first rows.
    low: Array = field(default_factory=lambda: np.zeros(0))
    high: Array = field(default_factory=lambda: np.zeros(0))
    #: Sum of each feature, (N,), and the number of rows.
    total: Array = field(default_factory=lambda: np.zeros(0))
    rows: int = 0
    #: (N,) number of entries of each feature replaced by its mean (`outliers`); empty without any.
    replaced: Array = field(default_factory=lambda: np.zeros(0))
    #: (3,) number, sum and sum of squares of the predicted targets, in standardised units.
    targets: Array = field(default_factory=lambda: np.zeros(3))
    #: (VALUE_BINS, 3) number, sum and sum of squares of their residuals, by predicted value.
    residuals: Array = field(default_factory=lambda: np.zeros((VALUE_BINS, 3)))
    #: (K, K) number of rows by true and by predicted class; empty for a regression.
    confusion: Array = field(default_factory=lambda: np.zeros((0, 0)))
    #: (K, 2, ODDS_BINS) rows of other classes and of class k, by the predicted log-odds of k.
    odds: Array = field(default_factory=lambda: np.zeros((0, 2, ODDS_BINS)))

    def require_features(self, size: int) -> None:
        """Refuse arrays without the shapes that so many features require."""
        n, c = (size if len(self.low) else 0), len(self.confusion)
        shapes = {"confusion": (c, c), "odds": (c, 2, ODDS_BINS), "residuals": (VALUE_BINS, 3)}
        shapes |= {"low": (n,), "high": (n,), "total": (n,), "targets": (3,)}
        shapes |= {"replaced": (n if len(self.replaced) else 0,)}
        for name, shape in shapes.items():
            require_shape(name, getattr(self, name), *shape)

    def including(self, X: Matrix, ranges: Ranges | None = None) -> Tally:
        """The tally including these rows, with the ranges of their columns if these are known."""
        M, N = X.shape
        low, high, total = self.low, self.high, self.total
        if not len(low):
            low, high, total = np.full(N, np.inf), np.full(N, -np.inf), np.zeros(N)
        if isinstance(X, np.ndarray):
            new = ranges or Ranges.of(X)
            # The same arrays where no range has grown, as in most batches: `widens` compares them.
            low = np.minimum(low, new.low) if (new.low < low).any() else low
            high = np.maximum(high, new.high) if (new.high > high).any() else high
            total = total + new.total
        else:  # most columns have no entry but zeros
            X, old = sp.csr_array(X), (low, high)
            low, high, total = np.minimum(low, 0.0), np.maximum(high, 0.0), total.copy()
            full = np.flatnonzero(np.bincount(X.indices) == M)
            low[full], high[full] = old[0][full], old[1][full]
            np.minimum.at(low, X.indices, X.data)
            np.maximum.at(high, X.indices, X.data)
            np.add.at(total, X.indices, X.data)
        return self._but(low=low, high=high, total=total, rows=self.rows + M)

    def _but(self, **changes: object) -> Tally:
        """This tally with other fields: `replace` takes five times as long, at each batch."""
        new = object.__new__(Tally)
        new.__dict__.update(self.__dict__, **changes)
        return new

    def widens(self, past: Tally) -> NDArray[np.bool_]:
        """Whether each feature extends far beyond its range in an earlier tally, (N,) or empty."""
        if self.low is past.low and self.high is past.high:
            return np.zeros(0, dtype=bool)
        margin = FAR_WIDTHS * (past.high - past.low)
        beyond = (self.high > past.high + margin) | (self.low < past.low - margin)
        return np.asarray(beyond & (margin > 0.0))

    def scored(
        self, Y: Array, predicted: list[RowPrediction], centre: Array, scale: Array
    ) -> Tally:
        """The tally with predictions of targets (M, K) of these centres and scales, (K,) each."""
        if predicted[0].channel.predicts_probabilities:
            truth = Y.argmax(axis=1) if Y.shape[1] > 1 else (Y[:, 0] > 0.0).astype(np.int64)
            return self.with_labels(truth, class_probabilities(predicted))
        mean = np.array([one.channel.predict(one.omega, one.V)[0] for one in predicted]).T
        y, mean = (((v - centre) / scale).ravel() for v in (Y, mean))
        bins, residual = _bins(mean, VALUE_BINS, WIDEST_VALUE), y - mean
        sums = (None, residual, residual * residual)
        new = np.array([np.bincount(bins, weights, VALUE_BINS) for weights in sums]).T
        targets = self.targets + np.array([len(y), np.add.reduce(y), y @ y])
        return self._but(targets=targets, residuals=self.residuals + new)

    def with_labels(self, truth: NDArray[np.int64], probability: Array) -> Tally:
        """The tally with predictions of classes: true ones (M,) and probabilities (M, K)."""
        K = probability.shape[1]
        confusion, odds = np.zeros((K, K)), np.zeros((K, 2, ODDS_BINS))
        np.add.at(confusion, (truth, probability.argmax(axis=1)), 1.0)
        with np.errstate(divide="ignore"):
            bins = _bins(logit(probability), ODDS_BINS, WIDEST_ODDS)
        for k in range(K):
            np.add.at(odds[k], ((truth == k).astype(np.int64), bins[:, k]), 1.0)
        old = len(self.confusion)  # classes may be added at the end
        if old:
            confusion[:old, :old] += self.confusion
            odds[:old] += self.odds
        return self._but(confusion=confusion, odds=odds)

    @property
    def r2(self) -> float | None:
        """Coefficient of determination of the predictions; None before there are any."""
        count, total, square = self.targets
        variance = square - total**2 / count if count > 1 else 0.0
        return 1.0 - float(self.residuals[:, 2].sum() / variance) if variance > 0.0 else None

    def roc(self, k: int) -> tuple[Array, Array]:
        """False and true positive rates of class k, from the highest threshold down."""
        counts = self.odds[k, :, ::-1].cumsum(axis=1)
        rates = counts / np.maximum(counts[:, -1:], 1.0)
        false, true = np.hstack([np.zeros((2, 1)), rates])
        return false, true

    @property
    def auc(self) -> float | None:
        """Area under the ROC curve, averaged over several classes."""
        present = [k for k in range(len(self.odds)) if self.odds[k].sum(axis=1).all()]
        present = present[1:] if len(self.odds) == 2 else present
        curves = [self.roc(k) for k in present]
        areas = [np.diff(false) @ (true[1:] + true[:-1]) / 2.0 for false, true in curves]
        return float(np.mean(areas)) if areas else None


def _bins(values: Array, bins: int, widest: float) -> NDArray[np.int64]:
    """Index of the bin of each value, of equal bins between -widest and widest."""
    scaled = values * (0.5 * bins / widest) + 0.5 * bins
    return np.fmin(np.fmax(scaled, 0.0), bins - 1.0).astype(np.int64)  # 0 where it is nan
