"""A batch of rows, absorbed by mean-field variational inference: streaming variational Bayes."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from miniamp import checks
from miniamp.absorb import Step
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.channels.gaussian import NOISE_FLOOR
from miniamp.designs.sequential import Columns, private
from miniamp.evidence.base import DrawnRows, check_columns, relative_change
from miniamp.evidence.batch import tilt_evidence
from miniamp.info import Adaptation
from miniamp.posterior import Moments, Posterior
from miniamp.tilt import Tilt


class Fit(NamedTuple):
    """What a sweep leaves to the next one."""

    noise: float
    residual: Array  #: y - Phi x, (M,)


MeanFieldStep = Step[Tilt, Moments, Fit]


class MeanFieldBatch(DrawnRows[Fit]):
    """Rows (Phi, y) with Gaussian noise, absorbed by coordinate-wise variational Bayes.

    The paper's comparison (appendix, Variational Bayes): every coefficient in turn takes its
    posterior given the means of all others, which is `eq:gamp` with V = 0, and after each sweep the
    noise is learned, Delta = mean[(y - Phi x)^2 + Phi^2 v]. Learning starts at the belief the batch
    meets, where this Delta is large, and anneals: with a fixed small Delta the sweeps stop at the
    first poor minimum. The tilt that stays is that of the last sweep, A = sum_mu Phi^2 / Delta and
    B as each coefficient got it, so that the belief after the batch has exactly the means and
    variances of the sweep, at the Delta of its own batch.

    Mean field forgets that the others are uncertain, so its error bars are too small. On one batch
    that matters little; in a stream they become the next batch's prior, which is why streaming VB
    ends far above Mini-AMP.

    Parameters
    ----------
    Phi : (M, N) array, scipy.sparse matrix or Design
        The rows; a copy by columns is made once.
    y : (M,) array
        What was observed.
    channel : channels.Gaussian
        Its var is the least that the learned noise may be.
    learn_noise : bool, optional
        False keeps the noise at the channel's var.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import Posterior, absorb, channels, priors
    >>> channel = channels.Gaussian(var=1.0)
    >>> rows = MeanFieldBatch(np.eye(2), np.array([3.0, 0.0]), channel, learn_noise=False)
    >>> absorb(Posterior(priors.Gaussian(), 2), rows)[0].mean
    array([1.5, 0. ])
    """

    leaves_out = False

    def __init__(self, Phi: Given, y: Given, channel: Channel, *, learn_noise: bool = True) -> None:
        super().__init__(Phi, y, channel)
        noise = self.channel.gaussian_noise()
        if noise is None or noise.size > 1:
            raise checks.refuse(
                "channel",
                repr(channel),
                "channels.Gaussian with one variance for all rows",
                "use evidence.Batch for other channels",
            )
        self.learn_noise = learn_noise
        self._least = max(float(noise.max()), NOISE_FLOOR)

    @cached_property
    def _columns(self) -> Columns:
        return self.design.columns()

    def start(self, belief: Posterior) -> tuple[Moments, Fit]:
        check_columns(self.design, belief)
        residual = self.y - self.design.forecast(*belief.moments)[0]
        return belief.moments, Fit(self._noise(residual, belief.moments.var), residual)

    def refine(self, belief: Posterior, estimate: Moments, memory: Fit) -> MeanFieldStep:
        before = private(belief.total, estimate)
        new, residual = Moments(before.mean, before.var), memory.residual.copy()
        A, B = self._columns.descend(before, belief.prior, memory.noise, *new, residual)
        power = float(np.mean(np.square(residual)))
        return Step(
            tilt=Tilt(A, B),
            estimate=new,
            memory=Fit(self._noise(residual, new.var), residual),
            change=relative_change(new, estimate),
            health=power / memory.noise,
        )

    def log_evidence(self, belief: Posterior, step: MeanFieldStep) -> float:
        """The variational lower bound, under the noise of this batch where that is learned."""
        (noise, residual), var = step.memory, step.estimate.var
        misfit = float(np.vdot(residual, residual) + np.vdot(self._columns.power, var)) / noise
        rows = self.rows * float(np.log(2.0 * np.pi * noise)) + misfit
        return tilt_evidence(belief, step) - 0.5 * rows

    def cavity(self, step: MeanFieldStep) -> tuple[Array, Array]:
        """Refused: mean field predicts no row without itself, and its error bars are too small."""
        raise checks.refuse(
            "solver",
            "evidence.MeanFieldBatch for learning.Learn with noise=True",
            "evidence that knows each row without itself, which mean field does not; noise learned "
            "from its error bars, which are too small, grows from batch to batch",
            "use evidence.AutoBatch, or noise=False: each batch then learns its own noise",
        )

    def adapted(
        self, belief: Posterior, step: MeanFieldStep, *, sound: bool
    ) -> tuple[Self, tuple[Adaptation, ...]] | None:
        return None  # no row is known without itself

    def left_out_scores(self, step: MeanFieldStep) -> Array:
        return np.zeros(1)

    def _noise(self, residual: Array, var: Array) -> float:
        """Delta that maximises the variational bound, given means and variances."""
        if not self.learn_noise:
            return self._least
        spread = float(np.vdot(residual, residual) + np.vdot(self._columns.power, var))
        return max(spread / self.rows, self._least)
