"""Information along a stream: what a batch adds, what is kept of it, and its log-evidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.theory.balance import Balance
from miniamp.theory.limits import learning_curve
from miniamp.theory.output import checked_channel, output_channel
from miniamp.theory.potential import mutual_information, observation_entropy
from miniamp.theory.scalar import scalar_channel
from miniamp.theory.spectrum import Spectrum


@dataclass(frozen=True, eq=False)
class InformationCurve:
    """Information after each of K batches, in nats per coefficient; (K,) arrays."""

    alpha: Array  #: rows seen so far over coefficients
    mse: Array  #: the error after the batch
    batch: Array  #: i_b: what the batch and the marginals kept before it contain about x together
    kept: Array  #: I_x(lambda_k): what the marginals kept after it contain
    gained: Array  #: what the batch added, i_b minus what was kept before it
    #: Expected log-evidence of the batch, E log p(y_k | rows before), per coefficient: the mean of
    #: the Bethe log-evidence of AMP on i.i.d. rows. nan for a design that is not i.i.d.
    log_evidence: Array

    @property
    def discarded(self) -> Array:
        """i_b - I_x(lambda_k) >= 0, thrown away with the correlations between coefficients.

        Where it is a large share of `gained`, remembered rows (memory) or larger batches pay.
        """
        return self.batch - self.kept

    @property
    def share(self) -> Array:
        """The share of what a batch added that is thrown away."""
        return self.discarded / self.gained


def information_curve(
    prior: Given,
    channel: Channel,
    alpha_b: Given,
    batches: int,
    design: Spectrum | None = None,
) -> InformationCurve:
    """What each batch of a stream adds about the coefficients, and what is thrown away after it.

    With E_k and lambda_k after batch k, and i of `mutual_information`,

        i_b = i(E_k; lambda_(k-1)),    kept = I_x(lambda_k),
        log-evidence = -(i_b - I_x(lambda_(k-1))) - alpha_b H[P(y | z)].

    Parameters
    ----------
    prior, channel, alpha_b, batches, design
        As for `learning_curve`.

    Examples
    --------
    >>> from miniamp import channels, priors, theory
    >>> curve = theory.information_curve(priors.Gaussian(), channels.Gaussian(var=0.1), 0.5, 3)
    >>> curve.gained.round(4), curve.discarded.round(4)
    (array([0.5416, 0.4283, 0.3374]), array([0.2642, 0.1819, 0.1236]))
    """
    curve = learning_curve(prior, channel, alpha_b, batches=batches, design=design)
    scalar, alpha = scalar_channel(prior), float(curve.alpha[0])
    before = np.concatenate([[0.0], curve.lam[:-1]])
    both = np.array(
        [
            mutual_information(prior, channel, mse, alpha, lam, design=design)
            for mse, lam in zip(curve.mse, before, strict=True)
        ]
    )
    gained = both - scalar.information(before)
    output = None if design is not None else output_channel(channel, scalar.power)
    noise = np.nan if output is None else observation_entropy(output)
    kept, log_evidence = scalar.information(curve.lam), -gained - alpha * noise
    return InformationCurve(curve.alpha, curve.mse, both, kept, gained, log_evidence)


def expected_log_evidence(prior: Given, channel: Channel, alpha: Given, lam: Given = 0.0) -> float:
    """E log p(y | rows before) of a batch of alpha N i.i.d. rows, per coefficient, in nats.

    The replica free energy of the batch with its sign changed, minus phi_k of the marginals kept
    before it: the mean of the Bethe log-evidence that AMP computes on such rows.

    Parameters
    ----------
    prior, channel
        The model, which is the true one.
    alpha : float
        Rows of the batch over coefficients.
    lam : float
        Precision before the batch.

    Examples
    --------
    >>> from miniamp import channels, priors, theory
    >>> value = theory.expected_log_evidence(priors.Gaussian(), channels.Gaussian(var=0.1), 0.5)
    >>> round(value, 6)  # -(log det(1 + Phi Phi'/Delta) + M log(2 pi e Delta))/(2 N) in the mean
    -0.675401
    """
    alpha = checks.number("alpha", alpha, above=0.0)
    lam = checks.number("lam", lam, least=0.0)
    balance = Balance(prior, channel, lam)
    both = float(balance.information(balance.reached(alpha)[1], alpha))
    noise = observation_entropy(output_channel(channel, balance.scalar.power))
    return float(balance.scalar.information(lam)) - both - alpha * noise


def y_mmse(prior: Given, channel: Channel, alpha: Given, lam: Given = 0.0) -> float:
    """The error of z = Phi_mu . x on a row that has been seen: the y-MMSE of a Gaussian channel.

        y_MMSE = MMSE/(1 + MMSE/Delta),    di/d(1/Delta) = (alpha/2) y_MMSE (I-MMSE)

    For other channels E (1 - E delta(E)), the same with 1/Delta replaced by what the channel adds.

    *Departure* (errata A4): print has MMSE/(1 + Delta MMSE); tests/theory/test_information.py
    differentiates the mutual information.

    Parameters
    ----------
    prior, channel, alpha, lam
        As for `expected_log_evidence`.

    Examples
    --------
    >>> from miniamp import channels, priors, theory
    >>> round(theory.y_mmse(priors.Gaussian(), channels.Gaussian(var=0.5), alpha=2.0), 6)
    0.179806
    """
    alpha = checks.number("alpha", alpha, above=0.0)
    balance = Balance(prior, channel, checks.number("lam", lam, least=0.0))
    mse = balance.reached(alpha, optimal=True)[1]
    return mse * (1.0 - mse * float(balance.output.delta(mse))) if mse > 0.0 else 0.0


def information_slope(prior: Given, channel: Channel, alpha: Given, lam: Given = 0.0) -> float:
    """di/d(1/Delta) of a Gaussian channel by the I-MMSE relation, (alpha/2) y_MMSE.

    Examples
    --------
    >>> from miniamp import channels, priors, theory
    >>> model = priors.Gaussian(), channels.Gaussian(var=0.5)
    >>> round(theory.information_slope(*model, alpha=2.0), 6)
    0.179806
    """
    if checked_channel("channel", channel).gaussian_noise() is None:
        raise checks.refuse(
            "channel", repr(channel), "a Gaussian channel",
            "the relation is that of Gaussian noise on z",
        )  # fmt: skip
    return 0.5 * checks.number("alpha", alpha, above=0.0) * y_mmse(prior, channel, alpha, lam)
