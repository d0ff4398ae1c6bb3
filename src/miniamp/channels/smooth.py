"""Channels given by a smooth log-concave likelihood; labels -1 and +1, and those that are wrong."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from scipy.special import expit

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.channels.base import Channel, FiniteChannel, Predicted, checked_values
from miniamp.numerics.averages import V_FLOOR, Tilted, derivatives, peak_of, tilted
from miniamp.parametric import Parametric, Places

#: Shares of labels that may be wrong, and their probabilities beforehand: mostly none is.
SHARES = np.array([0.0, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16])
BEFOREHAND = np.array([0.9, *[0.1 / 6.0] * 6])
#: Logarithm of the odds beforehand that no label is wrong.
NONE_WRONG = float(np.log(BEFOREHAND[0] / (1.0 - BEFOREHAND[0])))
#: Probabilities count as no less, so that their logarithms are finite.
LEAST = 1e-100


class Differentiable(Channel):
    """A channel given by log P(y | z) and its first two derivatives in z."""

    @abstractmethod
    def log_likelihood(self, y: ArrayOrFloat, z: Array) -> Array:
        """log P(y | z)."""

    @abstractmethod
    def slopes(self, y: ArrayOrFloat, z: Array) -> tuple[Array, Array]:
        """First and second derivative of log_likelihood in z."""


class Smooth(Differentiable):
    """A channel whose log P(y | z) is concave in z.

    log_partition and output follow by quadrature, and -dg is never negative. V below 1e-30 counts
    as 1e-30, where an average over z is already its value at omega.
    """

    #: Likelihoods of this kind vary with z on a scale of one.
    blur = 1.0

    def feature(self, y: Array) -> tuple[ArrayOrFloat, ArrayOrFloat]:
        """Where in z the likelihood is not simple, and the width of that place."""
        return 0.0, 1.0

    def bracket(self, y: Array, omega: Array, V: Array) -> tuple[Array, Array]:
        """Two points between which P(y | z) N(z; omega, V) has its mode."""
        # The slope falls from omega on: the mode is at most V times the slope there away.
        end = omega + V * self.slopes(y, omega)[0]
        return np.minimum(omega, end), np.maximum(omega, end)

    def log_partition(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> Array:
        return self._tilted(*self._broadcast(y, omega, V)).log_mass

    def output(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        y, omega, V = self._broadcast(y, omega, V)
        return derivatives(self._tilted(y, omega, V), lambda z: self.slopes(y, z), V)

    def score(self, y: Array) -> Array:
        return self.slopes(y, np.zeros(self._shape_of(y)))[0]

    def _tilted(self, y: Array, omega: Array, V: Array) -> Tilted:
        low, high = self.bracket(y, omega, V)
        peak = peak_of(lambda z: self.slopes(y, z), omega, V, low, high)
        centre, width = (np.broadcast_to(a, omega.shape) for a in self.feature(y))
        return tilted(lambda z: self.log_likelihood(y, z), peak, omega, V, centre, width)

    def _broadcast(
        self, y: ArrayOrFloat, omega: ArrayOrFloat, V: ArrayOrFloat
    ) -> tuple[Array, Array, Array]:
        shape = self._shape_of(y, omega, V)
        y, omega, V = (np.broadcast_to(a, shape).astype(np.float64) for a in (y, omega, V))
        return y, omega, np.maximum(V, V_FLOOR)


class Binary(FiniteChannel, Differentiable):
    """A channel whose observations are the labels -1 and +1."""

    labels = np.array([-1.0, 1.0])

    def weighted(self, weight: Array) -> Channel:
        return WeightedLabels(self, weight)

    def predict(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        minus, plus = np.moveaxis(self.predict_proba(omega, V), -1, 0)
        return plus - minus, 4.0 * plus * minus

    def checked(self, y: Given) -> Array:
        known = lambda labels: np.abs(labels) == 1.0  # noqa: E731
        return checked_values(
            y, known, "label", "only -1 and +1", "encode the classes as -1 and +1"
        )


class WeightedLabels(Binary, Smooth):
    """Labels -1 and +1, each seen `weight` times: P(y | z) to the power of the weight.

    Parameters
    ----------
    plain : Binary
        The channel of a row of weight 1.
    weight : (M,) array
        Positive weights.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp.channels import Probit
    >>> y, plain = np.array([1.0]), Probit(var=1.0)
    >>> g, curvature = plain.weighted(np.array([1.0])).output(y, 0.3, 2.0)
    >>> bool(np.allclose((g, curvature), plain.output(y, 0.3, 2.0)))
    True
    """

    names = ("plain", "weight")

    def __init__(self, plain: Binary, weight: Given) -> None:
        self.plain = plain
        self.weight = checks.parameter("weight", weight, above=0.0)

    def at(self, where: Places) -> WeightedLabels:
        weight = self.weight[where] if self.weight.ndim else self.weight
        return WeightedLabels(self.plain.at(where), weight)

    def log_likelihood(self, y: ArrayOrFloat, z: Array) -> Array:
        return np.asarray(self.weight * self.plain.log_likelihood(y, z))

    def slopes(self, y: ArrayOrFloat, z: Array) -> tuple[Array, Array]:
        first, second = self.plain.slopes(y, z)
        return self.weight * first, self.weight * second

    def predict_proba(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> Array:
        return self.plain.predict_proba(omega, V)

    def sample(self, rng: np.random.Generator, z: ArrayOrFloat) -> Array:
        return self.plain.sample(rng, z)

    def weighted(self, weight: Array) -> Channel:
        return WeightedLabels(self.plain, self.weight * weight)

    def unweighted(self) -> Channel:
        return self.plain

    def _outer(self, name: str) -> tuple[int, ...]:
        return self.plain.shape if name == "plain" else super()._outer(name)


class LearnedShare(Parametric):
    """A channel of labels of which a share is wrong: any class with equal probability.

    The share is one of `SHARES`, as earlier labels tell: `told` (7,) has the log-likelihood of
    each, less that of none.
    """

    trailing: ClassVar[dict[str, int]] = {"told": 1}
    told: Array

    @cached_property
    def wrong(self) -> float:
        """The expected share of wrong labels; 0 before any label."""
        return float(self._shares @ SHARES) if self.told.any() else 0.0

    @property
    def doubtful(self) -> bool:
        """Whether some labels are wrong, more probably than not."""
        return bool(self._shares[0] < 0.5)

    def told_by(self, chances: Array, classes: int, weights: Array | None) -> Self:
        """The channel that has seen labels of these probabilities (M,), predicted without them.

        They are those by the scores alone, whatever share is wrong.
        """
        each = np.log((1.0 - SHARES) * np.maximum(chances, LEAST)[:, None] + SHARES / classes)
        told = each.sum(axis=0) if weights is None else weights @ each
        return self.replaced(told=self.told + told - told[0])

    def right(self, chances: Array, classes: int) -> Array:
        """Probability that each of these labels is right, (M,)."""
        right = (1.0 - SHARES) * np.maximum(chances, LEAST)[:, None]
        return np.asarray((right / (right + SHARES / classes)) @ self._shares)

    def merged(self, other: Self, share: float) -> Self:
        return self.replaced(told=self.told + other.told)

    def faded(self, factor: float) -> Self:
        return self.replaced(told=factor * self.told)

    def change_from(self, old: Self) -> float:
        return abs(self.wrong - old.wrong)

    @cached_property
    def _shares(self) -> Array:
        """The probability of each of `SHARES`."""
        odds = BEFOREHAND * np.exp(self.told - self.told.max())
        return np.asarray(odds / odds.sum())


def nothing_told(told: Given) -> Array:
    """`told` as an array, zeros where it is not given."""
    return checks.vector("told", np.zeros(len(SHARES)) if told is None else told, len(SHARES))


class Mislabelled(LearnedShare, Binary):
    """Labels -1 and +1 of which a share e is wrong: P = e/2 + (1 - e) P(y | z).

    So no label can pull on z for more than a share of wrong ones is worth, and one far on the wrong
    side hardly does: **-dg < 0** where it may be wrong or right. Where all agree with their z the
    share is as good as none, and the channel the `plain` one.

    Parameters
    ----------
    plain : Binary
        The channel of right labels.
    told : (7,) array
        Log-likelihood so far of each share (`miniamp.channels.smooth.SHARES`) over none.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp.channels import Probit
    >>> some = Mislabelled(Probit(var=1.0), told=[0.0, 1.0, 2.0, 3.0, 9.0, 3.0, 0.0])
    >>> round(some.wrong, 3), some.predict_proba(10.0, 0.0).round(3)
    (0.04, array([0.02, 0.98]))
    """

    names, recorded = ("plain", "told"), ("var", "wrong")
    has_noise = True

    def __init__(self, plain: Binary, told: Given = None) -> None:
        self.plain, self.told = plain, nothing_told(told)
        self.blur, self.resolution = plain.blur, plain.resolution

    @property
    def var(self) -> Array:
        """Variance of the noise of right labels."""
        return np.asarray(self.plain.parameters().get("var", self.blur**2))

    def log_partition(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> Array:
        log_chance = self.plain.log_partition(y, omega, V)
        wrong = self.wrong
        if wrong == 0.0:
            return log_chance
        return np.asarray(np.logaddexp(np.log1p(-wrong) + log_chance, np.log(0.5 * wrong)))

    def output(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        g, curvature = self.plain.output(y, omega, V)
        right = self._right(self.plain.log_partition(y, omega, V))
        pull = right * g  # no square of g: a label far on the wrong side would overflow
        return pull, right * curvature - pull * ((1.0 - right) * g)

    def log_likelihood(self, y: ArrayOrFloat, z: Array) -> Array:
        return self.log_partition(np.asarray(y), z, 0.0)

    def slopes(self, y: ArrayOrFloat, z: Array) -> tuple[Array, Array]:
        g, curvature = self.output(np.asarray(y), z, 0.0)
        return g, -curvature

    def sample(self, rng: np.random.Generator, z: ArrayOrFloat) -> Array:
        y = self.plain.sample(rng, z)
        return np.where(rng.random(y.shape) < self.wrong, rng.choice(self.labels, y.shape), y)

    def score(self, y: Array) -> Array:
        return np.asarray((1.0 - self.wrong) * self.plain.score(y))

    def fisher(self) -> Array:
        return np.asarray((1.0 - self.wrong) ** 2 * self.plain.fisher())

    def seeing(
        self, y: Array, left_out: Predicted, past: Predicted | None, weights: Array | None
    ) -> Self:
        """The channel that has seen these labels, as predicted without them.

        Rows left out of few may be predicted too boldly: where labels then seem wrong, a label
        tells of it only as far as the past, which knows none of them, finds it improbable too. Rows
        of a `sample_weight` tell nothing: their powers of P are no probabilities.
        """
        if self.plain.unweighted() is not self.plain:
            return self
        log_chance = self.plain.log_partition(y, *left_out())
        seen = self.told_by(np.exp(log_chance), 2, weights)
        if past is None or not seen.doubtful:
            return seen
        log_chance = np.maximum(log_chance, self.plain.log_partition(y, *past()))
        return self.told_by(np.exp(log_chance), 2, weights)

    def with_noise(self, var: float) -> Self:
        return self.replaced(plain=self.plain.with_noise(var))

    def in_units(self, unit: float) -> Self:
        return self.replaced(plain=self.plain.in_units(unit))

    def weighted(self, weight: Array) -> Channel:
        return self.replaced(plain=self.plain.weighted(weight))

    def unweighted(self) -> Channel:
        plain = self.plain.unweighted()
        return self if plain is self.plain else self.replaced(plain=plain)

    def at(self, where: Places) -> Self:
        return self.replaced(plain=self.plain.at(where))

    def _right(self, log_chance: Array) -> Array:
        """Probability that a label of this log-probability by z alone is right."""
        wrong = self.wrong
        if wrong == 0.0:
            return np.ones_like(log_chance)
        return np.asarray(expit(np.log1p(-wrong) + log_chance - np.log(0.5 * wrong)))

    def _outer(self, name: str) -> tuple[int, ...]:
        return self.plain.shape if name == "plain" else super()._outer(name)
