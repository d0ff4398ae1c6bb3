"""The numerical channel: any likelihood that can be written down."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.channels.base import Channel, checked_counts, checked_values
from miniamp.errors import InvalidTypeError
from miniamp.numerics.averages import local, moments

LogLikelihood = Callable[[Array, Array], ArrayLike]

#: Below (LOCAL scale)^2 the likelihood is expanded around omega instead of averaged.
LOCAL = 0.01
#: Steps of sums over z and y, in units of `scale`, and over omega, in units of the deviation that
#: smooths it (of SHARPEST scales at least), and how many deviations they reach. For y = |z| + noise
#: twice the step over omega is off by 1e-4, this by 5e-7.
FINE = 0.2
SHARPEST = 0.25
REACH = 8.5
_SQRT_2PI = np.sqrt(2.0 * np.pi)
#: Gauss-Hermite nodes for averages over less than half of `scale`: right to 1e-12 for a logistic.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(20)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_OUTCOMES = 201
_DROP = 40.0
#: A sum over counts ends here at the latest.
_MOST_COUNTS = 100_000


class Numerical(Channel):
    """A channel given by its log-likelihood alone; all else follows by adaptive quadrature.

    Parameters
    ----------
    log_likelihood : callable
        log P(y | z), normalised over y, for arrays y and z that broadcast; -inf where impossible.
    support : "real", "positive", "counts", or a sequence of labels
        The values that y can take.
    scale : float
        A length in z over which the likelihood changes, scale > 0. Where sqrt(V) is below a
        hundredth of it, the likelihood is expanded around omega; the right order of magnitude is
        enough.

    Notes
    -----
    About ten times slower than `Logistic`. -dg may be negative where
    the likelihood is not log-concave (see `StudentT`).

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.special import log_expit
    >>> logistic = Numerical(lambda y, z: log_expit(y * z), support=[-1, 1])
    >>> g, curvature = logistic.output(np.array([1.0]), omega=0.0, V=1.0)
    >>> np.round(g, 9), np.round(curvature, 9)
    (array([0.41324193]), array([0.17076889]))
    """

    def __init__(
        self, log_likelihood: LogLikelihood, support: Given = "real", scale: float = 1.0
    ) -> None:
        if not callable(log_likelihood):
            raise InvalidTypeError(
                "log_likelihood", repr(log_likelihood), "a function of (y, z)",
                "write one that takes and returns arrays"
            )  # fmt: skip
        self.support: str | tuple[float, ...]
        if isinstance(support, str):
            if support not in ("real", "positive", "counts"):
                expected = "'real', 'positive', 'counts' or a sequence of labels"
                raise checks.refuse("support", repr(support), expected, "name one of them")
            self.support = support
        else:
            self.support = tuple(np.unique(checks.vector("support", support)).tolist())
            if not self.support:
                raise checks.refuse("support", "no labels", "at least one", "list them all")
        self._log_likelihood = log_likelihood
        self.scale = checks.number("scale", scale, above=0.0)
        self.blur = self.scale

    def parameters(self) -> dict[str, object]:
        own = {"log_likelihood": self._log_likelihood}
        return {**own, "support": self.support, "scale": self.scale}

    def log_likelihood(self, y: ArrayOrFloat, z: ArrayOrFloat) -> Array:
        """log P(y | z) as the user wrote it."""
        return np.asarray(self._log_likelihood(np.asarray(y), np.asarray(z)), dtype=np.float64)

    def checked(self, y: Given) -> Array:
        if self.support == "counts":
            return checked_counts(y)
        if self.support == "real":
            return checks.numeric("y", y)
        positive = self.support == "positive"
        known = lambda y: y > 0.0 if positive else np.isin(y, self.support)  # noqa: E731
        expected = "numbers > 0" if positive else f"one of {self.support}"
        return checked_values(y, known, "value", expected, "encode y as `support` says")

    def log_partition(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> Array:
        return self._all(y, omega, V)[0]

    def output(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        return self._all(y, omega, V)[1:]

    def _all(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array, Array]:
        """log-partition, g and -dg."""
        shape = self._shape_of(y, omega, V)
        y, omega, V = (np.broadcast_to(a, shape).astype(np.float64).ravel() for a in (y, omega, V))
        result = np.empty((3, omega.size))
        with np.errstate(all="ignore"):
            flat = np.square(LOCAL * self.scale) > V
            where = np.flatnonzero(flat)
            *found, good = local(
                lambda z, row: self.log_likelihood(y[where[row]], z),
                omega[where],
                V[where],
                self.scale,
            )
            result[:, where] = found
            flat[where] = good
            where = np.flatnonzero(~flat)
            wide = np.maximum(V[where], np.square(1e-8 * self.scale))
            log_mass, pull, var = moments(
                lambda z, row: self.log_likelihood(y[where[row]], z), omega[where], wide
            )
            result[:, where] = log_mass, pull / wide, (1.0 - var / wide) / wide
        log_partition, g, curvature = (a.reshape(shape) for a in result)
        return log_partition, g, curvature

    def predict(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        y, p = self._predicted(omega, V)
        mean = (p * y).sum(axis=-1)
        return mean, (p * np.square(y - mean[..., None])).sum(axis=-1)

    @property
    def predicts_probabilities(self) -> bool:
        return not isinstance(self.support, str)

    def predict_proba(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> Array:
        """Probabilities of the labels in increasing order, along a last axis."""
        if isinstance(self.support, str):
            raise checks.refuse(
                "support", repr(self.support), "a list of labels", "use predict for numbers"
            )
        return self._predicted(omega, V)[1]

    def sample(self, rng: np.random.Generator, z: ArrayOrFloat) -> Array:
        y, p = self._predicted(z, 0.0)
        below = np.cumsum(p, axis=-1)
        u = rng.random((*y.shape[:-1], 1)) * below[..., -1:]
        if self.support in ("real", "positive"):
            each = (u.reshape(-1), *(a.reshape(-1, y.shape[-1]) for a in (below, y)))
            found = [np.interp(a, b, c) for a, b, c in zip(*each, strict=True)]
            return np.array(found).reshape(y.shape[:-1])
        which = np.minimum((u > below).sum(axis=-1, keepdims=True), y.shape[-1] - 1)
        return np.asarray(np.take_along_axis(y, which, axis=-1)[..., 0])

    def _predicted(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        y, weights = self.outcomes(omega, V)
        expanded = (np.asarray(a)[..., None] for a in (omega, V))
        return y, weights * np.exp(self.log_partition(y, *expanded))

    def outcomes(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        shape = self._shape_of(omega, V)
        omega, V = (np.broadcast_to(a, shape).astype(np.float64)[..., None] for a in (omega, V))
        if self.support == "counts":
            return self._counts(omega, V)
        if not isinstance(self.support, str):
            full = (*shape, len(self.support))
            return np.broadcast_to(self.support, full), np.ones(full)
        return self._continuous(omega, V)

    def _continuous(self, omega: Array, V: Array, fine: bool = False) -> tuple[Array, Array]:
        """Nodes over y for omega and V (..., 1); `fine` ones suit any z that is known."""
        width = np.sqrt(V) + self.scale

        def at(t: Array) -> tuple[Array, Array]:
            """y and dy/dt."""
            if self.support == "real":
                return omega + width * np.sinh(t), width * np.cosh(t)
            return np.exp(t), np.exp(t)

        # Outwards from the middle: a y far beyond all mass takes the quadrature its longest.
        for reach in (3.0, 5.0, 10.0):
            coarse = np.linspace(-reach, reach, 81) * (1.0 if self.support == "real" else 4.0)
            t = coarse + np.zeros(omega.shape)
            y, jacobian = at(t)
            height = self.log_partition(y, omega, V) + np.log(jacobian)
            if (height[..., [0, -1]] < height.max(axis=-1, keepdims=True) - _DROP).all():
                break
        alive = height > height.max(axis=-1, keepdims=True) - _DROP
        gap = coarse[1] - coarse[0]
        low = np.where(alive, t, np.inf).min(axis=-1, keepdims=True) - gap
        high = np.where(alive, t, -np.inf).max(axis=-1, keepdims=True) + gap
        number = _OUTCOMES
        if fine:
            number = int(np.clip(np.max((high - low) * width) / (FINE * self.scale), 401, 2001))
        y, jacobian = at(low + (high - low) * np.linspace(0.0, 1.0, number))
        return y, jacobian * (high - low) / (number - 1)

    def row_fisher(self, mse: Array, power: float) -> Array:
        """E g^2 by sums over omega, z and y, which share their nodes.

        For `y = abs(z) + noise` it takes 0.04 to 0.7 s for one value, where the theory's average
        over rows takes 2 to 20 s and is off by 1e-4 to 7e-3.
        """
        if self.support in ("real", "positive"):
            found = self._continuous(np.zeros((1, 1)), np.full((1, 1), power), fine=True)
        else:
            found = self.outcomes(np.zeros(1), power)
        y, weights = (a[0] for a in found)
        half = np.ceil(REACH * np.sqrt(2.0 * power) / (FINE * self.scale))
        z = FINE * self.scale * np.arange(-half, half + 1.0)
        wide = np.max(mse) > np.square(0.5 * self.scale)
        likelihood = self._likelihood(y, z) if wide else np.empty(0)
        return np.array(
            [self._mean_square(float(V), power, y, weights, z, likelihood) for V in np.ravel(mse)]
        )

    def _mean_square(
        self, V: float, power: float, y: Array, weights: Array, z: Array, likelihood: Array
    ) -> float:
        spread, deviation = np.sqrt(max(power - V, 0.0)), np.sqrt(V)
        finest = min(max(deviation, SHARPEST * self.scale), 2.0 * spread)
        step = FINE * finest if spread > 0.0 else 1.0
        half = np.ceil(REACH * spread / step)
        omega = step * np.arange(-half, half + 1.0)
        chance = np.exp(-0.5 * np.square(omega / spread)) if spread > 0.0 else np.ones(1)
        if deviation > 0.5 * self.scale:
            # One grid of z for all omega. Simpson's weights about 0: where the likelihood has a
            # kink there, as for |z|, trapezoids are off by 1e-3, these by 1e-5.
            away = z - omega[:, None]
            simpson = np.where(np.arange(len(z)) % 2 == len(z) // 2 % 2, 2.0, 4.0) / 3.0
            gap = FINE * self.scale * simpson
            w = gap * np.exp(-0.5 * np.square(away / deviation)) / (deviation * _SQRT_2PI)
            Z, slope = w @ likelihood, (w * away / V) @ likelihood
        else:
            # P(y | z) hardly changes about an omega: Gauss-Hermite nodes there.
            Z, slope = np.zeros((2, len(omega), len(y)))
            for node, weight in zip(_NODES, _WEIGHTS, strict=True):
                near = weight * self._likelihood(y, omega + deviation * node)
                Z += near
                slope += (node / deviation) * near
        with np.errstate(all="ignore"):
            square = np.where(Z > 0.0, np.square(slope) / Z, 0.0) @ weights
        return float(chance @ square / (chance @ (Z @ weights)))

    def _likelihood(self, y: Array, z: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(np.exp(self.log_likelihood(y, z[:, None])))

    def _counts(self, omega: Array, V: Array) -> tuple[Array, Array]:
        most = 32
        while True:
            y = np.arange(float(most))
            height = self.log_partition(y, omega, V)
            gone = height[..., -1] < height.max(axis=-1) - _DROP
            if gone.all() or most >= _MOST_COUNTS:
                return np.broadcast_to(y, height.shape), np.ones(height.shape)
            most *= 2
