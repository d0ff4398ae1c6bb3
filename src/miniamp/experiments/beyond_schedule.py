"""Beyond the paper: the same rows in batches of different sizes, and the best sequence of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from miniamp import channels, priors, theory
from miniamp.absorb import Stop, absorb, stream
from miniamp.datasets import glm_stream
from miniamp.designs import Averaged
from miniamp.evidence import Batch
from miniamp.experiments import look
from miniamp.experiments.figure import Figure, Scale, Tables, Task, every
from miniamp.experiments.streaming import MINI_AMP, STOP, THEORY, seeded
from miniamp.experiments.tables import Claim, Row, beyond, medians, rows_of
from miniamp.posterior import Posterior
from miniamp.theory import ConvergedBatch, Law

PRIOR, CHANNEL = priors.GaussBernoulli(rho=0.3), channels.Gaussian(var=1e-4)
ROWS, LARGEST = 1.2, 0.55
#: Every size is a multiple of this, so that all plans see the same rows.
UNIT = 0.05
#: Medians must be this close to the theory at the end of the stream, in decades.
CLOSE, CLOSE_QUICK = 0.1, 0.5
BEST = "best schedule"
PLANS = {
    "24 equal batches": (0.05,) * 24,
    "6 equal batches": (0.2,) * 6,
    "one large batch last": (*(0.05,) * 13, 0.55),
    "one large batch first": (0.55, *(0.05,) * 13),
}


def tasks(scale: Scale) -> list[Task]:
    """The schedule and its theory, then one task for each plan and seed."""
    size = scale.choose(2000, 400)
    plans = (*PLANS, BEST)
    return every("errors", predicted, plan=plans) + every(
        "errors", simulated, seed=scale.realisations(10, 3), plan=plans, size=size
    )


@cache
def sizes_of(plan: str) -> Sequence[float]:
    """Batch sizes of a plan; those of the schedule are rounded to whole units."""
    if plan in PLANS:
        return PLANS[plan]
    found = theory.schedule(PRIOR, CHANNEL, rows=ROWS, largest=LARGEST).sizes
    return [UNIT * round(size / UNIT) for size in found]


def predicted(plan: str) -> list[Row]:
    """State evolution: the law absorbs unequal typical batches."""
    steps = stream(Law(PRIOR), [ConvergedBatch(size, CHANNEL) for size in sizes_of(plan)])
    return _rows(THEORY, plan, mse=[law.mse for law, _ in steps])


def _rows(kind: str, plan: str, **columns: ArrayLike) -> list[Row]:
    sizes = sizes_of(plan)
    batch, alpha = np.arange(1, len(sizes) + 1), np.cumsum(sizes)
    return rows_of(kind=kind, plan=plan, batch=batch, alpha=alpha, **columns)


def simulated(plan: str, seed: int, size: int, stop: Stop = STOP) -> list[Row]:
    """One realisation; every plan of a seed sees the same rows in the same order."""
    problem = glm_stream(
        PRIOR, CHANNEL, size, UNIT, round(ROWS / UNIT), rng=seeded(UNIT, seed), stratified=True
    )
    pieces = iter(problem)
    belief, errors = Posterior(PRIOR, size), []
    for part in sizes_of(plan):
        taken = [next(pieces) for _ in range(round(part / UNIT))]
        Phi, y = np.vstack([p for p, _ in taken]), np.concatenate([y for _, y in taken])
        belief, _ = absorb(belief, Batch(Averaged(Phi), y, CHANNEL), stop)
        errors.append(problem.mse(belief.mean))
    return _rows(MINI_AMP, plan, seed=seed, mse=errors)


def draw(tables: Tables) -> look.Canvas:
    """Error against rows seen, one line for each plan."""
    table = tables["errors"]
    made, (ax,) = look.figure(6.4, 4.4)
    for i, plan in enumerate([*PLANS, BEST]):
        line, runs = (table.where(kind=kind, plan=plan) for kind in (THEORY, MINI_AMP))
        look.followed(ax, line, runs, look.style(i), label=plan)
    ax.set(yscale="log", xlim=(0.0, ROWS * 1.02), ylabel="mean squared error")
    ax.set_xlabel(r"$\alpha$ = rows seen / coefficients")
    ax.set_title(rf"the same {ROWS:g} N rows; $\rho = 0.3$, $\Delta = 10^{{-4}}$", loc="left")
    ax.legend(loc="lower left")
    return made


def judge(tables: Tables, scale: Scale) -> list[Claim]:
    """Medians follow the theory of unequal batches, and the schedule ends with the least error."""
    table, ends, off = tables["errors"], {}, {}
    for plan in [*PLANS, BEST]:
        _, median, _, _ = medians(table.where(kind=MINI_AMP, plan=plan), "batch", "mse")
        expected = table.where(kind=THEORY, plan=plan)["mse"][-1]
        ends[plan] = float(median[-1])
        off[plan] = abs(float(np.log10(median[-1] / expected)))
    worst = max(off, key=lambda plan: off[plan])
    text = ", ".join(f"{end:.2g} ({plan})" for plan, end in ends.items())
    within = f"within {off[worst]:.3f} decades ({worst})"
    close = off[worst] < scale.choose(CLOSE, CLOSE_QUICK)
    best = f"the best schedule with batches of at most {LARGEST:g} N rows"
    note = "one large batch crosses the threshold; after it small ones lose little"
    return [
        beyond("e", "final errors of unequal batches, median over theory", within, close),
        beyond("e", best, text, ends[BEST] <= min(ends.values()), note),
    ]


FIGURE = Figure("The same rows in different batches", tasks, draw, judge)
