"""Figure 4: what it costs to stop a batch before it has converged."""

from __future__ import annotations

from typing import Any

import numpy as np

from miniamp import channels, priors, theory
from miniamp.absorb import Stop
from miniamp.experiments import look
from miniamp.experiments.figure import Figure, Scale, Tables, Task, every
from miniamp.experiments.streaming import MINI_AMP, STOP, THEORY, curve_rows, realisation
from miniamp.experiments.tables import CLOSE, CLOSE_QUICK, Claim, Row, Table, deviation

PRIOR, CHANNEL = priors.GaussBernoulli(rho=0.3), channels.Gaussian(var=1e-8)
ALPHA_B, BATCHES = 0.35, 8

#: Iterations per batch; 0 stands for as many as it takes.
ITERATIONS = (1, 2, 5, 10, 25, 50, 100, 0)

#: The marker of as many as it takes: 100 are as good, and both must be seen.
RING: dict[str, Any] = {
    "marker": "o",
    "markersize": 9.0,
    "markerfacecolor": "none",
    "markeredgecolor": look.style(len(ITERATIONS) - 1).colour,
    "markeredgewidth": 1.1,
}

#: E_5 of the reference, for three of them.
REFERENCE = {1: 2.8e-2, 10: 2.6e-4, 0: 6.4e-8}

#: Here batches 4 and 5 sit beside their own thresholds, S_4 = .3542 and S_5 = .3338, and a finite
#: problem that iterates far enough to feel them jumps early or late. Later batches build on that.
NEAR, FEELS = np.array([4.0, 5.0]), 25


def tasks(scale: Scale) -> list[Task]:
    """Theory first, then one task per limit and seed."""
    size = scale.choose(2000, 500)
    return every("errors", predicted, t_max=ITERATIONS) + every(
        "errors", simulated, seed=scale.realisations(10, 4), t_max=ITERATIONS, size=size
    )


def predicted(t_max: int) -> list[Row]:
    """State evolution stopped after t_max iterations per batch."""
    curve = theory.learning_curve(PRIOR, CHANNEL, ALPHA_B, batches=BATCHES, t_max=t_max or None)
    return [{"t_max": t_max, **row} for row in curve_rows(THEORY, curve, alpha_b=ALPHA_B)]


def simulated(t_max: int, seed: int, size: int) -> list[Row]:
    """One realisation, its batches stopped after t_max iterations."""
    stop = Stop(max_iter=t_max or STOP.max_iter, tol=STOP.tol)
    rows = realisation(PRIOR, CHANNEL, size, ALPHA_B, BATCHES, seed, stop=stop)
    return [{"t_max": t_max, **row} for row in rows]


def draw(tables: Tables) -> look.Canvas:
    """Errors against rows, one line per limit."""
    table = tables["errors"]
    made, (ax,) = look.figure(5.6, 4.2)
    for i, t in enumerate(ITERATIONS):
        line, runs = (table.where(kind=kind, t_max=t) for kind in (THEORY, MINI_AMP))
        style, dash = look.style(i), ("-", "--", "-.", ":")[i // 2]
        look.followed(ax, line, runs, style, dash=dash, **(RING if t == 0 else {}))
        marker, inside = (style.marker, style.colour) if t else ("o", "none")
        label = rf"$t_\mathrm{{max}} = {t}$" if t else "converged"
        ax.plot([], [], color=style.colour, ls=dash, label=label, marker=marker, mfc=inside)
    ax.set(
        yscale="log", xlim=(0.0, line["alpha"][-1] * 1.02), ylabel="mean squared error",
        xlabel=r"$\alpha$ = rows seen / coefficients",
    )  # fmt: skip
    ax.set_title(rf"$\rho = 0.3$, $\Delta = 10^{{-8}}$, $\alpha_b = {ALPHA_B}$", loc="left")
    ax.legend(loc="lower left", handlelength=3.2)
    return made


def judge(tables: Tables, scale: Scale) -> list[Claim]:
    """State evolution is followed at every limit, and E_5 is the reference's."""
    table = tables["errors"]
    found = [_fifth(table, t, expected) for t, expected in REFERENCE.items()]
    found += [_follows(table, t, scale) for t in ITERATIONS]
    fifth = [_at(table.where(kind=THEORY, t_max=t), 5) for t in ITERATIONS]
    ours, falls = " > ".join(f"{e:.1e}" for e in fifth), bool(np.all(np.diff(fifth) < 0.0))
    what = "E_5 falls with every further iteration"
    return [*found, Claim("4", what, "deteriorates if not converged", ours, falls)]


def _fifth(table: Table, t: int, expected: float) -> Claim:
    value, right = _at(table.where(kind=THEORY, t_max=t), 5), f"{expected:.1e}"
    agrees = f"{value:.1e}" == right
    return Claim("4", f"E_5, {_name(t)}", "curve, no number", f"{value:.4g}", agrees, right)


def _follows(table: Table, t: int, scale: Scale) -> Claim:
    runs, line = table.where(kind=MINI_AMP, t_max=t), table.where(kind=THEORY, t_max=t)
    feels = t == 0 or t >= FEELS
    off = deviation(runs, line, leave_out=NEAR if feels else None)
    note = ""
    if feels:
        note = (
            "without batches 4 and 5, beside their thresholds .3542 and .3338, where realisations "
            f"jump early or late (with them {deviation(runs, line).mean:.3f})"
        )
    what, close = f"medians follow state evolution, {_name(t)}", (CLOSE, 2.0 * CLOSE_QUICK)
    return Claim(
        "4", what, "symbols on lines", str(off), off.mean < scale.choose(*close), note=note
    )


def _name(t: int) -> str:
    return f"t_max = {t}" if t else "converged"


def _at(line: Table, batch: int) -> float:
    return float(line.where(batch=batch)["mse"][0])


FIGURE = Figure("Error against rows seen when batches are stopped early", tasks, draw, judge)
