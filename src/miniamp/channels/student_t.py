"""The Student t channel: regression with outliers."""

from __future__ import annotations

from typing import Self

import numpy as np
from scipy.special import gammaln

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.channels.base import Channel
from miniamp.numerics.panels import halved

#: What lies below exp(-DROP) of the largest value is left out.
DROP = 37.0
#: Points that look for the peaks of the mixing law, and then again around the highest of them.
_SEARCH = 48
_ZOOM = 16
#: Nodes of the trapezoidal rule between its ends. With df = 1 the log-partition, g and -dg of 2000
#: rows have relative errors of 2e-5 with 96, 1e-7 with 128, 5e-13 with these; df >= 4 needs 96.
_NODES = 192
#: Halvings of the bracket of an end: it is then too wide by a thousandth.
_HALVINGS = 10
#: Nodes over y in `outcomes`: E g^2 at df = 1 is off by 9e-5 with 180, 2e-6 with these.
_OUTCOMES = 240


class StudentT(Channel):
    """y = z + scale t, with t Student's of df degrees of freedom: mostly small, sometimes huge.

    The noise is Gaussian of variance scale^2/tau with tau ~ Gamma(df/2, df/2), so that averages
    over z are exact and one positive integral over log tau remains; nothing cancels for any V >= 0.

    The likelihood is not log-concave: a row whose y is far from omega is probably an
    outlier, and there **-dg < 0**. Where z is known, it is no less than -(df + 1)/(8 df scale^2);
    where V is much larger than scale^2, a row that is as likely an outlier as not leaves z between
    two far places and -dg can be far below -1/V. It is right, and not clipped here. What GAMP needs
    is that the sum over rows, A plus the belief's own precision, is positive: that holds while
    doubtful rows are a minority. Where it does not, start from a wider scale, use damping, or a
    solver that keeps its precisions positive.

    Parameters
    ----------
    df : float or (M,) array
        Degrees of freedom, df > 0. From about 30 on it is nearly Gaussian; 1 is Cauchy.
    scale : float or (M,) array
        Scale of the noise, scale > 0; its variance is scale^2 df/(df - 2) for df > 2, else
        infinite.

    Examples
    --------
    >>> import numpy as np
    >>> g, curvature = StudentT(df=3.0).output(np.array([1.0, 1000.0]), omega=0.0, V=0.1)
    >>> bool(g[1] < 0.01 * g[0]), bool(curvature[1] < 0.0)
    (True, True)
    """

    name = "student-t"
    names = ("df", "scale")
    has_noise = True
    shift_invariant = True

    def __init__(self, df: Given = 4.0, scale: Given = 1.0) -> None:
        self.df = checks.parameter("df", df, above=0.0)
        self.scale = checks.parameter("scale", scale, above=0.0)
        self.blur = float(self.scale.min())

    def log_partition(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> Array:
        return self._mixture(y, omega, V)[0]

    def output(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        _, weights, total, _ = self._mixture(y, omega, V)
        residual = np.asarray(y - omega) / total
        g = (weights * residual).sum(axis=0)
        spread = (weights * np.square(residual - g)).sum(axis=0)
        return g, (weights / total).sum(axis=0) - spread

    def predict(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        """Mean and variance of a new y; without a finite variance (df <= 2) that is inf.

        For df <= 1 the mean does not exist either; the median, omega, is given for it.
        """
        heavy = self.df <= 2.0
        noise = np.square(self.scale) * self.df / np.where(heavy, 1.0, self.df - 2.0)
        shape = self._shape_of(omega, V)
        mean = np.broadcast_to(np.asarray(omega, dtype=np.float64), shape)
        return mean, np.broadcast_to(V + np.where(heavy, np.inf, noise), shape)

    def sample(self, rng: np.random.Generator, z: ArrayOrFloat) -> Array:
        return np.asarray(z + self.scale * rng.standard_t(self.df, size=self._shape_of(z)))

    def outcomes(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        # y = omega + width sinh t, as far out as the power law of the tails requires.
        shape = self._shape_of(omega, V)
        width = np.sqrt(np.square(self.scale) * np.minimum(self.df, 1e3) + V)
        reach = np.arcsinh(12.0 * np.sqrt(np.square(self.scale) + V) / width) + 32.0 / self.df
        reach = np.broadcast_to(np.minimum(reach, 300.0), shape)[..., None]
        t = reach * np.linspace(-1.0, 1.0, _OUTCOMES)
        width = np.broadcast_to(width, shape)[..., None]
        centre = np.broadcast_to(omega, shape)[..., None]
        return centre + width * np.sinh(t), width * np.cosh(t) * (2.0 * reach / (_OUTCOMES - 1))

    def fitted(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> Self:
        """One EM step for the scale; df stays as it is."""
        _, weights, total, noise = self._mixture(y, omega, V)
        residual = np.asarray(y - omega) / total
        surplus = noise * (np.square(residual) - 1.0 / total)
        growth = 1.0 + float(np.mean((weights * surplus).sum(axis=0)))
        return self.replaced(scale=self.scale * np.sqrt(growth))

    def with_noise(self, var: float) -> Self:
        return self.replaced(scale=np.sqrt(var))

    def score(self, y: Array) -> Array:
        return np.asarray((self.df + 1.0) * y / (self.df * np.square(self.scale) + np.square(y)))

    def fisher(self) -> Array:
        return np.asarray((self.df + 1.0) / ((self.df + 3.0) * np.square(self.scale)))

    def _mixture(
        self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat
    ) -> tuple[Array, Array, Array, Array]:
        """log-partition, and the law of u = log tau given y: weights, V + noise, noise.

        Nodes along a first axis. The law may have two peaks: tau near 1, and a tau so small that it
        explains the residual; both lie within [low, high], see the signs of the two terms in the
        derivative, df/2 (1 - e^u) + p/2 (1 - r^2/total) with 0 < p < 1.
        """
        shape = self._shape_of(y, omega, V)
        half, variance = 0.5 * self.df, np.square(self.scale)
        square = np.broadcast_to(np.square(y - omega), shape)

        def log_integrand(u: Array) -> Array:
            total = V + variance * np.exp(-u)
            # u - e^u relative to its largest value, which is -1 at u = 0.
            mixing = half * (u - np.expm1(u))
            return np.asarray(mixing - 0.5 * (np.log(total) + square / total))

        low = -np.log(np.maximum(square / variance, 1.0)) - 2.0 / (self.df + 1.0)
        high = np.broadcast_to(np.log1p(1.0 / self.df), shape)
        u = low + (high - low) * _column(_SEARCH, len(shape))
        values = log_integrand(u)
        best = np.take_along_axis(u, values.argmax(axis=0)[None], axis=0)[0]
        gap = (high - low) / (_SEARCH - 1)
        zoom = best + gap * (2.0 * _column(_ZOOM, len(shape)) - 1.0)
        zoomed = log_integrand(zoom)
        finer = np.take_along_axis(zoom, zoomed.argmax(axis=0)[None], axis=0)[0]
        floor = np.maximum(values.max(axis=0), zoomed.max(axis=0)) - DROP
        alive = values > floor
        first = np.minimum(np.where(alive, u, np.inf).min(axis=0), finer)
        last = np.maximum(np.where(alive, u, -np.inf).max(axis=0), finer)
        # Outside its peaks the law falls at least as fast as the mixing law does from its own peak.
        fall = DROP / half
        below, beyond = first - gap - fall - np.sqrt(2.0 * fall), gap + 2.0 * np.arccosh(1.0 + fall)
        left, right = (
            halved(lambda u: log_integrand(u) > floor, inside, outside, _HALVINGS)[1]
            for inside, outside in ((first, below), (last, last + beyond))
        )
        spacing = (right - left) / (_NODES - 1)
        u = left + (right - left) * _column(_NODES, len(shape))
        values = log_integrand(u)
        largest = values.max(axis=0)
        weights = np.exp(values - largest)
        mass = weights.sum(axis=0)
        noise = variance * np.exp(-u)
        constant = half * np.log(half) - half - gammaln(half) - 0.5 * np.log(2.0 * np.pi)
        return largest + np.log(mass * spacing) + constant, weights / mass, V + noise, noise


def _column(number: int, dimensions: int) -> Array:
    """Equally spaced points of [0, 1] along a first axis."""
    return np.linspace(0.0, 1.0, number).reshape(-1, *([1] * dimensions))
