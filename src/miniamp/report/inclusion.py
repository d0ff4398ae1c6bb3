"""Probabilities that coefficients are not zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from miniamp.arrays import Array
from miniamp.errors import InvalidInputError
from miniamp.report import look
from miniamp.report.facts import Facts

X, Y = "coefficients, the surest first", "probability that it is not zero"
#: Points of the curve that are drawn.
MOST_POINTS = 2000


def plot_inclusion(estimator: Any, ax: Any = None) -> Any:
    """Inclusion probabilities, sorted, on matplotlib axes; gives the axes.

    Needs a prior with a spike at zero, such as prior="sparse".

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import MiniAMPRegressor
    >>> X = np.random.default_rng(0).normal(size=(90, 4))
    >>> model = MiniAMPRegressor("sparse").fit(X, X[:, 1] + 0.1 * X[:, 2])
    >>> plot_inclusion(model).get_ylabel()
    'probability that it is not zero'
    """
    facts = Facts.of(estimator)
    if facts.included is None:
        raise InvalidInputError(
            "estimator: got a prior under which no coefficient is exactly zero, expected one with "
            "a spike; use prior='sparse'"
        )
    ax = look.axes(ax, X, Y)
    for k, name in enumerate(facts.groups):
        chances = _sorted(facts.included[k])
        ax.plot(np.arange(1, len(chances) + 1), chances, label=name, **look.stroke(k))
    ax.set_ylim(-0.03, 1.03)
    look.legend(ax)
    return ax


def section(facts: Facts) -> look.Section | None:
    """The card of the page; none for priors without a spike."""
    if facts.included is None:
        return None
    traces = []
    for k, name in enumerate(facts.groups):
        order = np.argsort(-facts.included[k], kind="stable")[:MOST_POINTS]
        traces.append(
            look.line(
                np.arange(1, len(order) + 1),
                facts.included[k, order],
                name,
                k,
                text=[look.safe(facts.features[i]) for i in order],
                hovertemplate="%{text}: %{y:.3f}<extra></extra>",
            )
        )
    about, sure = facts.included.sum(axis=1).mean(), int(np.sum(facts.included > 0.95))
    several = len(facts.groups) > 1
    words = (
        f"About {about:.1f} of {len(facts.features):,} coefficients are not zero"
        f"{' (mean over the classes)' if several else ''}; {sure:,} of "
        f"{'all ' if several else ''}{facts.included.size:,} with a probability above 95 %."
    )
    y = look.axis(Y, range=[-0.03, 1.03])
    return look.Section("Inclusion", words, look.figure(traces, look.axis(X), y))


def _sorted(chances: Array) -> Array:
    return np.sort(chances)[::-1]
