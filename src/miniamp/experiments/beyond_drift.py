"""Beyond the paper: coefficients that drift, how much to forget, and the error that is left."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from miniamp import channels, priors, theory
from miniamp.absorb import Stop, absorb
from miniamp.designs import Averaged
from miniamp.evidence import Batch
from miniamp.experiments import look
from miniamp.experiments.figure import Figure, Scale, Tables, Task, every
from miniamp.experiments.streaming import MINI_AMP, THEORY, Setup, seeded
from miniamp.experiments.tables import Claim, Row, beyond, medians
from miniamp.posterior import Posterior

ALPHA_B = 0.5
FACTORS = (0.5, 0.7, 0.8, 0.9, 0.95)
BEST = "best"
STOP = Stop(max_iter=200, tol=1e-6)
#: Batches over which the error is averaged, after what was known at the start is forgotten.
COUNTED = 10
#: Medians must be this close to the theory, in decades: a drifting sparse signal changes in a
#: handful of large coefficients at a time, so that ten batches scatter by a fifth.
CLOSE, CLOSE_QUICK = 0.1, 0.25


@dataclass(frozen=True)
class Drifting(Setup):
    """A prior, a channel, and how the coefficients move."""

    drift: float
    replaced: bool


#: Noise of the two, and the sparse prior.
LOUD, QUIET = channels.Gaussian(var=0.1), channels.Gaussian(var=0.01)
SPARSE = priors.GaussBernoulli(rho=0.2)
MODELS = {
    "gradual": Drifting("Gaussian, gradual", priors.Gaussian(), LOUD, 0.02, replaced=False),
    "replaced": Drifting("sparse, replaced", SPARSE, QUIET, 0.04, replaced=True),
}


def tasks(scale: Scale) -> list[Task]:
    """Theory, then one task for each model, factor and seed."""
    factors, size = scale.choose(FACTORS, (0.7, 0.9)), scale.choose(2000, 300)
    seeds = scale.realisations(10, 2)
    return every("errors", predicted, model=MODELS, points=scale.choose(40, 9)) + every(
        "errors", simulated, seed=seeds, model=MODELS, forget=factors, size=size
    )


def predicted(model: str, points: int) -> list[Row]:
    """Long-run errors for factors on a grid and at those simulated, and the best one."""
    what = MODELS[model]
    given = *what.model, ALPHA_B, what.drift
    found = [
        (THEORY, theory.long_run(*given, forget, what.replaced))
        for forget in sorted({*np.linspace(0.4, 0.97, points).tolist(), *FACTORS})
    ]
    found.append((BEST, theory.best_forget(*given, what.replaced)))
    return [
        {"kind": kind, "model": model, "forget": run.forget, "mse": run.mse} for kind, run in found
    ]


def simulated(model: str, forget: float, seed: int, size: int) -> list[Row]:
    """The mean error of one stream, once its start is forgotten."""
    what, rng = MODELS[model], seeded(forget, seed, len(model))
    x, belief = what.prior.sample(rng, size), Posterior(what.prior, size)
    kept, errors = np.sqrt(1.0 - what.drift), []
    for _ in range(int(np.ceil(4.0 / (1.0 - forget))) + COUNTED):
        fresh = what.prior.sample(rng, size)
        moved = kept * x + np.sqrt(what.drift) * fresh
        x = np.where(rng.random(size) < 1.0 - kept, fresh, x) if what.replaced else moved
        Phi = rng.normal(size=(round(ALPHA_B * size), size)) / np.sqrt(size)
        rows = Batch(Averaged(Phi), what.channel.sample(rng, Phi @ x), what.channel)
        belief, _ = absorb(belief, rows, STOP, forget=forget)
        errors.append(float(np.mean(np.square(belief.mean - x))))
    mse = float(np.mean(errors[-COUNTED:]))
    return [{"kind": MINI_AMP, "model": model, "forget": forget, "seed": seed, "mse": mse}]


def draw(tables: Tables) -> look.Canvas:
    """Long-run error against the factor, one panel for each model."""
    made, axes = look.figure(8.0, 3.8, len(MODELS))
    for ax, (name, model), mark in zip(axes, MODELS.items(), "ab", strict=True):
        own, style = tables["errors"].where(model=name), look.style(0)
        line, best = own.where(kind=THEORY), own.where(kind=BEST)
        ax.plot(line["forget"], line["mse"], color=style.colour, label="theory")
        factors, *quartiles = medians(own.where(kind=MINI_AMP), "forget", "mse")
        look.bars(ax, factors, quartiles, style, zorder=3)
        ax.plot(best["forget"], best["mse"], "*", color="black", ms=12, label="best_forget")
        ax.set(yscale="log", xlabel="kept per batch (forget)")
        look.letter(ax, mark, model.title)
        look.plain_log(ax)
    axes[0].set_ylabel("mean squared error, long run")
    axes[0].legend(loc="upper center")
    return made


def judge(tables: Tables, scale: Scale) -> list[Claim]:
    """Medians follow the long-run theory."""
    found = []
    for name, model in MODELS.items():
        own = tables["errors"].where(model=name)
        factors, median, _, _ = medians(own.where(kind=MINI_AMP), "forget", "mse")
        line, best = own.where(kind=THEORY), own.where(kind=BEST)["forget"][0]
        expected = np.array([line["mse"][np.argmin(np.abs(line["forget"] - f))] for f in factors])
        off = float(np.max(np.abs(np.log10(median / expected))))
        what = f"long-run error of a drifting stream, {model.title}"
        ours = f"within {off:.3f} decades; best factor {best:.2f}"
        found.append(beyond("f", what, ours, off < scale.choose(CLOSE, CLOSE_QUICK)))
    return found


FIGURE = Figure("How much a drifting stream should forget", tasks, draw, judge)
