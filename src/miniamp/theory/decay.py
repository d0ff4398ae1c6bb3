"""How fast the error of a stream decays in the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from miniamp import checks
from miniamp.arrays import Given
from miniamp.theory.output import output_channel
from miniamp.theory.scalar import scalar_channel

Form = Literal["power law", "exponential", "doubly exponential", "finite"]


@dataclass(frozen=True)
class DecayRate:
    """The asymptotic law of the error along a stream of equal batches.

    Attributes
    ----------
    form : str
        "exponential": E ~ exp(per_alpha alpha). "power law": E ~ alpha^exponent, both rates 0.
        "doubly exponential": log E itself grows geometrically, rates -inf. "finite": the error is 0
        (or below any floor) after finitely many batches, rates -inf.
    per_batch, per_alpha : float
        d log E for a batch, and for a unit of rows over coefficients.
    exponent : float or None
        Of a power law.
    """

    form: Form
    per_batch: float
    per_alpha: float
    exponent: float | None = None


def decay_rate(prior: Given, channel: Given, alpha_b: Given) -> DecayRate:
    """The asymptotic decay of the error of Mini-AMP with batches of alpha_b N rows.

    Follows from epsilon at large lambda, d/lambda with d the weight of the prior's continuous part
    (or, for a discrete prior, exp(-lambda gap^2/8)), and delta at small E, E^-s with s = 1 for a
    Gaussian channel without noise, 1/2 for a jump such as the perceptron's, 0 for anything smooth:

    ========== ============================== ============================== =====================
    .          s = 1                          s = 1/2                        s = 0
    ========== ============================== ============================== =====================
    d > 0      (1 - alpha_b/d)^k              alpha^-2                       alpha^-1
    d = 0      finite                         finite                         exp(-c alpha gap^2/8)
    ========== ============================== ============================== =====================

    At alpha_b = d the upper left is doubly exponential, beyond it finite.

    Notes
    -----
    *Departure* from `eq:asymptotic`: its exponent is printed with the wrong sign (errata A5); at
    alpha_b = rho the law is doubly exponential, not 0. The test is in tests/theory/test_decay.py.

    Examples
    --------
    >>> from miniamp import channels, priors, theory
    >>> rate = theory.decay_rate(priors.GaussBernoulli(rho=0.3), channels.Gaussian(var=0.0), 0.2)
    >>> rate.form, round(rate.per_batch, 6), round(rate.per_alpha, 6)
    ('exponential', -1.098612, -5.493061)
    """
    alpha_b = checks.number("alpha_b", alpha_b, above=0.0)
    scalar = scalar_channel(prior)
    output = output_channel(channel, scalar.power)
    dimension, s = scalar.dimension(), output.exponent()
    discrete = scalar.decay() > 0.0
    if discrete and s > 0.0:
        return DecayRate("finite", -np.inf, -np.inf)
    if discrete:
        per_alpha = -float(output.delta(0.0)) * scalar.decay()
        return DecayRate("exponential", alpha_b * per_alpha, per_alpha)
    if s < 1.0:
        # d lambda/d alpha = c lambda^s, and E = d/lambda.
        return DecayRate("power law", 0.0, 0.0, exponent=-1.0 / (1.0 - s))
    if np.isclose(alpha_b, dimension, rtol=1e-9, atol=0.0):
        return DecayRate("doubly exponential", -np.inf, -np.inf)
    if alpha_b > dimension:
        return DecayRate("finite", -np.inf, -np.inf)
    per_batch = float(np.log1p(-alpha_b / dimension))
    return DecayRate("exponential", per_batch, per_batch / alpha_b)
