"""A clustering in words: what `cluster` shows at its end, and `inspect`."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from miniamp.arrays import Array

#: Features that fit the width of a terminal.
WIDTH = 4


def described(estimator: Any, names: tuple[str, ...], top: int = WIDTH) -> dict[str, Any]:
    """The model as plain values; `clearest` are the features that tell clusters apart best."""
    centres, std = estimator.cluster_centers_, estimator.cluster_std_
    return {
        "model": type(estimator).__name__,
        "task": "clustering",
        "clusters": len(centres),
        "rows": int(estimator.n_samples_seen_),
        "features": len(names),
        "batches": len(estimator.history_),
        "noise": np.asarray(estimator.noise_).tolist(),
        "feature_names": [str(name) for name in names],
        "weights": estimator.cluster_weights_.tolist(),
        "centres": centres.tolist(),
        "centres_std": std.tolist(),
        "clearest": _clearest(centres, std, top),
    }


def _clearest(centres: Array, std: Array, top: int) -> list[int]:
    """Features by how far the centres are apart in units of their uncertainty, in their order."""
    far = np.abs(centres - centres.mean(axis=0)) / np.maximum(std, np.finfo(float).tiny)
    best = np.argsort(-far.max(axis=0), kind="stable")[:top]
    return [int(j) for j in np.sort(best)]


def show(about: dict[str, Any], console: Console) -> None:
    """Print what `described` found."""
    rows, features, batches = about["rows"], about["features"], about["batches"]
    console.print(
        f"[bold]{about['clusters']} clusters[/bold]: {rows:,} rows, {features} features, "
        f"{batches} {'batch' if batches == 1 else 'batches'}",
        soft_wrap=True,
    )
    noise = np.sqrt(np.asarray(about["noise"]))
    much = f"{noise:.3g}" if noise.ndim == 0 else f"{noise.min():.3g} to {noise.max():.3g}"
    console.print(f"noise around a centre: standard deviation {much}", soft_wrap=True)
    shown = about["clearest"][:WIDTH]
    table = Table(title="centres, give or take one standard deviation", title_justify="left")
    for name in ("cluster", "share", *(about["feature_names"][j] for j in shown)):
        table.add_column(
            escape(name), justify="right", no_wrap=name in ("cluster", "share"), overflow="fold"
        )
    for k, share in enumerate(about["weights"]):
        cells = [f"{about['centres'][k][j]:.3g} ± {about['centres_std'][k][j]:.1g}" for j in shown]
        table.add_row(str(k), f"{100.0 * share:.3g} %", *cells)
    console.print(table)
    if features > len(shown):
        console.print(
            f"the {len(shown)} features that tell clusters apart best; --json has all {features}",
            soft_wrap=True,
        )
