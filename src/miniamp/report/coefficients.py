"""Plots of what was learned: coefficients, inclusion probabilities, clusters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from miniamp import checks
from miniamp.arrays import Array
from miniamp.report.chart import HEIGHT, Axis, Bars, Chart, Series, nothing, plotted
from miniamp.report.facts import Facts

#: Features shown, and groups (classes, clusters): more could not be read.
MOST_FEATURES, MOST_GROUPS = 30, 6
#: Least height of the plot in pixels: a telephone shows one class per line above it.
LEAST_HEIGHT = 240
#: Standard deviations either side: 90 % of a Gaussian.
NINETY_PERCENT = 1.6448536269514722
#: Features whose standard deviations differ by more than this factor are drawn in units of these.
SAME_UNITS = 10.0
#: Points of a curve of inclusion probabilities.
MOST_POINTS = 2000
#: Clusters that are drawn, the largest first.
MOST_CLUSTERS = 40
#: Centres closer than this, in standard deviations of the noise, are hardly two clusters: between
#: two equal Gaussians there is no valley.
OVERLAP = 2.0


@plotted(100)
def plot_coefficients(facts: Facts, most: int = MOST_FEATURES) -> Chart:
    """Draw coefficients (centres of clusters) with 90 % intervals; returns the axes.

    Where units of the features differ they are drawn per standard deviation of the feature: else
    that of the smallest unit hides all others.

    Parameters
    ----------
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
    shown = strongest(facts, checks.count("most", most))
    clusters = facts.task == "clustering"
    mean, std = facts.mean[:, shown], facts.std[:, shown]
    centre, scale = _units(facts)[:, shown] if clusters else (0.0, facts.units[1, shown])
    known = scale[scale > 0.0]
    widest = np.ptp(mean) if clusters else known.max(initial=0.0)
    alike = len(known) == 0 or widest <= SAME_UNITS * known.min()
    if not alike and clusters:
        known = np.where(scale > 0.0, scale, 1.0)
        mean, std = (mean - centre) / known, std / known
    elif not alike:
        mean, std = scale * mean, scale * std
    names = [facts.features[i] for i in shown]
    groups = facts.groups[:MOST_GROUPS]
    places = np.arange(len(shown), dtype=float)
    series = [
        Series(
            name,
            mean[k],
            places + 0.6 * (k - 0.5 * (len(groups) - 1)) / len(groups),
            joined=False,
            error_x=NINETY_PERCENT * std[k],
            texts=names,
            hover="%{text}: %{x:.4g} ± %{error_x.array:.2g}",
        )
        for k, name in enumerate(groups)
    ]
    words = "Posterior means with intervals that contain the truth with probability 90 %"
    title, per = "value", ", less the mean of all samples and in standard deviations of the feature"
    if not clusters:
        title, per = "coefficient, 90 % interval", ", per standard deviation of the feature"
    if not alike:
        title = "standard deviations from the mean" if clusters else "per standard deviation"
    words += "." if alike else f"{per}, since units differ."
    if len(shown) < len(facts.features):
        words += f" The {len(shown)} most certain of {len(facts.features):,}, most certain first."
    if len(groups) < len(facts.groups):
        words += f" The first {len(groups)} of {len(facts.groups)}."
    x, y = Axis(title, zero=True), Axis("", labels=names, range=(len(shown) - 0.4, -0.6))
    height = max(LEAST_HEIGHT, 110 + max(1, len(shown)) * max(20, 8 * len(groups)))
    heading, wide = "Centres" if clusters else "Coefficients", len(shown) > 16
    return Chart(heading, words, x, y, series, wide=wide, height=height)


def _units(facts: Facts) -> Array:
    """Mean and standard deviation of each feature over all samples of a clustering, (2, N)."""
    centre = facts.weights @ facts.mean
    between = facts.weights @ np.square(facts.mean - centre)
    return np.stack([centre, np.sqrt(between + facts.noise)])


def strongest(facts: Facts, most: int) -> NDArray[np.int64]:
    """Indices of the features furthest from zero, or between clusters, most certain first."""
    std = np.maximum(facts.std, np.finfo(float).tiny)
    away = facts.mean - facts.mean.mean(axis=0) if facts.task == "clustering" else facts.mean
    clear = np.max(np.abs(away) / std, axis=0)
    return np.argsort(-clear, kind="stable")[:most]


