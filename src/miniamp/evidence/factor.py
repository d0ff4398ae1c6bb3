"""A batch of columns of a low-rank matrix, absorbed by low-rank approximate message passing."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from miniamp import checks
from miniamp.absorb import Step, WholeEvidence
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.evidence.base import checked_channel
from miniamp.evidence.batch import CAREFUL_DAMPING
from miniamp.evidence.factor_scores import STARTS, scores_of
from miniamp.posterior import Posterior
from miniamp.priors import RowPrior
from miniamp.tilt import Tilt


class Factor(NamedTuple):
    """A factor as now believed: means of its rows, and the sum of their covariances (R, R)."""

    mean: Array
    total: Array
    #: Of V, the tilt of its prior that says so; None for a start that no message has produced.
    tilt: Tilt | None = None
    product: Array = np.empty(0)  #: of V, J V, which the next iteration and the health figure need

    def damped(self, old: Factor, damping: float) -> Factor:
        """This factor, of which the share `damping` is as before."""
        if damping == 0.0:
            return self
        parts = (self.mean, old.mean), (self.total, old.total)
        mean, total = ((1.0 - damping) * new + damping * before for new, before in parts)
        return self._replace(mean=mean, total=total)


class Factors(Posterior):
    """A belief about U that also knows the columns it absorbed last."""

    #: (M, R) means of V for the last batch: for one-hot priors the probabilities of its
    #: labels.
    columns: Array | None = None
    #: Bethe estimate of log P(batch | what was known before); nan before any batch. The higher of
    #: two, for the same batch, is the better account of it.
    log_evidence: float = np.nan
    #: Mean square of what scale U V' leaves of the last batch; nan where none was absorbed.
    residual: float = np.nan

    @classmethod
    def after(
        cls, belief: Posterior, tilt: Tilt, columns: Array, log_evidence: float, residual: float
    ) -> Factors:
        """`belief` with `tilt` added, and the result for the columns of the batch."""
        new = cls(belief.prior, belief.size, belief.tilt + tilt)
        new.__dict__.update(columns=columns, log_evidence=log_evidence, residual=residual)
        return new

    def renamed(self, order: NDArray[np.intp]) -> Factors:
        """The same belief with its components in another order."""
        assert self.columns is not None
        tilt = Tilt(self.tilt.A[np.ix_(order, order)], self.tilt.B[:, order])
        start, kept = Posterior(self.prior, self.size), (self.log_evidence, self.residual)
        return Factors.after(start, tilt, self.columns[:, order], *kept)


FactorStep = Step[Tilt, Factor, Factor]


class FactorBatch(WholeEvidence):
    """Columns Y (N, M) seen through a channel, Y ~ P(. | w = scale U V'), with U as the belief.

    Low-rank AMP (appendix A.2 with errata L1 to L7): one batch of its Mini-AMP, or all of it
    offline when the batch is everything. Tilts of U have A (R, R) and B (N, R). A channel enters by
    its score and Fisher information at w = 0. `absorb` returns `Factors`, whose `columns` are the
    labels' probabilities; the order of the labels is carried by the belief.

    Cost of an iteration: O(nnz(Y) R + (N + M) R^2), and N R^3 more for mean-field rows.

    Parameters
    ----------
    Y : (N, M) array, scipy.sparse matrix or Distributed
        The columns; a sparse matrix is never densified. Of a distributed design the rows are taken,
        (M, N), one per sample: they stay on their workers.
    channel : Channel
        How an entry comes from w; one for all, or one per row of Y (see `FactorScores`).
    prior_v : RowPrior
        Prior of the rows of V, such as priors.OneHot(R).
    scale : float, optional
        The factor in w = scale U V'. 1/sqrt(N) by default, the convention of the theory; real data
        in their own units take 1. Prior of U, noise and scale share one convention (errata L3).
    start : str or (M, R) array
        "belief": from what is known of U. "noise", "spectral" or "kmeans++": break the symmetry.
        "auto": "belief" where it tells the components apart, else "noise". An array: these means.
    damping : float
        Share of the old means that is kept at each iteration. Not needed for data of the model.
    mean_field : bool
        Variational mean field instead of message passing: no Onsager terms, and second moments
        where those have products of means. Never diverges, also with few or dependent rows, where
        the expansion behind message passing fails; less accurate where that holds.
    rng : numpy.random.Generator or int
        For the starts that are random.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import Posterior, absorb, channels, priors
    >>> rng = np.random.default_rng(0)
    >>> U, labels = rng.normal(size=(200, 2)), rng.integers(2, size=400)
    >>> Y = U[:, labels] / np.sqrt(200) + 0.2 * rng.normal(size=(200, 400))
    >>> columns = FactorBatch(Y, channels.Gaussian(var=0.04), priors.OneHot(2), rng=0)
    >>> belief, info = absorb(Posterior(priors.GaussianRows(2), 200), columns)
    >>> agreement = np.mean(belief.columns.argmax(axis=1) == labels)
    >>> bool(max(agreement, 1.0 - agreement) > 0.9)
    True
    """

    def __init__(
        self,
        Y: Given,
        channel: Channel,
        prior_v: RowPrior,
        *,
        scale: float | None = None,
        start: Given = "auto",
        damping: float = 0.0,
        mean_field: bool = False,
        rng: Given = 0,
    ) -> None:
        if not isinstance(prior_v, RowPrior):
            raise checks.refuse(
                "prior_v", repr(prior_v), "a prior of rows", "as priors.OneHot(3) for 3 clusters"
            )
        self.prior_v = prior_v
        scale = None if scale is None else checks.number("scale", scale, above=0.0)
        self.scores = scores_of(Y, checked_channel(channel), scale)
        self.scale = self.scores.scale
        self.given_start = _checked_start(start, (self.scores.shape[1], prior_v.dim))
        self.damping = checks.number("damping", damping, least=0.0, most=0.999)  # 1 never moves
        self.mean_field = bool(mean_field)
        self.rng = rng
        #: The latest log-evidence: both the belief and the report of a batch have it.
        self._latest: tuple[FactorStep, float] | None = None

    @property
    def rows(self) -> int:
        return self.scores.shape[0] * self.scores.shape[1]

    def start(self, belief: Posterior) -> tuple[Factor, Factor]:
        prior = self._checked_belief(belief)
        U = Factor(*prior.totals(belief.total.A, belief.total.B))
        how = self.given_start
        if isinstance(how, str) and how == "auto":
            how = "belief" if _tells_apart(U.mean) else "noise"
        if isinstance(how, str) and how == "belief":
            # No Onsager term: what is known of U does not come from these columns (errata L6).
            return U, self._columns(U, None)
        if isinstance(how, str):
            how = STARTS[how](self.scores, self.prior_v, checks.generator("rng", self.rng))
        nothing = np.zeros((prior.dim, prior.dim))
        return U, Factor(how, nothing, None, self.scores.times(how))

    def refine(self, belief: Posterior, estimate: Factor, memory: Factor) -> FactorStep:
        V, beta = memory, self.scores.beta
        if self.mean_field:
            tilt = Tilt(beta * (V.mean.T @ V.mean + V.total), V.product)
        else:
            onsager = beta * (estimate.mean @ V.total)
            tilt = Tilt(beta * (V.mean.T @ V.mean), V.product - onsager)
        total = belief.total + tilt
        new_U = Factor(*self._checked_belief(belief).totals(total.A, total.B))
        U = new_U.damped(estimate, self.damping)
        new_V = self._columns(U, V)
        if self.damping and V.tilt is not None:
            new_V = new_V.damped(V, self.damping)
            new_V = new_V._replace(product=self.scores.times(new_V.mean))
        return Step(
            tilt=tilt,
            estimate=U,
            memory=new_V,
            change=_change(new_U, estimate) + float(np.mean(np.abs(new_V.mean - V.mean))),
            health=self._health(U, new_V),
        )

    def _columns(self, U: Factor, V: Factor | None) -> Factor:
        """The half-step for V: A_V = beta U'U, B_V = J'U - beta V Sigma_U."""
        beta = self.scores.beta
        fields = self.scores.transposed_times(U.mean)
        second = U.mean.T @ U.mean
        if self.mean_field:
            second = second + U.total
        elif V is not None:
            fields = fields - beta * (V.mean @ U.total)
        tilt = Tilt(beta * second, fields)
        mean, total = self.prior_v.totals(tilt.A, tilt.B)
        return Factor(mean, total, tilt, self.scores.times(mean))

    def _health(self, U: Factor, V: Factor) -> float:
        """Mean squared residual of posterior draws over the noise: 1 when the model holds."""
        # J / beta estimates U_i . V_j with variance 1 / beta, entry by entry.
        draws = U.mean.T @ U.mean + U.total, V.mean.T @ V.mean + V.total
        return self.scores.beta * self._residual(U, V, *draws)

    def _residual(self, U: Factor, V: Factor, uu: Array, vv: Array) -> float:
        """Mean square of J / beta - U V' for the second moments uu and vv of U and V."""
        beta = self.scores.beta
        cross = float(np.vdot(V.product, U.mean))
        total = self.scores.square / beta**2 - 2.0 * cross / beta + float(np.vdot(uu, vv))
        return total / self.rows

    def conclude(self, belief: Posterior, step: FactorStep) -> Posterior:
        U, V = step.estimate, step.memory
        off = self._residual(U, V, U.mean.T @ U.mean, V.mean.T @ V.mean)
        left, gain = self.scale**2 * max(off, 0.0), self.log_evidence(belief, step)
        return Factors.after(belief, step.tilt, V.mean, gain, left)

    def log_evidence(self, belief: Posterior, step: FactorStep) -> float:
        """Bethe estimate of log P(Y | belief), stationary at convergence.

        With mean_field the variational lower bound instead.
        """
        if self._latest is not None and self._latest[0] is step:
            return self._latest[1]
        U, V, beta = step.estimate, step.memory, self.scores.beta
        assert V.tilt is not None  # after a step
        prior: Any = belief.prior
        after = belief.total + step.tilt
        of_u = np.sum(prior.log_partition(after.A, after.B)) - belief.log_partition()
        of_v = np.sum(self.prior_v.log_partition(V.tilt.A, V.tilt.B))
        uu, vv = U.mean.T @ U.mean, V.mean.T @ V.mean
        conjugate = sum(
            0.5 * np.vdot(tilt.A, factor.total + second) - np.vdot(tilt.B, factor.mean)
            for tilt, factor, second in ((step.tilt, U, uu), (V.tilt, V, vv))
        )
        pairs = np.vdot(uu, vv) + np.vdot(uu, V.total) + np.vdot(vv, U.total)
        if self.mean_field:
            pairs += np.vdot(U.total, V.total)
        overlap = np.vdot(V.product, U.mean)
        gain = of_u + of_v + conjugate + overlap - 0.5 * beta * pairs
        self._latest = step, float(gain) + self.scores.log_null
        return self._latest[1]

    def remedies(self) -> Iterable[tuple[str, Self]]:
        yield "damping", self._but(damping=max(self.damping, CAREFUL_DAMPING))
        yield "mean field", self._but(mean_field=True, damping=0.0)

    def _but(self, **changes: object) -> Self:
        new = copy.copy(self)
        new.__dict__.update(changes)
        return new

    def diagnosis(self) -> str:
        return (
            "the entries are far larger than the noise of the channel and the prior of U allow; "
            f"prior, noise and scale must be of one convention, scale is {self.scale:.3g} here"
        )

    def _checked_belief(self, belief: Posterior) -> RowPrior:
        prior: Any = belief.prior
        if not isinstance(prior, RowPrior) or prior.dim != self.prior_v.dim:
            raise checks.refuse(
                "belief",
                f"the prior {prior!r}",
                f"a prior of rows of length {self.prior_v.dim}, that of prior_v",
                "use the same dim for both factors",
            )
        if belief.size != self.scores.shape[0]:
            raise checks.refuse(
                "Y",
                f"{self.scores.shape[0]} rows",
                f"{belief.size}, the size of the belief",
                "use the same features in every batch",
            )
        return prior


def _change(new: Factor, old: Factor) -> float:
    """Mean absolute change of the means over their scale as now believed."""
    power = np.sum(np.square(new.mean)) + np.trace(new.total)
    scale = np.sqrt(power / new.mean.size)
    change = float(np.mean(np.abs(new.mean - old.mean)))
    return change / float(scale) if scale > 0.0 else change


def _tells_apart(mean: Array) -> bool:
    """Whether the components differ by more than rounding."""
    spread = float(np.max(np.ptp(mean, axis=1), initial=0.0))
    return spread > 1e-12 * float(np.max(np.abs(mean), initial=0.0)) and mean.shape[1] > 0


def _checked_start(start: Given, shape: tuple[int, int]) -> Any:
    if isinstance(start, str):
        known = ("auto", "belief", *STARTS)
        if start not in known:
            raise checks.refuse("start", repr(start), f"one of {known}", "or an (M, R) array")
        return start
    means = checks.numeric("start", start)
    if means.shape != shape:
        raise checks.refuse(
            "start", f"shape {means.shape}", f"{shape}: a row for each column of Y", "transpose it"
        )
    return means
