"""A model in words: what `inspect` shows, and `fit` at its end."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from miniamp.cli.progress import mean_error, shown_error
from miniamp.cli.words import in_options

#: Coefficients that are listed.
STRONGEST = 10


def described(estimator: Any, names: tuple[str, ...], top: int = STRONGEST) -> dict[str, Any]:
    """The model as plain values."""
    history = estimator.history_
    last = history[-1]
    classes = getattr(estimator, "classes_", None)
    judged = [entry for entry in history if entry.get("error") is not None]
    return {
        "model": type(estimator).__name__,
        "task": "regression" if classes is None else "classification",
        "classes": None if classes is None else np.asarray(classes).tolist(),
        "rows": int(estimator.n_samples_seen_),
        "features": int(estimator.n_features_in_),
        "batches": len(history),
        "solver": last["solver"],
        "reason": last["reason"],
        "error": mean_error(history),
        "last_error": judged[-1]["error"] if judged else None,
        "forecast": judged[-1]["expected_error"] if judged else None,
        "theory": judged[-1].get("theory_error") if judged else None,
        "coverage": _mean_coverage(judged),
        "hyper_parameters": {
            name: value
            for name, value in last.items()
            if name.startswith(("prior_", "noise_")) and not name.endswith("_learned")
        },
        "intercept": np.asarray(estimator.intercept_).tolist(),
        "coefficients": _strongest(estimator, names, top),
        "health": [
            {"kind": f.kind, "message": f.message, "remedy": f.remedy}
            for f in estimator.health_.findings
        ],
    }


def _mean_coverage(judged: list[dict[str, Any]]) -> float | None:
    known = [entry for entry in judged if entry.get("coverage") is not None]
    rows = sum(entry["rows"] for entry in known)
    return sum(entry["coverage"] * entry["rows"] for entry in known) / rows if rows else None


def _strongest(estimator: Any, names: tuple[str, ...], top: int) -> list[dict[str, Any]]:
    """The coefficients that are furthest from zero in units of their own uncertainty."""
    mean, std, included = (
        np.atleast_2d(table)
        for table in (estimator.coef_, estimator.coef_std_, estimator.inclusion_probability_)
    )
    classes = getattr(estimator, "classes_", None)
    with np.errstate(divide="ignore", invalid="ignore"):
        strength = np.nan_to_num(np.abs(mean) / std, posinf=np.inf)
    order = np.argsort(-strength, axis=None, kind="stable")[:top]
    listed = []
    for place in order:
        k, j = np.unravel_index(place, mean.shape)
        one = {
            "feature": names[j],
            "mean": float(mean[k, j]),
            "std": float(std[k, j]),
            "inclusion_probability": float(included[k, j]),
        }
        if classes is not None and len(mean) > 1:
            one = {"class": str(classes[k]), **one}
        listed.append(one)
    return listed


def show(about: dict[str, Any], console: Console) -> None:
    """Print what `described` found."""
    classes = about["classes"] is not None
    what = about["task"]
    if classes:
        what += f" of {len(about['classes'])} classes ({_some(about['classes'])})"
    console.print(
        f"[bold]{escape(what)}[/bold]: {_count(about['rows'], 'row')}, "
        f"{_count(about['features'], 'feature')}, {_count(about['batches'], 'batch', 'batches')}",
        soft_wrap=True,
    )
    console.print(f"solver: {escape(about['solver'])} ({escape(about['reason'])})", soft_wrap=True)
    if about["error"] is not None:
        kind = "mistakes" if classes else "error (root mean square)"
        theory = about["theory"]
        also = "" if theory is None else f", theory {shown_error(theory, classes)}"
        console.print(
            f"{kind}, before learning: {shown_error(about['error'], classes)} over all rows, "
            f"{shown_error(about['last_error'], classes)} in the last batch, "
            f"forecast {shown_error(about['forecast'], classes)}{also}",
            soft_wrap=True,
        )
    if about["coverage"] is not None:
        console.print(f"90 % intervals held {100.0 * about['coverage']:.3g} % of the rows")
    numbers = ", ".join(
        f"{name.replace('_', ' ')} {value:.3g}" for name, value in about["hyper_parameters"].items()
    )
    if numbers:
        console.print(f"hyper-parameters: {numbers}", soft_wrap=True)
    if about["coefficients"]:
        console.print(_table(about))
    if not about["health"]:
        console.print("health: nothing found wrong")
    for finding in about["health"]:
        console.print(
            escape(in_options(f"health: {finding['message']} {finding['remedy']}")), soft_wrap=True
        )


def _table(about: dict[str, Any]) -> Table:
    several = "class" in about["coefficients"][0]
    sparse = any(one["inclusion_probability"] < 1.0 for one in about["coefficients"])
    table = Table(title="strongest coefficients", title_justify="left")
    for name in (["class"] if several else []) + ["feature"]:
        table.add_column(name, overflow="fold")
    for name in ["mean", "std"] + (["not zero"] if sparse else []):
        table.add_column(name, justify="right", no_wrap=True)
    for one in about["coefficients"]:
        cells = [escape(one["class"])] if several else []
        cells += [escape(one["feature"]), f"{one['mean']:.4g}", f"{one['std']:.2g}"]
        cells += [f"{100.0 * one['inclusion_probability']:.0f} %"] if sparse else []
        table.add_row(*cells)
    return table


def write_json(value: Any) -> None:
    """One JSON document on standard output; what is no finite number is null."""
    sys.stdout.write(json.dumps(_finite(value), indent=2) + "\n")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _some(classes: list[Any]) -> str:
    return ", ".join(map(str, classes[:5])) + (", ..." if len(classes) > 5 else "")


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
