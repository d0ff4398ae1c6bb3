"""Curves: what state evolution predicts, as numbers and as a plot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from miniamp.arrays import Array
from miniamp.errors import MissingExtraError


@dataclass(frozen=True, eq=False)
class Curve:
    """Errors along a stream of rows, one entry for each alpha.

    Attributes
    ----------
    alpha : (K,) array
        Rows seen so far over coefficients.
    mse, variance : (K,) arrays
        The error made, and the one believed in; equal where all is matched.
    lam, gamma : (K,) arrays
        Precision of the tilt and variance of its linear part.
    overlap, power : (K,) arrays
        Means of estimate times x and of estimate squared.
    mmse : (K,) array or None
        The error of exact inference (offline curves).
    blow_up : float or None
        The alpha at which the error of an online curve reaches 0, where it does.
    iterations : (K,) array
        Iterations of each batch; for converged ones counted when first asked for, to 1e-8.
    """

    alpha: Array
    mse: Array
    variance: Array
    lam: Array
    gamma: Array
    overlap: Array = field(repr=False)
    power: Array = field(repr=False)
    mmse: Array | None = None
    blow_up: float | None = None
    label: str = ""
    _count: Callable[[], Array] | None = field(default=None, repr=False)

    @cached_property
    def iterations(self) -> Array:
        """Iterations of each batch; zeros where there are no batches."""
        return np.zeros(len(self.alpha), dtype=np.int64) if self._count is None else self._count()

    def reaches(self, mse: float) -> float | None:
        """The first alpha at which the error is at most `mse`; None if it is not on this curve."""
        there = np.flatnonzero(self.mse <= mse)
        return float(self.alpha[there[0]]) if len(there) else None

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw the error against alpha, logarithmically, on matplotlib axes; gives the axes."""
        ax = axes() if ax is None else ax
        style.setdefault("label", self.label or "Mini-AMP")
        shown = np.where(self.mse > 0.0, self.mse, np.nan)
        (line,) = ax.semilogy(self.alpha, shown, **style)
        if self.mmse is not None:
            shown = np.where(self.mmse > 0.0, self.mmse, np.nan)
            ax.semilogy(self.alpha, shown, "--", color=line.get_color(), label="MMSE")
        if self.blow_up is not None:
            ax.axvline(self.blow_up, linestyle=":", color=line.get_color())
        ax.set_xlabel("rows / coefficients")
        ax.set_ylabel("mean squared error")
        ax.legend()
        return ax


def axes() -> Any:
    """Fresh matplotlib axes."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingExtraError(
            "plots need matplotlib: install it with pip install 'miniamp[report]'"
        ) from None
    return plt.subplots()[1]
