"""Curves: what state evolution predicts, and the error on new rows and rate of decay they have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.theory.output import checked_channel, forecast_rule, output_channel
from miniamp.theory.scalar import checked_prior, scalar_channel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Form = Literal["power law", "exponential", "doubly exponential", "finite"]


#: Stands for numbers that a curve does not have.
NONE = np.empty(0)


@dataclass(frozen=True, eq=False)
class Curve:
    """Errors along a stream of rows or columns, one entry for each alpha."""

    alpha: Array  #: (K,) rows seen so far over coefficients; columns per row of U if low-rank
    mse: Array  #: (K,) the true error of a coefficient (an entry of U)
    #: (K,) the error that the posterior reports: the true one where prior and channel are true.
    variance: Array
    lam: Array  #: (K,) or (K, R, R) precision of the tilt
    gamma: Array  #: (K,) or (K, R, R) variance of its linear part
    #: (K,) or (K, R, R) mean of estimate times truth; for low-rank models lambda_V, added up
    #: over the columns: of exchangeable labels the eigenvalue that distinguishes them.
    overlap: Array = field(repr=False)
    power: Array = field(repr=False)  #: (K,) mean of the estimate squared
    mmse: Array | None = None  #: (K,) the error of exact inference (offline curves)
    blow_up: float | None = None  #: the alpha at which an online error reaches 0, where it does
    label: str = ""
    #: (K,) 0-1 loss of the labels of the latest columns (offline: of all columns); empty without
    #: labels, nan where it is not computed.
    label_error: Array = field(default_factory=NONE.copy, repr=False)
    label_mse: Array = field(default_factory=NONE.copy, repr=False)  #: (K,) their squared error
    #: (K,) standard error of `mse` from quasi-Monte Carlo replicates; 0 or empty without sampling.
    error: Array = field(default_factory=NONE.copy, repr=False)
    label_error_error: Array = field(default_factory=NONE.copy, repr=False)  #: of `label_error`
    _count: Callable[[], Array] | None = field(default=None, repr=False)

    @cached_property
    def iterations(self) -> Array:
        """(K,) iterations of each batch, for converged ones to 1e-8; zeros without batches."""
        return np.zeros(len(self.alpha), dtype=np.int64) if self._count is None else self._count()

    def reaches(self, mse: float) -> float | None:
        """The first alpha at which the error is at most `mse`; None if it is not on this curve."""
        k = self.first(mse)
        return None if k is None else float(self.alpha[k])

    def first(self, mse: float) -> int | None:
        """The index of the first alpha at which the error is at most `mse`, or None."""
        there = np.flatnonzero(self.mse <= mse)
        return int(there[0]) if len(there) else None

    def head(self, number: int) -> Curve:
        """The first `number` points, without iterations."""
        cut = {
            f.name: getattr(self, f.name)[:number]
            for f in fields(self)
            if isinstance(getattr(self, f.name), np.ndarray)
        }
        return replace(self, **cut, _count=None)

    def plot(self, ax: Axes | None = None, **style: object) -> Axes:
        """Draw the error against alpha, logarithmically, on matplotlib axes; returns the axes."""
        ax = axes() if ax is None else ax
        style.setdefault("label", self.label or "Mini-AMP")
        shown = np.where(self.mse > 0.0, self.mse, np.nan)
        (line,) = ax.semilogy(self.alpha, shown, **style)
        if self.mmse is not None:
            shown = np.where(self.mmse > 0.0, self.mmse, np.nan)
            ax.semilogy(self.alpha, shown, "--", color=line.get_color(), label="MMSE")
        if self.blow_up is not None:
            ax.axvline(self.blow_up, linestyle=":", color=line.get_color())
        low_rank = len(self.label_error) > 0
        x = "columns / rows of U" if low_rank else "rows / coefficients"
        ax.set(xlabel=x, ylabel="mean squared error")
        ax.legend()
        return ax


def axes() -> Axes:
    """Fresh matplotlib axes."""
    return checks.needed("matplotlib.pyplot", "plot").subplots()[1]  # type: ignore[no-any-return]


def text_table(cells: Sequence[Sequence[str]], left: Sequence[bool] = (True,)) -> str:
    """Rows of cells as aligned text: columns that are `left` to the left, others to the right.

    Examples
    --------
    >>> print(text_table([("choice", "rows"), ("all", "1,000")]))
    choice   rows
    all     1,000
    """
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    sides = ["<" if k < len(left) and left[k] else ">" for k in range(len(widths))]
    rows = ("  ".join(map("{:{}{}}".format, row, sides, widths)) for row in cells)
    return "\n".join(row.rstrip() for row in rows)


def generalisation_error(prior: Given, channel: Given, curve: Curve) -> Array:
    """The expected error on a new row, at every point of a curve.

    For channels with classes the probability that the likelier class is wrong, for others the mean
    square of y minus its predicted mean (Delta + E for the Gaussian channel).

    Parameters
    ----------
    prior, channel
        What is believed, as for the curve.
    curve : Curve
        From `learning_curve`, `online_curve` or another of these.

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
    labels = getattr(curve, "label_error", None)
    if labels is None or len(labels):
        received = type(curve).__name__ if labels is None else "that of a low-rank model"
        raise checks.refuse(
            "curve", received, "a Curve of rows", "make one with theory.learning_curve"
        )
    rows = zip(curve.mse, curve.variance, curve.overlap, curve.power, strict=True)
    return np.array([_error(channel, *(float(v) for v in row)) for row in rows])


def _error(channel: Channel, mse: float, variance: float, overlap: float, power: float) -> float:
    # Given the prediction omega, z ~ N(omega m/q, E - (q - m)^2/q); see TypicalBatch.
    ratio = overlap / power if power > 0.0 else 0.0
    V = mse - ((power - overlap) ** 2 / power if power > 0.0 else 0.0)
    closed = channel.label_error(ratio * np.sqrt(max(power, 0.0)), max(V, 0.0))
    if closed is not None and channel.predicts_probabilities:
        return closed
    if channel.shift_invariant:
        return float(np.squeeze(channel.predict(0.0, mse)[1]))
    omega, weights = forecast_rule((channel,), power, min(variance, V))
    if channel.predicts_probabilities:
        guess = np.argmax(channel.predict_proba(omega, variance), axis=-1)
        chances = channel.predict_proba(ratio * omega, V)
        wrong = chances.sum(axis=-1) - np.take_along_axis(chances, guess[:, None], axis=-1)[:, 0]
        return float(weights @ wrong)
    mean = channel.predict(omega, variance)[0]
    true_mean, true_variance = channel.predict(ratio * omega, V)
    return float(weights @ (true_variance + np.square(mean - true_mean)))


@dataclass(frozen=True)
class DecayRate:
    """The asymptotic law of the error along a stream of equal batches."""

    #: "exponential": E ~ exp(per_alpha alpha). "power law": E ~ alpha^exponent, both rates 0.
    #: "doubly exponential": log E itself grows geometrically, rates -inf. "finite": the error is 0
    #: (or below any floor) after finitely many batches, rates -inf.
    form: Form
    per_batch: float  #: d log E for a batch
    per_alpha: float  #: d log E for a unit of rows over coefficients
    exponent: float | None = None  #: of a power law


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
    alpha_b = rho the law is doubly exponential, not 0 (tests/theory/test_reference.py).

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
