"""What a plot shows, said once: drawn by plotly for the page and by matplotlib for papers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import numpy as np

from miniamp.arrays import Array
from miniamp.errors import InvalidInputError

if TYPE_CHECKING:
    from miniamp.report.facts import Facts

#: An axis becomes logarithmic where everything on it is positive and spans more than this factor.
WIDE = 8.0
#: Height of a chart on the page, in pixels.
HEIGHT = 340


class Axis(NamedTuple):
    """One axis.

    Parameters
    ----------
    title : str
        Its label.
    values : sequence of arrays
        What decides whether the axis is logarithmic; none for an axis that is linear always.
    range : (low, high), optional
        Its ends; chosen by the plot otherwise. Taken only where the axis is linear.
    percent : bool
        Whether shares are shown as percentages.
    labels : sequence of str
        Names at 0, 1, 2, ...; the first is on top.
    zero : bool
        Whether to draw a line at zero.
    """

    title: str
    values: Sequence[Array] = ()
    range: tuple[float, float] | None = None
    percent: bool = False
    labels: Sequence[str] = ()
    zero: bool = False

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
    """Points that belong together, joined by a line or not.

    Parameters
    ----------
    name : str
        As in the legend.
    x, y : arrays
        Where the points are.
    joined : bool
        Whether a line joins them.
    error_x, error_y : array, optional
        Half the length of error bars.
    texts : sequence of str
        One per point, for `hover`.
    hover : str
        What the page shows under the pointer, in plotly's template language; %{text} is the
        point's text.
    colour : int, optional
        Which of the colours; by default each series has its own.
    """

    name: str
    x: Array
    y: Array
    joined: bool = True
    error_x: Array | None = None
    error_y: Array | None = None
    texts: Sequence[str] = ()
    hover: str = ""
    colour: int | None = None


class Bars(NamedTuple):
    """Horizontal bars from zero, one per label of the y axis."""

    lengths: Array
    labels: Sequence[str]
    texts: Sequence[str]


class Cells(NamedTuple):
    """A table of shares, each in the colour of its size: rows are on the y axis."""

    shares: Array
    rows: Sequence[str]
    columns: Sequence[str]
    texts: Sequence[Sequence[str]]


@dataclass(frozen=True, eq=False)
class Chart:
    """A plot: what is drawn, between which axes, and what it tells.

    Parameters
    ----------
    title, words : str
        Heading and explanation on the page.
    x, y : Axis
        The axes.
    series : sequence of Series
        Lines and points.
    bars : Bars, optional
        Horizontal bars instead.
    cells : Cells, optional
        A table of shares instead.
    band : (low, high), optional
        A shaded strip across the plot.
    level : float, optional
        A thin horizontal line across the plot.
    diagonal : (low, high), optional
        The thin line on which both axes agree.
    wide : bool
        Whether it takes the whole width of the page.
    height : int
        On the page, in pixels.
    """

    title: str
    words: str
    x: Axis
    y: Axis
    series: Sequence[Series] = ()
    bars: Bars | None = None
    cells: Cells | None = None
    band: tuple[float, float] | None = None
    level: float | None = None
    diagonal: tuple[float, float] | None = None
    wide: bool = False
    height: int = HEIGHT


class NothingToDrawError(InvalidInputError):
    """An estimator has nothing that this plot could show; the page leaves it out."""


ChartOf: TypeAlias = "Callable[[Facts], Chart]"

#: Every chart of the page with its place on it; filled by `on_page` when the plots are imported.
PAGE: list[tuple[int, ChartOf]] = []


C = TypeVar("C", bound=Callable[..., Chart])


def on_page(place: int) -> Callable[[C], C]:
    """Put a chart, which is a function of `Facts`, on the page, a lower place first."""

    def entered(chart: C) -> C:
        PAGE.append((place, chart))
        return chart

    return entered


def nothing(received: str, expected: str, remedy: str) -> NothingToDrawError:
    """The error for an estimator that a plot has no use for."""
    return NothingToDrawError("estimator", received, expected, remedy)
