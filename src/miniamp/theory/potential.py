"""The potential: mutual information and free energy, whose stationary points are fixed points."""

from __future__ import annotations

import numpy as np

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.theory.balance import Balance, FixedPoint
from miniamp.theory.output import OutputChannel, output_channel
from miniamp.theory.scalar import scalar_channel
from miniamp.theory.spectrum import Spectrum


def mutual_information(
    prior: Given,
    channel: Given,
    mse: Given,
    alpha: Given,
    lam: Given = 0.0,
    design: Spectrum | None = None,
) -> Array:
    """i_RS^b(E), in nats per coefficient: rows and tilt together about x.

        i(E) = I_x(lambda + alpha delta(E)) - alpha delta(E) E/2 + alpha J(E),

    with I_x of the scalar channel and J of the output channel. Its smallest value over E is the
    mutual information, and the E where it is taken the MMSE (Theorems 2 and 3).

    Parameters
    ----------
    prior, channel
        The model.
    mse : array
        Errors E, 0 <= E <= E x^2.
    alpha : float
        Rows of the batch over coefficients.
    lam : float
        Precision before the batch.
    design : Spectrum, optional
        The rows' singular values; i.i.d. rows by default.

    Returns
    -------
    array
        Of the shape of mse.

    Notes
    -----
    *Departure* from `eq:miniphi`: the printed term +E/(Delta + E) has the wrong sign and the
    constant -(1 + alpha_b)/2 should be -1/2 (errata A1, A2). With J = log(1 + E/Delta)/2 and
    delta = 1/(Delta + E) ours is the corrected form, the one that is stationary at the fixed
    points of state evolution and equals the exact Marchenko-Pastur value
    (tests/theory/test_potential.py).

    Without noise i is infinite; it is then given for a noise of 1e-30, which shows its shape.

    Examples
    --------
    >>> from miniamp import channels, priors, theory
    >>> prior, channel = priors.Gaussian(), channels.Gaussian(var=0.1)
    >>> i = theory.mutual_information(prior, channel, [0.574166], alpha=0.5)
    >>> [round(float(value), 6) for value in i]
    [0.541578]
    """
    alpha = checks.number("alpha", alpha, least=0.0)
    lam = checks.number("lam", lam, least=0.0)
    balance = Balance(prior, channel, lam, design)
    errors = _checked_errors("mse", mse, balance.scalar.power)
    if alpha == 0.0:
        return np.broadcast_to(balance.scalar.information(lam), errors.shape).copy()
    return balance.information(errors, alpha)


def free_energy(
    prior: Given, channel: Given, m: Given, m_hat: Given, alpha: Given, lam: Given = 0.0
) -> Array:
    """phi_k(m, m_hat; lambda), stationary in both arguments at the fixed points.

        phi = m m_hat/2 - E log Z_x(lambda + m_hat, b) - alpha E log Z_z(y, omega, E x^2 - m)

    Parameters
    ----------
    prior, channel
        The model.
    m, m_hat : arrays
        Overlap, 0 <= m <= E x^2, and its conjugate >= 0; they broadcast.
    alpha, lam : float
        Rows over coefficients, and the precision before the batch.

    Notes
    -----
    At m_hat = alpha delta(E), E = E x^2 - m, the mutual information is
    phi - alpha H[P(y | z)] + lambda E x^2/2 (errata A8: the last term is missing in print).

    Examples
    --------
    >>> from miniamp import channels, priors, theory
    >>> phi = theory.free_energy(priors.Gaussian(), channels.Gaussian(), 0.0, 0.0, alpha=1.0)
    >>> round(float(phi), 6)  # log(2 pi e 2)/2: y is Gaussian of variance 2
    1.765512
    """
    alpha = checks.number("alpha", alpha, least=0.0)
    lam = checks.number("lam", lam, least=0.0)
    scalar = scalar_channel(prior)
    output = output_channel(channel, scalar.power)
    m, m_hat = checks.numeric("m", m), checks.numeric("m_hat", m_hat)
    mse = _checked_errors("E x^2 - m", scalar.power - m, scalar.power)
    if (m_hat < 0.0).any():
        raise checks.refuse("m_hat", m_hat.min(), "numbers >= 0", "a batch adds precision")
    total = lam + m_hat
    log_zx = 0.5 * total * scalar.power - scalar.information(total)
    entropy = observation_entropy(output) + output.information(mse)
    return np.asarray(0.5 * m * m_hat - log_zx + alpha * entropy)


def observation_entropy(output: OutputChannel) -> float:
    """H[P(y | z)] averaged over z ~ N(0, E x^2), in nats (of a density where y is continuous)."""
    channel, power = output.channel, output.power
    # At E = E x^2 nothing is known: H(y) is one sum, and H(y | z) = H(y) - J.
    V = np.array([power])
    y, rule = channel.outcomes(np.zeros(1), V)
    log_density = channel.log_partition(y, 0.0, V[:, None])
    density = rule * np.exp(log_density)
    live = density > 0.0
    entropy = -float(np.sum(density[live] * log_density[live]) / density.sum())
    return entropy - float(output.information(power))


def fixed_points(
    prior: Given, channel: Given, alpha: Given, lam: Given = 0.0, design: Spectrum | None = None
) -> list[FixedPoint]:
    """Every fixed point of state evolution at alpha, from the largest error to the smallest.

    Stable and unstable ones alternate; the first is what AMP reaches, the stable one of smallest
    mutual information is the MMSE.

    Examples
    --------
    >>> from miniamp import channels, priors, theory
    >>> points = theory.fixed_points(priors.GaussBernoulli(rho=0.3), channels.Gaussian(1e-8), 0.4)
    >>> [(round(p.mse, 8), p.stable) for p in points]
    [(0.11534314, True), (0.00136054, False), (3e-08, True)]
    """
    alpha = checks.number("alpha", alpha, above=0.0)
    balance = Balance(prior, channel, checks.number("lam", lam, least=0.0), design)
    points = [balance.point(alpha, s, stable) for s, stable in balance.roots(alpha)]
    return points + [balance.point(alpha, None)] * balance.perfect(alpha)


def _checked_errors(name: str, mse: Given, power: float) -> Array:
    errors = checks.numeric(name, mse)
    slack = 1e-12 * power
    if errors.size and (errors.min() < -slack or errors.max() > power + slack):
        raise checks.refuse(
            name, f"values from {errors.min():.6g} to {errors.max():.6g}",
            f"errors between 0 and E x^2 = {power:.6g}", "no estimate is worse than none",
        )  # fmt: skip
    return np.clip(errors, 0.0, power)
