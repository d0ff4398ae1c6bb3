"""The numerical prior: any density that can be written down, by adaptive quadrature."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given, Shape
from miniamp.errors import InvalidTypeError
from miniamp.numerics.landscape import Flags, TiltedDensity, survey
from miniamp.numerics.panels import Panels
from miniamp.priors.base import ScalarPrior

#: Coordinates integrated at once: enough to be fast, few enough to bound the memory of a batch.
_BLOCK = 512


class Numerical(ScalarPrior):
    """A prior with the density exp(log_density(x)), which it normalises itself.

    Under every tilt the highest point is located, and panels about it are halved until the
    integrand is resolved on each, so that a tilt may be as weak as none and as sharp as A = 1e14:
    errors are near 1e-14 for a smooth density, plus the rounding of the formula where it is large,
    and within 1e-9 for one with kinks that `breakpoints` does not name. A pole at an end of the
    support is integrated up to about 1/sqrt(x); steeper ones lose digits. Tails that fall off more
    slowly than 1/x^4 are reported with an infinite variance where no A cuts them. `fitted` returns
    the prior itself: a formula has nothing to learn.

    Parameters
    ----------
    log_density : callable
        Takes an array, returns its logarithmic density, elementwise, up to a constant. Where it is
        -inf or nan there is no mass.
    support : (low, high)
        Where the density lives; either end may be infinite.
    breakpoints : sequence of float
        Where it has a kink, a jump or a narrow peak that should not be missed.

    Examples
    --------
    >>> quartic = Numerical(lambda x: -(x**4))
    >>> mean, var = quartic.moments(A=[1.0, 1e12], B=[1.0, 5e11])
    >>> [f"{float(m):.6f}" for m in mean], [f"{float(v):.6g}" for v in var]
    (['0.270490', '0.500000'], ['0.254675', '1e-12'])
    """

    names, recorded = ("log_density", "support", "breakpoints"), ()
    trailing: ClassVar[dict[str, int]] = {"support": 1, "breakpoints": 1}

    def __init__(
        self,
        log_density: Callable[[Array], ArrayLike],
        support: Given = (-np.inf, np.inf),
        breakpoints: Given = (),
    ) -> None:
        if not callable(log_density):
            raise InvalidTypeError(
                "log_density",
                type(log_density).__name__,
                "a function of an array",
                "pass, say, lambda x: -abs(x)",
            )
        self.log_density = log_density
        self.support = _checked_support(support)
        self.breakpoints = np.unique(checks.vector("breakpoints", breakpoints))
        low, high = (float(end) for end in self.support)
        if ((self.breakpoints <= low) | (self.breakpoints >= high)).any():
            raise checks.refuse(
                "breakpoints",
                self.breakpoints.tolist(),
                f"points between {low:g} and {high:g}",
                "leave out those at or beyond the ends of the support",
            )
        self._try_out()
        self._landscape = survey(self._finite_log_density, low, high, self.breakpoints)
        self._log_mass = 0.0
        self._log_mass = float(self.log_partition(0.0, 0.0))

    def landmarks(self) -> Array:
        ends = self.support[np.isfinite(self.support)]
        return np.concatenate([super().landmarks(), self.breakpoints, ends])

    def log_partition(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        A, B = np.broadcast_arrays(np.asarray(A, dtype=np.float64), B)
        result = np.empty(A.size)
        for block, tilted, panels, endless, _ in self._blocks(A, B):
            mass = panels.moments()[0]
            result[block] = np.where(endless, np.inf, tilted.log_peak() + np.log(mass))
        return np.asarray(result.reshape(A.shape) - self._log_mass)

    def moments(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        A, B = np.broadcast_arrays(np.asarray(A, dtype=np.float64), B)
        mean, var = np.empty(A.size), np.empty(A.size)
        for block, tilted, panels, endless, heavy in self._blocks(A, B):
            _, shift, spread = panels.moments()
            centre = tilted.centre
            mean[block] = np.where(endless, np.copysign(np.inf, centre + shift), centre + shift)
            var[block] = np.where(heavy | endless, np.inf, spread)
        return mean.reshape(A.shape), var.reshape(A.shape)

    def drawn(self, rng: Generator, shape: Shape, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        A, B = np.broadcast_arrays(np.asarray(A, dtype=np.float64), B)
        owner = np.broadcast_to(np.arange(A.size).reshape(A.shape), shape).ravel()
        draws = np.empty(owner.size)
        for block, tilted, panels, _, _ in self._blocks(A, B):
            mine = np.flatnonzero((owner >= block.start) & (owner < block.stop))
            local = owner[mine] - block.start
            draws[mine] = tilted.centre[local] + panels.sample(rng, local)
        return draws.reshape(shape)

    def _blocks(
        self, A: Array, B: Array
    ) -> list[tuple[slice, TiltedDensity, Panels, Flags, Flags]]:
        flat_A, flat_B = A.ravel(), np.asarray(B, dtype=np.float64).ravel()
        blocks = []
        with np.errstate(all="ignore"):
            for start in range(0, A.size, _BLOCK):
                block = slice(start, min(start + _BLOCK, A.size))
                found = self._landscape.integrated(flat_A[block], flat_B[block])
                blocks.append((block, *found))
        return blocks

    def _finite_log_density(self, x: Array) -> Array:
        """The user's formula, with no mass outside the support or where it is not a number."""
        with np.errstate(all="ignore"):
            value = np.asarray(self.log_density(x), dtype=np.float64)
        exists = value < np.inf
        if np.isfinite(self.support).any():
            exists &= (x >= self.support[0]) & (x <= self.support[1])
        return value if exists.all() else np.where(exists, value, -np.inf)

    def _try_out(self) -> None:
        low, high = np.clip(self.support, -1e3, 1e3)
        x = np.linspace(low, high, 5)[1:-1].reshape(3, 1)
        with np.errstate(all="ignore"):
            value = self.log_density(x)
        if np.shape(value) != x.shape or np.asarray(value).dtype.kind not in "fiu":
            raise InvalidTypeError(
                "log_density",
                f"{type(value).__name__} of shape {np.shape(value)} for x of shape {x.shape}",
                "real numbers of the same shape",
                "write it with NumPy functions",
            )


def _checked_support(support: Given) -> Array:
    try:
        ends = np.array(support, dtype=np.float64)
    except (TypeError, ValueError):
        ends = np.empty(0)
    if ends.shape != (2,) or not ends[0] < ends[1]:
        raise checks.refuse(
            "support", repr(support), "two numbers (low, high), low < high", "use inf for no end"
        )
    ends.setflags(write=False)
    return ends
