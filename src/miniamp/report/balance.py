"""E against V: the error that was made against the one that was believed in."""

from __future__ import annotations

from typing import Any

import numpy as np

from miniamp.arrays import Array
from miniamp.errors import InvalidInputError
from miniamp.report import look
from miniamp.report.facts import Facts


def plot_balance(estimator: Any, ax: Any = None) -> Any:
    """Error made against error expected, a point a batch, on matplotlib axes; gives the axes.

    Points on the diagonal are what Bayes' rule promises where the model is right (E = V).

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import MiniAMPRegressor
    >>> X = np.random.default_rng(0).normal(size=(160, 2))
    >>> model = MiniAMPRegressor(batch_size=40).fit(X, X[:, 0])
    >>> plot_balance(model).get_xlabel()
    'expected (V)'
    """
    found = points(Facts.of(estimator))
    if found is None:
        raise InvalidInputError(
            "estimator: got no forecasts in its history, expected a regressor or classifier that "
            "saw at least two batches; fit it with a smaller batch_size"
        )
    V, E, _ = found
    ax = look.axes(ax, "expected (V)", "made (E)")
    ends = _ends(V, E)
    ax.plot(ends, ends, color="0.6", linewidth=0.8, linestyle="--")
    ax.plot(V, E, **{**look.stroke(0), "linestyle": "none"})
    for which in "xy":
        look.scaled(ax, which, V, E)
    return ax


def section(facts: Facts) -> look.Section | None:
    """The card of the page; none without forecasts."""
    found = points(facts)
    if found is None:
        return None
    V, E, batches = found
    trace = look.line(
        V,
        E,
        "batches",
        mode="markers",
        text=[f"batch {int(batch)}" for batch in batches],
        hovertemplate="%{text}: made %{y:.3g}, expected %{x:.3g}<extra></extra>",
    )
    low, high = _ends(V, E)
    scale = look.logarithmic(V, E)
    words = (
        f"The {facts.error_name} against what the model expected of it, a point a batch. On the "
        "dotted line its error bars are right (E = V); above it is too sure of itself."
    )
    figure = look.figure(
        [trace],
        look.axis("expected (V)", **scale),
        look.axis("made (E)", **scale),
        shapes=[look.diagonal(low, high)],
    )
    return look.Section("E against V", words, figure)


def points(facts: Facts) -> tuple[Array, Array, Array] | None:
    """Errors expected, errors made and numbers of the batches that were forecast."""
    if facts.task == "clustering":
        return None
    V, E = facts.column("expected_error"), facts.column("error")
    used = np.isfinite(V) & np.isfinite(E)
    return (V[used], E[used], facts.batches[used]) if used.any() else None


def _ends(V: Array, E: Array) -> tuple[float, float]:
    return float(min(V.min(), E.min())), float(max(V.max(), E.max()))
