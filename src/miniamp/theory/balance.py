"""The balance of a batch: how many rows hold the law at a given precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from miniamp.arrays import Array, Given
from miniamp.theory.output import OutputChannel, output_channel
from miniamp.theory.scalar import ScalarChannel, scalar_channel

#: Step of the scans in log(lambda - lambda_0). The curve is smooth on the scale of one.
SCAN = 0.05
#: A maximum that the scan sees this close below the target is looked at closely.
CLOSE = 0.02
#: A scan starts where lambda - lambda_0 is this small, in units of 1/Var x, ...
WEAKEST = 1e-4
#: ... and ends where the error has reached its floor, or at this many times 1/Var x.
STRONGEST = 1e32
#: A first iteration that adds less precision than this, in units of 1/Var x, adds none: the channel
#: cannot tell z from -z, and nothing breaks the symmetry.
BLIND = 1e-13
#: Turns whose logarithms differ by less are rounding on a flat curve.
RIPPLE = 1e-8


@dataclass(frozen=True)
class Extremum:
    """A place where the balance turns: log(lambda - lambda_0), and the alpha there."""

    s: float
    alpha: float
    highest: bool


class Balance:
    """alpha(lambda) = (lambda - lambda_0)/delta(epsilon(lambda)), in logarithms.

    A fixed point of `eq:appendix_se` at alpha is a lambda where this curve takes the value alpha.
    delta(epsilon(lambda)) grows with lambda, so the iteration climbs monotonically from lambda_0 to
    the smallest such lambda and can be replaced by a root search, which does not slow down near a
    threshold. The curve's maxima are the values of alpha at which that fixed point is lost.

    Parameters
    ----------
    prior, channel
        The model, matched.
    lam : float
        lambda_0, the precision before the batch.

    Examples
    --------
    >>> from miniamp import channels, priors
    >>> balance = Balance(priors.Gaussian(), channels.Gaussian(var=0.0))
    >>> round(float(np.exp(balance.log_alpha(np.log(3.0)))), 12)
    0.75
    """

    def __init__(self, prior: Given, channel: Given, lam: float = 0.0) -> None:
        self.scalar: ScalarChannel = scalar_channel(prior)
        self.output: OutputChannel = output_channel(channel, self.scalar.power)
        self.lam = lam

    def mse(self, s: float | Array) -> Array:
        """The error at lambda = lambda_0 + exp(s)."""
        return self.scalar.mmse(self.lam + np.exp(s))

    def log_alpha(self, s: float | Array) -> Array:
        """log of the alpha that has a fixed point at lambda = lambda_0 + exp(s)."""
        with np.errstate(divide="ignore"):
            return np.asarray(s - np.log(self.output.delta(self.mse(s))))

    def smallest_root(self, alpha: float) -> float | None:
        """log(lambda - lambda_0) of the fixed point that Mini-AMP reaches; None if only E = 0 is."""
        target = float(np.log(alpha))
        # One iteration from lambda_0: a lower bound, since delta only grows from there.
        first = float(self.output.delta(self.scalar.mmse(self.lam)))
        if first * alpha * self.scalar.variance < BLIND:
            return -np.inf
        left = target + float(np.log(first)) - 1e-9
        if self.log_alpha(left) >= target:
            return left
        steps = np.arange(41) * SCAN
        while left < self._end:
            s = left + steps
            root = self._first_crossing(s, target)
            if root is not None:
                return root
            left = float(s[-2])  # overlap by one, so that no maximum falls between two scans
        return None

    def _first_crossing(self, s: Array, target: float) -> float | None:
        values = self.log_alpha(s)
        above = values >= target
        first = int(above.argmax()) if above.any() else len(s)
        inner = (values[1:-1] >= values[:-2]) & (values[1:-1] >= values[2:])
        for i in np.flatnonzero(inner & (values[1:-1] > target - CLOSE)) + 1:
            if i >= first:
                break
            top = self._turn(s[i - 1], s[i + 1], highest=True)
            if top.alpha >= np.exp(target):
                return self._root(s[i - 1], top.s, target)
        return self._root(s[first - 1], s[first], target) if first < len(s) else None

    def roots(self, alpha: float) -> list[tuple[float, bool]]:
        """Every fixed point as (log(lambda - lambda_0), stable), in order; E = 0 apart."""
        target = float(np.log(alpha))
        turns = self.extrema
        ends = [self._begin, *(turn.s for turn in turns), self._end]
        found = []
        for left, right in zip(ends[:-1], ends[1:], strict=True):
            low, high = self.log_alpha(np.array([left, right])) - target
            if not left < right or low * high > 0.0 or low == high:
                continue
            found.append((self._root(left, right, target), bool(high > low)))
        if self.log_alpha(self._begin) > target:
            return [(self._tiny(target), True), *found]
        return found

    def perfect(self, alpha: float) -> bool:
        """Whether E = 0 (or the channel's floor) is a stable fixed point at this alpha."""
        return bool(self._vanishes and self._limit() < np.log(alpha))

    @property
    def perfect_lam(self) -> float:
        """A lambda that stands for the infinite one of E = 0."""
        return self.lam + float(np.exp(self._end))

    @cached_property
    def _vanishes(self) -> bool:
        return bool(self.mse(self._end) <= max(self.output.floor, 1e-300))

    def _limit(self) -> float:
        """log alpha as lambda grows without bound."""
        if self.output.noiseless and self.scalar.dimension() > 0.0:
            return float(np.log(self.scalar.dimension()))
        return float(self.log_alpha(self._end))

    @cached_property
    def extrema(self) -> list[Extremum]:
        """Where the curve turns, in order of lambda."""
        s = np.arange(self._begin, self._end, SCAN)
        # -inf, where delta overflows, must still count as going down.
        values = np.maximum(self.log_alpha(s), -1e4)
        slopes = np.sign(np.diff(values))
        found = []
        for i in np.flatnonzero(slopes[1:] * slopes[:-1] < 0.0) + 1:
            found.append(self._turn(s[i - 1], s[i + 1], highest=bool(slopes[i] < 0.0)))
        # Ripples of the last digits where the curve is flat are no extrema.
        return _without_ripples(found, self._limit())

    @property
    def _begin(self) -> float:
        return float(np.log(WEAKEST / self.scalar.variance))

    @cached_property
    def _end(self) -> float:
        """Where nothing more can happen: the error is at its floor, or delta no longer changes."""
        s = np.arange(self._begin, np.log(STRONGEST / self.scalar.variance), np.log(10.0))
        least = float(self.output.delta(np.array(0.0))) if self.output.exponent() == 0.0 else np.inf
        for left in s:
            strong = self.lam + np.exp(left) > 1e2 / self.scalar.variance
            mse = float(self.mse(left))
            if mse <= max(self.output.floor, 1e-300):
                return float(left)
            if strong and float(self.output.delta(mse)) > (1.0 - 1e-6) * least:
                return float(left)
        return float(s[-1])

    def _turn(self, left: float, right: float, *, highest: bool) -> Extremum:
        sign = -1.0 if highest else 1.0
        found = minimize_scalar(
            lambda s: sign * float(self.log_alpha(s)),
            bounds=(left, right),
            method="bounded",
            options={"xatol": 1e-9},
        )
        return Extremum(float(found.x), float(np.exp(sign * found.fun)), highest)

    def _root(self, left: float, right: float, target: float) -> float:
        gap: Callable[[float], float] = lambda s: float(self.log_alpha(s)) - target  # noqa: E731
        for end in (left, right):
            if gap(end) == 0.0:
                return float(end)
        return float(brentq(gap, left, right, xtol=1e-14, rtol=8.9e-16))

    def _tiny(self, target: float) -> float:
        """The fixed point below the scan: alpha so small that delta is that of lambda_0."""
        return target + float(np.log(self.output.delta(self.scalar.mmse(self.lam))))


def _without_ripples(turns: list[Extremum], log_limit: float) -> list[Extremum]:
    kept: list[Extremum] = []
    for turn in turns:
        if kept and abs(np.log(turn.alpha / kept[-1].alpha)) < RIPPLE:
            kept.pop()
        else:
            kept.append(turn)
    if kept and abs(np.log(kept[-1].alpha) - log_limit) < RIPPLE:
        kept.pop()
    return kept
