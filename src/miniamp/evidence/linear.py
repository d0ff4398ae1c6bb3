"""The linear step: a Gaussian over all coefficients, with a site per coefficient and dense rows.

The density is exp(-x'Lx/2 + gamma'x - |t - R x|^2/2): the prior and the tilt are Gaussian *sites*
of precision L = diag(precision), the rows R (m, N) have unit noise. A solver asks for the marginals
under given sites; who answers is a matter of cost alone:

`RowSpectrum`   rows decomposed once, then O(m N) for each scale of the sites (vector AMP)
`solve`      a Cholesky factor of the m x m side, O(m^2 N), for any sites

Both return the mean, the variance and the *field* of every coefficient: its tilt by the rows, or
its marginal with its own site divided out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, cg

from miniamp.arrays import Array, ArrayOrFloat
from miniamp.designs import Design
from miniamp.posterior import Moments, Posterior
from miniamp.tilt import Tilt, cholesky, log_det

#: A site is at most 1/PINNED times as sharp as the field around it, or as the widest coefficient:
#: one that is surely zero has no variance, and a standard deviation a million times smaller than
#: what the data could see stands for that.
PINNED = 1e-12
#: The least variance of all: its inverse and the inverse's products stay finite.
TINY = 1e-100
#: The smallest precision of a site, relative to its field: it changes a variance by a millionth.
LOOSE = 1e-6
#: How far out, in standard deviations, the tail of a prior is measured.
FAR = 40.0
#: A row is at least this noisy, relative to what was not known of it: rows without noise would make
#: the stack's Gram matrix singular to working precision.
QUIETEST = 1e-12
#: A row's site has at least this precision, relative to what is known of it without the row: a
#: label far on its right side says nothing, and a row that says nothing must not divide by zero.
FAINTEST = 1e-8
#: The least variance of a row, in units of its noise: that of rounding.
ROUNDING = 1e-14
#: Of rows that say nothing of single coefficients.
NO_TILT = Tilt(np.zeros(()), np.zeros(()))
#: Conjugate gradients for a first guess, at most.
GUESSES = 10
#: Newton steps to the common scale, each of at most this factor.
STEPS, FACTOR = 20, 3.0


class Sites(NamedTuple):
    """Gaussians exp(-precision x^2/2 + linear x), one per coefficient, or per row for z = Phi x."""

    precision: Array  #: (N,) or (M,), positive
    linear: Array
    held: int = 0  #: how many could not take the variance they were to have

    def misfit(self, mean: Array) -> float:
        """Sum of squared distances from the sites' means, in their standard deviations."""
        root = np.sqrt(self.precision)
        return float(np.sum(np.square(root * mean - self.linear / root)))

    def towards(self, other: Sites, step: ArrayOrFloat) -> Sites:
        """A step in natural parameters, which keeps precisions positive."""
        return Sites(
            (1.0 - step) * self.precision + step * other.precision,
            (1.0 - step) * self.linear + step * other.linear,
            other.held,
        )

    def towards_mean(self, other: Sites, step: float) -> Sites:
        """A step in the sites' means and standard deviations: the damping of vector AMP."""
        mean = (1.0 - step) * self.linear / self.precision + step * other.linear / other.precision
        root = (1.0 - step) / np.sqrt(self.precision) + step / np.sqrt(other.precision)
        precision = 1.0 / np.square(root)
        return Sites(precision, precision * mean)

    def matched(self, omega: Array, V: Array, g: Array, curvature: Array) -> Sites:
        """The sites with which z ~ N(omega, V) gets the mean and variance that the channel gives.

        A row whose channel would widen z, such as an outlier far from all others under heavy tails,
        has the faintest site: with the one it had before, it would keep what it said when nothing
        was known yet. Rows that are known beyond rounding keep theirs.
        """
        rest = 1.0 - V * curvature
        sound = rest > 0.0
        precision = np.clip(
            np.where(sound, curvature / np.where(sound, rest, 1.0), self.precision),
            FAINTEST / V,
            1.0 / (QUIETEST * V),
        )
        return Sites(precision, np.where(sound, g + precision * (omega + V * g), self.linear))


class Answer(NamedTuple):
    """What the Gaussian implies for every coefficient, (N,) each."""

    mean: Array
    var: Array
    field: Tilt


