"""Health by batch: ratios that are 1 where all is as theory says."""

from __future__ import annotations

from typing import Any

from miniamp.arrays import Array
from miniamp.report import look
from miniamp.report.facts import Facts

Y = "ratio, 1 when healthy"
#: Where mean g^2 / mean(-dg) lies in sound runs of a few thousand rows.
SOUND = (0.75, 1.25)


def plot_health(estimator: Any, ax: Any = None) -> Any:
    """Health figures by batch on matplotlib axes; gives the axes.

    mean g^2 / mean(-dg) compares residuals with their own error bars within a batch; the squared
    error over what was forecast does so for rows that had not been seen.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import MiniAMPRegressor
    >>> X = np.random.default_rng(0).normal(size=(160, 2))
    >>> model = MiniAMPRegressor(batch_size=40).fit(X, X[:, 0])
    >>> plot_health(model).get_ylabel()
    'ratio, 1 when healthy'
    """
    facts = Facts.of(estimator)
    ax = look.axes(ax, _x(facts), Y)
    ax.axhspan(*SOUND, color="0.5", alpha=0.12, linewidth=0)
    drawn = ratios(facts)
    for i, (name, values) in enumerate(drawn):
        ax.plot(facts.rows, values, label=name.replace("²", "$^2$"), **look.stroke(i))
    look.scaled(ax, "y", *(values for _, values in drawn))
    look.legend(ax)
    return ax


def section(facts: Facts) -> look.Section:
    """The card of the page."""
    drawn = ratios(facts)
    traces = [look.line(facts.rows, values, name, i) for i, (name, values) in enumerate(drawn)]
    words = (
        "Residuals over their own error bars. Within the grey strip the rows agree with the model; "
        "far above it they contradict it, as with correlated features that AMP cannot take, wrong "
        "noise or a stream that changes."
    )
    y = look.axis(Y, **look.logarithmic(*(values for _, values in drawn)))
    if y["type"] != "log":
        y["rangemode"] = "tozero"
    shapes = [look.band(*SOUND), look.level(1.0, "healthy")]
    return look.Section(
        "Health", words, look.figure(traces, look.axis(_x(facts)), y, shapes=shapes)
    )


def ratios(facts: Facts) -> list[tuple[str, Array]]:
    """Name and values by batch of each figure there is."""
    unseen = "error / forecast, unseen rows"
    if facts.task == "classification":
        unseen = "Brier score / forecast, unseen rows"
    named = (("mean g² / mean(-∂g)", "health"), (unseen, "surprise"))
    return [(name, facts.column(column)) for name, column in named if facts.has(column)]


def _x(facts: Facts) -> str:
    return "samples seen" if facts.task == "clustering" else "rows seen"
