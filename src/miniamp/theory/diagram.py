"""Phase diagrams: where Mini-AMP on one batch is optimal, and where the problem is hard."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.priors.base import ScalarPrior
from miniamp.theory.curves import axes
from miniamp.theory.limits import offline_curve
from miniamp.theory.output import checked_channel
from miniamp.theory.phases import SAME
from miniamp.theory.scalar import checked_prior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Model: TypeAlias = tuple[ScalarPrior, Channel]


@dataclass(frozen=True, eq=False)
class PhaseDiagram:
    """Verdicts on a grid: rows of the arrays are noises or sparsities, columns are alphas."""

    alphas: Array
    levels: Array
    axis: str  #: "noise" or "sparsity": what the levels are
    mse: Array = field(repr=False)  #: (levels, alphas) errors of AMP
    mmse: Array = field(repr=False)  #: (levels, alphas) errors of exact inference

    @property
    def verdicts(self) -> NDArray[np.str_]:
        """(levels, alphas) array of "optimal" and "hard"."""
        return np.where(self.hard, "hard", "optimal")

    @property
    def hard(self) -> NDArray[np.bool_]:
        """(levels, alphas) array: whether exact inference beats AMP."""
        return self.mmse < self.mse * (1.0 - SAME)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the error of AMP in colour and the hard region hatched; returns the axes."""
        ax = axes() if ax is None else ax
        shown = np.log10(np.maximum(self.mse, 1e-16))
        mesh = ax.pcolormesh(self.alphas, self.levels, shown, shading="nearest")
        ax.figure.colorbar(mesh, ax=ax, label="log10 of the error of AMP")
        if self.hard.any() and min(self.hard.shape) > 1:
            ax.contourf(
                self.alphas, self.levels, self.hard, [0.5, 1.5], colors="none", hatches=["//"]
            )
        if self.axis == "noise" and self.levels.min() > 0.0:
            ax.set_yscale("log")
        ax.set_xlabel("rows / coefficients")
        ax.set_ylabel(self.axis)
        ax.set_title("hatched: hard")
        return ax


def phase_diagram(
    prior: Given,
    channel: Given,
    alphas: Given,
    noises: Given = None,
    sparsities: Given = None,
    progress: bool | None = None,
) -> PhaseDiagram:
    """Verdicts for one batch of alpha N rows, over alpha and noise or alpha and sparsity.

    Parameters
    ----------
    prior, channel
        The model; its noise `var` or sparsity `rho` is replaced by each level in turn.
    alphas : array
        Rows over coefficients.
    noises, sparsities : array
        The second axis: give one of them.
    progress : bool, optional
        Whether to show a progress bar on standard error; by default if that is a terminal.

    Examples
    --------
    >>> from miniamp import channels, priors, theory
    >>> found = theory.phase_diagram(priors.GaussBernoulli(rho=0.3), channels.Gaussian(var=1e-8),
    ...                              [0.2, 0.42, 0.6], sparsities=[0.1, 0.3])
    >>> found.verdicts.tolist()
    [['hard', 'optimal', 'optimal'], ['optimal', 'hard', 'optimal']]
    """
    prior, channel = checked_prior("prior", prior), checked_channel("channel", channel)
    alphas = checks.vector("alphas", alphas)
    if (noises is None) == (sparsities is None):
        raise checks.refuse(
            "noises, sparsities", "both or neither", "exactly one of them", "choose the second axis"
        )
    if noises is not None:
        axis, levels = "noise", checks.vector("noises", noises)
        _needs(channel, "var", "channel", "noises")
        models: list[Model] = [(prior, channel.replaced(var=x)) for x in levels]
    else:
        axis, levels = "sparsity", checks.vector("sparsities", sparsities)
        _needs(prior, "rho", "prior", "sparsities")
        models = [(prior.replaced(rho=x), channel) for x in levels]
    curves = [
        offline_curve(one_prior, one_channel, alphas)
        for one_prior, one_channel in _tracked(models, progress)
    ]
    mmse = [curve.mse if curve.mmse is None else curve.mmse for curve in curves]
    return PhaseDiagram(alphas, levels, axis, np.array([c.mse for c in curves]), np.array(mmse))


def _needs(model: ScalarPrior | Channel, name: str, what: str, levels: str) -> None:
    if name not in model.names:
        raise checks.refuse(
            what, repr(model), f"one with a hyper-parameter {name}", f"it is what {levels} replaces"
        )


def _tracked(items: list[Model], progress: bool | None) -> Iterable[Model]:
    """The items, with a progress bar while they are worked through, where rich is installed."""
    if progress is None:
        progress = sys.stderr.isatty()
    if not progress:
        return items
    try:
        from rich.console import Console
        from rich.progress import track
    except ImportError:
        return items
    return track(items, description="phase diagram", console=Console(stderr=True))
