"""The base classes of priors: what each must have, and what it inherits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.random import Generator

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given, Shape, Size
from miniamp.kernel import Kernel
from miniamp.parametric import Parametric, Places
from miniamp.tilt import Tilt


class Components(NamedTuple):
    """The parts of a prior that is a finite mixture of Gaussians and, with variance 0, points."""

    weights: Array  #: (K,), positive, sum to one
    means: Array  #: (K,)
    variances: Array  #: (K,), >= 0


class BasePrior(Parametric, ABC):
    """What algorithms need of any prior: of a coefficient, of a row, or with an intercept."""

    #: Arguments of the constructor that are no hyper-parameters, such as the length of a row.
    settings: ClassVar[tuple[str, ...]] = ()
    #: Hyper-parameters that measure how wide the prior is, and the power of x they are in:
    #: {"var": 2}, since a variance is in squared units of x.
    widths: ClassVar[Mapping[str, int]] = {}

    @property
    def is_gaussian(self) -> bool:
        """Whether every coefficient has a Gaussian prior."""
        return False

    @abstractmethod
    def log_partition(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        """log of E exp(-A x^2/2 + B x) over the prior (log Z_x of `eq:post-AMP`)."""

    @abstractmethod
    def moments(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        """Mean and variance under the tilt: eta and eta' of `eq:amp3`."""

    def sample(
        self, rng: Generator, size: Size = None, A: ArrayOrFloat = 0.0, B: ArrayOrFloat = 0.0
    ) -> Array:
        """Draws under the tilt (A, B), of shape `size`; without a tilt, from the prior itself."""
        return self.drawn(rng, self._shape_of(size, A, B), A, B)

    @abstractmethod
    def drawn(self, rng: Generator, shape: Shape, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        """`sample`, with the shape in full."""

    def no_tilt(self, size: int) -> Tilt:
        """The empty tilt, for `size` coefficients."""
        return Tilt.none(size)

    def at(self, where: Places, size: int) -> BasePrior:
        """The prior of the coefficients at `where`, out of `size`; itself where all is shared."""
        return self._at(where)

    def kernel(self, size: int) -> Kernel | None:
        """A compiled twin of `moments` for `size` coefficients; None has `moments` used instead."""
        return None

    def fitted(self, A: ArrayOrFloat, B: ArrayOrFloat, fixed: Collection[str] = ()) -> Self:
        """The prior after one EM step: hyper-parameters learned from the tilts of all coefficients.

        The step never lowers the sum of `log_partition` over the coefficients. Only what is shared
        is learned: a hyper-parameter with one value per coefficient stays as it is, and so does one
        named in `fixed`. A prior with nothing to learn returns itself.

        Parameters
        ----------
        A : float or (N,) array
            Precisions of the tilts.
        B : (N,) array
            Linear parts of the tilts.
        fixed : str or collection of str
            Names of hyper-parameters to hold.
        """
        self._free(fixed)
        return self

    @property
    def coefficients(self) -> BasePrior:
        """The prior of the coefficients alone, without that of an intercept beside them."""
        return self

    def rescaled(self, factor: float, fixed: Collection[str] = ()) -> Self:
        """The prior of factor * x; an intercept's stays, and so do the names in `fixed`.

        A prior without a width, such as one of fixed points, returns itself.
        """
        powers = {**self.widths, **dict.fromkeys(self.centres, 1)}
        changed = {n: getattr(self, n) * factor**k for n, k in powers.items() if n not in fixed}
        same = {name: getattr(self, name) for name in (*self.settings, *self.names)}
        return type(self)(**{**same, **changed}) if changed else self

    def free_widths(self, fixed: Collection[str] = ()) -> tuple[str, ...]:
        """The widths that may be learned: all but those in `fixed`."""
        return tuple(name for name in self.widths if name not in fixed)

    def scale_slope(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        """Derivative of `log_partition` by the logarithm of the scale of x, elementwise.

        The prior of s x under the tilt (A, B) is this one under (s^2 A, s B).
        """
        mean, var = self.moments(A, B)
        return np.asarray(B * mean - A * (np.square(mean) + var))

    def typical_power(self, size: int) -> float:
        """The median over `size` coefficients of E x^2, without the intercept."""
        nothing = np.zeros(size)
        mean, var = self.moments(nothing, nothing)
        power = np.square(mean) + var
        return float(np.median(power) if len(power) > 1 else power[0])

    def with_intercept_var(self, var: float) -> Self:
        """The prior with this variance for its intercept, where it has one."""
        return self

    def inclusion_probability(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        """Posterior probability that a coefficient is not exactly zero: 1 without a point there."""
        return np.ones(np.broadcast_shapes(self.shape, np.shape(A), np.shape(B)))

    def _shape_of(self, size: Size, A: ArrayOrFloat, B: ArrayOrFloat) -> Shape:
        """The shape of a sample: what was asked for, or what the arguments broadcast to."""
        if size is None:
            return np.broadcast_shapes(self.shape, np.shape(A), np.shape(B))
        return (size,) if isinstance(size, int) else tuple(size)

    def _free(self, fixed: Collection[str]) -> frozenset[str]:
        """Names of the hyper-parameters that EM may change: shared, and not held."""
        held = (fixed,) if isinstance(fixed, str) else tuple(fixed)
        for name in held:
            if name not in self.names:
                raise checks.refuse(
                    "fixed", repr(name), f"names among {', '.join(self.names)}", "drop it"
                )
        return frozenset(n for n in self.names if n not in held and not self._outer(n))

    def _learned(self, free: frozenset[str], **values: object) -> Self:
        """A copy with those of `values` that are free."""
        return self.replaced(**{name: v for name, v in values.items() if name in free})


class ScalarPrior(BasePrior):
    """A distribution of one coefficient, given by its log-partition under a tilt.

    All methods are elementwise and broadcast A, B and the hyper-parameters against each other.
    """

    #: Whether prior="auto" chooses among this prior and others.
    candidate: ClassVar[bool] = False

    def components(self) -> Components | None:
        """This prior as a finite mixture of Gaussians and points, None where it is not one.

        Only for shared hyper-parameters. The theory is then exact at any scale.
        """
        return None

    def landmarks(self) -> Array:
        """Where on the axis the prior has points, edges or its bulk: where quadrature must look."""
        parts = self.components()
        if parts is not None:
            return parts.means
        return np.append(np.ravel(self.moments(0.0, 0.0)[0]), 0.0)

    def _learned(self, free: frozenset[str], **values: ArrayOrFloat) -> Self:  # type: ignore[override]
        """A copy with those of `values` that are free, each in the shape it had."""
        return self.replaced(
            **{n: np.reshape(v, np.shape(getattr(self, n))) for n, v in values.items() if n in free}
        )


class MeanAndVariance(ScalarPrior):
    """A prior given by a `mean` and a variance `var`, each shared or one per coefficient."""

    names = ("mean", "var")
    widths: ClassVar[dict[str, int]] = {"var": 2}
    centres = ("mean",)

    def __init__(self, mean: Given = 0.0, var: Given = 1.0) -> None:
        self.mean = checks.parameter("mean", mean)
        self.var = checks.parameter("var", var, above=0.0)

    @property
    def shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(self.mean.shape, self.var.shape)

    @abstractmethod
    def refitted(
        self, mean: Array, var: Array, weight: Array, free: frozenset[str]
    ) -> tuple[Array, Array]:
        """(mean, var) that maximise the expected log-density; names not in `free` stay.

        From the posterior mean and variance of each coefficient, and how much it counts.
        """

    def fitted(self, A: ArrayOrFloat, B: ArrayOrFloat, fixed: Collection[str] = ()) -> Self:
        """The prior after one EM step: `refitted` to the posterior of all coefficients."""
        free, (first, spread) = self._free(fixed), self.moments(A, B)
        mean, var = self.refitted(first, spread, np.ones_like(first), free)
        return self._learned(free, mean=mean, var=var)
