"""The error on new rows that follows from the error on the coefficients."""

from __future__ import annotations

import numpy as np

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.theory.curves import Curve
from miniamp.theory.output import checked_channel, forecast_rule
from miniamp.theory.scalar import checked_prior


def generalisation_error(
    prior: Given, channel: Given, curve: Curve, true_channel: Given = None
) -> Array:
    """The expected error on a new row, at every point of a curve.

    For channels with classes the probability that the likelier class is wrong, for others the mean
    square of y minus its predicted mean (Delta + E for the Gaussian channel).

    Parameters
    ----------
    prior, channel
        What is believed, as for the curve.
    curve : Curve
        From `learning_curve` or one of its kin.
    true_channel : Channel, optional
        What rows are drawn from, if another channel.

    Returns
    -------
    (K,) array

    Examples
    --------
    >>> from miniamp import channels, priors, theory
    >>> prior, channel = priors.Rademacher(), channels.Probit(var=0.0)
    >>> curve = theory.learning_curve(prior, channel, alpha_b=1.0, batches=3)
    >>> theory.generalisation_error(prior, channel, curve).round(6)
    array([0.230626, 0.109956, 0.      ])
    """
    checked_prior("prior", prior)
    channel = checked_channel("channel", channel)
    true = channel if true_channel is None else checked_channel("true_channel", true_channel)
    if not isinstance(curve, Curve):
        raise checks.refuse(
            "curve", type(curve).__name__, "a Curve", "make one with theory.learning_curve"
        )
    rows = zip(curve.mse, curve.variance, curve.overlap, curve.power, strict=True)
    return np.array([_error(channel, true, *(float(v) for v in row)) for row in rows])


def _error(
    channel: Channel, true: Channel, mse: float, variance: float, overlap: float, power: float
) -> float:
    # Given the forecast omega, z ~ N(omega m/q, E - (q - m)^2/q); see TypicalBatch.
    ratio = overlap / power if power > 0.0 else 0.0
    V = mse - ((power - overlap) ** 2 / power if power > 0.0 else 0.0)
    closed = true.label_error(ratio * np.sqrt(max(power, 0.0)), max(V, 0.0))
    if closed is not None and hasattr(channel, "predict_proba"):
        return closed
    shifts = channel.shift_invariant and true.shift_invariant
    if shifts:
        return float(np.squeeze(true.predict(0.0, mse)[1]))
    omega, weights = forecast_rule((channel, true), power, min(variance, V))
    if hasattr(channel, "predict_proba") and hasattr(true, "predict_proba"):
        guess = np.argmax(channel.predict_proba(omega, variance), axis=-1)
        chances = true.predict_proba(ratio * omega, V)
        wrong = chances.sum(axis=-1) - np.take_along_axis(chances, guess[:, None], axis=-1)[:, 0]
        return float(weights @ wrong)
    mean = channel.predict(omega, variance)[0]
    true_mean, true_variance = true.predict(ratio * omega, V)
    return float(weights @ (true_variance + np.square(mean - true_mean)))
