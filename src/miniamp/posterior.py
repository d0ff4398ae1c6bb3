"""The posterior of N coefficients: a prior times the tilt (likelihood) of the data so far."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property, partial
from typing import ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Size
from miniamp.errors import InvalidTypeError
from miniamp.kernel import Kernel
from miniamp.parametric import Places
from miniamp.tilt import Information, JointSolution, Remembered, Tilt

#: The least precision of a coefficient without the remembered rows, relative to that from
#: them, and the least variance.
LOOSE, TINY = 1e-6, 1e-100


class Moments(NamedTuple):
    """Mean and variance of each coefficient under a belief."""

    mean: Array
    var: Array

    @property
    def power(self) -> float:
        """Mean square of the coefficients: the power of the signal."""
        return float(np.mean(np.square(self.mean) + self.var))


class Prior(Protocol):
    """Interface of priors, as beliefs and evidence use it; see `miniamp.priors`."""

    @property
    def is_gaussian(self) -> bool:
        """Whether every coefficient has a Gaussian prior."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the hyper-parameters: () shared, (N,) one set per coefficient."""

    def no_tilt(self, size: int) -> Tilt:
        """The zero tilt, in the shape that this prior takes for `size` coefficients."""

    def at(self, where: Places, size: int) -> Prior:
        """The prior of the coefficients at `where`, out of `size`."""

    def kernel(self, size: int) -> Kernel | None:
        """Compiled version of `moments` for `size` coefficients, None if there is none."""

    def log_partition(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        """log of E exp(-A x^2/2 + B x), elementwise."""

    def moments(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        """First and second derivative of log_partition in B: mean and variance, elementwise."""

    def sample(
        self, rng: Generator, size: Size = None, A: ArrayOrFloat = 0.0, B: ArrayOrFloat = 0.0
    ) -> Array:
        """Draws from the prior under the tilt (A, B); without one, from the prior itself."""

    def fitted(self, A: ArrayOrFloat, B: ArrayOrFloat, fixed: Collection[str] = ()) -> Self:
        """The prior after one EM step on the tilts of all coefficients; `fixed` names stay."""

    @property
    def coefficients(self) -> Prior:
        """The prior of the coefficients alone, without that of an intercept beside them."""

    def rescaled(self, factor: float, fixed: Collection[str] = ()) -> Self:
        """The prior of factor * x; an intercept's stays, and so do the names in `fixed`."""

    def free_widths(self, fixed: Collection[str] = ()) -> tuple[str, ...]:
        """Names of the widths that may be learned: all but those in `fixed`."""

    def scale_slope(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        """Derivative of log_partition by the logarithm of the scale of x, without an intercept."""

    def typical_power(self, size: int) -> float:
        """The median over `size` coefficients of E x^2, without the intercept."""

    def with_intercept_var(self, var: float) -> Self:
        """The prior with this variance for its intercept, where it has one."""

    def inclusion_probability(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        """Posterior probability that a coefficient is not exactly zero."""

    def change_from(self, old: Self) -> float:
        """The largest relative change of a hyper-parameter since `old`."""

    def parameters(self) -> Mapping[str, object]:
        """The arguments of the constructor that make an equal prior, by name."""


class Posterior:
    """A belief about N coefficients: a prior times a tilt, frozen.

    The marginals of `eq:post-AMP`, with the effective prior of `eq:eff-prior`: O(N) numbers
    whatever the number of rows that have been absorbed. New evidence gives a new posterior
    (`miniamp.absorb`); this one stays as it is.

    With `memory` = r it also carries up to r pseudo-observations, r N numbers more, that keep the
    correlations between coefficients from batch to batch: `evidence.RobustBatch` makes them. Zero
    is the paper's program; N or more is offline inference.

    Parameters
    ----------
    prior : Prior
        What is known of a coefficient before any data.
    size : int
        The number N of coefficients.
    tilt : Tilt, optional
        What the data said; none by default.
    memory : int, optional
        How many pseudo-observations may be remembered beside the tilt.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import Posterior, Tilt, priors
    >>> belief = Posterior(priors.Gaussian(var=1.0), size=2)
    >>> belief.tilted(Tilt(np.array(3.0), np.array([4.0, 0.0]))).mean
    array([1., 0.])
    """

    prior: Prior
    size: int
    tilt: Tilt
    memory: int
    remembered: Remembered | Information | None

    def __init__(
        self, prior: Prior, size: int, tilt: Tilt | None = None, *, memory: int = 0
    ) -> None:
        size = checks.count("size", size)
        self.__dict__.update(
            prior=checked_prior(prior, size),
            size=size,
            tilt=prior.no_tilt(size) if tilt is None else tilt,
            memory=checks.count("memory", memory, least=0),
            remembered=None,
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"{name}: a belief is frozen; tilted() and absorb() give a new one, and this one stays"
        )

    def tilted(self, tilt: Tilt) -> Self:
        """The belief with `tilt` added."""
        return self._but(tilt=self.tilt + tilt)._beside()

    def remembering(self, remembered: Remembered | Information | None) -> Self:
        """The belief with these pseudo-observations instead of its own."""
        return self._but(remembered=remembered)

    def informed(self, prior: Prior, information: Information) -> Self:
        """The belief under this prior that has seen these rows, and keeps all of them."""
        memory = max(self.memory, self.size)
        return self._but(prior=prior, memory=memory, remembered=information)

    def scaled(self, factor: float) -> Self:
        """The belief with all data weighted by `factor`: 0.5 forgets half of them."""
        return self.recounted(factor, factor)

    def recounted(self, factor: float, tilt: float = 1.0) -> Self:
        """The belief that counts its remembered rows `factor` times, and all else `tilt` times."""
        new = self if tilt == 1.0 else self._but(tilt=self.tilt.scaled(tilt))
        remembered = self.remembered
        if remembered is None or factor == 1.0:
            return new
        apart = partial(self._without_rows, new.tilt)
        return new.remembering(remembered.scaled(factor, apart, new.gaussian))

    def stretched(self, factor: ArrayOrFloat) -> Self:
        """The same belief about factor * x instead of x: an exact change of units.

        The prior stays, and is that of the new units from now on. `factor` is not zero: one number
        or (N,), of either sign.
        """
        if not np.count_nonzero(factor != 1.0):  # ten times as fast as np.all of few
            return self
        old, tilt = self.remembered, self.tilt.stretched(factor)
        return self._but(tilt=tilt, remembered=None if old is None else old.stretched(factor))

    def with_prior(self, prior: Prior) -> Self:
        """The posterior of the same data under another prior."""
        if prior is self.prior:
            return self
        return self._but(prior=checked_prior(prior, self.size))._beside()

    def gaussian(self) -> tuple[Array, Array]:
        """The prior and the tilt as exp(-precision x^2/2 + linear x): exact for Gaussian priors."""
        mean, var = self.prior.moments(np.zeros(self.size), np.zeros(self.size))
        precision = 1.0 / var
        return precision + self.tilt.A, precision * mean + self.tilt.B

    def _beside(self) -> Self:
        """This belief, the information of its rows beside its present prior and tilt."""
        old = self.remembered
        return self if old is None else self.remembering(old.beside(self.gaussian))

    def _without_rows(self, tilt: Tilt) -> tuple[Array, Array]:
        """The prior as a Gaussian, from the marginals, with this tilt instead of its own."""
        assert self.remembered is not None
        (mean, var), field = self.moments, self.remembered.field
        # An undecided coefficient has next to none.
        least = LOOSE * np.maximum(1.0 / np.max(var), field.A)
        precision = np.maximum(1.0 / np.maximum(var, TINY) - self.total.A, least) + tilt.A
        linear = (precision + self.tilt.A - tilt.A + field.A) * mean - self.total.B + tilt.B
        return precision, linear

    def at(self, where: NDArray[np.integer]) -> Self:
        """The belief about the coefficients at `where` alone, without remembered rows."""
        tilt = Tilt(
            *(np.broadcast_to(part, self.size)[where] for part in (self.tilt.A, self.tilt.B))
        )
        prior = self.prior.at(where, self.size)
        return self._but(prior=prior, size=len(where), tilt=tilt, remembered=None)

    def joined(self, where: NDArray[np.integer], part: Posterior) -> Self:
        """This belief with the tilt of `part` at `where`."""
        A, B = (np.array(np.broadcast_to(a, self.size)) for a in (self.tilt.A, self.tilt.B))
        A[where], B[where] = part.tilt.A, part.tilt.B
        return self._but(tilt=Tilt(A, B))._beside()

    def _but(self, **changes: object) -> Self:
        new = object.__new__(type(self))
        new.__dict__.update(self._constants(), **changes)
        return new

    def _constants(self) -> dict[str, object]:
        names = ("prior", "size", "tilt", "memory", "remembered")
        return {name: getattr(self, name) for name in names}

    #: Whether all that was seen is kept as an N x N matrix of sites of rows.
    keeps_sites: ClassVar[bool] = False

    @property
    def remembers(self) -> bool:
        """Whether anything is remembered beside the tilt."""
        return self.remembered is not None

    @property
    def information(self) -> Information | None:
        """The products of all rows that were seen, where the belief keeps those."""
        return self.remembered if isinstance(self.remembered, Information) else None

    @property
    def total(self) -> Tilt:
        """The tilt of all data for each coefficient: the tilt plus that of the remembered rows."""
        return self.tilt if self.remembered is None else self.tilt + self.remembered.field

    @property
    def joint(self) -> JointSolution | None:
        """The Gaussian of all coefficients with their correlations, where these are known."""
        return None if self.information is None else self.information.solution

    @cached_property
    def moments(self) -> Moments:
        """Mean and variance of every coefficient, computed once."""
        if self.joint is not None:
            return Moments(self.joint.mean, self.joint.var)
        return Moments(*self.prior.moments(self.total.A, self.total.B))

    @property
    def mean(self) -> Array:
        """Posterior mean of every coefficient, (N,), read-only."""
        # Joint variances are not computed for this.
        return _read_only(self.moments.mean if self.joint is None else self.joint.mean)

    @property
    def var(self) -> Array:
        """Posterior variance of every coefficient, (N,), read-only."""
        return _read_only(self.moments.var)

    @property
    def mean_variance(self) -> float:
        """Mean over the coefficients of their variances; of many, an unbiased estimate."""
        if self.information is not None:
            return self.information.variance_sum(np.ones(self.size)) / self.size
        A, same = self.total.A, self.prior.is_gaussian and self.prior.shape == ()
        if "moments" in self.__dict__ or not same or np.ndim(A) == 0:
            return float(np.mean(self.moments.var))
        # Most of many coefficients may be as the prior says, all with the same variance.
        known = np.flatnonzero(A != 0.0)  # of a mask: a fifth of the time
        var = self.at(np.append(np.argmin(A), known)).moments.var
        return float(np.sum(var[1:]) + (self.size - len(known)) * var[0]) / self.size

    def log_partition(self) -> float:
        """Sum over the coefficients of log E exp(-A x^2/2 + B x) under all that was seen of each.

        With remembered rows these are of the marginals alone: what is known about pairs of
        coefficients is not in it.
        """
        return float(np.sum(self.prior.log_partition(self.total.A, self.total.B)))

    def sample(self, rng: Generator | int | None, size: int | None = None) -> Array:
        """Draws of the whole vector: (N,), or (size, N); `rng` is a generator or a seed.

        Every coefficient is drawn from its own marginal, with remembered rows too.
        """
        shape = self.tilt.B.shape if size is None else (size, *self.tilt.B.shape)
        own = checks.generator("rng", rng)
        return self.prior.sample(own, shape, self.total.A, self.total.B)

    def __repr__(self) -> str:
        memory = f", memory={self.memory}" if self.memory else ""
        return f"Posterior({self.prior!r}, size={self.size}{memory})"


def checked_prior(prior: Prior, size: int) -> Prior:
    """`prior`, if it is one and has hyper-parameters for `size` coefficients."""
    if not callable(getattr(prior, "moments", None)):
        raise InvalidTypeError(
            "prior", repr(prior), "a prior such as priors.Gaussian(var=1.0)", "see miniamp.priors"
        )
    checks.fits("prior", prior.shape, size)
    return prior


def _read_only(array: Array) -> Array:
    view = array.view()
    view.setflags(write=False)
    return view
