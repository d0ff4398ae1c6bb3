"""Reliability: whether of what was given a probability p, a share p came true."""

from __future__ import annotations

from typing import Any

import numpy as np

from miniamp.arrays import Array
from miniamp.errors import InvalidInputError
from miniamp.report import look
from miniamp.report.facts import Facts

X, Y = "probability given to a class", "how often it came"


def plot_reliability(estimator: Any, ax: Any = None) -> Any:
    """The reliability diagram of a classifier on matplotlib axes; gives the axes.

    Forecasts are those made of each batch before it was learned from. Bars are two standard
    deviations of chance.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import MiniAMPClassifier
    >>> X = np.random.default_rng(0).normal(size=(160, 2))
    >>> model = MiniAMPClassifier(batch_size=40).fit(X, X[:, 0] > 0.0)
    >>> plot_reliability(model).get_xlabel()
    'probability given to a class'
    """
    facts = Facts.of(estimator)
    found = points(facts)
    if found is None:
        raise InvalidInputError(
            "estimator: got no forecasts of classes in its history, expected a classifier that saw "
            "at least two batches; fit it with a smaller batch_size"
        )
    given, came, reach, _ = found
    ax = look.axes(ax, X, Y)
    ax.plot([0.0, 1.0], [0.0, 1.0], color="0.6", linewidth=0.8, linestyle="--")
    ax.errorbar(given, came, yerr=reach, elinewidth=1.0, **look.stroke(0))
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.05, 1.05))
    return ax


def section(facts: Facts) -> look.Section | None:
    """The card of the page; none without forecasts of classes."""
    found = points(facts)
    if found is None:
        return None
    given, came, reach, counts = found
    trace = look.line(
        given,
        came,
        "came true",
        error_y={"type": "data", "array": look.numbers(reach), "color": look.series(0)},
        text=[f"{int(count):,} forecasts" for count in counts],
        hovertemplate="given %{x:.2f}, came %{y:.2f} (%{text})<extra></extra>",
    )
    words = (
        "On the dotted line probabilities mean what they say. Below it the model is too sure of "
        "its classes, above it too modest. Bars: two standard deviations of chance."
    )
    unit: dict[str, Any] = {"range": [-0.03, 1.03]}
    figure = look.figure(
        [trace], look.axis(X, **unit), look.axis(Y, **unit), shapes=[look.diagonal(0.0, 1.0)]
    )
    return look.Section("Reliability", words, figure)


def points(facts: Facts) -> tuple[Array, Array, Array, Array] | None:
    """Mean probability given, share that came, its chance deviation and count, for each bin."""
    if facts.task != "classification" or not facts.calibration:
        return None
    counts, sums, hits = np.sum([np.asarray(c, dtype=float) for c in facts.calibration], axis=0)
    used = counts > 0.0
    counts, given, came = counts[used], sums[used] / counts[used], hits[used] / counts[used]
    # Two outcomes with probability `given` each time, as the model says.
    return given, came, 2.0 * np.sqrt(given * (1.0 - given) / counts), counts
