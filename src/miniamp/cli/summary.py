"""A model in words: what `inspect` shows, and `fit` and `cluster` at their end."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.markup import escape

import miniamp
from miniamp.errors import printable, typed

if TYPE_CHECKING:
    from miniamp.cli.run import Estimator
    from miniamp.estimators.summary import Summary

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
        "batches": last["batch"] + 1,
        "solver": last["solver"],
        "reason": last["reason"],
        "error": _mean(history, "error"),
        "last_error": scored[-1]["error"] if scored else None,
        "forecast": scored[-1]["expected_error"] if scored else None,
        "theory": scored[-1].get("theory_error") if scored else None,
        "coverage": _mean(history, "coverage"),
        "hyper_parameters": {
            name: value
            for name, value in last.items()
            if name.startswith(("prior_", "noise_")) and not name.endswith("_learned")
        },
        "intercept": np.asarray(estimator.intercept_).tolist(),
        "coefficients": _strongest(estimator._summary(0.9, names), top),
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
        "clearest": miniamp.estimators.describe.separating(centres, std)[:top],
    }


def _strongest(found: Summary, top: int) -> list[dict[str, object]]:
    """The coefficients that are furthest from zero in units of their own uncertainty."""
    listed = []
    for i in np.argsort(-found.strength, kind="stable").tolist():
        if np.isfinite(found.strength[i]):  # the intercept is not
            row = {name: values[i] for name, values in found.columns.items()}
            own = {"class": row.pop("class")} if "class" in row else {}
            included = row.pop("inclusion", 1.0)
            one = {**own, "feature": row.pop("name"), **row, "inclusion_probability": included}
            listed.append(one)
    return listed[:top]


def errors_line(history: Sequence[Entry], classes: bool) -> str:
    """The prediction error, over all rows and over the latest, beside the expected one.

    The model's own prediction is always there; that of state evolution for independent features
    only.

    Examples
    --------
    >>> errors_line([{"rows": 5}, {"rows": 5, "error": 0.04, "expected_error": 0.09}], False)
    'error so far 0.2, latest 5 rows 0.2 (predicted 0.3)'
    """
    recent: Sequence[Entry] = miniamp.estimators.describe.latest(history)
    if not recent:
        return "no predictions yet"
    rows = sum(entry["rows"] for entry in recent)
    predicted = _predicted(_mean(recent, "expected_error"), _mean(recent, "theory_error"), classes)
    return (
        f"error so far {shown_error(_mean(history, 'error'), classes)}, latest {rows:,} rows "
        f"{shown_error(_mean(recent, 'error'), classes)} (predicted {predicted})"
    )


def _mean(history: Sequence[Entry], name: str) -> float | None:
    return miniamp.estimators.describe.mean_over_rows(history, name)


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


def show(
    estimator: Estimator, names: Sequence[str], console: Console, top: int = STRONGEST
) -> None:
    """Print the summary of a model, its errors and its health."""
    found = estimator._summary(0.9, names)
    if hasattr(estimator, "cluster_centers_"):
        lines = [found.text()]
    else:
        intercepts = int(np.sum(np.isinf(found.strength)))
        lines = [found.text(top + intercepts), *_about_fit(estimator)]
    for line in lines:
        console.print(escape(line), soft_wrap=True, highlight=False)


def _about_fit(estimator: Any) -> list[str]:
    history = estimator.history_
    last = history[-1]
    lines = [f"solver: {printable(last['solver'])} ({printable(last['reason'])})"]
    findings = [f"health: {printable(f.as_typed('shell'))}" for f in estimator.health_.findings]
    if any(entry.get("error") is not None for entry in history):
        lines.append(errors_line(history, hasattr(estimator, "classes_")))
        return lines + (findings or ["health: no problems found"])
    unknown = "health: unknown, as no row was predicted before it was learned from; use more rows"
    return lines + (findings or [f"{unknown} or a smaller --batch-size"])


def write_json(value: object) -> None:
    """One JSON document on standard output; what is no finite number is null."""
    sys.stdout.write(json.dumps(miniamp.estimators.describe.finite(value), indent=2) + "\n")
