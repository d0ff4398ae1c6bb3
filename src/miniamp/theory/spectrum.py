"""Designs that are not i.i.d.: state evolution from the singular values of the rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.theory.output import OutputChannel, RowGain, output_channel
from miniamp.theory.scalar import kept

#: Below this share of the smallest scale of E the gain is a straight line to 1e-12.
FLAT = 1e-6
#: Nodes in log s for the spectrum of a given condition number: at 100 the error after a batch is
#: that of 256 nodes to 3e-14.
NODES = 64
#: Steps of a root search: enough for halvings alone, from any width that occurs.
HALVINGS = 200
#: A root in logarithms is found when its function or its bracket is this small.
TINY = 1e-15


class Spectrum:
    """The singular values of a batch of rows whose right singular vectors are in general position.

    The theory of right-rotationally invariant designs: the state evolution of vector AMP, and so
    the twin of `evidence.RobustBatch`. With E the error of a coefficient, a batch adds a precision
    of 1/E - tau, where tau solves

        E = (1/N) tr (tau + gamma Phi'Phi)^-1.

    For a Gaussian channel gamma = 1/Delta, and the gain is the R-transform of the spectrum of
    Phi'Phi/Delta at -E; i.i.d. rows of variance 1/N give alpha/(Delta + E). For other channels
    gamma is the precision that the channel adds to z given its variance V_c without the channel,
    gamma = delta(V_c)/(1 - V_c delta(V_c)), the two-sided form (generalised vector AMP).

    Give it as `design=` wherever the theory takes a batch. A batch of more or fewer rows, alpha_b
    times N, then consists of independent blocks of rows like these: its gain is alpha_b/alpha times
    theirs.

    Parameters
    ----------
    singular_values : (K,) array
        Singular values of the rows as they are; an i.i.d. design has rows of norm about 1.
    columns : int
        The number N of coefficients.
    rows : int, optional
        The number of rows; K by default.

    Attributes
    ----------
    alpha : float
        Rows over columns.
    row_power : float
        Mean squared norm of a row; z has this many times the power of a coefficient.

    Examples
    --------
    >>> from miniamp import channels, priors, theory
    >>> prior, channel = priors.GaussBernoulli(rho=0.1), channels.Gaussian(var=1e-3)
    >>> for design in (None, theory.Spectrum.orthogonal(0.5), theory.Spectrum.condition(100, 0.5)):
    ...     curve = theory.learning_curve(prior, channel, 0.5, batches=1, design=design)
    ...     print(f"{curve.mse[0]:.2e}")
    4.20e-04
    3.50e-04
    2.28e-03
    """

    def __init__(self, singular_values: Given, columns: int, rows: int | None = None) -> None:
        values = checks.vector("singular_values", singular_values)
        columns = checks.count("columns", columns)
        if not values.size or (values < 0.0).any() or not values.any():
            raise checks.refuse(
                "singular_values", values, "numbers >= 0 that are not all 0",
                "take them from numpy.linalg.svd(rows, compute_uv=False)",
            )  # fmt: skip
        rows = len(values) if rows is None else checks.count("rows", rows)
        if np.count_nonzero(values) > min(rows, columns):
            raise checks.refuse(
                "singular_values", f"{np.count_nonzero(values)} that are not 0",
                f"at most min(rows, columns) = {min(rows, columns)}", "give columns and rows",
            )  # fmt: skip
        squares = np.square(values[values > 0.0])
        self._set(squares, np.full(squares.shape, 1.0 / columns), rows / columns)

    def _set(self, squares: Array, weights: Array, alpha: float) -> None:
        self.squares = squares
        self.weights = weights
        self.alpha = alpha
        self.row_power = float(weights @ squares) / alpha

    @classmethod
    def _of(cls, squares: Array, weights: Array, alpha: float) -> Spectrum:
        made = cls.__new__(cls)
        made._set(squares, weights, alpha)
        return made

    @classmethod
    def of(cls, rows: Given) -> Spectrum:
        """The spectrum of a matrix (M, N), as it is."""
        matrix = checks.numeric("rows", rows)
        if matrix.ndim != 2 or not matrix.size:
            raise checks.refuse("rows", f"shape {matrix.shape}", "a matrix", "give (M, N) rows")
        return cls(np.linalg.svd(matrix, compute_uv=False), matrix.shape[1], matrix.shape[0])

    @classmethod
    def orthogonal(cls, alpha: Given) -> Spectrum:
        """alpha N orthogonal rows of norm 1; for alpha > 1 orthogonal columns instead."""
        alpha = checks.number("alpha", alpha, above=0.0)
        return cls._of(np.array([max(1.0, alpha)]), np.array([min(1.0, alpha)]), alpha)

    @classmethod
    def condition(cls, number: Given, alpha: Given) -> Spectrum:
        """alpha N rows of mean squared norm 1 whose singular values fall geometrically.

        The largest is `number` times the smallest: the usual test of a solver.
        """
        number = checks.number("number", number, least=1.0)
        alpha = checks.number("alpha", alpha, above=0.0)
        nodes, weights = np.polynomial.legendre.leggauss(NODES)
        squares = np.exp(-(nodes + 1.0) * np.log(number))
        weights = weights / weights.sum() * min(1.0, alpha)
        return cls._of(squares * alpha / float(weights @ squares), weights, alpha)

    def __repr__(self) -> str:
        kappa = np.sqrt(self.squares.max() / self.squares.min())
        return f"Spectrum(alpha={self.alpha:g}, condition number {kappa:.3g})"

    def gain(self, channel: Given, power: float) -> RowGain:
        """What these rows add to the precision, per row over columns, as a function of E."""
        return SpectralGain(self, output_channel(channel, power * self.row_power), power)

    def resolved(self, scaled: Array) -> tuple[Array, Array]:
        """u and H = sum w c/(c + u), where sum w/(c + u) + (1 - sum w)/u is `scaled` (n,).

        c are the squared singular values and w their share of N; scaled = E gamma, u = tau/gamma.
        """
        missing = max(1.0 - float(self.weights.sum()), 0.0)
        if missing > 1e-12:
            squares, weights = np.append(self.squares, 0.0), np.append(self.weights, missing)
        else:
            squares, weights = self.squares, self.weights
        least = float(squares.min())
        above, smallest = squares - least, float(weights[squares == least].sum())
        # With t = u + least, smallest/t <= sum w/(above + t) <= 1/t brackets the root.
        log_t = root_between(
            lambda x: np.log(scaled) - np.log((weights / (above + np.exp(x)[:, None])).sum(axis=1)),
            np.log(smallest / scaled),
            -np.log(scaled),
        )
        t = np.exp(log_t)
        return t - least, ((weights * squares) / (above + t[:, None])).sum(axis=1)


class SpectralGain(RowGain):
    """delta(E) and J(E) of rows with a spectrum, per row over columns: `OutputChannel`'s twin.

    J is half the integral of delta, as for i.i.d. rows: the mutual information is stationary where
    the gain is that of state evolution.

    Examples
    --------
    >>> from miniamp import channels
    >>> rows, channel = Spectrum.orthogonal(1.0), channels.Gaussian(var=0.5)
    >>> gain = rows.gain(channel, power=1.0)
    >>> round(float(gain.delta(1.0)), 12)  # 1/Delta: orthogonal coefficients do not interfere
    2.0
    """

    def __init__(self, design: Spectrum, output: OutputChannel, power: float) -> None:
        self.design = design
        self.output = output
        self.channel, self.power, self.floor = output.channel, power, output.floor
        self.blind = output.blind
        # The rank over the number of rows.
        self.residue = min(float(design.weights.sum()), 1.0) / design.alpha
        scale = output.scale / float(design.squares.max())
        end = FLAT * min(power, scale) if scale > 0.0 else output.end / design.row_power
        decades = np.ceil(np.log10(power / end))
        # Panels end exactly at E = power, beyond which there is nothing to know.
        self.end = power * 10.0**-decades

    @property
    def onset(self) -> float:
        return float(self.delta((1.0 - 1e-6) * self.power)) / 1e-6  # from just below

    def exponent(self) -> float:
        return self.output.exponent()

    def _log_delta(self, log_mse: Array) -> Array:
        mse = np.minimum(np.exp(log_mse), self.power)
        gamma = self.output.constant_precision
        H = self._two_sided(mse) if gamma is None else self.design.resolved(mse * gamma)[1]
        return np.asarray(np.log(H / (mse * self.design.alpha)))

    def _two_sided(self, mse: Array) -> Array:
        """H where the channel's precision gamma and the variance V_c of z agree."""
        alpha, most = self.design.alpha, self.output.power

        def without(log_gamma: Array) -> tuple[Array, Array]:
            gamma = np.exp(log_gamma)
            H = self.design.resolved(mse * gamma)[1]
            return np.minimum(H / (gamma * np.maximum(alpha - H, 1e-300)), most), H

        def excess(log_gamma: Array) -> Array:
            V, _ = without(log_gamma)
            delta = self.output.delta(V)
            return log_gamma - np.log(delta / np.maximum(1.0 - V * delta, 1e-300))

        widest = np.minimum(mse * self.design.row_power, most)
        first = np.log(self.output.delta(widest))
        # A row that is better known than by its prior alone adds no less, so `first` is a bound.
        low, high = first - 1.0, first + 1.0
        for _ in range(HALVINGS):
            still = excess(high) < 0.0
            if not still.any():
                break
            high = np.where(still, high + 4.0, high)
        return without(root_between(excess, low, high))[1]


def root_between(rising: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """The root of each of n rising functions within its bracket, to rounding.

    False position with Illinois weights, and a halving every third time. Two-sided gains take a
    quarter to two fifths of the time that bisection alone does.
    """
    f_low, f_high = rising(low), rising(high)
    for k in range(HALVINGS):
        with np.errstate(divide="ignore", invalid="ignore"):
            x = low - f_low * (high - low) / (f_high - f_low)
        x = np.where((k % 3 == 2) | ~((low < x) & (x < high)), 0.5 * (low + high), x)
        f = rising(x)
        done = (np.abs(f) < TINY) | (high - low <= TINY * (1.0 + np.abs(x)))
        if done.all():
            return x
        below = f < 0.0
        f_low, f_high = np.where(below, f, 0.5 * f_low), np.where(below, 0.5 * f_high, f)
        low, high = np.where(below, x, low), np.where(below, high, x)
        # A root that is found keeps a bracket of no width.
        low, high = np.where(done, x, low), np.where(done, x, high)
    return x


@kept
def row_gain(channel: Given, power: float, design: Spectrum | None = None) -> RowGain:
    """The gain of rows of this design, i.i.d. ones by default, made once for each pair."""
    if design is None:
        return output_channel(channel, power)
    if not isinstance(design, Spectrum):
        raise checks.refuse(
            "design", repr(design), "a theory.Spectrum", "make one with theory.Spectrum.of(rows)"
        )
    return design.gain(channel, power)
