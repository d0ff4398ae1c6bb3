"""How figures look: colours for the colour-blind, markers and lines for print in grey."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from miniamp.arrays import Array
from miniamp.errors import MissingExtraError
from miniamp.experiments.tables import Table, medians

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, FigureBase
    from matplotlib.lines import Line2D
    from matplotlib.patheffects import AbstractPathEffect

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
    """The i-th pair."""
    return Style(COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)])


def context() -> AbstractContextManager[None]:
    """The settings under which a figure must be drawn and saved, as a context."""
    try:
        from matplotlib import rc_context
    except ImportError as error:
        raise MissingExtraError(
            "figures", "", "matplotlib to be installed", 'pip install "miniamp[report]"'
        ) from error
    return rc_context(RC)  # type: ignore[arg-type]  # names of settings are a literal type


def figure(
    width: float, height: float, columns: int = 1, **kwargs: Any
) -> tuple[Figure, list[Axes]]:
    """A matplotlib figure and its row of axes."""
    from matplotlib.figure import Figure as Canvas

    made = Canvas(figsize=(width, height), layout="constrained")
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
    ax: Axes, line: Table, runs: Table, style: Style, value: str = "mse", most: int = 1000,
    floor: float = -np.inf, **kwargs: Any,
) -> None:  # fmt: skip
    """Medians and quartiles of runs beside a line of the theory, at most about `most` of them."""
    if not len(runs):
        return
    k, *quartiles = medians(runs, "batch", value)
    shown = thinned(len(k), most)
    values = [np.maximum(q, floor)[shown] for q in quartiles]
    bars(ax, line["alpha"][k.astype(int) - 1][shown], values, style, **({"zorder": 3} | kwargs))


def outlined(width: float) -> list[AbstractPathEffect]:
    """Path effects that make a black line of this width visible on dark ground too."""
    from matplotlib.patheffects import Normal, Stroke

    return [Stroke(linewidth=width + 1.8, foreground="white"), Normal()]


def thinned(points: int, most: int) -> slice:
    """Not more than about so many markers on a line."""
    every = max(1, points // most)
    return slice(every - 1, None, every)


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
    """Name a panel."""
    ax.set_title(rf"({text})  {title}", fontsize=9.5)


def below(
    figure: FigureBase, handles: Sequence[Line2D], labels: Sequence[str], columns: int
) -> None:
    """A legend under the figure, where it covers nothing."""
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, fontsize=8, frameon=False
    )
