"""State evolution of any low-rank model: R x R overlaps, by quasi-Monte Carlo with its error.

Y = U V'/sqrt(N) + noise of variance Delta: beta = 1/Delta (errata L2), A_U = beta lambda_V,
A_V = beta M_U, and overlaps accumulate as lambda_V <- lambda_V + alpha_b E V eta_V' (errata L8 to
L10).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from miniamp.arrays import Array
from miniamp.priors.rows import RowPrior

#: Independent scramblings of the Sobol points: their spread is the error that is stated.
REPLICATES = 8
#: The recursion stops when the overlaps move by less than this share.
_TOL = 1e-10
_MAX_ITER = 2000
#: Share of the labels' covariance that is put in at the very start, to leave a symmetric point.
_SEED = 1e-4


@dataclass(frozen=True)
class Draws:
    """Points that stand for the law of a row and of the noise on its field, (n, R) each."""

    rows: Array
    noise: Array

    @classmethod
    def of(cls, prior: RowPrior, log2_points: int, seed: int) -> Draws:
        """2^log2_points scrambled Sobol points, for a row of `prior` and its noise."""
        from scipy.stats import qmc

        engine = qmc.Sobol(2 * prior.dim + 1, rng=np.random.default_rng(seed))
        # A scrambled point may be exactly 0, where the Gaussian quantile is infinite.
        uniforms = np.clip(engine.random_base2(log2_points), 2.0**-40, 1.0 - 2.0**-40)
        rows = prior.draw(uniforms[:, : prior.dim + 1])
        return cls(rows, ndtri(uniforms[:, prior.dim + 1 :]))


@dataclass(frozen=True)
class Recursion:
    """One replicate of the recursion: a model, its noise, and the points for both factors."""

    prior_u: RowPrior
    prior_v: RowPrior
    noise: float
    draws_u: Draws
    draws_v: Draws

    @classmethod
    def replicates(
        cls, prior_u: RowPrior, prior_v: RowPrior, noise: float, log2_points: int, seed: int
    ) -> list[Recursion]:
        """Independent replicates, for an error bar on whatever is computed with them."""
        return [
            cls(
                prior_u,
                prior_v,
                noise,
                Draws.of(prior_u, log2_points, seed + 2 * k),
                Draws.of(prior_v, log2_points, seed + 2 * k + 1),
            )
            for k in range(REPLICATES)
        ]

    def overlap_u(self, lam: Array) -> Array:
        """M_U = E U eta_U' when lambda_V is `lam`."""
        return self.prior_u.overlap(lam / self.noise, self.draws_u.rows, self.draws_u.noise)

    def overlap_v(self, M_U: Array) -> Array:
        """E V eta_V', a column's share of lambda_V."""
        return self.prior_v.overlap(M_U / self.noise, self.draws_v.rows, self.draws_v.noise)

    def absorb_batch(
        self, before: Array, alpha_b: float, t_max: int | None = None, informed: bool = False
    ) -> Array:
        """lambda_V (R, R) after a batch of alpha_b N columns."""
        rows = self.draws_v.rows
        second = self.prior_v.second_moment(rows)
        centre = np.outer(rows.mean(axis=0), rows.mean(axis=0))
        share = 1.0 if informed else (_SEED if not before.any() else None)
        first = 0.0 if share is None else centre + share * (second - centre)
        lam = before + alpha_b * first
        for _ in range(_MAX_ITER if t_max is None else t_max):
            new = before + alpha_b * self.overlap_v(self.overlap_u(lam))
            moved = float(np.max(np.abs(new - lam)))
            lam = new
            if t_max is None and moved <= _TOL * float(np.max(np.abs(lam))):
                break
        return lam

    def mse(self, lam: Array) -> float:
        """Mean squared error of an entry of U."""
        second = self.prior_u.second_moment(self.draws_u.rows)
        return float(np.trace(second - self.overlap_u(lam))) / self.prior_u.dim

    def label_error(self, lam: Array) -> float:
        """0-1 loss of the labels of the columns that arrive now."""
        A = self.overlap_u(lam) / self.noise
        return self.prior_v.label_loss(A, self.draws_v.rows, self.draws_v.noise)

    def free_energy(self, M_U: Array, lam: Array, before: Array, alpha_b: float) -> float:
        """The replica free energy of a batch, per row of U (errata L8)."""
        energy = 0.5 * float(np.sum(M_U * (lam - before))) / self.noise
        of_u = self.prior_u.mean_log_partition(
            lam / self.noise, self.draws_u.rows, self.draws_u.noise
        )
        of_v = self.prior_v.mean_log_partition(
            M_U / self.noise, self.draws_v.rows, self.draws_v.noise
        )
        return energy - of_u - alpha_b * of_v
