"""Coefficients with their intervals, the surest first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from miniamp import checks
from miniamp.report import look
from miniamp.report.facts import Facts

#: Features shown, and groups (classes, clusters): more could not be read.
MOST_FEATURES, MOST_GROUPS = 30, 6
#: Standard deviations either side: 90 % of a Gaussian.
REACH = 1.6448536269514722


def plot_coefficients(estimator: Any, ax: Any = None, most: int = 20) -> Any:
    """Coefficients (centres of clusters) with 90 % intervals on matplotlib axes; gives the axes.

    Parameters
    ----------
    estimator : fitted estimator
        A MiniAMPRegressor, MiniAMPClassifier or MiniAMPClusterer.
    ax : matplotlib axes, optional
        Where to draw; new ones by default.
    most : int
        Features shown: those whose coefficients are most standard deviations away from zero.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import MiniAMPRegressor
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> ax = plot_coefficients(MiniAMPRegressor().fit(X, X[:, 2]), most=1)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['x2']
    """
    facts = Facts.of(estimator)
    shown = strongest(facts, checks.count("most", most))
    ax = look.axes(ax, _x(facts), "")
    places = np.arange(len(shown))
    groups = facts.groups[:MOST_GROUPS]
    for k, name in enumerate(groups):
        ax.errorbar(
            facts.mean[k, shown],
            places + _shift(k, len(groups)),
            xerr=REACH * facts.std[k, shown],
            label=name,
            elinewidth=1.0,
            **{**look.stroke(k), "linestyle": "none"},
        )
    ax.axvline(0.0, color="0.6", linewidth=0.8)
    ax.set_yticks(places, [facts.features[i] for i in shown])
    ax.invert_yaxis()
    look.legend(ax)
    return ax


def section(facts: Facts) -> look.Section:
    """The card of the page."""
    shown = strongest(facts, MOST_FEATURES)
    groups = facts.groups[:MOST_GROUPS]
    places = np.arange(len(shown), dtype=float)
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": look.numbers(facts.mean[k, shown]),
            "y": look.numbers(places + _shift(k, len(groups))),
            "error_x": {
                "type": "data",
                "array": look.numbers(REACH * facts.std[k, shown]),
                "color": look.series(k),
                "thickness": 1.5,
                "width": 0,
            },
            "marker": {"color": look.series(k), "size": 7 if len(groups) == 1 else 5},
            "name": look.safe(name),
            "text": [look.safe(facts.features[i]) for i in shown],
            "hovertemplate": "%{text}: %{x:.4g} ± %{error_x.array:.2g}<extra></extra>",
        }
        for k, name in enumerate(groups)
    ]
    y = look.axis(
        "",
        tickmode="array",
        tickvals=look.numbers(places),
        ticktext=[look.safe(_short(facts.features[i])) for i in shown],
        range=[len(shown) - 0.4, -0.6],
        showgrid=False,
        zeroline=False,
    )
    height = 110 + max(1, len(shown)) * max(20, 8 * len(groups))
    x = look.axis(_x(facts), zerolinecolor=look.MUTED, zerolinewidth=1)
    return look.Section(
        "Centres" if facts.task == "clustering" else "Coefficients",
        _words(facts, len(shown), len(groups)),
        look.figure(traces, x, y, height=height),
        wide=len(shown) > 16,
    )


def strongest(facts: Facts, most: int) -> NDArray[np.int64]:
    """Indices of the features that are told apart most clearly, the clearest first."""
    std = np.maximum(facts.std, np.finfo(float).tiny)
    away = facts.mean - facts.mean.mean(axis=0) if facts.task == "clustering" else facts.mean
    clear = np.max(np.abs(away) / std, axis=0)
    return np.argsort(-clear, kind="stable")[:most]


def _shift(k: int, groups: int) -> float:
    """Where in a feature's row its group k is drawn."""
    return 0.6 * (k - 0.5 * (groups - 1)) / groups


def _short(name: str) -> str:
    return name if len(name) <= 18 else name[:8] + "…" + name[-9:]


def _x(facts: Facts) -> str:
    return "value" if facts.task == "clustering" else "coefficient, 90 % interval"


def _words(facts: Facts, features: int, groups: int) -> str:
    words = "Posterior means with intervals that hold the truth with probability 90 %."
    total = len(facts.features)
    if features < total:
        words += f" The {features} surest of {total:,}, the surest first."
    if groups < len(facts.groups):
        words += f" The first {groups} of {len(facts.groups)}."
    return words
