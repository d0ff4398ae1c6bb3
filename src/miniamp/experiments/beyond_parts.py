"""Beyond the paper: other priors and channels, each against its own state evolution."""

from __future__ import annotations

from miniamp import channels, priors, theory
from miniamp.experiments import look
from miniamp.experiments.figure import Figure, Scale, Tables, Task, every
from miniamp.experiments.streaming import MINI_AMP, THEORY, Setup, curve_rows, realisation
from miniamp.experiments.tables import CLOSE, CLOSE_QUICK, Claim, Row, beyond, deviation

#: Batch sizes and how they are drawn.
SIZES, ALPHA_MAX = {0.25: "-", 0.5: "--", 1.0: "-."}, 4.0

SPARSE, NOISY = priors.GaussBernoulli(rho=0.3, var=30.0), channels.Gaussian(var=0.01)
MODELS = {
    "logistic": Setup("logistic, sparse weights", SPARSE, channels.Logistic()),
    "poisson": Setup("Poisson, Gaussian weights", priors.Gaussian(), channels.Poisson()),
    "laplace": Setup(r"Gaussian $\Delta = 0.01$, Laplace weights", priors.Laplace(), NOISY),
}


def tasks(scale: Scale) -> list[Task]:
    """Theory, then one task per model, batch size and seed."""
    what = {"model": MODELS, "alpha_b": scale.choose(tuple(SIZES), (0.5, 1.0))}
    seeds, size = scale.realisations(10, 3), scale.choose(2000, 400)
    return every("model", predicted, **what) + every(
        "model", simulated, seed=seeds, **what, size=size
    )


def predicted(model: str, alpha_b: float) -> list[Row]:
    """State evolution."""
    curve = theory.learning_curve(*MODELS[model].model, alpha_b, alpha_max=ALPHA_MAX)
    return curve_rows(THEORY, curve, alpha_b=alpha_b)


def simulated(model: str, alpha_b: float, seed: int, size: int) -> list[Row]:
    """One realisation."""
    return realisation(*MODELS[model].model, size, alpha_b, round(ALPHA_MAX / alpha_b), seed)


def draw(tables: Tables) -> look.Canvas:
    """One panel per model."""
    made, axes = look.figure(10.0, 3.9, len(MODELS))
    handles = {}
    for ax, (name, model), mark in zip(axes, MODELS.items(), "abc", strict=True):
        table = tables[name]
        for i, (a, dash) in enumerate(SIZES.items()):
            line, style = table.where(kind=THEORY, alpha_b=a), look.style(i)
            if len(line):
                look.followed(ax, line, table.where(kind=MINI_AMP, alpha_b=a), style, dash=dash)
                label, marker = rf"$\alpha_b = {a:g}$", style.marker
                handles[a] = look.sample(label, color=style.colour, ls=dash, marker=marker, ms=5)
        ax.set(xlim=(0.0, ALPHA_MAX * 1.02), xlabel=r"$\alpha$ = rows seen / coefficients")
        look.plain_log(ax)
        look.letter(ax, mark, model.title)
    axes[0].set_ylabel("mean squared error")
    runs = "Mini-AMP, median and quartiles"
    kinds = (
        look.sample("state evolution", color="0.4"),
        look.sample(runs, color="0.4", ls="none", marker="o"),
    )
    look.below(made, 5, handles=[*handles.values(), *kinds])
    return made


def judge(tables: Tables, scale: Scale) -> list[Claim]:
    """Each follows its own state evolution."""
    found = []
    for name in MODELS:
        for a in tables[name].values("alpha_b"):
            runs = tables[name].where(kind=MINI_AMP, alpha_b=a)
            off = deviation(runs, tables[name].where(kind=THEORY, alpha_b=a))
            what = f"{name}: medians follow state evolution, alpha_b = {a:g}"
            found.append(beyond("d", what, str(off), off.mean < scale.choose(CLOSE, CLOSE_QUICK)))
    return found


FIGURE = Figure("Other priors and channels against their state evolution", tasks, draw, judge)
