"""Plots of predictions against outcomes: error bars, intervals, probabilities of classes."""

from __future__ import annotations

import numpy as np

from miniamp.arrays import Array
from miniamp.estimators.scoring import VALUE_BINS, WIDEST_VALUE
from miniamp.report.chart import Axis, Cells, Chart, Series, nothing, plotted
from miniamp.report.facts import Facts
from miniamp.report.stream import FEW

#: Classes of a confusion matrix, and curves: more could not be read.
MOST_CLASSES, MOST_CURVES = 12, 6
CHANCE = "Bars: two standard deviations of chance."


@plotted(50)
def plot_balance(facts: Facts) -> Chart:
    """Draw observed against predicted error, one point per batch; returns the axes.

    Points lie on the diagonal, up to chance, where the model is right.
    """
    V, E, rows = (facts.column(name) for name in ("expected_error", "error", "rows"))
    used = np.isfinite(V) & np.isfinite(E)
    if used.any():
        used &= rows >= FEW * np.nanmedian(rows)
    if facts.task == "clustering" or not used.any():
        raise _no_predictions("predictions", "a regressor or classifier")
    V, E, texts = V[used], E[used], [f"batch {int(batch)}" for batch in facts.batches[used]]
    hover = "%{text}: observed %{y:.3g}, predicted %{x:.3g}"
    points = Series("batches", V, E, joined=False, texts=texts, hover=hover)
    words = (
        f"The {facts.error_name} against the error that the model predicted, one point per batch. "
        "On the dotted line its error bars are right; above it they are too small."
    )
    x, y = Axis("predicted error", [V, E]), Axis("observed error", [V, E])
    ends = float(min(V.min(), E.min())), float(max(V.max(), E.max()))
    return Chart("Observed against predicted error", words, x, y, [points], diagonal=ends)


@plotted(30)
def plot_coverage(facts: Facts) -> Chart:
    """Draw the coverage of a regressor's intervals against their level; returns the axes.

    Every batch is predicted before it is learned from. Bars are two standard deviations of chance.
    """
    level, inside, chance = coverage_points(facts)
    hover = "%{x:.0%} intervals contain %{y:.1%}"
    points = Series("inside", level, inside, error_y=chance, hover=hover)
    words = (
        "On the dotted line an interval of 90 % contains 90 % of the outcomes. Below it error bars "
        f"are too small, above it too large. {CHANCE}"
    )
    x = Axis("level of the interval", range=(0.0, 1.03), percent=True)
    y = Axis("share of outcomes inside", range=(0.0, 1.05), percent=True)
    return Chart("Coverage", words, x, y, [points], diagonal=(0.0, 1.0))


def coverage_points(facts: Facts) -> tuple[Array, Array, Array]:
    """Levels of central intervals, shares of outcomes inside, and two deviations of chance."""
    if facts.task != "regression" or not facts.calibration:
        raise _no_predictions("predictions of numbers", "a regressor")
    counts = np.sum(facts.calibration, axis=0)
    half = len(counts) // 2
    # Bins are equally likely, and come in pairs about the middle: (9, 10), (8, 11), and so on.
    pairs = counts[:half][::-1] + counts[half:]
    level = np.arange(1, half) / half
    inside = np.cumsum(pairs)[:-1] / counts.sum()
    return level, inside, 2.0 * np.sqrt(level * (1.0 - level) / counts.sum())


@plotted(40)
def plot_reliability(facts: Facts) -> Chart:
    """Draw the reliability diagram of a classifier; returns the axes.

    Every batch is predicted before it is learned from. Bars are two standard deviations of chance.
    """
    given, came, chance, counts = reliability_points(facts)
    texts = [f"{int(count):,} predictions" for count in counts]
    hover = "predicted %{x:.2f}, observed %{y:.2f} (%{text})"
    points = Series("observed", given, came, error_y=chance, texts=texts, hover=hover)
    words = (
        "On the dotted line probabilities are right: of all predictions with 80 %, 80 % come true. "
        f"A curve that is flatter means probabilities that are too extreme. {CHANCE}"
    )
    x = Axis("predicted probability of a class", range=(-0.03, 1.03))
    y = Axis("observed share", range=(-0.05, 1.05))
    return Chart("Reliability", words, x, y, [points], diagonal=(0.0, 1.0))


