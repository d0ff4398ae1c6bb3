"""How far the coefficients are known, beside what theory says of it."""

from __future__ import annotations

from typing import Any

from miniamp.arrays import Array
from miniamp.errors import InvalidInputError
from miniamp.report import look
from miniamp.report.facts import Facts

X, Y = "rows seen", "mean posterior variance"


def plot_variance(estimator: Any, ax: Any = None) -> Any:
    """Mean posterior variance of a coefficient by batch on matplotlib axes; gives the axes.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import MiniAMPRegressor
    >>> X = np.random.default_rng(0).normal(size=(160, 2))
    >>> model = MiniAMPRegressor(batch_size=40).fit(X, X[:, 0])
    >>> plot_variance(model).get_ylabel()
    'mean posterior variance'
    """
    facts = Facts.of(estimator)
    drawn = curves(facts)
    if not drawn:
        raise InvalidInputError(
            "estimator: got no variances in its history, expected a MiniAMPRegressor or "
            "MiniAMPClassifier; plot_health works for a clusterer too"
        )
    ax = look.axes(ax, X, Y)
    for i, (name, values) in enumerate(drawn):
        ax.plot(facts.rows, values, label=name, **look.stroke(i))
    look.scaled(ax, "y", *(values for _, values in drawn))
    look.legend(ax)
    return ax


def section(facts: Facts) -> look.Section | None:
    """The card of the page; none for a clustering."""
    drawn = curves(facts)
    if not drawn:
        return None
    traces = [look.line(facts.rows, values, name, i) for i, (name, values) in enumerate(drawn)]
    words = "Mean posterior variance of a coefficient, on the scale that the model works on."
    if len(drawn) > 1:
        words += " Theory foretells it for independent features."
    else:
        words += " Theory is not drawn: it holds for batches of independent features under AMP."
    y = look.axis(Y, **look.logarithmic(*(values for _, values in drawn)))
    return look.Section("What is left to learn", words, look.figure(traces, look.axis(X), y))


def curves(facts: Facts) -> list[tuple[str, Array]]:
    """Name and values by batch."""
    named = (("believed", "mean_variance"), ("theory", "theory_variance"))
    return [(name, facts.column(column)) for name, column in named if facts.has(column)]
