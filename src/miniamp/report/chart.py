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
    """A plot: what is drawn, between which axes, and what it tells."""

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
