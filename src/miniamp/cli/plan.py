"""`miniamp plan`: which batch size to use, before any data are seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import miniamp
from miniamp import checks
from miniamp.channels.base import Channel
from miniamp.cli.app import command, number, option, picture
from miniamp.cli.fit import channel_of, prior_of
from miniamp.cli.options import JSON, PRIORS
from miniamp.cli.outputs import require_outputs, write_json
from miniamp.priors import GaussBernoulli, Gaussian, ScalarPrior

if TYPE_CHECKING:
    from miniamp.theory import Plan


class PlanOptions(JSON):
    """Options of `plan` alone."""

    features: int = option(..., None, "N", "Number of coefficients.", min=1)
    sparsity: float | None = option(
        None, None, "SHARE",
        "Share of the coefficients that are not zero, each of variance 1; 1 by default.",
        callback=number(0, 1, closed=True),
    )  # fmt: skip
    prior: str | None = option(
        None, None, "PRIOR",
        "Instead of --sparsity: gaussian, sparse, laplace or nonnegative, with numbers such as "
        "laplace:scale=2.",
    )  # fmt: skip
    noise: float = option(0.01, None, "VARIANCE", "Variance of the noise on every row.", min=0.0)
    channel: str = option(
        "gaussian", None, "CHANNEL",
        "How rows are observed: gaussian or probit (with --noise), logistic, poisson, "
        "student-t:df=4.",
    )  # fmt: skip
    target_mse: float | None = option(
        None, None, "ERROR",
        "Mean squared error to reach; one percent of the prior variance by default.",
        callback=number(0),
    )  # fmt: skip
    budget_rows: int | None = option(None, None, "ROWS", "Rows available at most.", min=1)
    max_memory: str | None = option(
        None, None, "BYTES", "Memory for a batch at most, such as 500MB."
    )
    plot: Path | None = option(
        None, None, "FILE", "Draw the predicted learning curves here (.png, .pdf or .svg).",
        callback=picture,
    )  # fmt: skip


@command(PlanOptions)
def plan(**given: Any) -> None:
    """Compute from theory how many rows are needed, and choose a batch size.

    For independent features, state evolution predicts the error after every batch: how many rows a
    target needs and how much memory a batch takes. Rows have entries of variance 1/N.

    Example: miniamp plan --features 10000 --sparsity 0.05 --noise 1e-4 --target-mse 1e-3
    """
    plot = given["plot"]
    if None not in (given["sparsity"], given["prior"]):
        raise typer.BadParameter("use --sparsity or --prior, not both")
    require_outputs({"--plot": plot})
    found = miniamp.theory.plan(
        _prior(given["sparsity"], given["prior"]),
        _channel(given["channel"], given["noise"]),
        given["features"],
        **{name: given[name] for name in ("target_mse", "budget_rows", "max_memory")},
    )
    if given["as_json"]:
        write_json(_plain(found))
    else:
        typer.echo(str(found))
    if plot is not None:
        figure = checks.needed("matplotlib.figure", "--plot").Figure(
            (7.0, 4.5), layout="constrained"
        )
        found.plot(figure.subplots())
        figure.savefig(plot, dpi=150)
        if not given["as_json"]:
            typer.echo(f"plot: {plot}")


def _prior(sparsity: float | None, prior: str | None) -> ScalarPrior:
    if prior is None:
        sparse = sparsity is not None and sparsity < 1.0
        return GaussBernoulli(rho=sparsity) if sparse else Gaussian()
    given = prior_of(prior)
    return PRIORS[given].default() if isinstance(given, str) else given


def _channel(name: str, noise: float) -> Channel:
    with_noise = f"{name}:var={noise!r}" if name in ("gaussian", "probit") else name
    return channel_of(with_noise, "--channel")


def _plain(found: Plan) -> dict[str, object]:
    names = ("name", "batch_rows", "alpha_b", "memory", "rows", "mse")
    pick, *choices = (
        {name: getattr(choice, name) for name in names} for choice in (found.pick, *found.choices)
    )
    return {
        "features": found.features,
        "target_mse": found.target_mse,
        "budget_rows": found.budget_rows,
        "max_memory": found.max_memory,
        "pick": pick,
        "choices": choices,
        "memory_cost": found.memory_cost,
        "hard_rows": found.hard_rows,
        "schedule": None
        if found.schedule is None
        else {
            "batch_rows": [round(size * found.features) for size in found.schedule.sizes],
            "mse": found.schedule.mse,
        },
        "advice": found.advice(),
    }
