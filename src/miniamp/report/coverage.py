"""Coverage: whether intervals of every level hold as many outcomes as they say."""

from __future__ import annotations

from typing import Any

import numpy as np

from miniamp.arrays import Array
from miniamp.errors import InvalidInputError
from miniamp.report import look
from miniamp.report.facts import Facts

X, Y = "level of the interval", "share of outcomes inside"


def plot_coverage(estimator: Any, ax: Any = None) -> Any:
    """Coverage of a regressor's intervals against their level on matplotlib axes; gives the axes.

    Forecasts are those made of each batch before it was learned from. Bars are two standard
    deviations of chance.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import MiniAMPRegressor
    >>> X = np.random.default_rng(0).normal(size=(160, 2))
    >>> model = MiniAMPRegressor(batch_size=40).fit(X, X[:, 0])
    >>> plot_coverage(model).get_xlabel()
    'level of the interval'
    """
    found = points(Facts.of(estimator))
    if found is None:
        raise InvalidInputError(
            "estimator: got no forecasts of numbers in its history, expected a regressor that saw "
            "at least two batches; fit it with a smaller batch_size"
        )
    level, inside, reach = found
    ax = look.axes(ax, X, Y)
    ax.plot([0.0, 1.0], [0.0, 1.0], color="0.6", linewidth=0.8, linestyle="--")
    ax.errorbar(level, inside, yerr=reach, elinewidth=1.0, **look.stroke(0))
    ax.set(xlim=(0.0, 1.02), ylim=(0.0, 1.05))
    return ax


def section(facts: Facts) -> look.Section | None:
    """The card of the page; none without forecasts of numbers."""
    found = points(facts)
    if found is None:
        return None
    level, inside, reach = found
    trace = look.line(
        level,
        inside,
        "inside",
        error_y={"type": "data", "array": look.numbers(reach), "color": look.series(0)},
        hovertemplate="%{x:.0%} intervals hold %{y:.1%}<extra></extra>",
    )
    words = (
        "On the dotted line an interval of 90 % holds 90 % of the outcomes. Below it error bars "
        "are too small, above it too large. Bars: two standard deviations of chance."
    )
    unit: dict[str, Any] = {"range": [0.0, 1.03], "tickformat": ".0%"}
    figure = look.figure(
        [trace], look.axis(X, **unit), look.axis(Y, **unit), shapes=[look.diagonal(0.0, 1.0)]
    )
    return look.Section("Coverage", words, figure)


def points(facts: Facts) -> tuple[Array, Array, Array] | None:
    """Levels of central intervals, shares of outcomes inside, and chance deviations."""
    if facts.task != "regression" or not facts.calibration:
        return None
    counts = np.sum([np.asarray(c, dtype=float) for c in facts.calibration], axis=0)
    half = len(counts) // 2
    # Bins are equally likely, and come in pairs about the middle: (9, 10), (8, 11), and so on.
    pairs = counts[:half][::-1] + counts[half:]
    level = np.arange(1, half) / half
    inside = np.cumsum(pairs)[:-1] / counts.sum()
    return level, inside, 2.0 * np.sqrt(level * (1.0 - level) / counts.sum())
