"""Plots of predictions against outcomes: error bars, intervals, probabilities of classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from miniamp.arrays import Array
from miniamp.report.chart import Axis, Chart, Series, nothing, on_page
from miniamp.report.draw import matplotlib
from miniamp.report.facts import Facts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CHANCE = "Bars: two standard deviations of chance."


def plot_balance(estimator: object, ax: Axes | None = None) -> Axes:
    """Draw observed against predicted error, one point per batch; returns the axes.

    Points lie on the diagonal, up to chance, where the model is right.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import MiniAMPRegressor
    >>> X = np.random.default_rng(0).normal(size=(160, 2))
    >>> model = MiniAMPRegressor(batch_size=40).fit(X, X[:, 0])
    >>> plot_balance(model).get_xlabel()
    'predicted error'
    """
    return matplotlib(balance(Facts.of(estimator)), ax)


@on_page(50)
def balance(facts: Facts) -> Chart:
    """Observed against predicted error."""
    V, E = facts.column("expected_error"), facts.column("error")
    used = np.isfinite(V) & np.isfinite(E)
    if facts.task == "clustering" or not used.any():
        raise _no_predictions("predictions", "a regressor or classifier")
    V, E = V[used], E[used]
    points = Series(
        "batches",
        V,
        E,
        joined=False,
        texts=[f"batch {int(batch)}" for batch in facts.batches[used]],
        hover="%{text}: observed %{y:.3g}, predicted %{x:.3g}",
    )
    words = (
        f"The {facts.error_name} against the error that the model predicted, one point per batch. "
        "On the dotted line its error bars are right; above it they are too small."
    )
    return Chart(
        "Observed against predicted error",
        words,
        Axis("predicted error", [V, E]),
        Axis("observed error", [V, E]),
        [points],
        diagonal=(float(min(V.min(), E.min())), float(max(V.max(), E.max()))),
    )


def plot_coverage(estimator: object, ax: Axes | None = None) -> Axes:
    """Draw the coverage of a regressor's intervals against their level; returns the axes.

    Every batch is predicted before it is learned from. Bars are two standard deviations of chance.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import MiniAMPRegressor
    >>> X = np.random.default_rng(0).normal(size=(160, 2))
    >>> model = MiniAMPRegressor(batch_size=40).fit(X, X[:, 0])
    >>> plot_coverage(model).get_xlabel()
    'level of the interval'
    """
    return matplotlib(coverage(Facts.of(estimator)), ax)


@on_page(30)
def coverage(facts: Facts) -> Chart:
    """Share of outcomes inside intervals of every level."""
    level, inside, chance = coverage_points(facts)
    points = Series(
        "inside", level, inside, error_y=chance, hover="%{x:.0%} intervals contain %{y:.1%}"
    )
    words = (
        "On the dotted line an interval of 90 % contains 90 % of the outcomes. Below it error bars "
        f"are too small, above it too large. {CHANCE}"
    )
    return Chart(
        "Coverage",
        words,
        Axis("level of the interval", range=(0.0, 1.03), percent=True),
        Axis("share of outcomes inside", range=(0.0, 1.05), percent=True),
        [points],
        diagonal=(0.0, 1.0),
    )


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


def plot_reliability(estimator: object, ax: Axes | None = None) -> Axes:
    """Draw the reliability diagram of a classifier; returns the axes.

    Every batch is predicted before it is learned from. Bars are two standard deviations of chance.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import MiniAMPClassifier
    >>> X = np.random.default_rng(0).normal(size=(160, 2))
    >>> model = MiniAMPClassifier(batch_size=40).fit(X, X[:, 0] > 0.0)
    >>> plot_reliability(model).get_xlabel()
    'predicted probability of a class'
    """
    return matplotlib(reliability(Facts.of(estimator)), ax)


@on_page(40)
def reliability(facts: Facts) -> Chart:
    """How often classes came, against the probability they were given."""
    given, came, chance, counts = reliability_points(facts)
    points = Series(
        "observed",
        given,
        came,
        error_y=chance,
        texts=[f"{int(count):,} predictions" for count in counts],
        hover="predicted %{x:.2f}, observed %{y:.2f} (%{text})",
    )
    words = (
        "On the dotted line probabilities are right: of all predictions with 80 %, 80 % come true. "
        f"A curve that is flatter means probabilities that are too extreme. {CHANCE}"
    )
    return Chart(
        "Reliability",
        words,
        Axis("predicted probability of a class", range=(-0.03, 1.03)),
        Axis("observed share", range=(-0.05, 1.05)),
        [points],
        diagonal=(0.0, 1.0),
    )


def reliability_points(facts: Facts) -> tuple[Array, Array, Array, Array]:
    """Mean predicted probability, observed share, its chance deviation and count, per bin."""
    if facts.task != "classification" or not facts.calibration:
        raise _no_predictions("predictions of classes", "a classifier")
    counts, sums, hits = np.sum(facts.calibration, axis=0)
    used = counts > 0.0
    counts, given, came = counts[used], sums[used] / counts[used], hits[used] / counts[used]
    # Two outcomes, `given` the probability of one of them if the model is right.
    return given, came, 2.0 * np.sqrt(given * (1.0 - given) / counts), counts


def _no_predictions(what: str, kind: str) -> Exception:
    return nothing(
        f"no {what} in its history",
        f"{kind} that saw at least two batches",
        "fit with a smaller {batch_size}",
    )