class Joint(NamedTuple):
    """The Gaussian with its correlations: an `Answer`, and a root of the covariance."""

    mean: Array  #: (N,) means
    var: Array  #: (N,) variances
    field: Tilt  #: (N,) tilt of each coefficient by the rows: the cavity of its site
    known: Array  #: (m, N) lower^-1 R
    D: Array  #: (N,) 1/precision
    lower: Array  #: Cholesky factor of K = 1 + R D R'
    white: Array  #: lower^-1 (t - R D gamma)

    @property
    def log_det(self) -> float:
        """Of K."""
        return log_det(self.lower)

    @property
    def root(self) -> Array:
        """W with covariance D - W'W, (m, N)."""
        return self.known * self.D

    @property
    def volume(self) -> float:
        """See `log_mass`."""
        return self.log_det + float(self.white @ self.white)

    def left_out(self, t: Array, some: slice) -> tuple[Array, Array]:
        """Mean and variance of `some` of the rows . x without the row itself (targets t, all rows).

        K^-1 has it all: t - omega = g/k and 1 + V = 1/k, with g = K^-1 (t - R D gamma), k its
        diagonal.
        """
        g = linalg.solve_triangular(self.lower, self.white, lower=True, trans=1, check_finite=False)
        unit = np.eye(len(t))[:, some]
        inverse = linalg.solve_triangular(self.lower, unit, lower=True, check_finite=False)
        k = np.einsum("ij,ij->j", inverse, inverse)
        return t[some] - g[some] / k, np.maximum(1.0 / k - 1.0, ROUNDING)


def solve(R: Array, t: Array, sites: Sites) -> Joint:
    """The Gaussian with rows R (m, N), targets t and positive sites, by its m x m side.

    The fields are found without a difference of nearly equal numbers: with D = 1/precision and
    q_j = r_j' K^-1 r_j, K = 1 + R D R', their precision is q/(1 - D q), which keeps its digits when
    a site is overwhelmingly sharper than the rows (a coefficient that is surely zero).
    """
    D, linear = 1.0 / sites.precision, sites.linear
    scaled = R * np.sqrt(D)
    K = scaled @ scaled.T
    K[np.diag_indices_from(K)] += 1.0
    lower = cholesky(K)
    del scaled, K
    # From the right of R', which is in the order that BLAS wants.
    U = linalg.blas.dtrsm(1.0, lower, R.T, side=1, lower=1, trans_a=1).T
    q = np.einsum("ij,ij->j", U, U)
    # 1 - D q = var/D is positive; a coefficient that the rows pin down 1e16 times better than its
    # site would round to zero, and is kept above the rounding.
    rest = np.maximum(1.0 - D * q, np.finfo(np.float64).eps)
    white = linalg.solve_triangular(lower, t - R @ (D * linear), lower=True, check_finite=False)
    pull = white @ U
    field = Tilt(q / rest, (pull + D * q * linear) / rest)
    return Joint(D * (linear + pull), D * rest, field, U, D, lower, white)


class RowSpectrum:
    """The singular value decomposition of rows R (m, N) in the metric of the sites.

    Sites of precision scale * shape then cost O(m N), whatever the scale: with U S V' that of
    R/sqrt(shape), the covariance is 1/sqrt(shape) V (scale + S^2)^-1 V' 1/sqrt(shape), and its
    diagonal a product with V squared.

    Examples
    --------
    >>> import numpy as np
    >>> R, t, shape = np.array([[1.0, 2.0, 0.0]]), np.array([7.0]), np.ones(3)
    >>> RowSpectrum(R, t, shape).at(Sites(2.0 * shape, np.zeros(3))).mean
    array([1., 2., 0.])
    """

    def __init__(self, R: Array, t: Array, shape: Array) -> None:
        self.shape, self.root = shape, np.sqrt(shape)
        scaled = R / self.root
        gram = scaled @ scaled.T
        if not np.isfinite(gram).all():
            raise np.linalg.LinAlgError("rows beyond working precision")
        squares, U = linalg.eigh(gram, overwrite_a=True, check_finite=False)
        self.squares = np.maximum(squares, 0.0)
        self.SV = U.T @ scaled  #: (m, N)
        self.squared = np.square(self.SV)
        self.t = U.T @ t

    def at(self, sites: Sites) -> Answer:
        """Marginals and cavities under sites that have the shape of this decomposition."""
        scale, linear = float(sites.precision[0] / self.shape[0]), sites.linear
        # As in `solve`: no difference of nearly equal numbers where sites are sharp.
        known = (1.0 / (scale + self.squares)) @ self.squared
        rest = np.maximum(1.0 - known, np.finfo(np.float64).eps)
        white = (self.t - self.SV @ (linear / self.root) / scale) / (1.0 + self.squares / scale)
        pull = self.root * (white @ self.SV)
        precision = scale * self.shape
        field = Tilt(precision * known / rest, (pull + known * linear) / rest)
        return Answer((linear + pull) / precision, rest / precision, field)


