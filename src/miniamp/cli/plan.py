"""`miniamp plan`: which batch size to take, before any data have been seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from miniamp.cli import choices, options


def plan(
    features: Annotated[
        int, typer.Option(metavar="N", help="Number of coefficients.", min=1, show_default=False)
    ],
    sparsity: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Share of the coefficients that are not zero, each of variance 1; 1 by default.",
            callback=choices.fraction,
            show_default=False,
        ),
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(
            metavar="PRIOR",
            help="Instead of --sparsity: gaussian, sparse, laplace or nonnegative, with numbers "
            "such as laplace:scale=2.",
            show_default=False,
        ),
    ] = None,
    noise: Annotated[
        float,
        typer.Option(metavar="VARIANCE", help="Variance of the noise on every row.", min=0.0),
    ] = 0.01,
    channel: Annotated[
        str,
        typer.Option(
            metavar="CHANNEL",
            help="How rows are seen: gaussian or probit (with --noise), logistic, poisson, "
            "student-t:df=4.",
        ),
    ] = "gaussian",
    target_mse: Annotated[
        float | None,
        typer.Option(
            metavar="ERROR",
            help="Mean squared error to reach; one percent of the prior variance by default.",
            callback=choices.positive,
            show_default=False,
        ),
    ] = None,
    budget_rows: Annotated[
        int | None,
        typer.Option(
            metavar="ROWS", help="Rows that can be had at most.", min=1, show_default=False
        ),
    ] = None,
    max_memory: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES", help="What a batch may take, such as 500MB.", show_default=False
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw the predicted learning curves here (.png, .pdf or .svg).",
            show_default=False,
        ),
    ] = None,
    as_json: options.AsJSON = False,
) -> None:
    """Say which batch size to take, from the theory alone, and what each would cost.

    For independent features, state evolution foretells the error after every batch: how many rows
    a target needs and how much memory a batch takes. Rows have entries of variance 1/N.

    Example: miniamp plan --features 10000 --sparsity 0.05 --noise 1e-4 --target-mse 1e-3
    """
    if sparsity is not None and prior is not None:
        raise typer.BadParameter("say --sparsity or --prior, not both")
    choices.require_place("--plot", plot)
    if plot is not None and plot.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise typer.BadParameter(f"got {plot}, expected .png, .pdf or .svg", param_hint="--plot")

    from miniamp import theory

    found = theory.plan(
        _prior(sparsity, prior),
        _channel(channel, noise),
        features,
        target_mse=target_mse,
        budget_rows=budget_rows,
        max_memory=max_memory,
    )
    if as_json:
        from miniamp.cli.summary import write_json

        write_json(_plain(found))
    else:
        Console().print(found)
    if plot is not None:
        _draw(found, plot, quiet=as_json)


def _prior(sparsity: float | None, prior: str | None) -> Any:
    from miniamp import priors

    if prior is None:
        sparse = sparsity is not None and sparsity < 1.0
        return priors.GaussBernoulli(rho=sparsity) if sparse else priors.Gaussian()
    given = choices.prior_of(prior)
    return getattr(priors, choices.PRIORS[given])() if isinstance(given, str) else given


def _channel(name: str, noise: float) -> Any:
    if name in ("gaussian", "probit"):
        name = f"{name}:var={noise!r}"
    return choices.channel_of(name, "--channel")


def _plain(found: Any) -> dict[str, Any]:
    def one(choice: Any) -> dict[str, Any]:
        names = ("name", "batch_rows", "alpha_b", "memory", "rows", "mse")
        return {name: getattr(choice, name) for name in names}

    return {
        "features": found.features,
        "target_mse": found.target_mse,
        "budget_rows": found.budget_rows,
        "max_memory": found.max_memory,
        "pick": one(found.pick),
        "choices": [one(choice) for choice in found.choices],
        "memory_cost": found.memory_cost,
        "hard_rows": found.hard_rows,
        "advice": found.advice(),
    }


def _draw(found: Any, path: Path, quiet: bool) -> None:
    from miniamp.errors import MissingExtraError

    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError(
            'drawing needs matplotlib; install it with pip install "miniamp[report]"'
        ) from None
    figure = Figure(figsize=(7.0, 4.5), layout="constrained")
    found.plot(figure.subplots())
    figure.savefig(path, dpi=150)
    if not quiet:
        Console().print(f"plot: {path}", soft_wrap=True, highlight=False, markup=False)
