"""Descriptions of plots, drawn by plotly for the page and by matplotlib for papers."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar, cast

import numpy as np

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.errors import InvalidInputError
from miniamp.estimators.summary import short
from miniamp.report.facts import Facts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Reported when reports are imported, not after the work that one is to be written about; what is
# there is imported when it is used.
for _needed in ("matplotlib", "plotly"):
    if find_spec(_needed) is None:
        checks.needed(_needed, "reports")

#: Colours of series 1 to 8 on paper, for the colour-blind; in grey their dashes differ.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B", "#56B4E9", "#5D4A9C", "#6B6B6B")
DASHES = ("solid", "dash", "dot", "dashdot")
PAPER_DASHES: tuple[Literal["-", "--", ":", "-."], ...] = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D", "v", "<", "h", ">")
#: What the page replaces by a colour, for light and for dark; see shared.js.
INK, MUTED, GRID, BAND = "@ink", "@muted", "@grid", "@band"
#: More points than these are drawn without markers on the page.
MOST_MARKERS = 60
#: Longest name beside an axis, in characters.
LONGEST_LABEL = 18

#: A plotly figure, or a part of one, as plain values.
Plain = dict[str, object]
#: An axis becomes logarithmic where everything on it is positive and spans more than this factor.
WIDE = 8.0
#: Height of a chart on the page, in pixels.
HEIGHT = 340


class Axis(NamedTuple):
    """One axis."""

    title: str
    values: Sequence[Array] = ()  #: what decides whether it is logarithmic; none: it is linear
    range: tuple[float, float] | None = None  #: its ends, used where it is linear
    percent: bool = False  #: whether shares are shown as percentages
    labels: Sequence[str] = ()  #: names at 0, 1, 2, ...
    zero: bool = False  #: whether to draw a line at zero

    @property
    def logarithmic(self) -> bool:
        """Whether everything on the axis is positive and far apart."""
        known = self.finite
        return len(known) > 0 and bool(known.min() > 0.0 and known.max() > WIDE * known.min())

    @property
    def finite(self) -> Array:
        """All numbers that decide about the scale."""
        values: Array = np.concatenate([np.zeros(0), *(np.ravel(each) for each in self.values)])
        known: Array = values[np.isfinite(values)]
        return known


@dataclass(frozen=True, eq=False)
class Series:
    """Points that belong together, joined by a line or not."""

    name: str
    x: Array
    y: Array
    joined: bool = True
    error_x: Array | None = None  #: half the length of error bars
    error_y: Array | None = None
    texts: Sequence[str] = ()  #: one per point, %{text} of `hover`
    hover: str = ""  #: what the page shows under the pointer, in plotly's template language
    colour: int | None = None  #: which of the colours; by default each series has its own


class Bars(NamedTuple):
    """Horizontal bars from zero, one per label of the y axis."""

    lengths: Array
    labels: Sequence[str]
    texts: Sequence[str]


class Cells(NamedTuple):
    """A table of shares, each in the colour of its size: rows are on the y axis."""

    shares: Array
    texts: Sequence[Sequence[str]]


@dataclass(frozen=True, eq=False)
class Chart:
    """A plot: what is drawn, between which axes, and its explanation."""

    title: str
    words: str  #: explanation on the page
    x: Axis
    y: Axis
    series: Sequence[Series] = ()
    bars: Bars | None = None  #: instead of series
    cells: Cells | None = None  #: instead of series
    band: tuple[float, float] | None = None  #: a shaded strip across the plot
    level: float | None = None  #: a thin horizontal line across the plot
    diagonal: tuple[float, float] | None = None  #: the thin line on which both axes agree
    wide: bool = False  #: whether it takes the whole width of the page
    height: int = HEIGHT  #: on the page, in pixels


class NothingToDrawError(InvalidInputError):
    """An estimator has nothing that this plot could show; the page leaves it out."""


#: Whether a chart is shown on the page of these facts.
Shown = Callable[[Facts], bool]
#: Every chart of the page with its place on it, and where it is shown; filled by `on_page` when the
#: plots are imported.
PAGE: list[tuple[int, Callable[[Facts], Chart], Shown]] = []
C = TypeVar("C", bound=Callable[..., Chart])


def on_page(place: int, shown: Shown = lambda _: True) -> Callable[[C], C]:
    """Put a chart, which is a function of `Facts`, on the page, a lower place first."""

    def entered(chart: C) -> C:
        PAGE.append((place, chart, shown))
        return chart

    return entered


def nothing(received: str, expected: str, remedy: str) -> NothingToDrawError:
    """The error for an estimator that a plot has no use for."""
    return NothingToDrawError("estimator", received, expected, remedy)


def safe(text: str) -> str:
    """Text that plotly and the page show as it is."""
    return html.escape(text)


def plotly(chart: Chart) -> Plain:
    """A chart as a plotly figure of plain values, its colours still tokens."""
    traces = [_trace(series, i) for i, series in enumerate(chart.series)]
    if chart.bars is not None:
        traces.append(_bars(chart.bars, chart.x.title))
    if chart.cells is not None:
        traces.append(_cells(chart.cells))
    return {
        "data": traces,
        "layout": {
            "xaxis": _axis(chart.x),
            "yaxis": _axis(chart.y),
            "shapes": _shapes(chart),
            "height": chart.height,
            "margin": {"l": 56, "r": 20, "t": 36, "b": 44},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"color": INK, "size": 13, "family": "system-ui, sans-serif"},
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
            "showlegend": len(traces) > 1,
            "hoverlabel": {"namelength": -1},
        },
    }


def _trace(series: Series, i: int) -> Plain:
    i = i if series.colour is None else series.colour
    token = f"@{i % len(COLOURS) + 1}"
    markers = len(series.x) <= MOST_MARKERS or not series.joined
    mode = "lines+markers" if series.joined and markers else "lines" if series.joined else "markers"
    trace: Plain = {
        "type": "scatter",
        "mode": mode,
        "x": _numbers(series.x),
        "y": _numbers(series.y),
        "name": safe(series.name),
        "line": {"color": token, "width": 2, "dash": DASHES[i % len(DASHES)]},
        "marker": {"color": token, "size": 6 if len(series.x) <= 500 else 3},
    }
    for axis, reach in (("error_x", series.error_x), ("error_y", series.error_y)):
        if reach is not None:
            bars: Plain = {"type": "data", "array": _numbers(reach), "color": token}
            trace[axis] = {**bars, "thickness": 1.5, "width": 0 if axis == "error_x" else 3}
    if series.texts:
        trace["text"] = [safe(text) for text in series.texts]
    if series.hover:
        trace["hovertemplate"] = f"{series.hover}<extra></extra>"
    return trace


def _bars(bars: Bars, title: str) -> Plain:
    return {
        "type": "bar",
        "orientation": "h",
        "x": _numbers(bars.lengths),
        "y": list(range(len(bars.labels))),
        "marker": {"color": "@1"},
        "width": 0.6,
        "text": [f"{length:.1%}" for length in bars.lengths],
        "textposition": "outside",
        "cliponaxis": False,
        "customdata": [safe(text) for text in bars.texts],
        "hovertemplate": "%{customdata}<extra></extra>",
        "name": safe(title),
    }


def _cells(cells: Cells) -> Plain:
    return {
        "type": "heatmap",
        "z": [_numbers(row) for row in cells.shares],
        "text": [[safe(text) for text in row] for row in cells.texts],
        "texttemplate": "%{text}",
        "hovertemplate": "%{text}<extra></extra>",
        "colorscale": [[0, "@cell0"], [1, "@cell1"]],
        "zmin": 0,
        "zmax": 1,
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
    }


def _axis(axis: Axis) -> Plain:
    """An axis with a title, and room for its own labels."""
    made: Plain = {
        "title": {"text": safe(axis.title), "standoff": 8},
        "automargin": True,
        "gridcolor": GRID,
        "zerolinecolor": MUTED if axis.zero else GRID,
        "linecolor": MUTED,
        "tickcolor": MUTED,
    }
    if axis.percent:
        made["tickformat"] = ".0%"
    if axis.labels:
        made |= {
            "tickmode": "array",
            "tickvals": list(range(len(axis.labels))),
            "ticktext": [safe(short(label, LONGEST_LABEL)) for label in axis.labels],
            "showgrid": False,
            "zeroline": False,
        }
    if axis.logarithmic:
        return {**made, "type": "log", **_ticks(axis.finite)}
    if axis.range is not None:
        made["range"] = list(axis.range)
    return {**made, "type": "linear"}


def _ticks(values: Array) -> Plain:
    """Labels of a logarithmic axis: 1, 2 and 5 of each decade where there are few, else decades."""
    low, high = int(np.floor(np.log10(values.min()))), int(np.ceil(np.log10(values.max())))
    steps = (1.0, 2.0, 5.0) if high - low <= 3 else (1.0,)
    stride = 1 + (high - low) // 8
    ticks = [s * 10.0**k for k in range(low, high + 1, stride) for s in steps]
    plain = low >= -4 and high <= 5
    texts = [f"{tick:.10g}" if plain else f"{tick:.0e}" for tick in ticks]
    return {"tickmode": "array", "tickvals": ticks, "ticktext": texts}


def _shapes(chart: Chart) -> list[Plain]:
    line: Plain = {"type": "line", "line": {"color": MUTED, "width": 1.5, "dash": "dot"}}
    rect: Plain = {"type": "rect", "line": {"width": 0}, "layer": "below", "fillcolor": BAND}
    across: Plain = {"xref": "paper", "x0": 0, "x1": 1}
    shapes: list[Plain] = []
    if chart.band is not None:
        low, high = chart.band
        shapes.append({**rect, **across, "y0": low, "y1": high})
    if chart.level is not None:
        shapes.append({**line, **across, "y0": chart.level, "y1": chart.level})
    if chart.diagonal is not None:
        low, high = chart.diagonal
        shapes.append({**line, "x0": low, "x1": high, "y0": low, "y1": high})
    return shapes


def matplotlib(chart: Chart, ax: Axes | None = None) -> Axes:
    """A chart on matplotlib axes, those given or new ones; returns the axes."""
    if ax is None:
        made = checks.needed("matplotlib.figure", "reports").Figure
        ax = cast("Axes", made(figsize=(4.8, 3.2), layout="constrained").subplots())
    ax.set(xlabel=chart.x.title, ylabel=chart.y.title)
    ax.grid(alpha=0.0 if chart.cells is not None else 0.2)
    ax.spines[["top", "right"]].set_visible(False)
    if chart.band is not None:
        ax.axhspan(*chart.band, color="0.5", alpha=0.12, linewidth=0)
    for i, series in enumerate(chart.series):
        _stroke(ax, series, i)
    if chart.level is not None:
        ax.axhline(chart.level, color="0.6", linewidth=0.8, linestyle="--")
    if chart.diagonal is not None:
        ax.plot(chart.diagonal, chart.diagonal, color="0.6", linewidth=0.8, linestyle="--")
    if chart.bars is not None:
        ax.barh(range(len(chart.bars.lengths)), chart.bars.lengths, color=COLOURS[0], height=0.6)
    if chart.cells is not None:
        _table(ax, chart.cells)
    _scale(ax, chart)
    if len(ax.get_legend_handles_labels()[1]) > 1:
        ax.legend(frameon=False, fontsize=8)
    return ax


def plotted(
    place: int, shown: Shown = lambda _: True
) -> Callable[[Callable[..., Chart]], Callable[..., Axes]]:
    """A plot made from a function that describes it as a chart.

    The plot takes an estimator, axes if there are some, and the other arguments of the function.
    Its chart is on the page in this place, for the estimators that it should be shown for.
    """

    def made(chart: Callable[..., Chart]) -> Callable[..., Axes]:
        def plot(estimator: object, ax: Axes | None = None, **options: Given) -> Axes:
            return matplotlib(chart(Facts.of(estimator), **options), ax)

        on_page(place, shown)(chart)
        own, more = signature(plot), list(signature(chart).parameters.values())[1:]
        update_wrapper(plot, chart)
        given = [*list(own.parameters.values())[:2], *more]
        plot.__signature__ = own.replace(parameters=given)  # type: ignore[attr-defined]
        return plot

    return made


def _stroke(ax: Axes, series: Series, i: int) -> None:
    i = i if series.colour is None else series.colour
    many = len(series.x) > 500
    colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
    dash = PAPER_DASHES[i % len(PAPER_DASHES)] if series.joined else "none"
    ax.errorbar(
        series.x, series.y, xerr=series.error_x, yerr=series.error_y, label=series.name,
        elinewidth=1.0, color=colour, linestyle=dash, marker=marker, markersize=1.5 if many else 4,
    )  # fmt: skip


def _table(ax: Axes, cells: Cells) -> None:
    ax.imshow(cells.shares, cmap="Blues", vmin=0.0, vmax=1.25, aspect="auto")
    for (i, j), share in np.ndenumerate(cells.shares):
        ax.text(j, i, cells.texts[i][j], ha="center", va="center", fontsize=8,
                color="white" if share > 0.7 else "black")  # fmt: skip


def _scale(ax: Axes, chart: Chart) -> None:
    if chart.x.zero:
        ax.axvline(0.0, color="0.6", linewidth=0.8)
    for which, axis in (("x", chart.x), ("y", chart.y)):
        if axis.logarithmic:
            ax.set(**{f"{which}scale": "log"})
        elif axis.range is not None:
            ax.set(**{f"{which}lim": axis.range})
        if axis.labels:
            ticks = {f"{which}ticks": range(len(axis.labels)), f"{which}ticklabels": axis.labels}
            ax.set(**ticks)


def _numbers(values: Iterable[float]) -> list[float | None]:
    """Values as JSON takes them: None for what is no number."""
    return [float(value) if np.isfinite(value) else None for value in values]
