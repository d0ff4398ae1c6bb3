"""A batch of rows, absorbed by the solver that suits them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from miniamp.absorb import Evidence, Step
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.channels.gaussian import Gaussian
from miniamp.designs import Design
from miniamp.errors import InvalidInputError
from miniamp.evidence.base import DrawnRows
from miniamp.evidence.batch import Batch
from miniamp.evidence.robust import RobustBatch
from miniamp.posterior import Moments, Posterior
from miniamp.tilt import Tilt

#: The largest singular value squared, over what independent entries would have, up to which AMP is
#: trusted. The estimate made here is 0.7 to 0.8 for independent designs, and 2 to 60 for AR(.95)
#: features, common factors or a mean.
TRUSTED = 1.0
#: Turns of the power iteration: enough to bring out an outlier, at the price of a few sweeps.
TURNS = 3
#: So few rows cost the robust solver no more than AMP, and it is exact for one.
FEW = 4


class AutoBatch(DrawnRows):
    """Rows (Phi, y), absorbed by AMP where the design allows it and by the robust solver elsewhere.

    What decides is the largest singular value of the rows, once rows and columns are brought to one
    scale: AMP is right for designs whose value is that of independent entries. A batch that looks
    independent and yet comes out contradicting itself is done again by the robust solver. `Info`
    says which solver was taken, and why.

    Parameters
    ----------
    Phi : (M, N) array, scipy.sparse matrix or Design
        The rows.
    y : (M,) array
        What was observed.
    channel : Channel
        How it came about.
    solver : str
        "auto", or "amp" or "robust" to choose oneself.
    because : str, optional
        Why a solver was chosen by the caller, for `Info.reason`.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp import Posterior, absorb, channels, priors
    >>> rng = np.random.default_rng(0)
    >>> Phi = rng.normal(size=(50, 100)) + 2.0
    >>> rows = AutoBatch(Phi, Phi @ rng.normal(size=100), channels.Gaussian(var=0.01))
    >>> belief, info = absorb(Posterior(priors.Gaussian(), 100), rows)
    >>> info.solver
    'robust'
    """

    def __init__(
        self,
        Phi: Given,
        y: Given,
        channel: Channel,
        *,
        solver: str = "auto",
        because: str = "as asked",
    ) -> None:
        if solver not in ("auto", "amp", "robust"):
            raise InvalidInputError(
                f"solver: got {solver!r}, expected 'auto', 'amp' or 'robust'; 'auto' suits any rows"
            )
        self.solver, self.because = solver, because
        self.amp = Batch(Phi, y, channel)
        self.design, self.y, self.channel = self.amp.design, self.amp.y, self.amp.channel

    @property
    def rows(self) -> int:
        return self.design.shape[0]

    @cached_property
    def robust(self) -> RobustBatch:
        """The same rows for the robust solver."""
        return RobustBatch(self.design, self.y, self.channel)

    @cached_property
    def outlier(self) -> float:
        """The largest singular value squared over that of independent entries."""
        return spectral_outlier(self.design)

    def with_channel(self, channel: Channel) -> AutoBatch:
        """The same rows through another channel; what was measured of them is kept."""
        new = AutoBatch(self.design, self.y, channel, solver=self.solver, because=self.because)
        if "outlier" in self.__dict__:
            new.__dict__["outlier"] = self.outlier
        return new

    def choice(self, belief: Posterior) -> tuple[Batch | RobustBatch, str]:
        """The solver for these rows and this belief, and why."""
        if self.solver != "auto":
            return (self.amp if self.solver == "amp" else self.robust), self.because
        if belief.remembered is not None:
            return self.robust, "the belief remembers rows"
        if self.rows < FEW:
            return self.robust, "few rows cost the robust solver nothing"
        found = f"largest singular value squared {self.outlier:.2f} of independent entries'"
        return (self.amp if self.outlier < TRUSTED else self.robust), found

    def start(self, belief: Posterior) -> tuple[Moments, Any]:
        return self.choice(belief)[0].start(belief)

    def refine(self, belief: Posterior, estimate: Moments, memory: Any) -> Step:
        chosen, reason = self.choice(belief)
        step = chosen.refine(belief, estimate, memory)
        solver = "robust" if chosen is not self.amp else "amp"
        return step._replace(solver=solver, reason="; ".join(filter(None, [reason, step.reason])))

    def conclude(self, belief: Posterior, step: Step) -> Posterior:
        new: Posterior = self.choice(belief)[0].conclude(belief, step)
        return new

    def total(self, belief: Posterior, step: Step) -> Tilt:
        return self.choice(belief)[0].total(belief, step)

    def cavity(self, step: Step) -> tuple[Array, Array]:
        return (self.amp if step.solver == "amp" else self.robust).cavity(step)

    def remedies(self) -> Iterable[tuple[str, Evidence]]:
        if self.solver == "auto":
            yield "the robust solver", self.robust

    def diagnosis(self) -> str:
        return self.amp.diagnosis()


def spectral_outlier(design: Design) -> float:
    """The largest singular value squared of the rows over (sqrt M + sqrt N)^2, about 1 if i.i.d.

    Of the entries Phi_ij / (a_i b_j), with a and b the scales of rows and columns: heterogeneous
    scales alone do AMP no harm. From below, by a few turns of the power iteration from a fixed
    start.

    Examples
    --------
    >>> import numpy as np
    >>> from miniamp.designs import as_design
    >>> Phi = np.random.default_rng(0).normal(size=(200, 300))
    >>> spectral_outlier(as_design(Phi)) < 1.1 < spectral_outlier(as_design(Phi + 1.0))
    True
    """
    M, N = design.shape
    zeros, unit = np.zeros(N), Gaussian(1.0)
    # Both scales and products from the two passes that every design has.
    row_power = design.forecast(zeros, np.ones(N))[1]
    column_power = design.sandwich(zeros, zeros, np.zeros(M), unit, None).curvature
    total = float(np.sum(row_power))
    if total == 0.0:
        return 0.0
    with np.errstate(divide="ignore"):
        a = np.where(row_power > 0.0, np.sqrt(N / row_power), 0.0)
        b = np.where(column_power > 0.0, np.sqrt(total / (N * column_power)), 0.0)
    live_rows, live_columns = int((a > 0.0).sum()), int((b > 0.0).sum())
    u = np.random.default_rng(0).normal(size=N) * (b > 0.0)
    size = 0.0
    for _ in range(TURNS):
        u = u / np.linalg.norm(u)
        w = a * design.forecast(b * u, zeros)[0]
        u = b * design.sandwich(zeros, np.zeros(()), a * w, unit, None).pull
        size = float(w @ w)
        if size == 0.0:
            return 0.0
    return float(np.linalg.norm(u) / (np.sqrt(live_rows) + np.sqrt(live_columns)) ** 2)
