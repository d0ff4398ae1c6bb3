"""`miniamp inspect`: what is in a model."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from miniamp.cli import options


def inspect(
    model: options.ModelFile,
    top: Annotated[
        int,
        typer.Option(
            metavar="NUMBER",
            help="Coefficients to list, strongest first; of clusters, features (at most 4).",
            min=0,
        ),
    ] = 10,
    as_json: options.AsJSON = False,
) -> None:
    """Show what a model is, what it has seen, its strongest coefficients, and its health.

    Strongest means furthest from zero in units of their own uncertainty. Means and standard
    deviations are those of the posterior, in the units of the source. Of a clustering: the share
    and the centre of every cluster.

    Example: miniamp inspect houses.amp --top 20
    """
    from miniamp.cli import centres, summary
    from miniamp.cli.run import feature_names, opened

    estimator, saved = opened(model)
    if saved is not None:
        names = feature_names(saved["reading"])
    else:
        known = getattr(estimator, "feature_names_in_", None)
        names = tuple(f"x{j}" for j in range(estimator.n_features_in_)) if known is None else known
    # Either has `described` and `show`.
    words: Any = centres if hasattr(estimator, "cluster_centers_") else summary
    about = words.described(estimator, names, top)
    if as_json:
        summary.write_json({**about, **_of_run(saved), "history": estimator.history_})
        return
    console = Console()
    words.show(about, console)
    for name, value in _of_run(saved).items():
        console.print(f"{name}: {value}", soft_wrap=True, markup=False, highlight=False)


def _of_run(saved: dict[str, Any] | None) -> dict[str, Any]:
    """Where the rows came from."""
    if saved is None:
        return {}
    target = saved["options"].get("target")
    return {
        "source": "standard input" if saved["source"] == "-" else saved["source"],
        **({} if target is None else {"target": target}),
        "position": saved["reading"]["position"],
    }
