"""Health by batch: ratios that are 1 where all is as theory says."""

from __future__ import annotations

from typing import Any

import numpy as np

from miniamp.arrays import Array
from miniamp.report import look
from miniamp.report.facts import Facts

Y = "ratio, 1 when healthy"
#: How far from 1 the ratios lie in sound batches of many rows, and of few: standard deviations.
SOUND, SIGMAS = 0.25, 3.0


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
    ax.axhspan(*strip(facts), color="0.5", alpha=0.12, linewidth=0)
    drawn = ratios(facts)
    for i, (name, values) in enumerate(drawn):
        ax.plot(facts.rows, values, label=name.replace("²", "$^2$"), **look.stroke(i))
    look.scaled(ax, "y", *_settled(drawn))
    look.legend(ax)
    return ax


def section(facts: Facts) -> look.Section:
    """The card of the page."""
    drawn = ratios(facts)
    traces = [look.line(facts.rows, values, name, i) for i, (name, values) in enumerate(drawn)]
    words = (
        "Residuals over their own error bars. Within the grey strip the rows agree with the model, "
        "as far as chance goes; far above it they contradict it, as with correlated features that "
        "AMP cannot take, wrong noise or a stream that changes."
    )
    low, high = strip(facts)
    y = look.axis(Y, **look.logarithmic(*_settled(drawn)))
    if y["type"] != "log":
        top = max(high, *(float(np.nanmax(values)) for _, values in drawn))
        y["range"] = [0.0, 1.06 * top]
    shapes = [look.band(low, high), look.level(1.0, "healthy")]
    return look.Section(
        "Health", words, look.figure(traces, look.axis(_x(facts)), y, shapes=shapes)
    )


def strip(facts: Facts) -> tuple[float, float]:
    """Lowest and highest ratio of a sound batch with as many rows as these have."""
    chance = facts.column("surprise_std")
    usual = float(np.nanmedian(chance)) if np.isfinite(chance).any() else 0.0
    reach = max(SOUND, SIGMAS * usual)
    return max(0.0, 1.0 - reach), 1.0 + reach


def _settled(drawn: list[tuple[str, Array]]) -> list[Array]:
    """The values that choose the scale: not those of the first batch, begun without a noise."""
    return [values[1:] if len(values) > 1 else values for _, values in drawn]


def ratios(facts: Facts) -> list[tuple[str, Array]]:
    """Name and values by batch of each figure there is."""
    unseen = "error / forecast, unseen rows"
    if facts.task == "classification":
        unseen = "Brier score / forecast, unseen rows"
    worst = ", worst class" if facts.task == "classification" and len(facts.groups) > 1 else ""
    named = ((f"mean g² / mean(-∂g){worst}", "health"), (unseen, "surprise"))
    return [(name, facts.column(column)) for name, column in named if facts.has(column)]


def _x(facts: Facts) -> str:
    return "samples seen" if facts.task == "clustering" else "rows seen"
