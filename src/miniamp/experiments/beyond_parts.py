"""Beyond the paper: other priors and channels, each against its own state evolution."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from miniamp import channels, priors, theory
from miniamp.channels import Channel
from miniamp.experiments import look
from miniamp.experiments.figure import Figure, Scale, Tables, Task, every
from miniamp.experiments.streaming import MINI_AMP, THEORY, curve_rows, realisation
from miniamp.experiments.tables import CLOSE, CLOSE_QUICK, Claim, Row, Table, deviation
from miniamp.priors import ScalarPrior

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

SIZES, ALPHA_MAX = (0.25, 0.5, 1.0), 4.0


class PartModel(NamedTuple):
    """A prior and a channel."""

    title: str
    prior: ScalarPrior
    channel: Channel


MODELS = {
    "logistic": PartModel(
        "logistic, sparse weights",
        priors.GaussBernoulli(rho=0.3, var=30.0),
        channels.Logistic(),
    ),
    "poisson": PartModel("Poisson, Gaussian weights", priors.Gaussian(), channels.Poisson()),
    "laplace": PartModel(
        r"Gaussian $\Delta = 0.01$, Laplace weights",
        priors.Laplace(scale=1.0),
        channels.Gaussian(var=0.01),
    ),
}


def tasks(scale: Scale) -> list[Task]:
    """Theory, then one task per model, batch size and seed."""
    size = scale.choose(2000, 400)
    sizes = scale.choose(SIZES, (0.5, 1.0))
    return every(
        "model", predicted, model=MODELS, alpha_b=sizes
    ) + every(
        "model", simulated,
        seed=scale.realisations(10, 3), model=MODELS, alpha_b=sizes, size=size,
    )  # fmt: skip


def predicted(model: str, alpha_b: float) -> list[Row]:
    """State evolution."""
    what = MODELS[model]
    curve = theory.learning_curve(what.prior, what.channel, alpha_b, alpha_max=ALPHA_MAX)
    return curve_rows(THEORY, curve, alpha_b=alpha_b)


def simulated(model: str, alpha_b: float, seed: int, size: int) -> list[Row]:
    """One realisation."""
    what, batches = MODELS[model], round(ALPHA_MAX / alpha_b)
    return realisation(what.prior, what.channel, size, alpha_b, batches, seed)


def draw(tables: Tables) -> Canvas:
    """One panel per model."""
    made, axes = look.figure(10.0, 3.9, len(MODELS))
    handles: dict[str, Line2D] = {}
    for ax, (name, model), mark in zip(axes, MODELS.items(), "abc", strict=True):
        _draw_model(ax, tables[name], handles)
        look.letter(ax, mark, model.title)
        ax.set_xlabel(r"$\alpha$ = rows seen / coefficients")
    axes[0].set_ylabel("mean squared error")
    look.below(made, list(handles.values()), list(handles), 5)
    return made


def _draw_model(ax: Axes, table: Table, handles: dict[str, Line2D]) -> None:
    from matplotlib.lines import Line2D

    ax.set_yscale("log")
    ax.set_xlim(0.0, ALPHA_MAX * 1.02)
    for i, a in enumerate(SIZES):
        line, style = table.where(kind=THEORY, alpha_b=a), look.style(i)
        if not len(line):
            continue
        ax.plot(line["alpha"], line["mse"], color=style.colour, ls=("-", "--", "-.")[i], zorder=2)
        look.followed(ax, line, table.where(kind=MINI_AMP, alpha_b=a), style)
        handles[rf"$\alpha_b = {a:g}$"] = Line2D(
            [], [], color=style.colour, ls=("-", "--", "-.")[i], marker=style.marker, ms=5
        )
    handles["state evolution"] = Line2D([], [], color="0.4")
    handles["Mini-AMP, median and quartiles"] = Line2D([], [], color="0.4", ls="none", marker="o")
    look.plain_log(ax)


def judge(tables: Tables, scale: Scale) -> list[Claim]:
    """Each follows its own state evolution."""
    found = []
    for name in MODELS:
        for a in tables[name].values("alpha_b"):
            runs = tables[name].where(kind=MINI_AMP, alpha_b=a)
            off = deviation(runs, tables[name].where(kind=THEORY, alpha_b=a))
            found.append(
                Claim(
                    "beyond d",
                    f"{name}: medians follow state evolution, alpha_b = {a:g}",
                    "not in the paper",
                    str(off),
                    off.mean < (CLOSE_QUICK if scale.quick else CLOSE),
                )
            )
    return found


FIGURE = Figure("Other priors and channels against their state evolution", tasks, draw, judge)
