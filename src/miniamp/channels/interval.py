"""The interval channel: quantised, one-bit, ordinal and censored data."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.channels.base import FiniteChannel, NoisyChannel, checked_values
from miniamp.channels.gaussian import NOISE_FLOOR
from miniamp.numerics.normal import Slice, gaussian_slice


class Interval(NoisyChannel, FiniteChannel):
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
    trailing: ClassVar[dict[str, int]] = {"thresholds": 1}
    #: As for the perceptron: rows that are certain of their bin say nothing more.
    noiseless_resolution = 1e-6

    def __init__(self, thresholds: Given = (0.0,), var: Given = 0.0) -> None:
        self.thresholds = checked_thresholds(thresholds)
        super().__init__(var)
        self.blur = float(np.sqrt(self.var.min()))
        self.labels = np.arange(float(self.bins))

    def edges(self) -> Array:
        return np.unique(self.thresholds)

    @property
    def bins(self) -> int:
        """How many bins there are."""
        return int(self.thresholds.shape[-1]) + 1

    def checked(self, y: Given) -> Array:
        known = lambda y: (y == np.floor(y)) & (y >= 0.0) & (y < self.bins)  # noqa: E731
        expected = f"whole numbers from 0 to {self.bins - 1}"
        remedy = "number the bins as numpy.digitize(values, thresholds) does"
        return checked_values(y, known, "bin", expected, remedy)

    def log_partition(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> Array:
        return self._slice(y, omega, V)[0].log_mass

    def output(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        part, scale = self._slice(y, omega, V)
        return part.pull / scale, part.narrowing / np.square(scale)

    def predict(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        """Mean and variance of the number of the bin."""
        p, k = self.predict_proba(omega, V), self.labels
        mean = (p * k).sum(axis=-1)
        return mean, (p * np.square(k - mean[..., None])).sum(axis=-1)

    def sample(self, rng: np.random.Generator, z: ArrayOrFloat) -> Array:
        noisy = z + np.sqrt(self.var) * rng.normal(size=self._shape_of(z))
        return np.asarray((noisy[..., None] >= self.thresholds).sum(axis=-1), dtype=np.float64)

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
    array = array[0] if array.shape[:-1] == (1,) else array  # shared
    array.setflags(write=False)
    return array
