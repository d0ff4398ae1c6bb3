"""The error of forecasts, batch by batch, beside what was expected of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import numpy as np

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.report import look
from miniamp.report.facts import Facts

X = "rows seen before the batch"
Curves = list[tuple[str, Array, Array]]


def plot_error(estimator: Any, ax: Any = None, forecast: Given = None) -> Any:
    """The error of forecasts by batch on matplotlib axes, with what was expected; gives the axes.

    Every batch is forecast before it is learned from. For a clustering: the variance of samples
    around their centres, as it was learned.

    Parameters
    ----------
    estimator : fitted estimator
        A MiniAMPRegressor, MiniAMPClassifier or MiniAMPClusterer.
    ax : matplotlib axes, optional
        Where to draw; new ones by default.
    forecast : pair (rows, errors), optional
        A curve that was foretold, against rows seen.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import MiniAMPRegressor
    >>> X = np.random.default_rng(0).normal(size=(120, 2))
    >>> model = MiniAMPRegressor(batch_size=40).fit(X, X[:, 0])
    >>> plot_error(model).get_ylabel()
    'squared error of forecasts'
    """
    facts = Facts.of(estimator)
    drawn = curves(facts, forecast)
    ax = look.axes(ax, _x(facts), _y(facts))
    for i, (name, x, y) in enumerate(drawn):
        ax.plot(x, y, label=name, **look.stroke(i))
    look.scaled(ax, "y", *(y for _, _, y in drawn))
    look.legend(ax)
    return ax


def section(facts: Facts, forecast: Given = None) -> look.Section | None:
    """The card of the page; none while nothing was forecast."""
    drawn = curves(facts, forecast)
    if not drawn:
        return None
    traces = [look.line(x, y, name, i) for i, (name, x, y) in enumerate(drawn)]
    y_axis = look.axis(_y(facts), **look.logarithmic(*(y for _, _, y in drawn)))
    return look.Section(
        "Noise by batch" if facts.task == "clustering" else "Error and forecast by batch",
        _words(facts, [name for name, _, _ in drawn]),
        look.figure(traces, look.axis(_x(facts)), y_axis),
        wide=True,
    )


def curves(facts: Facts, forecast: Given = None) -> Curves:
    """Name, rows and errors of each curve that there is."""
    if facts.task == "clustering":
        found = [("around the centres", facts.rows, facts.column("noise"))]
    else:
        before = facts.rows - facts.column("rows")
        named = (
            ("made", "error"),
            ("expected by the model", "expected_error"),
            ("foretold by theory", "theory_error"),
        )
        found = [
            (name, before, facts.column(column)) for name, column in named if facts.has(column)
        ]
    if forecast is not None:
        found.append(("forecast", *_checked(forecast)))
    return [(name, x[np.isfinite(y)], y[np.isfinite(y)]) for name, x, y in found]


def _checked(forecast: Given) -> tuple[Array, Array]:
    try:
        rows, errors = (np.asarray(part, dtype=float) for part in cast(Iterable[Given], forecast))
    except (TypeError, ValueError):
        rows = errors = np.zeros((0, 0))
    if rows.ndim != 1 or rows.shape != errors.shape:
        raise checks.refuse(
            "forecast",
            f"{forecast!r:.40}",
            "a pair (rows, errors) of equally long sequences of numbers",
            "leave it out for what theory says",
        )
    return rows, errors


def _x(facts: Facts) -> str:
    return "samples seen" if facts.task == "clustering" else X


def _y(facts: Facts) -> str:
    return "variance of the noise" if facts.task == "clustering" else facts.error_name


def _words(facts: Facts, names: list[str]) -> str:
    if facts.task == "clustering":
        words = "Variance of samples around their centres, as believed after each batch"
        if np.ndim(facts.estimator.noise_):
            words += ", in units of each feature's own spread"
        return f"{words}."
    words = "Every batch is forecast before it is learned from, so no row has been seen before. "
    if "foretold by theory" in names:
        words += (
            "Theory (state evolution) knows only the prior, the noise and the number of rows: "
            "where the curves agree, the model fits and nothing better can be had from these rows."
        )
    elif "expected by the model" in names:
        words += "Where the error made is the one expected, the model's error bars are right."
    return words
