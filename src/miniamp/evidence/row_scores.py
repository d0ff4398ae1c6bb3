"""The scores z = Phi x of a batch under a belief that keeps all products of its rows.

Up to N rows are solved in their own space, M x M, more of them in that of the coefficients, N x N.
"""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import numpy as np
from scipy import linalg

from miniamp.arrays import Array
from miniamp.designs import Design
from miniamp.evidence.information import FEW, InformationPosterior, inverted
from miniamp.evidence.linear import ROUNDING, TINY, RowSites, Sites
from miniamp.posterior import Posterior
from miniamp.tilt import JointSolution, Tilt, cholesky, log_det, solved


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

    def absorbed(self, sites: RowSites, tied: TiedScores) -> InformationPosterior:
        """The belief with the sites of all rows, (M,) each, under which these are tied."""
        return self.belief.with_sites(self.rows, *sites)


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

    def absorbed(self, sites: RowSites, tied: TiedScores) -> InformationPosterior:
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
        solved = linalg.cho_solve((self.lower, True), change @ self.rows, check_finite=False)
        shift = self.rows @ solved
        return shift, change - self.precision * shift


class OnRows:
    """What rows and their sites make of scores: a `robust.Solution` without the marginals."""

    def __init__(self, tied: TiedScores, omega: Array, rows: RowSites, sites: Sites) -> None:
        self.tied, self.rows, self.sites = tied, rows, sites
        self.log_det = tied.log_det
        shift, self.pull = tied.moved(rows.linear - rows.precision * omega)
        self.scores, self.misfit = omega + shift, float(self.pull @ shift)

    def left_out(self) -> tuple[Array, Array]:
        """Mean and variance of each row . x without the row itself, (M,) each."""
        (precision, linear), rest = self.rows, self.tied.rest
        V = np.maximum(self.tied.var / rest, ROUNDING / precision)
        return (linear - self.pull / rest) / precision, np.maximum(V, TINY)


class Scored(OnRows):
    """The linear step of rows on a belief that keeps all sites, and its solution in one.

    The Gaussians of the coefficients are the belief itself, and stay.
    """

    def __init__(self, space: RowScores, rows: RowSites, sites: Sites) -> None:
        super().__init__(space.under(rows.precision), space.omega, rows, sites)
        self.space = space

    def with_rows(self, rows: RowSites) -> Scored:
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
