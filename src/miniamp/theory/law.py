"""The law: what N coefficients' posteriors look like when N is large, in three numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from miniamp import checks
from miniamp.priors.base import ScalarPrior
from miniamp.theory.scalar import field_rule, scalar_channel

#: A mean below this share of the standard deviation is none.
CENTRED = 1e-9


class Errors(NamedTuple):
    """What a batch needs to know of a law: errors made, and errors believed."""

    mse: float  #: E, the mean of (estimate - x)^2
    variance: float  #: V, the error that the posterior believes in; E where all is matched
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

    @property
    def mse(self) -> float:
        """E of Theorem 1."""
        return self.errors.mse

    @property
    def variance(self) -> float:
        """V of Theorem 1."""
        return self.errors.variance

    @property
    def matched(self) -> bool:
        """Whether the posterior is the true one, so that one number is enough."""
        return self.truth is None and self.lam == self.gamma == self.signal

    @cached_property
    def errors(self) -> Errors:
        """Errors made and believed.

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
