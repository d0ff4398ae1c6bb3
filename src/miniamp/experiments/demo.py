"""The demonstration: one sparse regression, streamed through three algorithms and the theory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from miniamp import theory
from miniamp.absorb import Stop, absorb
from miniamp.arrays import Array
from miniamp.channels import Gaussian
from miniamp.datasets import Problem, glm_stream
from miniamp.designs import Averaged
from miniamp.evidence import Batch, MeanFieldBatch, adf
from miniamp.experiments import look
from miniamp.experiments.tables import rows_of, write_table
from miniamp.posterior import Posterior
from miniamp.priors import GaussBernoulli

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure

RHO, NOISE, ALPHA_B, ALPHA = 0.3, 1e-8, 0.35, 3.0
#: Batches until there are at least ALPHA rows per coefficient.
BATCHES = int(np.ceil(ALPHA / ALPHA_B))

#: Near a threshold the iteration wanders at an error that is fine all the same (errata E4).
STOP = Stop(max_iter=300, tol=1e-7)

LOOKS = {
    "Mini-AMP": look.Style(look.COLOURS[0], "o"),
    "ADF": look.Style(look.COLOURS[4], "s"),
    "streaming VB": look.Style(look.COLOURS[3], "^"),
}
PRIOR, CHANNEL = GaussBernoulli(rho=RHO), Gaussian(var=NOISE)

_STEP: dict[str, Callable[[Posterior, Array, Array], tuple[Posterior, object]]] = {
    "Mini-AMP": lambda belief, Phi, y: absorb(belief, Batch(Averaged(Phi), y, CHANNEL), STOP),
    "ADF": lambda belief, Phi, y: adf(belief, Phi, y, CHANNEL),
    "streaming VB": lambda belief, Phi, y: absorb(belief, MeanFieldBatch(Phi, y, CHANNEL), STOP),
}


@dataclass(eq=False)
class Demo:
    """One problem and what each algorithm makes of it, batch by batch.

    Examples
    --------
    >>> run = Demo(size=100)
    >>> for name in LOOKS:
    ...     for _ in run.steps(name):
    ...         pass
    >>> list(run.curves())
    ['alpha', 'Mini-AMP', 'ADF', 'streaming VB', 'state evolution']
    """

    size: int = 2000
    seed: int = 1
    estimates: dict[str, list[Array]] = field(default_factory=dict, repr=False)

    @cached_property
    def problem(self) -> Problem:
        """The rows, drawn again for each algorithm, and the truth."""
        return glm_stream(
            PRIOR, CHANNEL, self.size, ALPHA_B, BATCHES, rng=self.seed, stratified=True
        )

    def steps(self, name: str) -> Iterator[Array]:
        """Estimates of one algorithm after each batch; they are kept too."""
        belief = Posterior(PRIOR, self.size)
        self.estimates[name] = []
        for Phi, y in self.problem:
            belief, _ = _STEP[name](belief, Phi, y)
            self.estimates[name].append(belief.mean)
            yield belief.mean

    @cached_property
    def state_evolution(self) -> Array:
        """The theory of Mini-AMP for infinitely many coefficients (Theorem 1)."""
        return theory.learning_curve(PRIOR, CHANNEL, ALPHA_B, batches=BATCHES).mse

    def curves(self) -> dict[str, list[float]]:
        """Columns of the table: alpha, the error of each algorithm, and the theory."""
        errors = {
            name: [self.problem.mse(estimate) for estimate in estimates]
            for name, estimates in self.estimates.items()
        }
        alpha, expected = self.problem.alpha.tolist(), self.state_evolution.tolist()
        return {"alpha": alpha, **errors, "state evolution": expected}


def write_csv(run: Demo, path: Path) -> None:
    """The numbers of the table, one row per batch."""
    write_table(path, rows_of(**run.curves()))


def plot(run: Demo, path: Path) -> None:
    """The picture: errors along the stream, and coefficient by coefficient when they part."""
    figure = look.canvas(10.0, 4.4)
    left, right = np.ravel(
        figure.subfigures(1, 2, width_ratios=[1.35, 1.0], wspace=0.03, squeeze=False)
    )
    _plot_curves(left.subplots(), run)
    _plot_coefficients(right, run)
    figure.savefig(path, dpi=160)


def _plot_curves(axes: look.Axes, run: Demo) -> None:
    curves = run.curves()
    alpha = curves["alpha"]
    for name, (colour, marker) in LOOKS.items():
        axes.semilogy(alpha, curves[name], marker=marker, color=colour, label=name, lw=2.2, ms=6.5)
    axes.semilogy(
        alpha, curves["state evolution"], "k--", lw=1.2, label="theory of Mini-AMP", zorder=5
    )
    axes.set(xlabel="rows seen per coefficient", ylabel="mean squared error")
    axes.set_title(f"Error along a stream of {BATCHES} batches", loc="left", fontsize=11)
    axes.set_xlim(0.0, alpha[-1] + 0.1)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower left")


def _plot_coefficients(figure: SubFigure, run: Demo) -> None:
    k = _telling_batch(run)
    truth = run.problem.truth
    deviations = {name: run.estimates[name][k] - truth for name in LOOKS}
    widest = 1.1 * max(float(np.max(np.abs(error))) for error in deviations.values())
    panels = figure.subplots(len(LOOKS), 1, sharex=True, sharey=True)
    for axes, (name, (colour, marker)) in zip(panels, LOOKS.items(), strict=True):
        axes.axhline(0.0, color="black", lw=0.7, alpha=0.5)
        axes.plot(truth, deviations[name], marker, color=colour, ms=3.0, mew=0, alpha=0.6)
        axes.text(0.02, 0.95, name, color=colour, transform=axes.transAxes, va="top", weight="bold")
        axes.set_ylim(-widest, widest)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_title(f"Every coefficient after batch {k + 1}", loc="left", fontsize=11)
    panels[1].set_ylabel("estimate minus truth")
    panels[-1].set_xlabel("true coefficient")


def _telling_batch(run: Demo) -> int:
    """The first batch after which Mini-AMP is right to the noise, else the last."""
    errors = run.curves()["Mini-AMP"]
    return next((k for k, error in enumerate(errors) if error < 100.0 * NOISE), len(errors) - 1)
