"""How figures look: colours for the colour-blind, markers and lines for print in grey."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from miniamp import checks
from miniamp.arrays import Array
from miniamp.experiments.tables import Table, medians

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import matplotlib.axes
    from matplotlib.figure import Figure, FigureBase
    from matplotlib.lines import Line2D
    from matplotlib.patheffects import AbstractPathEffect

    # Figures annotate by look.Axes and look.Canvas: only this file imports matplotlib's types.
    Axes: TypeAlias = matplotlib.axes.Axes
    Canvas: TypeAlias = Figure

#: Okabe and Ito's colours without the yellow, from dark to light as far as they go.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5D4A9C", "#6B6B6B")
MARKERS = ("o", "s", "^", "D", "v", "<", "h", ">")

RC: dict[str, object] = {
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.2,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "mathtext.fontset": "cm",
    "pdf.fonttype": 42,
}


class Style(NamedTuple):
    """A colour and a marker that always go together."""

    colour: str
    marker: str


def style(i: int) -> Style:
    """The i-th colour and its marker."""
    return Style(COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)])


def context() -> AbstractContextManager[None]:
    """The settings under which a figure must be drawn and saved, as a context."""
    made: AbstractContextManager[None] = checks.needed("matplotlib", "figures").rc_context(RC)
    return made


def canvas(width: float, height: float) -> Canvas:
    """An empty matplotlib figure."""
    made = checks.needed("matplotlib.figure", "figures").Figure
    return made(figsize=(width, height), layout="constrained")  # type: ignore[no-any-return]


def figure(
    width: float, height: float, columns: int = 1, **kwargs: Any
) -> tuple[Canvas, list[Axes]]:
    """A matplotlib figure and its row of axes."""
    made = canvas(width, height)
    return made, list(made.subplots(1, columns, squeeze=False, **kwargs)[0])


def bars(ax: Axes, x: Array, quartiles: Sequence[Array], look: Style, **kwargs: Any) -> None:
    """Markers at the medians, bars between the quartiles."""
    median, low, high = quartiles
    error = np.clip([median - low, high - median], 0.0, None)
    usual: dict[str, Any] = {
        "linestyle": "none",
        "marker": look.marker,
        "color": look.colour,
        "markeredgecolor": "white",
        "markeredgewidth": 0.4,
        "markersize": 5.0,
        "elinewidth": 0.8,
    }
    ax.errorbar(x, median, yerr=error, **(usual | kwargs))


def followed(
    ax: Axes, line: Table, runs: Table, style: Style, value: str = "mse", *, most: int = 1000,
    floor: float = -np.inf, dash: str | None = "-", label: str | None = None, **marks: Any,
) -> None:  # fmt: skip
    """A line of the theory with medians and quartiles of runs on it, at most about `most` of them.

    Errors below `floor` stand on it. Without a `dash` there are marks only.
    """
    if dash is not None:
        shown = np.maximum(line[value], floor)
        ax.plot(line["alpha"], shown, color=style.colour, ls=dash, label=label, zorder=2)
    if not len(runs):
        return
    k, *quartiles = medians(runs, "batch", value)
    every = max(1, len(k) // most)
    few = slice(every - 1, None, every)
    values = [np.maximum(q, floor)[few] for q in quartiles]
    bars(ax, line["alpha"][k.astype(int) - 1][few], values, style, **({"zorder": 3} | marks))


def errors(
    made: Canvas, ax: Axes, table: Table, x: str, y: str, of: str
) -> tuple[list[float], list[float]]:
    """Mean squared errors on a grid of two columns, in colour; gives the values of both."""
    across, up = table.values(x), table.values(y)
    shown = np.full((len(up), len(across)), np.nan)
    shown[np.searchsorted(up, table[y]), np.searchsorted(across, table[x])] = table["mse"]
    shown = np.log10(np.maximum(shown, 1e-12))
    mesh = ax.pcolormesh(across, up, shown, shading="nearest", cmap="cividis", rasterized=True)
    made.colorbar(mesh, ax=ax, label=rf"$\log_{{10}}$ MSE of {of}", pad=0.02)
    return across, up


def outlined(width: float) -> list[AbstractPathEffect]:
    """Path effects that make a black line of this width visible on dark ground too."""
    from matplotlib.patheffects import Normal, Stroke

    return [Stroke(linewidth=width + 1.8, foreground="white"), Normal()]


def plain_log(ax: Axes) -> None:
    """Plain numbers on a logarithmic axis that spans a decade or two; call when all is drawn."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    ax.set_yscale("log")
    low, high = ax.get_ylim()
    subs = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0) if high < 10.0 * low else (1.0, 2.0, 5.0)
    ax.yaxis.set_major_locator(LogLocator(subs=subs))
    ax.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def letter(ax: Axes, text: str, title: str) -> None:
    """Set the letter and the title of a panel."""
    ax.set_title(rf"({text})  {title}", fontsize=9.5)


def below(
    figure: FigureBase, columns: int, ax: Axes | None = None, handles: Sequence[Line2D] = ()
) -> None:
    """A legend under the figure, where it covers nothing: of what `ax` shows, or of these."""
    shown = handles if ax is None else ax.get_legend_handles_labels()[0]
    figure.legend(
        handles=shown, loc="outside lower center", ncols=columns, fontsize=8, frameon=False
    )


def sample(label: str, **kwargs: object) -> Line2D:
    """What a legend shows of a line."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **kwargs)  # type: ignore[arg-type]