@plotted(90)
def plot_inclusion(facts: Facts) -> Chart:
    """Draw inclusion probabilities, sorted; returns the axes.

    Needs a prior with a spike at zero, such as prior="sparse".
    """
    if facts.included is None:
        received = "a prior under which no coefficient is exactly zero"
        raise nothing(received, "one with a spike at zero", "use {prior=sparse}")
    series = []
    for name, chances in zip(facts.groups, facts.included, strict=True):
        order = np.argsort(-chances, kind="stable")[:MOST_POINTS]
        ranks = np.arange(1.0, len(order) + 1.0)
        texts = [facts.features[i] for i in order]
        series.append(Series(name, ranks, chances[order], texts=texts, hover="%{text}: %{y:.3f}"))
    about, certain = facts.included.sum(axis=1).mean(), int(np.sum(facts.included > 0.95))
    several = len(facts.groups) > 1
    kinds = "targets" if facts.task == "regression" else "classes"
    words = (
        f"About {about:.1f} of {len(facts.features):,} coefficients are not zero"
        f"{f' (mean over the {kinds})' if several else ''}; {certain:,} of "
        f"{'all ' if several else ''}{facts.included.size:,} with a probability above 95 %."
    )
    x = Axis("coefficients, most certain first")
    return Chart("Inclusion", words, x, Axis("inclusion probability", range=(-0.03, 1.03)), series)


@plotted(20)
def plot_clusters(facts: Facts) -> Chart:
    """Draw the shares of the clusters, the largest first; returns the axes.

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
    if facts.task != "clustering":
        raise nothing(
            f"a {facts.task}", "a fitted MiniAMPClusterer", "use plot_coefficients for others"
        )
    order = np.argsort(-facts.weights, kind="stable")[:MOST_CLUSTERS]
    nearest, distance = neighbours(facts)
    texts = []
    for k in order:
        text = f"{facts.groups[k]}: {facts.weights[k]:.1%}"
        if len(facts.weights) > 1:
            text += f"; nearest: {facts.groups[nearest[k]]}, {_apart(distance[k])}"
        texts.append(text)
    words = "Share of the samples in each cluster; early ones count less."
    if len(order) < len(facts.weights):
        words += f" The {len(order)} largest of {len(facts.weights):,}."
    if len(facts.weights) > 1:
        close = int(np.argmin(distance))
        words += (
            f" The closest two centres, {facts.groups[close]} and {facts.groups[nearest[close]]}, "
            f"are {_apart(distance[close])}."
        )
    names = [facts.groups[k] for k in order]
    most = 1.15 * float(facts.weights.max())
    x = Axis("share of the samples", range=(0.0, most), percent=True)
    y = Axis("", labels=names, range=(len(order) - 0.4, -0.6))
    bars, height = Bars(facts.weights[order], names, texts), max(HEIGHT, 110 + 28 * len(order))
    return Chart("Clusters", words, x, y, bars=bars, height=height)


def overlapping(facts: Facts) -> list[tuple[str, str]]:
    """Message and remedy for every two clusters that are hardly two, and for empty ones."""
    nearest, distance = neighbours(facts)
    close = np.flatnonzero(distance < OVERLAP)
    pairs = {frozenset((int(k), int(nearest[k]))): distance[k] for k in close}
    remedy = "Ask for fewer clusters, or try more starts (n_init=, n_init_batches=)."
    found = []
    for pair, apart in list(pairs.items())[:3]:
        both = _capital(" and ".join(facts.groups[k] for k in sorted(pair)))
        found.append((f"{both} overlap: their centres are {_apart(apart)}.", remedy))
    empty = [facts.groups[k] for k in np.flatnonzero(facts.weights * facts.rows_seen < 1.0)]
    if empty:
        found.append((f"{_capital(', '.join(empty[:8]))}: no samples.", remedy))
    return found


def neighbours(facts: Facts) -> tuple[NDArray[np.int64], Array]:
    """For each cluster the nearest other one, and how far in standard deviations of the noise."""
    centres = facts.mean / np.sqrt(np.maximum(facts.noise, np.finfo(float).tiny))
    square = np.square(centres).sum(axis=1)
    distance = np.sqrt(np.maximum(square[:, None] - 2.0 * centres @ centres.T + square, 0.0))
    np.fill_diagonal(distance, np.inf)
    nearest = distance.argmin(axis=1)
    return nearest, distance[np.arange(len(distance)), nearest]


def _apart(distance: float) -> str:
    return f"{distance:.3g} standard deviations of the noise apart"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
