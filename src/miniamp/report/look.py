"""How plots look: tokens that the page turns into colours, and matplotlib axes for papers."""

from __future__ import annotations

import html
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from miniamp.errors import MissingExtraError

# Said when reports are imported, not after the work that one is to be written of.
for _needed in ("matplotlib", "plotly"):
    if find_spec(_needed) is None:
        raise MissingExtraError(f'reports need {_needed}; pip install "miniamp[report]"')

#: Colours of series 1 to 8 on paper: for the colour-blind, and told apart in grey by their dashes.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B", "#56B4E9", "#5D4A9C", "#6B6B6B")
DASHES = ("solid", "dash", "dot", "dashdot")
#: What the page replaces by a colour, for light and for dark; see page.js.
INK, MUTED, GRID, BAND = "@ink", "@muted", "@grid", "@band"

Figure = dict[str, Any]


class Section(NamedTuple):
    """One card of the page: a title, a sentence or two, and a plotly figure."""

    title: str
    words: str
    figure: Figure
    wide: bool = False


def series(i: int) -> str:
    """The token of the colour of series i."""
    return f"@{i % len(COLOURS) + 1}"


def numbers(values: Iterable[float]) -> list[float | None]:
    """Values as JSON takes them: None for what is no number."""
    return [float(v) if np.isfinite(v) else None for v in np.asarray(list(values), dtype=float)]


def safe(text: str) -> str:
    """Text that plotly and the page show as it is."""
    return html.escape(text)


def line(x: Any, y: Any, name: str, i: int = 0, **more: Any) -> dict[str, Any]:
    """A line with markers, in the colour and dash of series i."""
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(x) <= 60 else "lines",
        "x": numbers(x),
        "y": numbers(y),
        "name": safe(name),
        "line": {"color": series(i), "width": 2, "dash": DASHES[i % len(DASHES)]},
        "marker": {"color": series(i), "size": 6},
        **more,
    }


def level(value: float, name: str) -> dict[str, Any]:
    """A thin horizontal line across the plot, as a shape of its layout."""
    return {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": value,
        "y1": value,
        "line": {"color": MUTED, "width": 1.5, "dash": "dot"},
        "name": name,
    }


def band(low: float, high: float) -> dict[str, Any]:
    """A shaded strip across the plot, as a shape of its layout."""
    return {
        "type": "rect",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": low,
        "y1": high,
        "fillcolor": BAND,
        "line": {"width": 0},
        "layer": "below",
    }


def diagonal(low: float, high: float) -> dict[str, Any]:
    """The thin line on which two axes agree, as a shape of its layout."""
    ends = {"x0": low, "x1": high, "y0": low, "y1": high}
    return {"type": "line", **ends, "line": {"color": MUTED, "width": 1.5, "dash": "dot"}}


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis with a title, and room for its own labels."""
    return {
        "title": {"text": safe(title), "standoff": 8},
        "automargin": True,
        "gridcolor": GRID,
        "zerolinecolor": GRID,
        "linecolor": MUTED,
        "tickcolor": MUTED,
        **more,
    }


def logarithmic(*columns: Any) -> dict[str, Any]:
    """Settings of an axis: logarithmic where everything on it is positive and wide."""
    values = np.concatenate([np.ravel(np.asarray(column, dtype=float)) for column in columns])
    values = values[np.isfinite(values)]
    wide = len(values) > 0 and values.min() > 0.0 and values.max() > 8.0 * values.min()
    return {"type": "log", **_ticks(values)} if wide else {"type": "linear"}


def _ticks(values: Any) -> dict[str, Any]:
    """Labels of a logarithmic axis: 1, 2 and 5 of each decade where there are few, else decades."""
    low, high = (
        int(f(np.log10(v))) for f, v in ((np.floor, values.min()), (np.ceil, values.max()))
    )
    steps = (1.0, 2.0, 5.0) if high - low <= 3 else (1.0,)
    stride = 1 + (high - low) // 8
    ticks = [s * 10.0**k for k in range(low, high + 1, stride) for s in steps]
    plain = low >= -4 and high <= 5
    texts = [f"{tick:.10g}" if plain else f"{tick:.0e}" for tick in ticks]
    return {"tickmode": "array", "tickvals": ticks, "ticktext": texts}


def figure(traces: list[dict[str, Any]], x: Any, y: Any, **layout: Any) -> Figure:
    """A plotly figure as plain values, its colours still tokens."""
    height = layout.pop("height", 340)
    return {
        "data": traces,
        "layout": {
            "xaxis": x,
            "yaxis": y,
            "height": height,
            "margin": {"l": 56, "r": 20, "t": 36, "b": 44},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"color": INK, "size": 13, "family": "system-ui, sans-serif"},
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
            "showlegend": sum(trace.get("showlegend", True) for trace in traces) > 1,
            "hoverlabel": {"namelength": -1},
            **layout,
        },
    }


def axes(ax: Any, x: str, y: str, title: str = "") -> Any:
    """The matplotlib axes that were given, or new ones, with their labels."""
    if ax is None:
        try:
            from matplotlib.figure import Figure as Canvas
        except ImportError as error:
            raise MissingExtraError(
                'plots need matplotlib; pip install "miniamp[report]"'
            ) from error
        ax = Canvas(figsize=(4.8, 3.2), layout="constrained").subplots()
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    if title:
        ax.set_title(title, fontsize=10, loc="left")
    ax.grid(alpha=0.2)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def scaled(ax: Any, which: str, *columns: Any) -> None:
    """Make a matplotlib axis logarithmic where the page would."""
    if logarithmic(*columns)["type"] == "log":
        getattr(ax, f"set_{which}scale")("log")


def legend(ax: Any) -> None:
    """A legend, where there is anything to tell apart."""
    if len(ax.get_legend_handles_labels()[1]) > 1:
        ax.legend(frameon=False, fontsize=8)


def stroke(i: int) -> dict[str, Any]:
    """Colour, dash and marker of series i on paper."""
    dashes = ("-", "--", ":", "-.")
    markers = ("o", "s", "^", "D", "v", "<", "h", ">")
    return {
        "color": COLOURS[i % len(COLOURS)],
        "linestyle": dashes[i % len(dashes)],
        "marker": markers[i % len(markers)],
        "markersize": 4,
    }
