"""The balance of a batch: how many rows hold the law at a given precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.optimize import brentq

from miniamp.arrays import Array, Given
from miniamp.numerics.scales import lowest
from miniamp.theory.output import RowGain
from miniamp.theory.scalar import ScalarChannel, scalar_channel
from miniamp.theory.spectrum import Spectrum, row_gain

#: Step of the scans in log(lambda - lambda_0). The curve is smooth on the scale of one.
SCAN = 0.05
#: A maximum that the scan sees this close below the target is looked at closely.
CLOSE = 0.02
#: A scan starts where lambda - lambda_0 is this small, in units of 1/Var x, ...
WEAKEST = 1e-4
#: ... and ends where the error has reached its floor, or at this many times 1/Var x.
STRONGEST = 1e32
#: The chance overlap that leaves a point where nothing is known, in units of 1/Var x.
SEED = 1e-9
#: A continuous part of less weight than this is none.
NO_CONTINUUM = 1e-9
#: Stands for an infinite precision.
STRONG = 1e32
#: Turns whose logarithms differ by less are rounding on a flat curve.
RIPPLE = 1e-8


@dataclass(frozen=True)
class FixedPoint:
    """A stationary point of the mutual information at some alpha."""

    mse: float  #: its error E
    stable: bool  #: whether the iteration comes back to it: a minimum of the mutual information
    mutual_information: float  #: i_RS^b there, in nats per coefficient
    lam: float  #: the precision lambda there


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
    lambda_0 is the precision before the batch, `lam`.

    Examples
    --------
    >>> from miniamp import channels, priors
    >>> balance = Balance(priors.Gaussian(), channels.Gaussian(var=0.0))
    >>> round(float(np.exp(balance.log_alpha(np.log(3.0)))), 12)
    0.75
    """

    #: A first iteration that adds less precision than this, in units of 1/Var x, adds none: the
    #: channel cannot distinguish z from -z, and nothing breaks the symmetry.
    unseen = 1e-13

    def __init__(
        self, prior: Given, channel: Given, lam: float = 0.0, design: Spectrum | None = None
    ) -> None:
        self.scalar: ScalarChannel = scalar_channel(prior)
        self.output: RowGain = row_gain(channel, self.scalar.power, design)
        self.lam = lam

    def mse(self, s: float | Array) -> Array:
        """The error at lambda = lambda_0 + exp(s)."""
        return self.scalar.mmse(self.lam + np.exp(s))

    def gain(self, lam: float | Array) -> Array:
        """delta(epsilon(lambda)): what a row over coefficients adds to this precision."""
        return self.output.delta(self.scalar.mmse(lam))

    def price(self, lam: Array) -> Array:
        """1/delta(epsilon(lambda)), the rows over coefficients that a unit of precision costs."""
        mse = np.maximum(self.scalar.mmse(lam), max(self.output.floor, 1e-300))
        with np.errstate(divide="ignore", over="ignore"):
            return np.asarray(1.0 / self.output.delta(mse))

    def log_alpha(self, s: float | Array) -> Array:
        """log of the alpha that has a fixed point at lambda = lambda_0 + exp(s)."""
        with np.errstate(divide="ignore"):
            return np.asarray(s - np.log(self.gain(self.lam + np.exp(s))))

    def reached(self, alpha: float, optimal: bool = False) -> tuple[float, float]:
        """What a batch adds to lambda and the error it leaves, by Mini-AMP or exact inference."""
        s = self.optimal_root(alpha) if optimal else self.smallest_root(alpha)
        if s is None:
            return self.perfect_gain(alpha), self.output.floor
        return float(np.exp(s)), float(self.mse(s))

    def smallest_root(self, alpha: float) -> float | None:
        """log(lambda - lambda_0) of the fixed point that Mini-AMP reaches; None for E = 0."""
        target = float(np.log(alpha))
        # One iteration from lambda_0: a lower bound, since delta only grows from there.
        first = float(self.gain(self.lam))
        if first * alpha * self.scalar.variance <= self.unseen:
            critical = self.weak_recovery
            if critical is None or alpha <= critical * (1.0 + 1e-12):
                return -np.inf
            # A vanishing chance overlap grows.
            left = float(np.log(SEED / self.scalar.variance))
        else:
            left = target + float(np.log(first)) - 1e-9
            if self.log_alpha(left) >= target:
                return left
        steps = np.arange(41, dtype=np.float64) * SCAN
        # Where the end is far it need not be known: only noiseless rows are near it early.
        while not self.output.noiseless or left < self.end:
            s = left + steps
            root = self._first_crossing(s, target)
            if root is not None:
                return root
            left = float(s[-2])  # overlap by one, so that no maximum falls between two scans
            if left >= self.end:
                break
        last = self._last(alpha)
        return self.root(left, last, target) if last > left else None

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
                return self.root(s[i - 1], top.s, target)
        return self.root(s[first - 1], s[first], target) if first < len(s) else None

    @cached_property
    def weak_recovery(self) -> float | None:
        """The alpha above which AMP leaves the point where nothing is known; None without such.

        Rows that do not show the sign of z add alpha onset (1 - E/Var x) to lambda, and
        1 - E/Var x is lambda Var x to first order: the two balance at 1/(onset Var x).
        """
        if self.lam > 0.0 or not self.output.blind:
            return None
        return 1.0 / (self.output.onset * self.scalar.variance)

    def roots(self, alpha: float) -> list[tuple[float, bool]]:
        """Every fixed point as (log(lambda - lambda_0), stable), in order; E = 0 apart."""
        target = float(np.log(alpha))
        turns = self.extrema
        ends = [self.begin, *(turn.s for turn in turns), self._last(alpha)]
        found = []
        for left, right in pairwise(ends):
            low, high = self.log_alpha(np.array([left, right])) - target
            if not left < right or low * high > 0.0 or low == high:
                continue
            found.append((self.root(left, right, target), bool(high > low)))
        if self.log_alpha(self.begin) > target:
            return [(self._tiny(target), True), *found]
        critical = self.weak_recovery
        return found if critical is None else [(-np.inf, False), *found]

    def optimal_root(self, alpha: float) -> float | None:
        """log(lambda - lambda_0) of the fixed point of least mutual information; None for E = 0."""
        perfect = self.perfect(alpha)
        if perfect and self.output.noiseless:
            return None  # without noise the mutual information of every other point is infinite
        roots: list[float | None] = [s for s, stable in self.roots(alpha) if stable]
        if perfect:
            roots.append(None)
        if not roots:
            return self.smallest_root(alpha)
        return min(roots, key=lambda s: self.point(alpha, s).mutual_information)

    def point(self, alpha: float, s: float | None, stable: bool = True) -> FixedPoint:
        """The fixed point at log(lambda - lambda_0) = s; None for the one without error.

        The latter's E is the channel's floor where that is not 0.
        """
        added = self.perfect_gain(alpha) if s is None else float(np.exp(s))
        mse = self.output.floor if s is None else float(self.mse(s))
        return FixedPoint(mse, stable, float(self.information(mse, alpha)), self.lam + added)

    def information(self, mse: float | Array, alpha: float) -> Array:
        """i_RS^b(E) at these errors E, in nats per coefficient."""
        gain = alpha * self.output.delta(np.maximum(mse, self.output.floor))
        # At E = 0 a channel with a jump has an infinite gain: x is known, and I_x saturates there.
        known = np.isinf(gain)
        gain = np.where(known, STRONG, gain)
        pull = np.where(known, 0.0, 0.5 * gain * mse)
        rows = alpha * self.output.information(mse)
        return np.asarray(self.scalar.information(self.lam + gain) - pull + rows)

    def perfect_gain(self, alpha: float) -> float:
        """What a batch adds to lambda at the fixed point without error."""
        floor = self.output.floor
        return alpha * self.output.residue / floor if floor > 0.0 else np.inf

    def perfect(self, alpha: float) -> bool:
        """Whether E = 0 (or the channel's floor) is a stable fixed point at this alpha."""
        return bool(self.log_limit < np.log(alpha))

    @cached_property
    def log_limit(self) -> float:
        """log alpha as lambda grows without bound; inf unless E = 0 can be reached."""
        dimension = self.scalar.dimension()
        if dimension > NO_CONTINUUM:
            return (
                float(np.log(dimension / self.output.residue)) if self.output.noiseless else np.inf
            )
        return -np.inf if self.output.exponent() > 0.0 else np.inf

    @cached_property
    def extrema(self) -> list[Extremum]:
        """Where the curve turns, in order of lambda."""
        s = np.arange(self.begin, self.end, SCAN)
        # -inf, where delta overflows, must still count as going down.
        values = np.maximum(self.log_alpha(s), -1e4)
        slopes = np.sign(np.diff(values))
        found = [
            self._turn(s[i - 1], s[i + 1], highest=bool(slopes[i] < 0.0))
            for i in np.flatnonzero(slopes[1:] * slopes[:-1] < 0.0) + 1
        ]
        # Ripples of the last digits where the curve is flat are no extrema.
        return _without_ripples(found, self.log_limit)

    @property
    def begin(self) -> float:
        """Where scans start, log(lambda - lambda_0)."""
        return float(np.log(WEAKEST / self.scalar.variance))

    @cached_property
    def end(self) -> float:
        """Where nothing more can happen: the error is at its floor, or delta no longer changes."""
        s = np.arange(self.begin, np.log(STRONGEST / self.scalar.variance), np.log(10.0))
        most = float(self.output.delta(0.0)) if self.output.exponent() == 0.0 else np.inf
        floor = max(self.output.floor, 1e-300)
        for left in s:
            mse = float(self.mse(left))
            if mse <= floor:
                # Beyond, delta is cut off, and the curve would seem to turn.
                over = lambda s: float(self.mse(s)) / floor - 1.0  # noqa: E731
                return float(brentq(over, left - np.log(10.0), left)) - 1e-3
            strong = self.lam + np.exp(left) > 1e2 / self.scalar.variance
            if strong and float(self.output.delta(mse)) > (1.0 - 1e-6) * most:
                return float(left)
        return float(s[-1])

    def _last(self, alpha: float) -> float:
        """Where fixed points end: beyond `end` where delta is bounded and alpha large."""
        if self.output.exponent() > 0.0:
            return self.end
        most = float(self.output.delta(0.0))
        return max(self.end, float(np.log(alpha * most)) + 1e-6)

    def _turn(self, left: float, right: float, *, highest: bool) -> Extremum:
        sign = -1.0 if highest else 1.0
        s, value = lowest(lambda s: sign * float(self.log_alpha(s)), left, right, to=1e-9)
        return Extremum(s, float(np.exp(sign * value)), highest)

    def root(self, left: float, right: float, target: float) -> float:
        """Where log alpha passes through `target` between two s."""
        gap: Callable[[float], float] = lambda s: float(self.log_alpha(s)) - target  # noqa: E731
        for end in (left, right):
            if gap(end) == 0.0:
                return float(end)
        return float(brentq(gap, left, right, xtol=1e-14, rtol=8.9e-16))

    def _tiny(self, target: float) -> float:
        """The fixed point below the scan: alpha so small that delta is that of lambda_0."""
        with np.errstate(divide="ignore"):  # blind rows: it is where nothing is known
            return target + float(np.log(self.gain(self.lam)))


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
