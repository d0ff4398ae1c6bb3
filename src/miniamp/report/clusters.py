"""Clusters: how large each is, and how far from its nearest neighbour."""

from __future__ import annotations

from typing import Any

import numpy as np

from miniamp.arrays import Array
from miniamp.errors import InvalidInputError
from miniamp.report import look
from miniamp.report.facts import Facts

X = "share of the samples"
#: Clusters that are drawn, the largest first.
MOST_CLUSTERS = 40
#: Centres closer than this, in standard deviations of the noise, make one heap, not two: between
#: two equal Gaussians there is no valley.
ONE_HEAP = 2.0


def plot_clusters(estimator: Any, ax: Any = None) -> Any:
    """Shares of the clusters, the largest first, on matplotlib axes; gives the axes.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import MiniAMPClusterer
    >>> X = np.repeat([[0.0, 3.0], [3.0, 0.0]], [30, 10], axis=0)
    >>> X += 0.1 * np.random.default_rng(0).normal(size=X.shape)
    >>> ax = plot_clusters(MiniAMPClusterer(2, random_state=0).fit(X))
    >>> [round(float(bar.get_width()), 2) for bar in ax.patches]
    [0.75, 0.25]
    """
    facts = Facts.of(estimator)
    if facts.task != "clustering":
        raise InvalidInputError(
            f"estimator: got a {facts.task}, expected a fitted MiniAMPClusterer; the coefficients "
            "of others are drawn by plot_coefficients"
        )
    weights, order = _shares(facts)
    ax = look.axes(ax, X, "")
    ax.barh(np.arange(len(order)), weights[order], color=look.COLOURS[0], height=0.6)
    ax.set_yticks(np.arange(len(order)), [facts.groups[k] for k in order])
    ax.invert_yaxis()
    return ax


def section(facts: Facts) -> look.Section | None:
    """The card of the page; none where there are no clusters."""
    if facts.task != "clustering":
        return None
    weights, order = _shares(facts)
    nearest, far = neighbours(facts)
    told = [
        f"nearest: {facts.groups[nearest[k]]}, {far[k]:.3g} standard deviations of the noise"
        if len(weights) > 1
        else "alone"
        for k in order
    ]
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": look.numbers(weights[order]),
        "y": [facts.groups[k] for k in order],
        "marker": {"color": look.series(0)},
        "width": 0.6,
        "text": [f"{weights[k]:.1%}" for k in order],
        "textposition": "outside",
        "cliponaxis": False,
        "customdata": told,
        "hovertemplate": "%{y}: %{text}, %{customdata}<extra></extra>",
        "name": "share",
    }
    words = "Share of the samples in each cluster, the early ones faded."
    if len(order) < len(weights):
        words += f" The {len(order)} largest of {len(weights):,}."
    if len(weights) > 1:
        close = int(np.argmin(far))
        words += (
            f" The closest two centres, {facts.groups[close]} and {facts.groups[nearest[close]]}, "
            f"are {far[close]:.3g} standard deviations of the noise apart."
        )
    x = look.axis(X, range=[0.0, 1.15 * float(weights.max())], tickformat=".0%")
    y = look.axis("", autorange="reversed", showgrid=False, type="category")
    figure = look.figure([trace], x, y, height=max(340, 110 + 28 * len(order)))
    return look.Section("Clusters", words, figure)


def one_heap(facts: Facts) -> list[tuple[str, str]]:
    """Message and remedy for every two clusters that are hardly two, and for empty ones."""
    nearest, far = neighbours(facts)
    pairs = {frozenset((int(k), int(nearest[k]))): far[k] for k in np.flatnonzero(far < ONE_HEAP)}
    remedy = "Ask for fewer clusters, or try more starts (n_init=, n_init_batches=)."
    found = []
    for pair, apart in list(pairs.items())[:3]:
        both = " and ".join(facts.groups[k] for k in sorted(pair))
        message = (
            f"{_first(both)} can hardly be told apart: their centres are {apart:.2g} standard "
            "deviations of the noise apart."
        )
        found.append((message, remedy))
    samples = facts.estimator.cluster_weights_ * facts.estimator.n_samples_seen_
    empty = [facts.groups[k] for k in np.flatnonzero(samples < 1.0)]
    if empty:
        found.append((f"{_first(', '.join(empty[:8]))}: no samples.", remedy))
    return found


def neighbours(facts: Facts) -> tuple[Any, Array]:
    """For each cluster the nearest other one, and how far in standard deviations of the noise."""
    centres = facts.mean / np.sqrt(np.maximum(facts.estimator.noise_, np.finfo(float).tiny))
    square = np.square(centres).sum(axis=1)
    far = np.sqrt(np.maximum(square[:, None] - 2.0 * centres @ centres.T + square, 0.0))
    np.fill_diagonal(far, np.inf)
    nearest = far.argmin(axis=1)
    return nearest, far[np.arange(len(far)), nearest]


def _shares(facts: Facts) -> tuple[Array, Any]:
    weights = np.asarray(facts.estimator.cluster_weights_)
    return weights, np.argsort(-weights, kind="stable")[:MOST_CLUSTERS]


def _first(text: str) -> str:
    return text[:1].upper() + text[1:]
