"""The scores z = Phi x of a batch under a belief that keeps all products of its rows.

Up to N rows are solved in their own space, M x M, more of them in that of the coefficients, N x N.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy import linalg

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.channels.softmax import Softmax
from miniamp.designs import Design, as_design
from miniamp.evidence.information import InformationPosterior, inverted
from miniamp.evidence.linear import ROUNDING, TINY, Sites
from miniamp.posterior import Moments, Posterior, Prior
from miniamp.tilt import FEW, JointSolution, Tilt, cholesky, log_det, solved


class TiedScores(Protocol):
    """Scores under sites of fixed precisions."""

    var: Array  #: (M,)
    rest: Array  #: (M,) 1 - precision var: the part that a score would be known less without itself
    log_det: float  #: of the inverse covariance after the sites over that before

    def moved(self, change: Array) -> tuple[Array, Array]:
        """How means and pulls move when other pulls are wanted by `change`, (M,) each."""


class RowScores:
    """The scores z = Phi x of a batch: Gaussian, and what sites of the rows make of them."""

    V: Array  #: (M,) variances

    def __init__(self, belief: InformationPosterior, rows: Array) -> None:
        self.belief, self.rows = belief, rows
        self.omega = rows @ belief.centre  #: (M,) means

    def under(self, precision: Array) -> TiedScores:
        """The covariance of the scores under sites of these precisions, (M,)."""
        raise NotImplementedError

    def absorbed(self, sites: Sites, tied: TiedScores) -> InformationPosterior:
        """The belief with the sites of all rows, (M,) each, under which these are tied."""
        return self.belief.with_sites(self.rows, sites.precision, sites.linear)


def scores_of(belief: Posterior, design: Design) -> RowScores:
    """The scores of these rows; the latest are kept, for who predicts and then learns."""
    own = InformationPosterior.of(belief)
    kept: tuple[Design, RowScores] | None = own.__dict__.get("_space")
    if kept is None or kept[0] is not design:
        kind = _ByColumns if design.shape[0] > own.size else _ByRows
        kept = design, kind(own.solved(), design.toarray())
        own.__dict__["_space"] = kept
    return kept[1]


class _ByRows(RowScores):
    """Up to N rows: the covariance C of their scores, (M, M)."""

    def __init__(self, belief: InformationPosterior, rows: Array) -> None:
        super().__init__(belief, rows)
        self.root = solved(belief.lower, rows.T)  # (N, M)
        self.V = np.einsum("ij,ij->j", self.root, self.root)

    @cached_property
    def covariance(self) -> Array:
        """C, of which the lower triangle is filled."""
        return np.asarray(linalg.blas.dsyrk(1.0, self.root.T, lower=1))

    def under(self, precision: Array) -> TiedRows:
        return TiedRows(self.covariance, precision)

    def absorbed(self, sites: Sites, tied: TiedScores) -> InformationPosterior:
        new = super().absorbed(sites, tied)
        if new.size > FEW and isinstance(tied, TiedRows):
            # The factors at hand spare one of the new belief.
            before = self.belief.probed(self.belief.lower)
            known = tied.inverse @ (tied.root[:, None] * (self.root.T @ before))
            left = float(np.sum(np.square(before)) - np.sum(np.square(known)))
            new.__dict__["mean_variance"] = left / before.size
        return new


class TiedRows:
    """Scores of covariance C (M, M) under sites: its lower triangle is read, in Fortran order."""

    def __init__(self, covariance: Array, precision: Array) -> None:
        self.root = np.sqrt(precision)
        lower = cholesky(self._scaled(covariance), lambda: self._scaled(covariance))
        self.log_det = log_det(lower)
        # (C^-1 + T)^-1 = T^-1/2 (1 - K^-1) T^-1/2, of which the diagonal and products are needed.
        self.inverse = inverted(lower)
        self.rest = np.einsum("ij,ij->j", self.inverse, self.inverse)
        self.var = (1.0 - self.rest) / precision

    def _scaled(self, covariance: Array) -> Array:
        """K = 1 + T^1/2 C T^1/2."""
        K = covariance * self.root
        K *= self.root[:, None]
        K.T.flat[:: len(K) + 1] += 1.0
        return np.asarray(K)

    def moved(self, change: Array) -> tuple[Array, Array]:
        own = change / self.root
        half = linalg.blas.dtrmv(self.inverse, own, lower=1)
        solved = linalg.blas.dtrmv(self.inverse, half, lower=1, trans=1, overwrite_x=1)
        return (own - solved) / self.root, self.root * solved


class _ByColumns(RowScores):
    """More rows than coefficients: the coefficients themselves, (N, N)."""

    def __init__(self, belief: InformationPosterior, rows: Array) -> None:
        super().__init__(belief, rows)
        self.V = JointSolution.of(belief.lower, belief.linear).row_variances(rows)

    def under(self, precision: Array) -> _TiedColumns:
        return _TiedColumns(self, precision)


class _TiedColumns:
    def __init__(self, space: _ByColumns, precision: Array) -> None:
        self.rows, self.precision = space.rows, precision
        weighted = space.rows * np.sqrt(precision)[:, None]
        self.lower = cholesky(space.belief.precision + weighted.T @ weighted)
        self.log_det = log_det(self.lower) - log_det(space.belief.lower)
        self.var = JointSolution.of(self.lower, space.belief.linear).row_variances(space.rows)
        self.rest = np.maximum(1.0 - precision * self.var, ROUNDING)

    def moved(self, change: Array) -> tuple[Array, Array]:
        shift = self.rows @ linalg.lapack.dpotrs(self.lower, change @ self.rows, lower=1)[0]
        return shift, change - self.precision * shift


class OnRows:
    """What rows and their sites make of scores: a `robust.Solution` without the marginals."""

    def __init__(self, tied: TiedScores, omega: Array, rows: Sites, sites: Sites) -> None:
        self.tied, self.rows, self.sites = tied, rows, sites
        self.log_det = tied.log_det
        shift, self.pull = tied.moved(rows.linear - rows.precision * omega)
        self.scores, self.misfit = omega + shift, float(self.pull @ shift)

    def left_out(self) -> tuple[Array, Array]:
        """Mean and variance of each row . x without the row itself, (M,) each."""
        (precision, linear, _), rest = self.rows, self.tied.rest
        V = np.maximum(self.tied.var / rest, ROUNDING / precision)
        return (linear - self.pull / rest) / precision, np.maximum(V, TINY)


class Scored(OnRows):
    """The linear step of rows on a belief that keeps all sites, and its solution in one.

    The Gaussians of the coefficients are the belief itself, and stay.
    """

    def __init__(self, space: RowScores, rows: Sites, sites: Sites) -> None:
        super().__init__(space.under(rows.precision), space.omega, rows, sites)
        self.space = space

    def with_rows(self, rows: Sites) -> Scored:
        return self if rows is self.rows else Scored(self.space, rows, self.sites)

    def in_common(self, sites: Sites) -> Scored:
        return self

    def at(self, sites: Sites) -> Scored:
        return self

    @cached_property
    def _belief(self) -> InformationPosterior:
        # Variances are asked for: no estimate of their mean is.
        return RowScores.absorbed(self.space, self.rows, self.tied)

    def absorbed(self, belief: Posterior) -> Posterior:
        return self._belief

    @property
    def mean(self) -> Array:
        return self._belief.moments.mean

    @property
    def var(self) -> Array:
        return self._belief.moments.var

    @property
    def field(self) -> Tilt:
        return self._belief.total


@dataclass(frozen=True, eq=False)
class SoftmaxPosterior:
    """A belief about the coefficients of K classes, one Gaussian of N coefficients per class.

    Parameters
    ----------
    posteriors : sequence of Posterior
        One per class, with Gaussian priors.
    batches : int
        How many batches have taught it.
    scale_known : float
        Fisher's information of left-out rows on the logarithm of the scale of the scores.
    channel : Softmax
        What is known of wrong labels.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import absorb, priors
    >>> from miniamp.evidence import SoftmaxBatch
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> labels = (X @ rng.normal(size=(2, 3)) * 5.0).argmax(axis=1)
    >>> belief = SoftmaxPosterior.start(priors.Gaussian(var=4.0), classes=3, size=2)
    >>> belief, info = absorb(belief, SoftmaxBatch(X, labels))
    >>> bool(np.mean(belief.probabilities(X).argmax(axis=1) == labels) > 0.95), info.converged
    (True, True)
    """

    posteriors: tuple[InformationPosterior, ...]
    batches: int = 0
    scale_known: float = 0.0
    channel: Softmax = field(default_factory=Softmax)

    def __post_init__(self) -> None:
        own = tuple(InformationPosterior.of(one) for one in self.posteriors)
        if len(own) < 2 or len({one.size for one in own}) > 1:
            sizes = f"{len(own)} of sizes {sorted({one.size for one in own})}"
            raise checks.refuse("posteriors", sizes, "at least two of one size", "one per class")
        object.__setattr__(self, "posteriors", own)

    @classmethod
    def start(cls, prior: Prior, classes: int, size: int) -> SoftmaxPosterior:
        """The belief before any rows: `size` coefficients for each of so many classes."""
        return cls((InformationPosterior(prior, size),) * classes)

    @property
    def size(self) -> int:
        """The number N of coefficients per class."""
        return self.posteriors[0].size

    @property
    def mean(self) -> Array:
        """Posterior means, (K, N)."""
        return np.stack([one.centre for one in self.posteriors])

    @property
    def var(self) -> Array:
        """Posterior variances, (K, N)."""
        return np.stack([one.var for one in self.posteriors])

    def scaled(self, factor: float) -> SoftmaxPosterior:
        """The belief that counts what it has seen `factor` times; the scale stays."""
        own = tuple(one.scaled(factor) for one in self.posteriors)
        known, channel = factor * self.scale_known, self.channel.faded(factor)
        return replace(self, posteriors=own, scale_known=known, channel=channel)

    def stretched(self, factor: ArrayOrFloat) -> SoftmaxPosterior:
        """The belief about factor * x instead of x; the prior stays."""
        return replace(self, posteriors=tuple(one.stretched(factor) for one in self.posteriors))

    def with_prior(self, prior: Prior) -> SoftmaxPosterior:
        """What the same data say under another prior, the same for all classes."""
        return replace(self, posteriors=tuple(one.with_prior(prior) for one in self.posteriors))

    def rescaled(self, factor: float) -> SoftmaxPosterior:
        """The belief in which all scores, prior and all that was seen, are `factor` times larger.

        That of an intercept's prior stays.
        """
        own = (one.with_prior(one.prior.rescaled(factor)) for one in self.posteriors)
        return replace(self, posteriors=tuple(one.stretched(factor) for one in own))

    def spaces(self, design: Design) -> tuple[RowScores, ...]:
        """The scores of these rows under the belief, one space per class."""
        if self.size != design.shape[1]:
            got, expected = f"{design.shape[1]} columns", f"{self.size}, the size of the belief"
            raise checks.refuse("Phi", got, expected, "use the same columns in every batch")
        return tuple(scores_of(one, design) for one in self.posteriors)

    def scores(self, Phi: Given) -> Moments:
        """Means and variances of the scores of new rows, (M, K) each."""
        spaces = self.spaces(as_design(Phi))
        return Moments(
            np.stack([one.omega for one in spaces], axis=1),
            np.stack([one.V for one in spaces], axis=1),
        )

    def probabilities(self, Phi: Given) -> Array:
        """Probability of each class for new rows, (M, K)."""
        return self.channel.joint_probabilities(*self.scores(Phi))
