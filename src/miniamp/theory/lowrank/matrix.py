"""The law of any low-rank model: R x R overlaps, by quasi-Monte Carlo with its error."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from miniamp.absorb import Stop, absorb
from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.priors import RowPrior
from miniamp.priors.rows.base import root
from miniamp.theory.law import TypicalEvidence

#: Independent scramblings of the Sobol points: their spread is the stated standard error.
REPLICATES = 8
#: Share of the covariance of V that starts the first batch, to leave a symmetric point.
FIRST = 1e-4
#: A matrix law stops when its overlaps move by less than this share.
CONVERGED = Stop(max_iter=2000, tol=1e-10)


class TypicalColumns(TypicalEvidence):
    """alpha N columns drawn at random: the twin of `evidence.FactorBatch`.

    Parameters
    ----------
    alpha : float
        Columns of the batch per row of U, alpha_b.
    informed : bool
        Start from the true labels: the best fixed point rather than the algorithm's.

    Examples
    --------
    >>> from miniamp import Stop, absorb
    >>> from miniamp.theory.lowrank import LabelLaw
    >>> law, info = absorb(LabelLaw(5, 0.1, a=1e-3), TypicalColumns(0.5), Stop(max_iter=3))
    >>> info.iterations, round(law.mse, 6)
    (3, 0.800612)
    """

    def __init__(self, alpha: Given, informed: bool = False) -> None:
        super().__init__(alpha)
        self.informed = informed


class ConvergedColumns(TypicalColumns):
    """Typical columns iterated to convergence, by a root search where the law has one number.

    Examples
    --------
    >>> from miniamp import absorb
    >>> from miniamp.theory.lowrank import LabelLaw
    >>> law, _ = absorb(LabelLaw(R=5, noise=0.1), ConvergedColumns(0.5))
    >>> round(law.mse, 10)
    0.6001355145
    """

    converged = True


class OptimalColumns(ConvergedColumns):
    """Typical columns under exact inference: the fixed point of lowest free energy.

    Examples
    --------
    >>> from miniamp import absorb
    >>> from miniamp.theory.lowrank import LabelLaw
    >>> hard = LabelLaw(R=8, noise=0.05)
    >>> kinds = ConvergedColumns, OptimalColumns
    >>> [round(absorb(hard, kind(0.15))[0].label_error, 3) for kind in kinds]
    [0.875, 0.489]
    """

    optimal = True


@dataclass(frozen=True)
class Draws:
    """Points that stand for the distribution of a row and of the noise on its field, (n, R) each.

    Every row comes with some noise and with its opposite, so that the two are not correlated by
    chance; where components are exchangeable it also comes in all cyclic orders. Averages then keep
    the symmetries of the model to rounding. Otherwise quadrature noise breaks them, and grows from
    batch to batch as a chance overlap would (R = 5, Delta = .1, alpha_b = .1, batch 14: a label
    error of .744 where .8 is exact).
    """

    rows: Array
    noise: Array

    @classmethod
    def of(cls, prior: RowPrior, log2_points: int, seed: int, symmetric: bool) -> Draws:
        """About 2^log2_points scrambled Sobol points, for a row of `prior` and its noise."""
        from scipy.stats import qmc  # slow to import

        R = prior.dim
        orders = R if symmetric else 1
        fewer = max(log2_points - int(np.log2(2 * orders)), 1)
        engine = qmc.Sobol(2 * R + 1, seed=np.random.default_rng(seed))
        # A scrambled point may be exactly 0, where the Gaussian quantile is infinite.
        uniforms = np.clip(engine.random_base2(fewer), 2.0**-40, 1.0 - 2.0**-40)
        rows, noise = prior.draw(uniforms[:, : R + 1]), ndtri(uniforms[:, R + 1 :])
        centred = _covariance(prior)
        if centred is not None:
            # Thresholds are as good as the second moment: make its trace exact.
            rows = rows * np.sqrt(np.trace(centred) / np.mean(np.sum(rows**2, axis=1)))
        both = np.concatenate([rows, rows]), np.concatenate([noise, -noise])
        turned = (np.concatenate([np.roll(x, k, axis=1) for k in range(orders)]) for x in both)
        return cls(*turned)


class Overlaps(NamedTuple):
    """lambda_V of a matrix law: the sums that describe the fields of U, (R, R) each.

    They are the same matrix where the priors are the true ones and nothing is forgotten.
    """

    precision: Array  #: what the belief takes them for
    gamma: Array  #: the covariance of their noise
    signal: Array  #: how much of the truth they carry, E V eta'


class ColumnLaw:
    """What the laws of low-rank models show alike: the columns of a `Curve`."""

    noise: float  #: Delta

    def figures(self, floor: float) -> dict[str, ArrayOrFloat]:
        names = ("mse", "variance", "overlap", "power", "label_error", "label_mse")
        found = {name: getattr(self, name) for name in names}
        return {**found, **dict.fromkeys(("lam", "gamma"), found["overlap"] / self.noise)}


@dataclass(frozen=True)
class MatrixLaw(ColumnLaw):
    """What is known of U in any low-rank model: R x R overlaps, by quasi-Monte Carlo averages.

    Fields are B = signal' U/Delta plus noise of covariance gamma/Delta; the belief takes their
    precision for precision/Delta. Priors may differ from the true ones; the noise may not, since
    the Onsager term of AMP uses the believed one.

    Examples
    --------
    >>> from miniamp import absorb, priors
    >>> law = MatrixLaw.replicates(priors.SparseRows(2, rho=0.3), priors.GaussianRows(2), 0.1)[0]
    >>> law, info = absorb(law, ConvergedColumns(1.0), CONVERGED)
    >>> info.converged, round(law.mse, 2)
    (True, 0.06)
    """

    prior_u: RowPrior  #: believed prior of the rows of U
    prior_v: RowPrior  #: believed prior of the rows of V
    noise: float  #: Delta
    draws_u: Draws  #: points that stand for the true rows
    draws_v: Draws
    lam: Overlaps  #: lambda_V
    columns: float = 0.0  #: seen per row of U
    matched: bool = True  #: whether the priors are the true ones and nothing was forgotten

    @classmethod
    def replicates(
        cls,
        prior_u: RowPrior,
        prior_v: RowPrior,
        noise: float,
        points: int = 12,
        truth_u: RowPrior | None = None,
        truth_v: RowPrior | None = None,
    ) -> list[MatrixLaw]:
        """Independent laws before any data, for an error bar on whatever is computed with them."""
        true_u, true_v = truth_u or prior_u, truth_v or prior_v
        symmetric = all(p.exchangeable for p in (prior_u, prior_v, true_u, true_v))
        zero = np.zeros((true_v.dim, prior_v.dim))
        return [
            cls(
                prior_u,
                prior_v,
                noise,
                Draws.of(true_u, points, 2 * k, symmetric),
                Draws.of(true_v, points, 2 * k + 1, symmetric),
                Overlaps(zero, zero, zero),
                matched=truth_u is None and truth_v is None,
            )
            for k in range(REPLICATES)
        ]

    def scaled(self, factor: float) -> MatrixLaw:
        """The same law with all that is known counted `factor` times."""
        if factor == 1.0:
            return self
        lam = Overlaps(
            factor * self.lam.precision, factor**2 * self.lam.gamma, factor * self.lam.signal
        )
        return replace(self, lam=lam, columns=factor * self.columns, matched=False)

    @property
    def weak_recovery(self) -> float | None:
        """The alpha above which AMP leaves the point where nothing is known; None with means."""
        C_U, C_V = _covariance(self.prior_u), _covariance(self.prior_v)
        if C_U is None or C_V is None:
            return None
        radius = float(np.abs(np.linalg.eigvals(C_U @ C_V)).max())
        return (self.noise / radius) ** 2

    def overlap_u(self, lam: Overlaps) -> Overlaps:
        """E eta_U eta_U' (twice) and M_U = E U eta_U' when lambda_V is `lam`."""
        return self._overlaps(self.prior_u, self.draws_u, lam)

    def overlap_v(self, M_U: Overlaps) -> Overlaps:
        """Overlaps of V as `overlap_u` has those of U: what a column adds to lambda_V."""
        return self._overlaps(self.prior_v, self.draws_v, M_U)

    def _overlaps(self, prior: RowPrior, draws: Draws, other: Overlaps) -> Overlaps:
        A, G, S = (x / self.noise for x in other)
        if self.matched:
            overlap = prior.overlap(A, draws.rows, draws.noise)
            return Overlaps(overlap, overlap, overlap)
        mean = prior.totals(A, draws.rows @ S + draws.noise @ root(G))[0]
        power = mean.T @ mean / len(mean)
        return Overlaps(power, power, draws.rows.T @ mean / len(mean))

    def entry(self, batch: TypicalEvidence) -> MatrixLaw:
        if not batch.informed and self.lam.precision.any():
            return self
        rows = self.draws_v.rows
        centre = np.outer(rows.mean(axis=0), rows.mean(axis=0))
        spread = (1.0 if batch.informed else FIRST) * (self.prior_v.second_moment(rows) - centre)
        return self._after(batch, Overlaps(*(centre + spread,) * 3))

    def refined(self, batch: TypicalEvidence, now: MatrixLaw) -> MatrixLaw:
        return self._after(batch, self.overlap_v(self.overlap_u(now.lam)))

    def settled(self, batch: TypicalEvidence, now: MatrixLaw) -> MatrixLaw | None:
        if not batch.optimal:
            return None
        starts = (ConvergedColumns(batch.alpha, informed) for informed in (False, True))
        return min((absorb(self, start, CONVERGED)[0] for start in starts), key=self.energy)

    def change_from(self, old: MatrixLaw) -> float:
        scale = max(float(np.abs(self.lam.precision).max()), np.finfo(np.float64).tiny)
        moved = (np.abs(a - b).max() for a, b in zip(self.lam, old.lam, strict=True))
        return float(max(moved)) / scale

    def _after(self, batch: TypicalEvidence, share: Overlaps) -> MatrixLaw:
        """After a batch whose columns add `share` each to lambda_V."""
        lam = Overlaps(*(o + batch.alpha * new for o, new in zip(self.lam, share, strict=True)))
        return replace(self, lam=lam, columns=self.columns + batch.alpha)

    @property
    def overlap(self) -> Array:
        """lambda_V, (R, R)."""
        return self.lam.signal

    #: Labels have no squared error here: their estimates are not kept.
    label_mse = np.nan

    @property
    def variance(self) -> float:
        """The error of an entry of U that the posterior reports."""
        if self.matched:
            return self.mse
        A, G, S = (x / self.noise for x in self.lam)
        rows, noise = self.draws_u.rows, self.draws_u.noise
        total = self.prior_u.totals(A, rows @ S + noise @ root(G))[1]
        return float(np.trace(total)) / rows.size

    @property
    def power(self) -> float:
        """Mean of the squared estimate of an entry of U."""
        return float(np.trace(self.overlap_u(self.lam).precision)) / self.prior_u.dim

    @cached_property
    def mse(self) -> float:
        """Mean squared error of an entry of U."""
        power, _, cross = self.overlap_u(self.lam)
        rows = self.draws_u.rows
        second = self.prior_u.second_moment(rows) if self.matched else rows.T @ rows / len(rows)
        return float(np.trace(second - 2.0 * cross + power)) / self.prior_u.dim

    @property
    def label_error(self) -> float:
        """0-1 loss of the labels of the columns that arrive now; nan where there are none."""
        if not self.matched:
            return np.nan
        A = self.overlap_u(self.lam).precision / self.noise
        return self.prior_v.label_loss(A, self.draws_v.rows, self.draws_v.noise)

    def energy(self, after: MatrixLaw) -> float:
        M_U, alpha = self.overlap_u(after.lam).precision, after.columns - self.columns
        return self.free_energy(M_U, after.lam.precision, self.lam.precision, alpha)

    def free_energy(self, M_U: Array, lam: Array, before: Array, alpha_b: float) -> float:
        """The replica free energy of a batch, per row of U (errata L8)."""
        energy = 0.5 * float(np.sum(M_U * (lam - before))) / self.noise
        of_u, of_v = (
            prior.mean_log_partition(x / self.noise, draws.rows, draws.noise)
            for prior, draws, x in (
                (self.prior_u, self.draws_u, lam),
                (self.prior_v, self.draws_v, M_U),
            )
        )
        return energy - of_u - alpha_b * of_v


def _covariance(prior: RowPrior) -> Array | None:
    """The covariance (R, R) of a prior of mean 0; None of one with a mean."""
    R = prior.dim
    mean, cov = prior.moments(np.zeros((R, R)), np.zeros((1, R)))
    cov = np.reshape(cov, (R, R))
    return None if np.abs(mean).max() > 1e-9 * np.sqrt(np.trace(cov)) else cov
