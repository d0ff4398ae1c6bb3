"""Claims: what the paper says, what is right, what we get, and whether they agree."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np

from miniamp.arrays import Array
from miniamp.experiments.tables import Row, Table

#: Medians follow state evolution within this many decades, on average over the batches.
CLOSE = 0.06
#: The same for the small problems of a quick run: fluctuations fall like 1/sqrt(N).
CLOSE_QUICK = 0.15


@dataclass(frozen=True)
class Claim:
    """A line of the summary.

    Parameters
    ----------
    panel, what : str
        Where, and what it is about.
    paper : str
        As printed.
    ours : str
        As computed here.
    agrees : bool
        Whether ours is what is expected: the paper's, or the corrected one where that differs.
    corrected : str
        The value after the errata, where the print is wrong.
    note : str
        Why, where that is not plain.
    """

    panel: str
    what: str
    paper: str
    ours: str
    agrees: bool
    corrected: str = ""
    note: str = ""

    def row(self) -> Row:
        """As a row of the summary table."""
        return asdict(self) | {"agrees": "yes" if self.agrees else "no"}


class Deviation(NamedTuple):
    """How far medians are from state evolution, in decades."""

    mean: float
    worst: float
    points: int


def medians(table: Table, by: str, value: str) -> tuple[Array, Array, Array, Array]:
    """The different values of `by`, and of `value` there: median, lower and upper quartile."""
    places = np.array(table.values(by))
    groups = [table.where(**{by: float(place)})[value] for place in places]
    quartiles = np.array([np.quantile(group, [0.5, 0.25, 0.75]) for group in groups])
    return (places, *(quartiles.T if groups else np.empty((3, 0))))


def deviation(
    table: Table,
    theory: Table,
    value: str = "mse",
    least: float = 0.0,
    leave_out: Array | None = None,
) -> Deviation:
    """Mean absolute log10 of medians over theory, batch by batch.

    Only where both are above `least`, and not at the batches to `leave_out`.
    """
    k, median, _, _ = medians(table, "batch", value)
    expected = dict(zip(theory["batch"], theory[value], strict=True))
    predicted = np.array([expected[batch] for batch in k])
    used = (predicted > least) & (median > least)
    if leave_out is not None:
        used &= ~np.isin(k, leave_out)
    if not used.any():
        return Deviation(0.0, 0.0, 0)
    off = np.abs(np.log10(median[used] / predicted[used]))
    return Deviation(float(off.mean()), float(off.max()), int(used.sum()))