def match_in_common(belief: Posterior, field: Tilt, sites: Sites) -> tuple[Moments, Sites]:
    """Moments of the belief under the field of its rows, and `sites` times one factor.

    The factor with which the variances, each in units of its own site, add up to those of the
    moments: one step of vector AMP, found by Newton's method from the factor 1.
    """
    moments, shape, A = belief.tilted(field).moments, sites.precision, field.A
    total = float(np.sum(moments.var * shape))
    least = LOOSE * float(np.sum(A * shape) / np.sum(np.square(shape)))
    scale = 1.0
    for _ in range(STEPS):
        each = shape / (A + scale * shape)
        step = (float(np.sum(each)) - total) / float(np.sum(np.square(each)))
        new = float(np.clip(scale + step, scale / FACTOR, scale * FACTOR))
        done, scale = abs(new - scale) < LOOSE * scale, new
        if done:
            break
    precision = max(scale, least) * shape
    return moments, Sites(precision, (A + precision) * moments.mean - field.B)


def mismatch(now: Sites, wanted: Sites, field: Tilt) -> float:
    """How far the Gaussians under a field are from those with other sites, in their deviations."""
    var, other = 1.0 / (field.A + now.precision), 1.0 / (field.A + wanted.precision)
    off = var * (now.linear + field.B) - other * (wanted.linear + field.B)
    return float(np.sqrt(np.mean(np.square(off) / var + np.square(1.0 - other / var))))


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


def log_mass(base: Posterior, sites: Sites, field: Tilt) -> float:
    """What the log-integral gains where each coefficient replaces its site by its prior and tilt.

    Under the field of the rows, by expectation propagation. The normalised integral with the sites
    is minus half of log det(1 + R D R') + |t - R m|^2 + `sites.misfit(m)` at the mean m: the
    `volume` of all rows R with targets t. Where prior and tilt are Gaussian nothing is gained, and
    who does not ask avoids a difference of large numbers.
    """
    (L, gamma), total = sites[:2], base.tilt + field
    gaussians = np.log1p(field.A / L) + gamma**2 / L - (gamma + field.B) ** 2 / (L + field.A)
    each = base.prior.log_partition(total.A, total.B) + 0.5 * gaussians
    return float(np.sum(each))


def sites_of(belief: Posterior, *, common: bool = False) -> Sites:
    """The sites behind a belief: its prior and tilt as Gaussians, one per coefficient.

    In `common`, remembered rows set one scale of all; relative scales are the prior's and tilt's.
    """
    base, seen = belief.remembering(None), belief.remembered
    nothing = Tilt(np.zeros(belief.size), np.zeros(belief.size))
    sites = match(base, nothing if seen is None or common else seen.field)[1]
    if seen is None or not common or base.prior.is_gaussian:
        return sites
    return match_in_common(base, seen.field, sites)[1]


def row_moments(belief: Posterior, rows: Design) -> tuple[Array, Array]:
    """Mean and variance of rows . x under a belief, with what it remembers of correlations, (M,).

    The mean is that of the Gaussian behind the belief, which keeps to the remembered rows where the
    marginals of undecided coefficients, each on its own, do not quite add up to them.
    """
    joint = None if belief.remembered is None else known(belief, sites_of(belief))
    return moments_of(belief, rows, joint)


def known(belief: Posterior, sites: Sites) -> Joint:
    """The Gaussian of the remembered rows under these sites."""
    assert belief.remembered is not None
    return solve(belief.remembered.rows, belief.remembered.targets, sites)


def moments_of(belief: Posterior, rows: Design, joint: Joint | None) -> tuple[Array, Array]:
    """Mean and variance of rows . x under a belief and the Gaussian of the rows it remembers."""
    if joint is None:
        return rows.times(belief.mean), rows.row_variances(None, belief.var)
    # Rows that are known exactly have no variance, and its rounding may be below zero.
    return rows.times(joint.mean), np.maximum(rows.row_variances(joint.root, joint.D), 0.0)


def covariance_times(sites: Sites, joint: Joint | None, x: Array) -> Array:
    """The covariance of the coefficients times x, (N,), in the terms of `moments_of`."""
    alone = x / sites.precision
    return alone if joint is None else alone - (joint.root @ x) @ joint.root


def pulls(
    design: Design, rows: Sites, omega: Array, covariance: Callable[[Array], Array], enough: float
) -> Array:
    """linear - precision z of each row at the mean z that all of them give, (M,), to `enough`.

    By conjugate gradients on products with the covariance of the coefficients; `omega` are the
    means of rows . x without any of them.
    """
    root, shape = np.sqrt(rows.precision), (len(omega), len(omega))

    def spread(u: Array) -> Array:
        return u + root * design.times(covariance(design.transposed_times(root * u)))

    off = rows.linear / root - root * omega
    operator = LinearOperator(shape, spread, dtype=np.float64)
    return np.asarray(root * cg(operator, off, rtol=enough, maxiter=GUESSES)[0])
