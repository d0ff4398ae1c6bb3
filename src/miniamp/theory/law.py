"""The law: what N posteriors look like when N is large; and what typical batches add to it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from miniamp import checks
from miniamp.absorb import Step, WholeEvidence
from miniamp.arrays import ArrayOrFloat, Given
from miniamp.channels.base import Channel
from miniamp.priors.base import ScalarPrior
from miniamp.theory.balance import Balance
from miniamp.theory.output import checked_channel, row_rule
from miniamp.theory.scalar import field_rule, scalar_channel
from miniamp.theory.spectrum import Spectrum, row_gain

#: The solver of a batch that is not iterated.
ROOT_SEARCH = "root search"
#: A mean below this share of the standard deviation is none.
CENTRED = 1e-9


class Errors(NamedTuple):
    """What a batch needs to know of a law: the true error, and the one the posterior reports."""

    mse: float  #: E, the mean of (estimate - x)^2
    variance: float  #: V, the error that the posterior reports; E where all is matched
    power: float  #: q, the mean of estimate^2
    excess: float  #: q - m with m the mean of estimate times x; 0 where all is matched

    @property
    def overlap(self) -> float:
        """m, the mean of estimate times x."""
        return self.power - self.excess


class Gain(NamedTuple):
    """What a typical batch adds to a law."""

    lam: float
    gamma: float
    signal: float


@dataclass(frozen=True, eq=False)
class Law:
    """The typical coefficient: tilt (lambda, b) with b ~ N(signal x, gamma) and x from the truth.

    The scalar twin of `Posterior`: `miniamp.absorb` runs Theorem 1 on it. Where prior and channel
    are the true ones, lambda = gamma = signal and one number is left (`eq:minise_nish`). With a
    Gaussian channel signal = lambda (`eq:minise`); any other mismatched channel needs the third.

    Parameters
    ----------
    prior : ScalarPrior
        What is believed of a coefficient.
    truth : ScalarPrior, optional
        What it is drawn from; the prior by default.
    lam, gamma, signal : float
        Precision of the tilt, variance and signal strength of its linear part.

    Examples
    --------
    >>> from miniamp import absorb, channels, priors, Stop
    >>> from miniamp.theory import Law, TypicalBatch
    >>> batch = TypicalBatch(0.5, channels.Gaussian(var=0.01))
    >>> law, info = absorb(Law(priors.GaussBernoulli(rho=0.3)), batch, Stop(max_iter=3))
    >>> round(law.mse, 6), law.mse == law.variance
    (0.118295, True)
    """

    prior: ScalarPrior
    truth: ScalarPrior | None = None
    lam: float = 0.0
    gamma: float = 0.0
    signal: float = 0.0

    def tilted(self, gain: Gain) -> Law:
        """The law after a batch that adds `gain`."""
        return self._with(self.lam + gain.lam, self.gamma + gain.gamma, self.signal + gain.signal)

    def _with(self, lam: float, gamma: float, signal: float) -> Law:
        return Law(self.prior, self.truth, lam, gamma, signal)

    def scaled(self, factor: float) -> Law:
        """The law with all that is known counted `factor` times, as `absorb(..., forget=factor)`.

        The tilt (lambda, b) becomes (factor lambda, factor b): the variance of b falls by factor^2,
        so that the law is matched no longer.
        """
        if factor == 1.0:
            return self
        return self._with(factor * self.lam, factor**2 * self.gamma, factor * self.signal)

    def drifted(self, drift: float) -> Law:
        """The law of the coefficients one step later, x' = sqrt(1 - drift) x + sqrt(drift) fresh.

        `fresh` is a new draw from the truth, which must have mean 0. The field b then carries
        sqrt(1 - drift) of the new x, and what it carries of the old one besides is noise of
        variance signal^2 drift Var x: exact for a Gaussian truth, right in the first two moments
        for others (`theory.long_run` is exact for those too).
        """
        truth = self.prior if self.truth is None else self.truth
        mean, variance = (float(np.squeeze(m)) for m in truth.moments(0.0, 0.0))
        if abs(mean) > CENTRED * np.sqrt(variance):
            raise checks.refuse(
                "prior", f"{truth!r} of mean {mean:.3g}", "a prior of mean 0",
                "subtract the mean from the coefficients; only what is left can drift",
            )  # fmt: skip
        noise = self.signal**2 * drift * variance
        return self._with(self.lam, self.gamma + noise, np.sqrt(1.0 - drift) * self.signal)

    def entry(self, batch: TypicalEvidence) -> Law:
        return self

    def refined(self, batch: TypicalEvidence, now: Law) -> Law:
        assert isinstance(batch, TypicalBatch)
        return self.tilted(batch.gain(self, now.errors))

    def settled(self, batch: TypicalEvidence, now: Law) -> Law | None:
        assert isinstance(batch, TypicalBatch)
        if not self.matched or batch.true_channel is not None:
            return None
        balance = Balance(self.prior, batch.channel, self.lam, batch.design)
        if now.mse <= balance.output.floor:
            added = balance.perfect_gain(batch.alpha)
        else:
            added = balance.reached(batch.alpha, batch.optimal)[0]
        return self.tilted(Gain(added, added, added))

    def change_from(self, old: Law) -> float:
        variance = relative_change(self.variance, old.variance)
        return relative_change(self.mse, old.mse) + variance

    def figures(self, floor: float) -> dict[str, ArrayOrFloat]:
        error = self.errors
        return {
            "mse": max(error.mse, floor),
            "variance": max(error.variance, floor),
            "lam": self.lam,
            "gamma": self.gamma,
            "overlap": error.overlap,
            "power": error.power,
        }

    @property
    def mse(self) -> float:
        """Mean squared error of a coefficient: E of Theorem 1."""
        return self.errors.mse

    @property
    def variance(self) -> float:
        """Error that the posterior reports: V of Theorem 1."""
        return self.errors.variance

    @property
    def matched(self) -> bool:
        """Whether the posterior is the true one, so that one number is enough."""
        return self.truth is None and self.lam == self.gamma == self.signal

    @cached_property
    def errors(self) -> Errors:
        """True and reported errors.

        The right-hand column of `eq:minise`.
        """
        if self.matched:
            scalar = scalar_channel(self.prior)
            mse = float(scalar.mmse(self.lam))
            return Errors(mse, mse, scalar.power - mse, 0.0)
        truth = self.prior if self.truth is None else self.truth
        # Given b, the truth is tilted by (signal^2/gamma, signal b/gamma); on the noise scale
        # u = b/sqrt(gamma) that is a scalar channel of this signal-to-noise ratio.
        snr = self.signal**2 / self.gamma if self.gamma > 0.0 else 0.0
        places = self.prior.landmarks()
        if snr > 0.0:
            # Where the believed posterior has its features, b = lambda x, in units of the truth's.
            places = np.concatenate([places, places * self.lam / self.signal])
            u, weights = field_rule(truth, snr, places)
        else:
            u, weights = np.zeros(1), np.ones(1)
        mean, variance = self.prior.moments(self.lam, np.sqrt(self.gamma) * u)
        true_mean, true_variance = truth.moments(snr, np.sqrt(snr) * u)
        return Errors(
            mse=float(weights @ (np.square(mean - true_mean) + true_variance)),
            variance=float(weights @ variance),
            power=float(weights @ np.square(mean)),
            excess=float(weights @ (mean * (mean - true_mean))),
        )


class AnyLaw(Protocol):
    """What typical evidence needs of a law, be it of coefficients or of a low-rank model."""

    @property
    def mse(self) -> float:
        """The error of a coefficient, or of an entry of U."""

    def scaled(self, factor: float) -> Any:
        """The law with all that is known counted `factor` times."""

    def entry(self, batch: TypicalEvidence) -> Self:
        """Where the iterations of a batch start."""

    def refined(self, batch: TypicalEvidence, now: Self) -> Self:
        """The law after a batch, from its errors `now`: one line of state evolution."""

    def settled(self, batch: TypicalEvidence, now: Self) -> Self | None:
        """The law after a batch that has converged; None where it has to be iterated."""

    def change_from(self, old: Self) -> float:
        """How far this law is from another, relative to their scale."""

    def figures(self, floor: float) -> dict[str, ArrayOrFloat]:
        """The columns of a `Curve`; errors below `floor` are none."""


LawT = TypeVar("LawT", bound=AnyLaw)


class TypicalEvidence(WholeEvidence):
    """alpha N rows or columns drawn at random, as a law absorbs them."""

    #: Infinitely many rows: chance moves nothing.
    rows = 2**53
    #: Whether it is iterated to convergence, by a root search where one number is enough.
    converged = False
    #: Whether inference is exact.
    optimal = False
    #: Whether columns start from the true labels.
    informed = False
    #: An error below this is none.
    floor = 0.0

    def __init__(self, alpha: Given) -> None:
        self.alpha = checks.number("alpha_b", alpha, above=0.0)

    def start(self, belief: LawT) -> tuple[LawT, None]:
        return belief.entry(self), None

    def refine(self, belief: LawT, estimate: LawT, memory: None) -> Step[LawT, LawT, None]:
        found = belief.settled(self, estimate) if self.converged else None
        if found is not None:
            return Step(found, found, None, change=0.0, solved=True, solver=ROOT_SEARCH)
        # Refusing rows that contradict the belief is left to the algorithm: health is 1.
        new = belief.refined(self, estimate)
        return Step(new, new, None, new.change_from(estimate), solved=self.solved(new))

    def solved(self, law: AnyLaw) -> bool:
        """Whether nothing is left to learn."""
        return False

    def conclude(self, belief: LawT, step: Step[LawT, LawT, None]) -> LawT:
        return step.estimate

    def diagnosis(self) -> str:
        return "The state evolution diverges: the belief is too far from the truth."


class TypicalBatch(TypicalEvidence):
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
    Where the channel is not the true one, the prediction omega and the true z are jointly Gaussian,
    given omega: z ~ N(omega m/q, E - (q - m)^2/q). With g of the believed channel and g_0 of the
    true one under that prediction, a batch adds alpha E(-dg) to lambda, alpha E g^2 to gamma and
    alpha E g g_0 to the signal. For two Gaussian channels these are the equations of Theorem 1.

    Examples
    --------
    >>> from miniamp import channels
    >>> TypicalBatch(0.5, channels.Gaussian(var=0.01)).alpha
    0.5
    """

    def __init__(
        self,
        alpha: Given,
        channel: Channel,
        true_channel: Channel | None = None,
        design: Spectrum | None = None,
    ) -> None:
        super().__init__(alpha)
        self.channel = checked_channel("channel", channel)
        self.floor = self.channel.error_floor
        self.true_channel = (
            None if true_channel is None else checked_channel("true_channel", true_channel)
        )
        self.design = design

    def solved(self, law: AnyLaw) -> bool:
        return law.mse <= self.floor

    def gain(self, law: Law, errors: Errors) -> Gain:
        """What the batch adds to a law whose errors are these in the meantime."""
        if law.matched and self.true_channel is None:
            power = scalar_channel(law.prior).power
            mse = max(errors.mse, self.floor)
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

    converged = True


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


def relative_change(new: float, old: float) -> float:
    """The change between two numbers over the larger of them."""
    scale = max(abs(new), abs(old))
    return abs(new - old) / scale if scale > 0.0 else 0.0
