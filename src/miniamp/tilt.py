"""The tilt: what a belief has learned, exp(-A x^2/2 + B x), as two natural parameters that add."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from miniamp.arrays import Array, ArrayOrFloat


@dataclass(frozen=True, slots=True, eq=False)
class Tilt:
    """An exponential tilt exp(-x'Ax/2 + B'x) of a prior; the sum of two is the evidence of both.

    Everything that is carried from batch to batch (`eq:eff-prior`): Lambda is A, Theta is B.

    Parameters
    ----------
    A : array
        Precision: a shared scalar, one per coefficient (N,), or for rows (R, R).
    B : array
        Linear part, (N,) or for rows (N, R).

    Examples
    --------
    >>> import numpy as np
    >>> both = Tilt(np.array(2.0), np.array([1.0, 0.0])) + Tilt(np.array(1.0), np.array([0.5, 3.0]))
    >>> both.A, both.B
    (np.float64(3.0), array([1.5, 3. ]))
    """

    A: Array
    B: Array

    @classmethod
    def none(cls, shape: int | tuple[int, ...]) -> Tilt:
        """The tilt that says nothing, for `shape` coordinates."""
        return cls(np.zeros(()), np.zeros(shape))

    def __add__(self, other: Tilt) -> Tilt:
        return Tilt(self.A + other.A, self.B + other.B)

    def scaled(self, factor: float) -> Tilt:
        """The same evidence counted `factor` times: 0.5 forgets half of it."""
        return Tilt(self.A * factor, self.B * factor)

    def stretched(self, factor: ArrayOrFloat) -> Tilt:
        """The same evidence about factor * x instead of x: a change of units."""
        return Tilt(self.A / np.square(factor), self.B / factor)
