"""The interval channel: quantised, one-bit, ordinal and censored data."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import ndtr

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.channels.base import Channel, noise_growth
from miniamp.channels.gaussian import NOISE_FLOOR

#: Within a bin on one side of omega the density is left out below exp(-DROP) of its edge value.
_DROP = 40.0
#: A bin around omega that is wider than this is taken from its complement, a narrower one by
#: quadrature.
_WIDE = 1.0
#: Stands for an infinite edge; its square is still finite.
_FAR = 1e100
_points, _weights = np.polynomial.legendre.leggauss(40)
#: Gauss-Legendre on [0, 1].
_POINTS: Array = 0.5 * (_points + 1.0)
_WEIGHTS: Array = 0.5 * _weights


class Interval(Channel):
    """y is the number of the bin in which z + noise falls.

    K thresholds e_0 < ... < e_(K-1) make K + 1 bins, numbered as by `numpy.digitize`: bin 0 lies
    below e_0, bin k in [e_(k-1), e_k), bin K above. One threshold is one-bit data. With thresholds
    of its own for each row, (M, K), this is also censoring: a row known to lie within (a, b) has
    the thresholds a, b and y = 1.

    Parameters
    ----------
    thresholds : (K,) or (M, K) array
        Increasing thresholds between the bins.
    var : float or (M,) array
        Variance of the Gaussian noise before binning, var >= 0.

    Examples
    --------
    >>> import numpy as np
    >>> bins = Interval(thresholds=[-1.0, 0.0, 1.0])
    >>> np.round(bins.predict_proba(omega=0.0, V=1.0), 3)
    array([0.159, 0.341, 0.341, 0.159])
    """

    names = ("thresholds", "var")
    has_noise = True
    predicts_probabilities = True
    trailing: ClassVar[dict[str, int]] = {"thresholds": 1}
    #: As for the perceptron: rows that are certain of their bin say nothing more.
    _NOISELESS_RESOLUTION = 1e-6

    def __init__(self, thresholds: Given = (0.0,), var: Given = 0.0) -> None:
        self.thresholds = checked_thresholds(thresholds)
        self.var = checks.parameter("var", var, least=0.0)
        self.resolution = self._NOISELESS_RESOLUTION if not self.var.any() else 0.0
        self.blur = float(np.sqrt(self.var.min()))

    def edges(self) -> Array:
        return np.unique(self.thresholds)

    @property
    def bins(self) -> int:
        """How many bins there are."""
        return int(self.thresholds.shape[-1]) + 1

    def checked(self, y: Given) -> Array:
        bins = checks.numeric("y", y)
        strange = bins[(bins != np.floor(bins)) | (bins < 0) | (bins >= self.bins)]
        if strange.size:
            raise checks.refuse(
                "y",
                f"the bin {strange.flat[0]:g}",
                f"whole numbers from 0 to {self.bins - 1}",
                "number the bins as numpy.digitize(values, thresholds) does",
            )
        return bins

    def log_partition(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> Array:
        return self._slice(y, omega, V)[0].log_mass

    def output(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        part, scale = self._slice(y, omega, V)
        return part.pull / scale, part.narrowing / np.square(scale)

    def predict_proba(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> Array:
        """Probability of each bin, along a last axis."""
        each = [self.log_partition(np.array(float(k)), omega, V) for k in range(self.bins)]
        return np.exp(np.stack(each, axis=-1))

    def predict(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        """Mean and variance of the number of the bin."""
        p, k = self.predict_proba(omega, V), np.arange(float(self.bins))
        mean = (p * k).sum(axis=-1)
        return mean, (p * np.square(k - mean[..., None])).sum(axis=-1)

    def sample(self, rng: np.random.Generator, z: ArrayOrFloat) -> Array:
        noisy = z + np.sqrt(self.var) * rng.normal(size=self._shape_of(z))
        return np.asarray((noisy[..., None] >= self.thresholds).sum(axis=-1), dtype=np.float64)

    def outcomes(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        shape = (*self._shape_of(omega, V), self.bins)
        return np.broadcast_to(np.arange(float(self.bins)), shape), np.ones(shape)

    def fitted(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> Self:
        growth = noise_growth(self.var, *self.output(y, omega, V))
        return self.replaced(var=self.var * growth)

    def with_noise(self, var: float) -> Self:
        return self.replaced(var=var)

    def _slice(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Slice, Array]:
        """The bin in standard deviations from omega, integrated; and the standard deviation."""
        shape = self._shape_of(y, omega, V)
        scale = np.broadcast_to(np.sqrt(np.maximum(self.var, NOISE_FLOOR) + V), shape)
        which = np.broadcast_to(y, shape).astype(np.int64)[..., None]
        inner = np.broadcast_to(self.thresholds, (*shape, self.bins - 1))
        infinite = np.full((*shape, 1), np.inf)
        edges = np.concatenate([-infinite, inner, infinite], axis=-1)
        low, high = (np.take_along_axis(edges, which + i, axis=-1)[..., 0] for i in (0, 1))
        return gaussian_slice((low - omega) / scale, (high - omega) / scale), scale


class Slice(NamedTuple):
    """N(0, 1) cut to an interval."""

    log_mass: Array
    pull: Array  #: mean of what is left
    narrowing: Array  #: one minus its variance


def gaussian_slice(low: Array, high: Array) -> Slice:
    """Mass, mean and lost variance of N(0, 1) within [low, high], each to about 1e-13 relative.

    Three cases, because no formula is free of cancellation in all: wide intervals around 0 by what
    lies outside; intervals to one side, however far, and narrow ones, by quadrature from the edge.
    """
    low, high = np.clip(low, -_FAR, _FAR), np.clip(high, -_FAR, _FAR)
    # Mirrored so that the interval lies to the right, or reaches farther to the right.
    flip = low + high < 0.0
    sign = np.where(flip, -1.0, 1.0)
    near, far = np.where(flip, -high, low), np.where(flip, -low, high)
    wide = (near < 0.0) & (far - near > _WIDE)
    inside = _around(np.where(wide, near, -1.0), np.where(wide, far, 1.0))
    aside = _aside(np.where(wide, 0.0, near), np.where(wide, 1.0, far))
    log_mass, pull, narrowing = (np.where(wide, a, b) for a, b in zip(inside, aside, strict=True))
    return Slice(log_mass, sign * pull, narrowing)


def _around(low: Array, high: Array) -> Slice:
    """An interval with 0 well inside, from the two tails that it leaves out."""
    mass = 1.0 - (ndtr(low) + ndtr(-high))
    density_low, density_high = _density(low), _density(high)
    pull = (density_low - density_high) / mass
    narrowing = np.square(pull) + (high * density_high - low * density_low) / mass
    return Slice(np.log1p(-(ndtr(low) + ndtr(-high))), pull, narrowing)


def _aside(low: Array, high: Array) -> Slice:
    """An interval to the right, or a narrow one, by quadrature from its low edge."""
    reach = 2.0 * _DROP / (np.maximum(low, 0.0) + np.sqrt(np.square(low) + 2.0 * _DROP))
    length = np.minimum(high - low, reach)
    points = _POINTS.reshape(-1, *([1] * length.ndim))
    distance = length * points
    weights = _WEIGHTS.reshape(points.shape) * np.exp(-distance * (low + 0.5 * distance))
    mass = weights.sum(axis=0)
    weights = weights / mass
    mean = (weights * distance).sum(axis=0)
    variance = (weights * np.square(distance - mean)).sum(axis=0)
    log_mass = np.log(mass * length) - 0.5 * (np.square(low) + np.log(2.0 * np.pi))
    return Slice(log_mass, low + mean, 1.0 - variance)


def _density(u: Array) -> Array:
    return np.asarray(np.exp(-0.5 * np.square(u)) / np.sqrt(2.0 * np.pi))


def checked_thresholds(thresholds: Given) -> Array:
    """Thresholds between bins, (K,) or (M, K), finite and increasing."""
    array = np.array(checks.numeric("thresholds", thresholds))
    if array.ndim not in (1, 2) or array.shape[-1] == 0:
        raise checks.refuse(
            "thresholds", f"shape {array.shape}", "(K,) or (M, K) with K >= 1", "list all of them"
        )
    if (np.diff(array, axis=-1) <= 0.0).any():
        raise checks.refuse(
            "thresholds", "values that do not increase", "e_0 < e_1 < ...", "sort them"
        )
    array.setflags(write=False)
    return array
