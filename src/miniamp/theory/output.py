"""The output channel: what a row adds about z = Phi_mu . x, which is known up to an error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.channels.base import Channel
from miniamp.numerics.scales import LogTable, gaussian_rule, low_series
from miniamp.theory.scalar import kept

#: Where tables of delta end, relative to E x^2. Channels that may jump are singular there, as
#: E^(-1/2), with a correction of relative size E^(1/2) or less.
SHARP_END = 1e-20
#: ... and where each value is a quadrature, already here: the correction is of relative size E.
SHARP_INTEGRATED_END = 1e-10
#: Trapezoid step for smooth channels, in units of the narrower of blur and the spread of omega:
#: with 0.8 the delta of a logistic is off by 3e-7, with 0.6 by 1e-10, with this by rounding.
SMOOTH_STEP = 0.4
#: Standard deviations of omega that they are averaged over; 6.5 are off by 2e-12.
REACH = 8.5
#: Rows whose delta at E = E x^2 is below this share of that at half of it do not show signs.
BLIND = 1e-12
#: The nearest that the table of a blind channel comes to E = E x^2, relatively.
CLOSEST = 1e-12
#: The logarithm of a delta that is 0.
VANISHED = -740.0


class RowGain(ABC):
    """What a row of a typical batch adds, as a function of the error E of a coefficient.

    delta is tabulated from `end` to `power`; below, it is continued by `_low`.
    """

    channel: Channel
    power: float  #: E x^2 of a coefficient
    floor: float  #: an error below this is none
    end: float
    residue: float  #: E delta(E) as E falls to 0, where rows have no noise
    blind: bool  #: whether rows say nothing where nothing is known: they do not show the sign of z

    @property
    def noiseless(self) -> bool:
        """Whether delta grows like 1/E: y fixes z, and J is infinite."""
        return self.floor > 0.0

    @property
    @abstractmethod
    def onset(self) -> float:
        """delta(E)/(1 - E/power) as E rises to `power`: how fast blind rows begin to inform."""

    @abstractmethod
    def exponent(self) -> float:
        """s in delta ~ E^-s for small E: 1 without noise, 1/2 for a jump, 0 where smooth."""

    def delta(self, mse: ArrayOrFloat) -> Array:
        """What a row over coefficients adds to the precision, for each error E."""
        return self._table.value(np.minimum(mse, self.power))

    def information(self, mse: ArrayOrFloat) -> Array:
        """J(E), half the integral of delta from 0, in nats per row."""
        return 0.5 * self._table.integral(np.minimum(mse, self.power))

    @cached_property
    def _table(self) -> LogTable:
        return LogTable(self._log_delta, np.log(self.end), self._low)

    @abstractmethod
    def _log_delta(self, log_mse: Array) -> Array:
        """The logarithm of delta, computed."""

    def _low(self, mse: Array) -> tuple[Array, Array]:
        """delta and its integral from 0, below the table: a power law."""
        edge, slope = self._power_law
        ratio = mse / self.end
        if slope < -0.1:
            with np.errstate(divide="ignore", over="ignore"):
                integral = edge * self.end * ratio ** (1.0 + slope) / (1.0 + slope)
                return edge * ratio**slope, integral
        line = edge * (1.0 + slope * (ratio - 1.0))
        return line, edge * mse * (1.0 + slope * (0.5 * ratio - 1.0))

    @cached_property
    def _power_law(self) -> tuple[float, float]:
        """delta at the end of the table, and its logarithmic slope there."""
        s = np.log(self.end) + np.array([0.0, 0.1])
        low, high = self._table.log_value(np.exp(s) * (1.0 + 1e-12))
        return float(np.exp(low)), float((high - low) / 0.1)


class OutputChannel(RowGain):
    """delta(E) and its half integral J(E), for z ~ N(0, power) known up to an error E.

    delta = E g^2 = E(-dg) is what a row adds to the precision of every coefficient. J is what y
    adds to what is known of z, in nats: J = -E log Z_z - H[P(y | z)], dJ/dE = delta/2.

    Examples
    --------
    >>> from miniamp import channels
    >>> out = OutputChannel(channels.Gaussian(var=0.5), power=1.0)
    >>> float(out.delta(0.5)), round(float(out.information(0.5)), 6)
    (1.0, 0.346574)
    """

    residue = 1.0

    def __init__(self, channel: Channel, power: float) -> None:
        self.channel = channel
        self.power = power
        self.floor = channel.error_floor
        closed = channel.row_information(np.array([power]), power)
        self.closed = closed is not None
        integrated = channel.row_fisher(np.array([power]), power) is None
        end = (SHARP_INTEGRATED_END if integrated else SHARP_END) * power
        if channel.blur > 0.0:
            end = min(power, channel.blur**2)
        # Panels end exactly at E = power, beyond which omega would have a negative variance.
        decades = np.ceil(np.log10(power / end) - 1e-9)
        self.end = power * 10.0**-decades * (1.0 + (1e-9 if decades == 0.0 else 0.0))
        self._series = low_series(self._log_smooth, self.end, self._unknown)

    @property
    def constant_precision(self) -> float | None:
        """1/Delta of a Gaussian channel, whatever is known of z; else None."""
        if not self.closed:
            return None
        return float(np.squeeze(self._closed("row_fisher", np.zeros(()))))

    @property
    def scale(self) -> float:
        """The E below which delta no longer changes; 0 where there is none."""
        precision = self.constant_precision
        return self.channel.blur**2 if precision is None else 1.0 / precision

    def delta(self, mse: ArrayOrFloat) -> Array:
        mse = np.minimum(np.asarray(mse, dtype=np.float64), self.power)
        if self.closed:
            return self._closed("row_fisher", mse)
        if self.blind:
            return np.asarray((1.0 - mse / self.power) * self._ratio.value(mse))
        return super().delta(mse)

    def information(self, mse: ArrayOrFloat) -> Array:
        if self.closed:
            return self._closed("row_information", np.minimum(mse, self.power))
        return super().information(mse)

    def _closed(self, what: str, mse: Array) -> Array:
        values: Array = getattr(self.channel, what)(mse, self.power)
        return values.reshape(mse.shape)

    def exponent(self) -> float:
        if self.closed:
            return 1.0 if self.noiseless else 0.0
        if self.channel.blur > 0.0:
            return 0.0
        return round(-2.0 * self._power_law[1]) / 2.0

    @cached_property
    def blind(self) -> bool:  # type: ignore[override]
        if self.closed:
            return False
        at, below = np.exp(self._log_delta(np.log(self.power * np.array([1.0, 0.5]))))
        return bool(at < BLIND * below)

    @property
    def onset(self) -> float:
        return float(self._ratio.value(self.power))

    @cached_property
    def _ratio(self) -> LogTable:
        """delta(E)/(1 - E/power), which has no zero at E = power."""

        def low(mse: Array) -> tuple[Array, Array]:
            value, integral = self._low(mse)
            return value / self._unknown(mse), integral

        return LogTable(self._log_smooth, np.log(self.end), low)

    def _log_smooth(self, log_mse: Array) -> Array:
        """The logarithm of delta, without the zero that blind rows have at E = power."""
        logs = self._log_delta(log_mse)
        if not self.blind:
            return logs
        unknown = -np.expm1(log_mse - np.log(self.power))
        return np.asarray(logs - np.log(np.maximum(unknown, CLOSEST)))

    def _log_delta(self, log_mse: Array) -> Array:
        mse = np.minimum(np.exp(log_mse), self.power)
        closed = self.channel.row_fisher(mse, self.power)
        if closed is not None:
            return np.asarray(np.log(closed.reshape(mse.shape)))
        with np.errstate(divide="ignore"):
            logs = np.log([self._integrated(float(E)) for E in mse])
        return np.asarray(np.maximum(logs, VANISHED))

    def _integrated(self, mse: float) -> float:
        spread = 0.0 if self.channel.shift_invariant else self.power - mse
        y, omega, weights = row_rule((self.channel,), self.channel, spread, mse, mse)
        return float(np.sum(weights * np.square(self.channel.output(y, omega, mse)[0])))

    def _low(self, mse: Array) -> tuple[Array, Array]:
        return super()._low(mse) if self.channel.blur == 0.0 else self._series(mse)

    def _unknown(self, mse: Array) -> Array:
        """What delta has beside a smooth logarithm: its zero at E = power, of blind rows."""
        unknown = np.maximum(1.0 - mse / self.power, CLOSEST)
        return unknown if self.blind else np.ones_like(mse)


def forecast_rule(channels: tuple[Channel, ...], spread: float, V: float) -> tuple[Array, Array]:
    """Nodes and weights over omega ~ N(0, spread), for channels seen through N(., V)."""
    if spread <= 0.0:
        return np.zeros(1), np.ones(1)
    deviation = float(np.sqrt(spread))
    blur = min(channel.blur for channel in channels)
    # Of a z that is known all but exactly: no finer than tables end.
    finest = float(np.sqrt(max(V, SHARP_END * spread) + blur**2))
    if blur > 0.0:
        step = SMOOTH_STEP * min(deviation, finest)
        half = np.ceil(REACH * deviation / step)
        omega = step * np.arange(-half, half + 1.0)
        weights = np.exp(-0.5 * np.square(omega / deviation))
        return omega, weights / weights.sum()
    edges = np.concatenate([np.ravel(channel.edges()) for channel in channels])
    return gaussian_rule(spread, edges, finest)


def row_rule(
    channels: tuple[Channel, ...], true: Channel, spread: float, V: float, V_true: float,
    ratio: float = 1.0,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Outcomes y (n, k), predictions omega (n, 1) and weights of an average over rows.

    omega ~ N(0, spread), and y comes from the channel `true` at z ~ N(ratio omega, V_true); V is
    the width through which the channels see z. The weights sum to one.
    """
    nodes, weights = forecast_rule(channels, spread, V)
    omega = nodes[:, None]
    y, rule = true.outcomes(ratio * nodes, V_true)
    density = weights[:, None] * (rule * np.exp(true.log_partition(y, ratio * omega, V_true)))
    # Dividing by the total takes out what the rule over y leaves off.
    return y, omega, density / density.sum()


@kept
def output_channel(channel: Given, power: float) -> OutputChannel:
    """The output channel for signals of this power, made once for each channel object."""
    return OutputChannel(checked_channel("channel", channel), power)


def checked_channel(name: str, channel: Given) -> Channel:
    """`channel`, if it has a theory: a channel that treats every row alike."""
    if not isinstance(channel, Channel):
        raise checks.refuse(
            name, repr(channel), "a channel such as channels.Gaussian(var=0.01)",
            "see miniamp.channels; for streaming variational Bayes there is no such theory",
        )  # fmt: skip
    if channel.shape:
        raise checks.refuse(
            name, f"hyper-parameters of shape {channel.shape}", "shared ones: rows that are alike",
            "give one noise level for all rows",
        )  # fmt: skip
    return channel
