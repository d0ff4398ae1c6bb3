"""`miniamp inspect`: show a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import typer

import miniamp
from miniamp.cli import cluster, fit, outputs
from miniamp.cli.app import command, option
from miniamp.cli.options import FILES, JSON, ModelFile
from miniamp.cli.saved import State, opened
from miniamp.errors import printable
from miniamp.streams import Schema


class InspectOptions(JSON):
    """Options of `inspect` alone."""

    top: int = option(
        10, None, "NUMBER",
        "Coefficients to list, strongest first; of clusters, features (at most 4).",
        min=0,
    )  # fmt: skip
    report: Path | None = option(None, FILES, "FILE", "Write an HTML report.")


@command(InspectOptions)
def inspect(model: ModelFile, **given: Any) -> None:
    """Show a saved model: its data, its strongest coefficients, and its health.

    Strongest means furthest from zero in units of their own uncertainty. Means and standard
    deviations are those of the posterior, in the units of the source. For a clustering: the share
    and the centre of every cluster.

    Example: miniamp inspect houses.amp --top 20 --report houses.html
    """
    top, report = given["top"], given["report"]
    outputs.require_outputs({"--report": report}, model=model)
    estimator, saved = opened(model)
    if saved is not None:
        names = tuple(Schema.from_dict(saved["reading"]["schema"]).feature_names)
    else:
        described = miniamp.estimators.describe
        names = tuple(described.feature_names(estimator, estimator.n_features_in_))
    if report is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
        miniamp.report.write_report(estimator, report)
    if given["as_json"]:
        about = outputs.described(estimator, names, top)
        outputs.write_json({**about, **_origin(saved), "history": estimator.history_})
        return
    clusters = hasattr(estimator, "cluster_centers_")
    lines = cluster.about(estimator, names) if clusters else fit.about(estimator, names, top)
    for name, value in _origin(saved).items():
        text = f"{name}: {value}"
        if name == "position":
            text = f"read so far: {value:,} {'row' if value == 1 else 'rows'} of the source"
        lines.append(text)
    if report is not None:
        lines.append(f"report: {report}")
    typer.echo("\n".join(map(printable, lines)))


def _origin(saved: State | None) -> dict[str, object]:
    """Where the rows came from."""
    if saved is None:
        return {}
    target = saved["options"].get("target")
    return {
        "source": "standard input" if saved["source"] == "-" else saved["source"],
        **({} if target is None else {"target": target}),
        "position": saved["reading"]["position"],
    }
