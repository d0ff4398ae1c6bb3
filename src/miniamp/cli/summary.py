"""A model in words: what `inspect` shows, and `fit` and `cluster` at their end."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from miniamp.arrays import Array
from miniamp.errors import printable, typed

if TYPE_CHECKING:
    from miniamp.cli.run import Estimator

#: Coefficients that are listed, and features of clusters: those fit the width of a terminal.
STRONGEST, WIDTH = 10, 4

#: One batch of a history.
Entry = Mapping[str, Any]


def described(
    estimator: Estimator, names: Sequence[str], top: int = STRONGEST
) -> dict[str, object]:
    """The model as plain values."""
    if hasattr(estimator, "cluster_centers_"):
        return _clusters(estimator, names, min(top, WIDTH))
    history: Sequence[Entry] = estimator.history_
    last = history[-1]
    classes = getattr(estimator, "classes_", None)
    scored = [entry for entry in history if entry.get("error") is not None]
    return {
        "model": type(estimator).__name__,
        "task": "regression" if classes is None else "classification",
        "classes": None if classes is None else np.asarray(classes).tolist(),
        "rows": int(estimator.n_samples_seen_),
        "features": int(estimator.n_features_in_),
        "batches": len(history),
        "solver": last["solver"],
        "reason": last["reason"],
        "error": mean_over_rows(history, "error"),
        "last_error": scored[-1]["error"] if scored else None,
        "forecast": scored[-1]["expected_error"] if scored else None,
        "theory": scored[-1].get("theory_error") if scored else None,
        "coverage": mean_over_rows(history, "coverage"),
        "hyper_parameters": {
            name: value
            for name, value in last.items()
            if name.startswith(("prior_", "noise_")) and not name.endswith("_learned")
        },
        "intercept": np.asarray(estimator.intercept_).tolist(),
        "coefficients": _strongest(estimator, names, top),
        "health": [
            {"kind": f.kind, "message": typed(f.seen, "shell"), "remedy": typed(f.action, "shell")}
            for f in estimator.health_.findings
        ],
    }


def _clusters(estimator: Any, names: Sequence[str], top: int) -> dict[str, object]:
    """A clustering; `clearest` are the features that separate clusters best."""
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


def mean_over_rows(history: Sequence[Entry], name: str) -> float | None:
    """The mean over all rows that were predicted before they were learned."""
    known = [entry for entry in history if entry.get(name) is not None]
    rows = sum(entry["rows"] for entry in known)
    return sum(entry[name] * entry["rows"] for entry in known) / rows if rows else None


def _strongest(estimator: Any, names: Sequence[str], top: int) -> list[dict[str, object]]:
    """The coefficients that are furthest from zero in units of their own uncertainty."""
    mean, std, included = (
        np.atleast_2d(table)
        for table in (estimator.coef_, estimator.coef_std_, estimator.inclusion_probability_)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        strength = np.nan_to_num(np.abs(mean) / std, posinf=np.inf)
    found = []
    for place in np.argsort(-strength, axis=None, kind="stable")[:top]:
        k, j = np.unravel_index(place, mean.shape)
        own = {"class": str(estimator.classes_[k])} if len(mean) > 1 else {}
        found.append(
            {
                **own,
                "feature": names[j],
                "mean": float(mean[k, j]),
                "std": float(std[k, j]),
                "inclusion_probability": float(included[k, j]),
            }
        )
    return found


def errors_line(history: Sequence[Entry], classes: bool) -> str:
    """The prediction error, over all rows and for the last batch, beside the expected one.

    The model's own prediction is always there; that of state evolution for independent features
    only.

    Examples
    --------
    >>> errors_line([{"rows": 5}, {"rows": 5, "error": 0.04, "expected_error": 0.09}], False)
    'error so far 0.2, last batch 0.2 (predicted 0.3)'
    """
    scored = [entry for entry in history if entry.get("error") is not None]
    if not scored:
        return "no predictions yet"
    last = scored[-1]
    return (
        f"error so far {shown_error(mean_over_rows(scored, 'error'), classes)}, "
        f"last batch {shown_error(last['error'], classes)} "
        f"(predicted {_predicted(last['expected_error'], last.get('theory_error'), classes)})"
    )


def shown(text: object) -> str:
    """Text as it is: neither rich nor the terminal takes anything in it as a command."""
    return escape(printable(str(text)))


def shown_error(error: float | None, classes: bool) -> str:
    """A share of errors, or the root of a mean square, in the units of the target."""
    if error is None:
        return "unknown"
    return f"{100.0 * error:.3g} %" if classes else f"{error**0.5:.3g}"


def _predicted(model: float | None, theory: float | None, classes: bool) -> str:
    also = "" if theory is None else f", theory {shown_error(theory, classes)}"
    return f"{shown_error(model, classes)}{also}"


def show(about: Mapping[str, Any], console: Console) -> None:
    """Print what `described` found."""
    if about["task"] == "clustering":
        _show_clusters(about, console)
        return
    classes = about["classes"] is not None
    what = about["task"]
    if classes:
        some = ", ".join(map(str, about["classes"][:5]))
        more = ", ..." if len(about["classes"]) > 5 else ""
        what += f" of {len(about['classes'])} classes ({some}{more})"
    lines = [
        f"[bold]{shown(what)}[/bold]: {_size(about)}",
        f"solver: {shown(about['solver'])} ({shown(about['reason'])})",
    ]
    if about["error"] is not None:
        kind = "share of errors" if classes else "root mean square error"
        lines.append(
            f"{kind} on unseen rows: {shown_error(about['error'], classes)} over all rows, "
            f"{shown_error(about['last_error'], classes)} in the last batch "
            f"(predicted {_predicted(about['forecast'], about['theory'], classes)})"
        )
    if about["coverage"] is not None:
        lines.append(f"90 % intervals contained {100.0 * about['coverage']:.3g} % of the rows")
    numbers = ", ".join(
        f"{name.replace('_', ' ')} {value:.3g}" for name, value in about["hyper_parameters"].items()
    )
    if numbers:
        lines.append(f"learned parameters: {numbers}")
    for line in lines:
        console.print(line, soft_wrap=True)
    if about["coefficients"]:
        console.print(_table(about["coefficients"]))
    if not about["health"]:
        console.print("health: no problems found")
    for finding in about["health"]:
        console.print(shown(f"health: {finding['message']} {finding['remedy']}"), soft_wrap=True)


def _table(coefficients: Sequence[Mapping[str, Any]]) -> Table:
    several = "class" in coefficients[0]
    sparse = any(one["inclusion_probability"] < 1.0 for one in coefficients)
    table = Table(title="strongest coefficients", title_justify="left")
    for name in (["class"] if several else []) + ["feature"]:
        table.add_column(name, overflow="fold")
    for name in ["mean", "std"] + (["not zero"] if sparse else []):
        table.add_column(name, justify="right", no_wrap=True)
    for one in coefficients:
        cells = [shown(one["class"])] if several else []
        cells += [shown(one["feature"]), f"{one['mean']:.4g}", f"{one['std']:.2g}"]
        cells += [f"{100.0 * one['inclusion_probability']:.0f} %"] if sparse else []
        table.add_row(*cells)
    return table


def _show_clusters(about: Mapping[str, Any], console: Console) -> None:
    console.print(f"[bold]{about['clusters']} clusters[/bold]: {_size(about)}", soft_wrap=True)
    noise = np.sqrt(np.asarray(about["noise"]))
    much = f"{noise:.3g}" if noise.ndim == 0 else f"{noise.min():.3g} to {noise.max():.3g}"
    console.print(f"noise around a centre: standard deviation {much}", soft_wrap=True)
    clearest = about["clearest"]
    table = Table(title="centres, plus or minus one standard deviation", title_justify="left")
    for name in ("cluster", "share", *(about["feature_names"][j] for j in clearest)):
        table.add_column(
            shown(name), justify="right", no_wrap=name in ("cluster", "share"), overflow="fold"
        )
    for k, share in enumerate(about["weights"]):
        cells = [
            f"{about['centres'][k][j]:.3g} ± {about['centres_std'][k][j]:.1g}" for j in clearest
        ]
        table.add_row(str(k), f"{100.0 * share:.3g} %", *cells)
    console.print(table)
    features = about["features"]
    if features > len(clearest):
        console.print(
            f"the {len(clearest)} features that separate clusters best; --json has all {features}",
            soft_wrap=True,
        )


def _size(about: Mapping[str, Any]) -> str:
    return (
        f"{_count(about['rows'], 'row')}, {_count(about['features'], 'feature')}, "
        f"{_count(about['batches'], 'batch', 'batches')}"
    )


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def write_json(value: object) -> None:
    """One JSON document on standard output; what is no finite number is null."""
    sys.stdout.write(json.dumps(_finite(value), indent=2) + "\n")


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