def reliability_points(facts: Facts) -> tuple[Array, Array, Array, Array]:
    """Mean predicted probability, observed share, its chance deviation and count, per bin."""
    if facts.task != "classification" or not facts.calibration:
        raise _no_predictions("predictions of classes", "a classifier")
    counts, sums, hits = np.sum(facts.calibration, axis=0)
    used = counts > 0.0
    counts, given, came = counts[used], sums[used] / counts[used], hits[used] / counts[used]
    # Two outcomes, `given` the probability of one of them if the model is right.
    return given, came, 2.0 * np.sqrt(given * (1.0 - given) / counts), counts


@plotted(35)
def plot_residuals(facts: Facts) -> Chart:
    """Draw the residuals of a regressor against its predictions; returns the axes.

    Points are means of the residuals of rows with similar predictions, bars their standard
    deviations: a curve means a relation that is not linear, bars of different lengths a noise that
    depends on the prediction.
    """
    count, total, square = facts.tally.residuals.T
    used = count > 0.0
    if facts.task != "regression" or not used.any():
        raise _no_predictions("predictions of numbers", "a regressor")
    width = 2.0 * WIDEST_VALUE / VALUE_BINS
    centre = (-WIDEST_VALUE + width * (np.arange(VALUE_BINS) + 0.5))[used]
    mean = total[used] / count[used]
    spread = np.sqrt(np.maximum(square[used] / count[used] - np.square(mean), 0.0))
    texts = [f"{int(rows):,} rows" for rows in count[used]]
    hover = "predicted %{x:.2f}: mean residual %{y:.3g} ± %{error_y.array:.2g} (%{text})"
    points = Series("residuals", centre, mean, False, error_y=spread, texts=texts, hover=hover)
    words = (
        "Mean residual, observed minus predicted, of rows with similar predictions; bars: one "
        "standard deviation. A curve means that the relation is not linear, bars of different "
        "lengths that the noise depends on the prediction. In units of the target's spread."
    )
    x, y = Axis("prediction, standardised"), Axis("residual, standardised")
    return Chart("Residuals", words, x, y, [points], level=0.0)


@plotted(42)
def plot_confusion(facts: Facts) -> Chart:
    """Draw the confusion matrix of a classifier; returns the axes.

    Every batch is predicted before it is learned from. Shares are those of a true class.
    """
    counts = facts.tally.confusion[:MOST_CLASSES, :MOST_CLASSES]
    if not counts.any():
        raise _no_predictions("predictions of classes", "a classifier")
    names = facts.classes[:MOST_CLASSES]
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    texts = [
        [f"{count:,.0f} ({share:.0%})" for count, share in zip(*row, strict=True)]
        for row in zip(counts, shares, strict=True)
    ]
    words = "Rows of each class by the class that was predicted, and their share of the class."
    if len(names) < len(facts.classes):
        words += f" The first {len(names)} of {len(facts.classes)}."
    x = Axis("predicted class", labels=names)
    y = Axis("true class", labels=names, range=(len(names) - 0.5, -0.5))
    cells, height = Cells(shares, texts), max(300, 110 + 44 * len(names))
    return Chart("Confusion matrix", words, x, y, cells=cells, height=height)


@plotted(44)
def plot_roc(facts: Facts) -> Chart:
    """Draw the ROC curve of a classifier, one per class where there are several; returns the axes.

    Every batch is predicted before it is learned from.
    """
    area = facts.tally.auc
    if area is None:
        raise _no_predictions("predictions of classes", "a classifier")
    # Two classes have one curve, that of the second.
    shown = range(len(facts.classes))[1 if len(facts.classes) == 2 else 0 :][:MOST_CURVES]
    curves = [
        Series(facts.classes[k], *facts.tally.roc(k), hover="%{y:.1%} found, %{x:.1%} false alarms")
        for k in shown
    ]
    words = (
        "True positive rate against false positive rate, for "
        f"every limit of the probability. Area under the curve: {area:.3f}"
        f"{' on average' if len(curves) > 1 else ''}; 0.5 is chance, 1 is perfect."
    )
    x = Axis("false positives", range=(-0.02, 1.02), percent=True)
    y = Axis("true positives", range=(-0.02, 1.02), percent=True)
    return Chart("ROC curve", words, x, y, curves, diagonal=(0.0, 1.0))


def _no_predictions(what: str, kind: str) -> Exception:
    expected = f"{kind} that saw at least two batches"
    return nothing(f"no {what} in its history", expected, "fit with a smaller {batch_size}")
