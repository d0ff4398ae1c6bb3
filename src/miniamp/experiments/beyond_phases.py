"""Beyond the paper: where a batch of any size is optimal or hard, at every sparsity."""

from __future__ import annotations

import numpy as np

from miniamp import channels, priors, theory
from miniamp.experiments import look
from miniamp.experiments.figure import Figure, Scale, Tables, Task
from miniamp.experiments.tables import Claim, Row, beyond, rows_of

PRIOR, CHANNEL = priors.GaussBernoulli(rho=0.3), channels.Gaussian(var=1e-8)


def tasks(scale: Scale) -> list[Task]:
    """One task per strip of sparsities, one for the edges."""
    levels = np.round(np.linspace(0.02, 0.6, scale.choose(59, 15)), 6)
    points = scale.choose(161, 41)
    strips = [{"rho": part.tolist(), "points": points} for part in np.array_split(levels, 5)]
    return [
        *(Task("errors", strip, given) for given in strips),
        Task("edges", edges, {"rho": levels.tolist()}),
    ]


def strip(rho: list[float], points: int) -> list[Row]:
    """Errors of AMP and of exact inference on one batch."""
    found = theory.phase_diagram(
        PRIOR, CHANNEL, np.linspace(0.02, 0.9, points), sparsities=rho, progress=False
    )
    return rows_of(
        rho=found.levels[:, None], alpha_b=found.alphas, mse=found.mse, mmse=found.mmse,
        hard=found.hard.astype(int),
    )  # fmt: skip


def edges(rho: list[float]) -> list[Row]:
    """Where exact inference, and where AMP, finds the signal."""
    found = [theory.transitions(PRIOR.replaced(rho=level), CHANNEL) for level in rho]
    # None, where there is no transition, becomes nan.
    information = np.array([each.information for each in found], dtype=float)
    spinodal = np.array([each.spinodal for each in found], dtype=float)
    return rows_of(rho=rho, information=information, spinodal=spinodal)


def draw(tables: Tables) -> look.Canvas:
    """Errors in colour, edges as lines, the hard region hatched."""
    table, edges_ = tables["errors"], tables["edges"]
    made, (ax,) = look.figure(6.4, 4.6)
    alpha, rho = look.errors(made, ax, table, "alpha_b", "rho", "AMP on one batch")
    low, high = edges_["information"], edges_["spinodal"]
    known = ~np.isnan(low)
    for edge, dash, label in ((low, "--", "exact inference finds it"), (high, "-", "AMP does too")):
        ax.plot(
            edge, edges_["rho"], color="black", ls=dash, lw=1.8, label=label,
            path_effects=look.outlined(1.8),
        )  # fmt: skip
    ax.fill_betweenx(
        edges_["rho"][known], low[known], high[known], facecolor="none", edgecolor="black",
        hatch="\\\\\\", lw=0.0, label="hard: only exact inference does",
    )  # fmt: skip
    ax.text(0.15, 0.42, "too few rows", color="black", style="italic")
    ax.text(0.68, 0.12, "recovered", color="white", style="italic")
    ax.set(xlim=(alpha[0], alpha[-1]), ylim=(rho[0], rho[-1]), xlabel=r"batch size $\alpha_b$")
    ax.set_ylabel(r"share of non-zero coefficients $\rho$")
    ax.set_title(r"sparse regression, $\Delta = 10^{-8}$", loc="left")
    ax.grid(False)
    ax.legend(loc="upper left", frameon=True, framealpha=0.9)
    return made


def judge(tables: Tables, _: Scale) -> list[Claim]:
    """The edges at rho = .3 are the paper's, and the grid agrees with the edges."""
    table, edges_ = tables["errors"], tables["edges"]
    at = int(np.argmin(np.abs(edges_["rho"] - 0.3)))
    row = np.searchsorted(edges_["rho"], table["rho"])
    low, high = edges_["information"][row], edges_["spinodal"][row]
    inside = (low < table["alpha_b"]) & (table["alpha_b"] < high)
    share = float(np.mean(inside == (table["hard"] == 1)))
    rho, spinodal = edges_["rho"][at], edges_["spinodal"][at]
    exact = theory.transitions(PRIOR, CHANNEL).spinodal
    near = float(np.interp(0.3, edges_["rho"], edges_["spinodal"]))
    assert exact is not None
    return [
        Claim("beyond c", "AMP threshold at rho = 0.3", "0.49",
              f"{near:.4f} between grid lines (at {rho:g}: {spinodal:.6f})",
              abs(near - exact) < 1e-3, f"{exact:.6f}"),
        beyond("c", "hard exactly between the edges", f"{share:.2%} of the grid", share > 0.995),
    ]  # fmt: skip


FIGURE = Figure("Phase diagram over batch size and sparsity", tasks, draw, judge)
