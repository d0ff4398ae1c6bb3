"""Gaussian sites on the rows: what a channel says of Phi x, as seen by a Gaussian."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from miniamp.arrays import Array
from miniamp.channels.base import Channel

#: A row is at least this noisy, relative to what was not known of it: rows without noise would make
#: the stack's Gram matrix singular to working precision.
QUIETEST = 1e-12
#: A row's site has at least this precision, relative to what is known of it without the row: a
#: label far on its right side says nothing, and a row that says nothing must not divide by zero.
FAINTEST = 1e-8
#: Sites that agree this well under two different beliefs are taken as the same under all.
SAME = 1e-6


class RowSites(NamedTuple):
    """Gaussians exp(-precision z^2/2 + linear z), one a row."""

    precision: Array
    linear: Array

    def matched(self, omega: Array, V: Array, g: Array, curvature: Array) -> RowSites:
        """The sites with which z ~ N(omega, V) gets the mean and variance that the channel gives.

        Rows whose channel would widen z (a curvature that is not positive) keep the site they had.
        """
        rest = 1.0 - V * curvature
        sound = (curvature >= 0.0) & (rest > 0.0)
        precision = np.clip(
            np.where(sound, curvature / np.where(sound, rest, 1.0), self.precision),
            FAINTEST / V,
            1.0 / (QUIETEST * V),
        )
        return RowSites(precision, np.where(sound, g + precision * (omega + V * g), self.linear))

    def centred(self, omega: Array, V: Array, g: Array, curvature: Array) -> RowSites:
        """The sites of the same precision with which z gets the mean that the channel gives it."""
        sound = (curvature >= 0.0) & (V * curvature < 1.0)
        linear = np.where(sound, g + self.precision * (omega + V * g), self.linear)
        return RowSites(self.precision, linear)

    def towards(self, other: RowSites, step: float) -> RowSites:
        """A step in natural parameters, which keeps precisions positive."""
        return RowSites(*((1.0 - step) * a + step * b for a, b in zip(self, other, strict=True)))

    def mismatch(self, omega: Array, V: Array, g: Array) -> float:
        """How far the sites' means of z are from the channel's, in standard deviations of z."""
        shrink = 1.0 / (1.0 + self.precision * V)
        off = (omega + V * g) - (omega + V * self.linear) * shrink
        return float(np.sqrt(np.mean(np.square(off) / (V * shrink))))

    def sharper(self, other: RowSites, V: Array) -> float:
        """How far the variances of z are from those with the other sites, relative."""
        off = (self.precision - other.precision) * V / (1.0 + self.precision * V)
        return float(np.sqrt(np.mean(np.square(off))))


def first_sites(
    channel: Channel, y: Array, omega: Array, V: Array, left: float = 1.0
) -> tuple[RowSites, bool]:
    """The sites of rows z ~ N(omega, V), and whether they are the same under any other belief.

    Those that are not are taken where the rows together leave this part of V: each as if it were
    alone would be too bold by far where all share a direction, such as that of a wide intercept.
    """
    here, there = (channel.output(y, o, v) for o, v in ((omega, V), (omega + np.sqrt(V), 2.0 * V)))
    with np.errstate(divide="ignore", invalid="ignore"):
        # The noise of a Gaussian site: 1/curvature less what was not known before.
        one, other = 1.0 / here[1] - V, 1.0 / there[1] - 2.0 * V
        same = np.abs(one - other) <= SAME * np.abs(one) + QUIETEST * V
    if not same.all():
        V = left * V
        start = RowSites(FAINTEST / V, FAINTEST / V * omega)
        return start.matched(omega, V, *channel.output(y, omega, V)), False
    # Where there is noise, nothing is subtracted at V = 0, and the site is exact to the last digit.
    quiet = one <= QUIETEST * V
    g, curvature = channel.output(y, omega, np.where(quiet, QUIETEST * V, 0.0))
    return RowSites(curvature, curvature * omega + g), True
