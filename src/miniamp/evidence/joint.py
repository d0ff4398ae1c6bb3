"""A Gaussian over all coefficients at once: factorised sites, and rows that tie them together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from miniamp.arrays import Array, ArrayOrFloat
from miniamp.designs import Design
from miniamp.posterior import Moments, Posterior
from miniamp.tilt import Tilt

#: A site is at most 1/PINNED times as sharp as the field around it, or as the widest coefficient:
#: one that is surely zero has no variance, and a standard deviation a million times smaller than
#: what the data could see stands for that.
PINNED = 1e-12
#: The least variance of all: its inverse and the inverse's products stay finite.
TINY = 1e-100
#: The smallest precision of a site, relative to its field: it changes a variance by a millionth.
LOOSE = 1e-6
#: How far out, in standard deviations, a prior is taken to show its tail.
FAR = 40.0
#: The least variance of a row, in units of its noise: that of rounding.
ROUNDING = 1e-14
#: The field of no rows.
NOTHING = Tilt(np.zeros(()), np.zeros(()))


class Joint(NamedTuple):
    """What a Gaussian with diagonal sites and dense rows says of every coefficient.

    The density is exp(-x'Lx/2 + gamma'x - |t - R x|^2/2) with L = diag(precision). A *cavity* is
    what remains of a marginal when its own site is divided out.
    """

    mean: Array  #: (N,) means
    var: Array  #: (N,) variances
    field: Tilt  #: (N,) what the rows say of each coefficient: the cavity of its site
    root: Array  #: (m, N) W with covariance D - W'W
    D: Array  #: (N,) 1/precision
    lower: Array  #: Cholesky factor of K = 1 + R D R'
    white: Array  #: lower^-1 (t - R D gamma)

    def variance_of(self, rows: Array) -> Array:
        """Variance of rows . x, (M,)."""
        known = self.root @ rows.T
        return np.asarray(np.square(rows) @ self.D - np.einsum("ij,ij->j", known, known))

    def left_out(self, t: Array, some: slice) -> tuple[Array, Array]:
        """Mean and variance of `some` of the rows . x had they not been seen (targets t, all rows).

        K^-1 has it all: t - omega = g/k and 1 + V = 1/k, with g = K^-1 (t - R D gamma), k its
        diagonal.
        """
        g = linalg.solve_triangular(self.lower, self.white, lower=True, trans=1, check_finite=False)
        unit = np.eye(len(t))[:, some]
        inverse = linalg.solve_triangular(self.lower, unit, lower=True, check_finite=False)
        k = np.einsum("ij,ij->j", inverse, inverse)
        return t[some] - g[some] / k, np.maximum(1.0 / k - 1.0, ROUNDING)


def solve(R: Array, t: Array, sites: Sites) -> Joint:
    """Marginals and cavities of the Gaussian with rows R (m, N), targets t and positive sites.

    The m x m side is factorised: O(m^2 N). Tall stacks are squared first (`squared`).

    The fields are found without a difference of nearly equal numbers: with D = 1/precision and
    q_j = r_j' K^-1 r_j, K = 1 + R D R', their precision is q/(1 - D q), which keeps its digits when
    a site is overwhelmingly sharper than the rows (a coefficient that is surely zero).
    """
    D, linear = 1.0 / sites.precision, sites.linear
    scaled = R * np.sqrt(D)
    K = scaled @ scaled.T
    K[np.diag_indices_from(K)] += 1.0
    lower = linalg.cholesky(K, lower=True, overwrite_a=True, check_finite=False)
    U = linalg.solve_triangular(lower, R, lower=True, check_finite=False)
    q = np.einsum("ij,ij->j", U, U)
    # 1 - D q = var/D is positive; a coefficient that the rows pin down 1e16 times better than its
    # site would round to zero, and is kept above the rounding.
    rest = np.maximum(1.0 - D * q, np.finfo(np.float64).eps)
    white = linalg.solve_triangular(lower, t - R @ (D * linear), lower=True, check_finite=False)
    pull = white @ U
    field = Tilt(q / rest, (pull + D * q * linear) / rest)
    return Joint(D * (linear + pull), D * rest, field, U * D, D, lower, white)


def squared(R: Array, t: Array) -> tuple[Array, Array]:
    """The same rows rotated to at most N of them: exp(-|t - R x|^2/2) up to a constant."""
    if len(R) <= R.shape[1]:
        return R, t
    # The targets as one more column: the rotation itself is never formed.
    N = R.shape[1]
    both = np.asfortranarray(np.column_stack([R, t]))
    square = linalg.qr(both, mode="r", overwrite_a=True, check_finite=False)[0][:N]
    return square[:, :N], square[:, N]


class Sites(NamedTuple):
    """Factorised Gaussians exp(-precision x^2/2 + linear x), one a coefficient."""

    precision: Array  #: (N,) positive
    linear: Array  #: (N,)
    held: int = 0  #: how many could not take the variance they were to have

    def towards(self, other: Sites, step: ArrayOrFloat) -> Sites:
        """A step in natural parameters, which keeps precisions positive."""
        return Sites(
            (1.0 - step) * self.precision + step * other.precision,
            (1.0 - step) * self.linear + step * other.linear,
            other.held,
        )


def match(belief: Posterior, field: Tilt) -> tuple[Moments, Sites]:
    """Moments of the belief under the field of its rows, and the sites that give them.

    `belief` is its prior and tilt alone, without remembered rows. A coefficient that is wider than
    its field alone (undecided between zero and not) would need a negative precision, under which
    the cavities of others may stop being Gaussians. Its site keeps the mean, takes the precision
    that the prior has far from its centre, and is counted in `held`: for a spike and slab that is
    the slab's, so that no two coefficients that stand for each other can run away together.
    """
    moments = belief.tilted(field).moments
    c = np.broadcast_to(field.A, moments.mean.shape)
    with np.errstate(divide="ignore"):  # a field that says nothing sets no limit
        finest = np.maximum(PINNED / np.maximum(c, 1.0 / np.max(moments.var)), TINY)
    precision = 1.0 / np.maximum(moments.var, finest) - c
    held = precision < LOOSE * c
    if held.any():
        precision = np.where(held, np.clip(tail_precision(belief, field), LOOSE * c, c), precision)
    sites = Sites(precision, (c + precision) * moments.mean - field.B, int(held.sum()))
    return moments, sites


def tail_precision(belief: Posterior, field: Tilt) -> Array:
    """The precision of prior and tilt far out, at a field FAR from all that they expect."""
    total = belief.tilt + field
    far = np.abs(total.B) + FAR * np.sqrt(total.A + 1.0 / np.maximum(belief.var, TINY))
    _, var = belief.prior.moments(total.A, np.where(total.B < 0.0, -far, far))
    return np.asarray(1.0 / np.maximum(var, TINY) - field.A)


def sites_of(belief: Posterior) -> Sites:
    """The sites behind a belief: its prior and tilt as Gaussians, one a coefficient."""
    remembered = belief.remembered
    nothing = Tilt(np.zeros(belief.size), np.zeros(belief.size))
    return match(belief.remembering(None), remembered.field if remembered else nothing)[1]


def prior_sites(belief: Posterior) -> Sites:
    """The sites of prior and tilt alone, whatever rows are remembered beside them."""
    return sites_of(belief.remembering(None))


def row_moments(belief: Posterior, rows: Design) -> tuple[Array, Array]:
    """Mean and variance of rows . x under a belief, with what it remembers of correlations, (M,).

    The mean is that of the Gaussian behind the belief, which keeps to the remembered rows where the
    marginals of undecided coefficients, each on its own, do not quite add up to them.
    """
    remembered = belief.remembered
    if remembered is None:
        return rows.times(belief.mean), rows.row_variances(None, belief.var)
    joint = solve(remembered.rows, remembered.targets, sites_of(belief))
    # Rows that are known exactly have no variance, and its rounding may be below zero.
    return rows.times(joint.mean), np.maximum(rows.row_variances(joint.root, joint.D), 0.0)
