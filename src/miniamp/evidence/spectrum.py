"""Rows decomposed once: Gaussians whose sites keep their shape and change their scale."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from miniamp.arrays import Array
from miniamp.evidence.joint import LOOSE, ROUNDING
from miniamp.tilt import Tilt

#: Newton steps to the common scale, each of at most this factor.
STEPS, FACTOR = 20, 3.0


class Marginals(NamedTuple):
    """What a Gaussian of this scale says of every coefficient."""

    mean: Array  #: (N,) means
    var: Array  #: (N,) variances
    field: Tilt  #: (N,) what the rows say of each coefficient: the cavity of its site
    white: Array  #: (m,) t - R x in the basis of the rows


class Spectrum:
    """The singular value decomposition of rows R (m, N) in the metric of the sites.

    Sites of precision scale * shape then cost O(m N), whatever the scale: with U S V' that of
    R/sqrt(shape), the covariance is 1/sqrt(shape) V (scale + S^2)^-1 V' 1/sqrt(shape), and its
    diagonal a product with V squared.

    Examples
    --------
    >>> import numpy as np
    >>> R, shape = np.array([[1.0, 2.0, 0.0]]), np.ones(3)
    >>> Spectrum(R, shape).at(2.0, np.zeros(3), np.array([7.0])).mean
    array([1., 2., 0.])
    """

    def __init__(self, R: Array, shape: Array) -> None:
        self.shape, self.root = shape, np.sqrt(shape)
        scaled = R / self.root
        gram = scaled @ scaled.T
        if not np.isfinite(gram).all():
            raise np.linalg.LinAlgError("rows beyond working precision")
        squares, self.U = linalg.eigh(gram, overwrite_a=True, check_finite=False)
        self.squares = np.maximum(squares, 0.0)
        self.SV = self.U.T @ scaled  #: (m, N)
        self.squared = np.square(self.SV)

    def at(self, scale: float, linear: Array, t: Array) -> Marginals:
        """Marginals and cavities under the sites (scale * shape, linear) and the targets t."""
        # As in `joint.solve`: no difference of nearly equal numbers where sites are sharp.
        known = (1.0 / (scale + self.squares)) @ self.squared
        rest = np.maximum(1.0 - known, np.finfo(np.float64).eps)
        white = (self.U.T @ t - self.SV @ (linear / self.root) / scale) / (
            1.0 + self.squares / scale
        )
        pull = self.root * (white @ self.SV)
        precision = scale * self.shape
        field = Tilt(precision * known / rest, (pull + known * linear) / rest)
        return Marginals((linear + pull) / precision, rest / precision, field, white)

    def left_out(self, scale: float, white: Array, t: Array, some: slice) -> tuple[Array, Array]:
        """Mean and variance of `some` of the rows . x had they not been seen (targets t)."""
        k = np.square(self.U[some]) @ (scale / (scale + self.squares))
        return t[some] - self.U[some] @ white / k, np.maximum(1.0 / k - 1.0, ROUNDING)


def common_scale(shape: Array, A: Array, var: Array, scale: float) -> float:
    """The scale with which sites scale * shape under fields A have variances that add up to `var`.

    Each coefficient is counted in units of its own site. From `scale` on, by Newton's method.
    """
    total = float(np.sum(var * shape))
    least = LOOSE * float(np.sum(A * shape) / np.sum(np.square(shape)))
    for _ in range(STEPS):
        each = shape / (A + scale * shape)
        step = (float(np.sum(each)) - total) / float(np.sum(np.square(each)))
        new = float(np.clip(scale + step, scale / FACTOR, scale * FACTOR))
        done, scale = abs(new - scale) < LOOSE * scale, new
        if done:
            break
    return max(scale, least)
