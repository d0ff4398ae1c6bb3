"""The typical batch: what rows drawn at random add to a law."""

from __future__ import annotations

import numpy as np

from miniamp import checks
from miniamp.absorb import Step, WholeEvidence
from miniamp.arrays import Given
from miniamp.channels.base import Channel
from miniamp.theory.balance import Balance
from miniamp.theory.law import Errors, Gain, Law
from miniamp.theory.output import checked_channel, row_rule
from miniamp.theory.potential import batch_gain, perfect_gain
from miniamp.theory.scalar import scalar_channel
from miniamp.theory.spectrum import Spectrum, row_gain

TypicalStep = Step[Gain, Errors, None]


class TypicalBatch(WholeEvidence):
    """alpha N rows drawn at random, seen through a channel: the twin of `evidence.Batch`.

    Each refinement is one line of `eq:minise` (`eq:appendix_se` for general channels).

    Parameters
    ----------
    alpha : float
        Rows over coefficients, alpha_b, > 0.
    channel : Channel
        How the observations are believed to come about.
    true_channel : Channel, optional
        How they do; as believed by default.
    design : Spectrum, optional
        The rows' singular values; i.i.d. rows by default.

    Notes
    -----
    Where the channel is not the true one, the forecast omega and the true z are jointly Gaussian,
    given omega: z ~ N(omega m/q, E - (q - m)^2/q). With g of the believed channel and g_0 of the
    true one under that forecast, a batch adds alpha E(-dg) to lambda, alpha E g^2 to gamma and
    alpha E g g_0 to the signal. For two Gaussian channels these are the equations of Theorem 1.

    Examples
    --------
    >>> from miniamp import channels
    >>> TypicalBatch(0.5, channels.Gaussian(var=0.01)).alpha
    0.5
    """

    #: Infinitely many rows: chance moves nothing.
    rows = 2**53

    def __init__(
        self,
        alpha: Given,
        channel: Channel,
        true_channel: Channel | None = None,
        design: Spectrum | None = None,
    ) -> None:
        self.alpha = checks.number("alpha_b", alpha, above=0.0)
        self.channel = checked_channel("channel", channel)
        self.true_channel = (
            None if true_channel is None else checked_channel("true_channel", true_channel)
        )
        self.design = design

    def start(self, belief: Law) -> tuple[Errors, None]:
        return belief.errors, None

    def refine(self, belief: Law, estimate: Errors, memory: None) -> TypicalStep:
        gain = self.gain(belief, estimate)
        new = belief.tilted(gain).errors
        return Step(
            tilt=gain,
            estimate=new,
            memory=None,
            change=_change(new.mse, estimate.mse) + _change(new.variance, estimate.variance),
            # Refusing rows that contradict the belief is left to the algorithm.
            health=1.0,
            solved=new.mse <= self.channel.error_floor,
        )

    def searches(self, belief: Law) -> bool:
        """Whether one refinement finds the fixed point, by a root search."""
        return False

    def conclude(self, belief: Law, step: TypicalStep) -> Law:
        return belief.tilted(step.tilt)

    def diagnosis(self) -> str:
        return "The state evolution diverges: the belief is too far from the truth."

    def gain(self, law: Law, errors: Errors) -> Gain:
        """What the batch adds to a law whose errors are these in the meantime."""
        if law.matched and self.true_channel is None:
            power = scalar_channel(law.prior).power
            mse = max(errors.mse, self.channel.error_floor)
            lam = self.alpha * float(row_gain(self.channel, power, self.design).delta(mse))
            return Gain(lam, lam, lam)
        if self.design is not None:
            raise checks.refuse(
                "design", repr(self.design), "None where the belief is not the truth",
                "give the true prior and channel, and forget nothing",
            )  # fmt: skip
        true = self.channel if self.true_channel is None else self.true_channel
        responses = self.channel.responses(
            true, errors.mse, errors.variance, errors.power, errors.excess
        )
        if responses is None:
            responses = averaged_responses(self.channel, true, errors)
        curvature, square, signal = responses
        return Gain(self.alpha * curvature, self.alpha * square, self.alpha * signal)


class ConvergedBatch(TypicalBatch):
    """A typical batch iterated to convergence, by a root search where all is matched.

    Examples
    --------
    >>> from miniamp import absorb, channels, priors
    >>> from miniamp.theory import Law
    >>> law, _ = absorb(Law(priors.Gaussian()), ConvergedBatch(1.0, channels.Gaussian(var=2.0)))
    >>> round(law.mse, 12)  # E = 1/(1 + 1/(2 + E))
    0.732050807569
    """

    #: Whether inference is exact.
    optimal = False

    def refine(self, belief: Law, estimate: Errors, memory: None) -> TypicalStep:
        if not self.searches(belief):
            return super().refine(belief, estimate, memory)
        balance = Balance(belief.prior, self.channel, belief.lam, self.design)
        if estimate.mse <= balance.output.floor:
            lam = perfect_gain(balance, self.alpha)
        else:
            lam = batch_gain(balance, self.alpha, self.optimal)
        gain = Gain(lam, lam, lam)
        return Step(gain, belief.tilted(gain).errors, None, change=0.0, solved=True)

    def searches(self, belief: Law) -> bool:
        return belief.matched and self.true_channel is None


class OptimalBatch(ConvergedBatch):
    """A typical batch taken in by exact inference: Theorem 3, the global minimum of i_RS^b.

    Examples
    --------
    >>> from miniamp import absorb, channels, priors
    >>> from miniamp.theory import Law
    >>> sparse, rows = priors.GaussBernoulli(rho=0.3), channels.Gaussian(var=1e-8)
    >>> for kind in (ConvergedBatch, OptimalBatch):
    ...     print(f"{absorb(Law(sparse), kind(0.4, rows))[0].mse:.2g}")
    0.12
    3.1e-08
    """

    optimal = True


def averaged_responses(
    channel: Channel, true: Channel, errors: Errors
) -> tuple[float, float, float]:
    """E(-dg), E g^2 and E g g_0 over omega and over y from the true channel."""
    power = max(errors.power, 0.0)
    ratio = errors.overlap / power if power > 0.0 else 0.0
    V_true = errors.mse - (errors.excess**2 / power if power > 0.0 else 0.0)
    shifts = channel.shift_invariant and true.shift_invariant
    if shifts:
        # Only y - omega matters, and z - omega is N(0, E) over all omega.
        ratio, V_true = 1.0, errors.mse
    spread, finest = 0.0 if shifts else power, min(errors.variance, V_true)
    y, omega, weights = row_rule((channel, true), true, spread, finest, V_true, ratio)
    g, curvature = channel.output(y, omega, errors.variance)
    seen, square = float(np.sum(weights * curvature)), float(np.sum(weights * np.square(g)))
    if shifts:
        return seen, square, seen
    g_true = true.output(y, ratio * omega, V_true)[0]
    return seen, square, float(np.sum(weights * g * g_true))


def _change(new: float, old: float) -> float:
    scale = max(abs(new), abs(old))
    return abs(new - old) / scale if scale > 0.0 else 0.0
