"""The base classes of output channels: what each must have, and what it inherits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.kernel import Kernel
from miniamp.parametric import Parametric, Places

#: Gives mean and variance of z of each row, (M,) each, computed at the first call.
Predicted: TypeAlias = Callable[[], tuple[Array, Array]]


class Channel(Parametric, ABC):
    """The distribution P(y | z) of an observation given z = Phi_mu . x.

    All methods are elementwise and broadcast y, omega, V and the hyper-parameters against each
    other. (omega, V) is what is believed of z before y is seen: N(omega, V), with V >= 0.
    """

    #: Once the mean posterior variance, relative to the signal's power, is below this, a batch is
    #: taken as solved: a channel without noise has then nothing left that floating point could
    #: learn.
    resolution: float = 0.0

    @abstractmethod
    def log_partition(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> Array:
        """log of E P(y | z) over z ~ N(omega, V): the log-density that was predicted for y."""

    @abstractmethod
    def output(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        """g_out of `eq:gamp`, the derivative of log_partition in omega, and -dg_out/domega."""

    @abstractmethod
    def predict(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        """Mean and variance of a new y under z ~ N(omega, V)."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, z: ArrayOrFloat) -> Array:
        """One draw of y for each z."""

    @abstractmethod
    def outcomes(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        """Values y_j and weights w_j that integrate over y.

        Averages over data become sums:

        E f(y) = sum_j w_j f(y_j) exp(log_partition(y_j, omega, V)) under z ~ N(omega, V).

        Both have the shape that omega, V and the hyper-parameters broadcast to, with one more axis
        at the end. A discrete y comes as each of its values with weight 1, padded by weight 0; long
        ranges of counts and continuous y as the nodes of a quadrature.
        """

    def log_densities(self, y: Array, omega: Array, V: Array) -> tuple[Array, Array]:
        """Log-density of y and of its most likely value under z ~ N(omega, V), (M,) each."""
        got = best = self.log_partition(y, omega, V)
        if self.shift_invariant:  # y = z + noise has its mode at the mean
            return got, np.maximum(got, self.log_partition(omega, omega, V))
        values, _ = self.outcomes(omega, V)
        for nodes in np.broadcast_to(values, (*omega.shape, values.shape[-1])).T:
            best = np.maximum(best, self.log_partition(nodes, omega, V))
        return got, best

    #: Whether it has noise of a variance that can be set (`with_noise`) and learned (`fitted`).
    has_noise: ClassVar[bool] = False
    #: An error of z below this is none: what the theory reports in place of an exact zero.
    error_floor: float = 0.0
    #: The scale in z on which P(y | z) varies, 0 where it may jump (at `edges`).
    blur: float = 0.0
    #: Whether y is z plus noise: the law of y - z does not depend on z.
    shift_invariant: bool = False

    def gaussian_noise(self) -> Array | None:
        """Variance of the noise, () or (M,), where y is z plus Gaussian noise; None elsewhere."""
        return None

    #: Whether y depends on the scores z of all classes together, not on one z alone.
    joint: ClassVar[bool] = False

    def joint_probabilities(self, omega: Array, V: Array) -> Array:
        """Probability of each class, (M, K), for scores z ~ N(omega, V), where y is `joint`."""
        raise checks.refuse("channel", repr(self), "a joint channel", "use channels.Softmax()")

    def with_noise(self, var: float) -> Self:
        """The channel with noise of this variance (of a Student t the squared scale)."""
        got, expected = f"{var:g} for {self!r}", "a channel that has noise of its own"
        raise checks.refuse("noise", got, expected, "give the channel itself")

    def in_units(self, unit: float) -> Self:
        """The channel of targets that are `unit` times as large, where their noise has units."""
        return self if unit == 1.0 else self.with_noise(float(self.parameters()["var"]) * unit**2)

    def merged(self, other: Self, share: float) -> Self:
        """The channel of two streams, of which this one has this share of the rows."""
        own, its = self.parameters(), other.parameters()
        return self.replaced(**{n: own[n] ** share * its[n] ** (1.0 - share) for n in own})

    def faded(self, factor: float) -> Self:
        """The channel that counts what it has learned by itself `factor` times, if anything."""
        return self

    @property
    def noise_var(self) -> float | None:
        """The variance of its noise, where that one number is all there is to the channel."""
        whole = self.names == ("var",) and self.shape == ()
        return float(self.parameters()["var"]) if whole else None

    def weighted(self, weight: Array) -> Channel:
        """The channel of rows that count `weight` times each: P(y | z) to that power."""
        got = f"fractions or very large weights for {self!r}"
        raise checks.refuse("sample_weight", got, "whole numbers", "round the weights")

    @property
    def takes_weights(self) -> bool:
        """Whether rows may count `weighted` times each; of rows without noise none can."""
        return type(self).weighted is not Channel.weighted and self.resolution == 0.0

    def unweighted(self) -> Channel:
        """The channel of rows that count once, as learned from weighted ones."""
        return self

    @property
    def predicts_probabilities(self) -> bool:
        """Whether y has finitely many values, so that `predict_proba` gives their probabilities."""
        return False

    def predict_proba(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> Array:
        """Probability of each value of y, along a last axis, under z ~ N(omega, V)."""
        raise checks.refuse(
            "channel", repr(self), "a channel with finitely many outcomes", "use predict"
        )

    def edges(self) -> Array:
        """Values of z where P(y | z) may change abruptly."""
        return np.zeros(1)

    def row_fisher(self, mse: Array, power: float) -> Array | None:
        """E g^2 where z ~ N(0, power) is known up to an error `mse`; None without closed form.

        delta of the paper's asymptotics: what a row adds to the precision, for each of many mse.
        """
        return None

    def row_information(self, mse: Array, power: float) -> Array | None:
        """Half the integral of `row_fisher` from 0 to mse, in nats; None without closed form."""
        return None

    def responses(
        self, true: Channel, mse: float, variance: float, power: float, excess: float
    ) -> tuple[float, float, float] | None:
        """E(-dg), E g^2 and E g g_0 where rows come from another channel, None without closed form.

        mse and variance are the true and the believed error of z, power is E omega^2 and excess is
        E omega (omega - z).
        """
        return None

    def label_error(self, known: float, V: float) -> float | None:
        """Chance that the sign of a prediction of z is not y, None without classes or closed form.

        z = known times a standard normal number that has the prediction's sign, plus N(0, V).
        """
        return None

    def fitted(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> Self:
        """The channel with its noise re-estimated by one EM step from all rows.

        The likelihood of the noise, sum log_partition, never falls. A channel that has no noise to
        learn returns itself.
        """
        return self

    def seeing(
        self, y: Array, left_out: Predicted, past: Predicted | None, weights: Array | None
    ) -> Self:
        """The channel after rows of which it learns by itself, such as a share of wrong labels.

        `left_out` gives mean and variance of z of each row by all others, `past` by earlier batches
        alone, None in the first one.
        """
        return self

    def score(self, y: Array) -> Array:
        """d log P(y | z)/dz at z = 0: what a small signal looks like (low-rank models)."""
        return self.output(y, 0.0, 0.0)[0]

    def fisher(self) -> Array:
        """Expected square of `score` at z = 0, of the hyper-parameters' shape."""
        y, weights = self.outcomes(0.0, 0.0)
        total = np.zeros(y.shape[:-1])
        for j in range(y.shape[-1]):
            density = np.exp(self.log_partition(y[..., j], 0.0, 0.0))
            total = total + weights[..., j] * density * np.square(self.score(y[..., j]))
        return total

    def at(self, where: Places) -> Self:
        """The channel of the rows at `where`; itself where all rows share everything."""
        return self._at(where)

    def kernel(self) -> Kernel | None:
        """A compiled twin of `output`, where there is one; None has the sweeps use `output`."""
        return None

    def checked(self, y: Given) -> Array:
        """Observations as float64, refused where this channel cannot have made them."""
        return checks.numeric("y", y)

    def _shape_of(self, *arguments: ArrayOrFloat) -> tuple[int, ...]:
        """What the arguments and the hyper-parameters broadcast to."""
        return np.broadcast_shapes(self.shape, *(np.shape(a) for a in arguments))


class FiniteChannel(Channel):
    """A channel whose observations take finitely many values."""

    predicts_probabilities = True
    labels: Array  #: the values of y, ascending

    def predict_proba(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> Array:
        """Probability of each value, along a last axis."""
        # Each from its own side: 1 - p would lose the small one to rounding.
        return np.exp(np.stack([self.log_partition(y, omega, V) for y in self.labels], axis=-1))

    def outcomes(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        shape = (*self._shape_of(omega, V), len(self.labels))
        return np.broadcast_to(self.labels, shape), np.ones(shape)


class NoisyChannel(Channel):
    """A channel of z plus Gaussian noise of variance `var`, one for all rows or one per row."""

    has_noise = True
    #: `resolution` where there is no noise.
    noiseless_resolution: ClassVar[float]

    def __init__(self, var: Given) -> None:
        self.var = checks.parameter("var", var, least=0.0)
        self.resolution = 0.0 if np.count_nonzero(self.var) else self.noiseless_resolution

    def fitted(self, y: Array, omega: ArrayOrFloat, V: ArrayOrFloat) -> Self:
        """The channel after one EM step for the noise.

        E[noise^2 | y] = var + var^2 (g^2 + dg) in every such channel, because d/dvar of the
        log-partition is (g^2 + dg)/2, the heat equation. Noise that differs from row to row keeps
        its proportions; no noise (var = 0) is a fixed point of EM and stays.
        """
        g, curvature = self.output(y, omega, V)
        growth = float(np.mean(1.0 + self.var * (np.square(g) - curvature)))
        return self.replaced(var=self.var * growth)

    def with_noise(self, var: float) -> Self:
        return self.replaced(var=var)


def checked_values(
    y: Given, known: Callable[[Array], NDArray[np.bool_]], what: str, expected: str, remedy: str
) -> Array:
    """Observations as float64; the first that is not known is refused by name."""
    values = checks.numeric("y", y)
    unknown = values[~known(values)]
    if unknown.size:
        raise checks.refuse("y", f"the {what} {unknown.flat[0]:g}", expected, remedy)
    return values


def checked_counts(y: Given) -> Array:
    """Counts as float64; negative and broken ones refused by name."""
    whole = lambda counts: (counts >= 0.0) & (counts == np.floor(counts))  # noqa: E731
    remedy = "give rates per unit as counts, with an exposure"
    return checked_values(y, whole, "count", "whole numbers >= 0", remedy)
