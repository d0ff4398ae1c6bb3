"""The posterior: a prior and the tilt that the data so far have put on it."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple, Protocol, Self

import numpy as np

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat
from miniamp.tilt import Tilt


class Moments(NamedTuple):
    """Mean and variance of each coordinate under a belief: what evidence needs to know of it."""

    mean: Array
    var: Array


class Prior(Protocol):
    """What a belief asks of a prior; `miniamp.priors` has one a file."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the hyper-parameters: () shared, (N,) one set a coordinate."""

    def no_tilt(self, size: int) -> Tilt:
        """The tilt that says nothing, in the shape that this prior takes for `size` coordinates."""

    def log_partition(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        """log of E exp(-A x^2/2 + B x), elementwise."""

    def moments(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        """First and second derivative of log_partition in B: mean and variance, elementwise."""

    def sample(
        self,
        rng: np.random.Generator,
        size: int | tuple[int, ...] | None = None,
        A: ArrayOrFloat = 0.0,
        B: ArrayOrFloat = 0.0,
    ) -> Array:
        """Draws from the prior under the tilt (A, B); without one, from the prior itself."""


class Posterior:
    """A belief about N coefficients: a prior times a tilt, frozen.

    The marginals of `eq:post-AMP`, with the effective prior of `eq:eff-prior`: O(N) numbers
    whatever the number of rows that have been absorbed. New evidence gives a new posterior
    (`miniamp.absorb`); this one stays as it is.

    Parameters
    ----------
    prior : Prior
        What is known of a coefficient before any data.
    size : int
        The number N of coefficients.
    tilt : Tilt, optional
        What the data said; none by default.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import Posterior, Tilt, priors
    >>> belief = Posterior(priors.Gaussian(var=1.0), size=2)
    >>> belief.tilted(Tilt(np.array(3.0), np.array([4.0, 0.0]))).mean
    array([1., 0.])
    """

    def __init__(self, prior: Prior, size: int, tilt: Tilt | None = None) -> None:
        self.prior = prior
        self.size = checks.count("size", size)
        checks.fits("prior", prior.shape, self.size)
        self.tilt = prior.no_tilt(self.size) if tilt is None else tilt

    def tilted(self, tilt: Tilt) -> Self:
        """The belief that also holds `tilt`."""
        new = object.__new__(type(self))
        new.__dict__.update(self._constants(), tilt=self.tilt + tilt)
        return new

    def _constants(self) -> dict[str, object]:
        return {"prior": self.prior, "size": self.size}

    @cached_property
    def moments(self) -> Moments:
        """Mean and variance of every coefficient, computed once."""
        return Moments(*self.prior.moments(self.tilt.A, self.tilt.B))

    @property
    def mean(self) -> Array:
        """Posterior mean of every coefficient, (N,)."""
        return self.moments.mean

    @property
    def var(self) -> Array:
        """Posterior variance of every coefficient, (N,)."""
        return self.moments.var

    def log_partition(self) -> float:
        """Sum over the coefficients of log E exp(-A x^2/2 + B x)."""
        return float(np.sum(self.prior.log_partition(self.tilt.A, self.tilt.B)))

    def sample(self, rng: np.random.Generator, size: int | None = None) -> Array:
        """Draws of the whole vector: (N,), or (size, N)."""
        shape = self.tilt.B.shape if size is None else (size, *self.tilt.B.shape)
        return self.prior.sample(rng, shape, self.tilt.A, self.tilt.B)

    def __repr__(self) -> str:
        return f"Posterior({self.prior!r}, size={self.size})"
