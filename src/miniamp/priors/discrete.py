"""The discrete prior: a coefficient that takes one of a few known values."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.numerics.panels import leading, log_weights
from miniamp.priors.gaussian_mixture import GaussianMixture


class Discrete(GaussianMixture):
    """One of K points, with given probabilities.

    Parameters
    ----------
    points : (K,) or (N, K) array
        The values a coefficient can take; a second axis gives each coefficient its own.
    weights : (K,) or (N, K) array, optional
        Their probabilities, >= 0, divided by their sum; equal by default.

    Examples
    --------
    >>> mean, var = Discrete(points=[-1.0, 0.0, 1.0]).moments(A=4.0, B=[0.0, 2.0, 40.0])
    >>> [round(float(m), 3) for m in mean]
    [0.0, 0.486, 1.0]
    """

    names = ("points", "weights")  # type: ignore[assignment]  # of parts without a width
    widths: ClassVar[dict[str, int]] = {}
    centres = ()  # type: ignore[assignment]
    trailing: ClassVar[dict[str, int]] = {"points": 1, "weights": 1}

    def __init__(self, points: Given, weights: Given = None) -> None:
        self.points = checks.components("points", points)
        K = self.points.shape[-1]
        self.weights = checks.probabilities("weights", np.ones(K) if weights is None else weights)
        if self.weights.shape[-1] != K:
            raise checks.refuse(
                "weights", f"{self.weights.shape[-1]} weights", f"{K}", "give one for each point"
            )
        self.means, self.vars = self.points, np.zeros(self.points.shape)

    def _log_terms(self, A: Array, B: Array) -> tuple[Array, Array]:
        """The terms relative to that of the best point, which is the common part.

        Differences between points are formed as products, (p - q) (B - A (p + q)/2): the terms
        themselves grow to 1e14 and would leave no digit of the difference.
        """
        log_terms = log_weights(self.weights) + self.points * (B - 0.5 * A * self.points)
        points = np.broadcast_to(self.points, log_terms.shape)
        log_prior = np.broadcast_to(log_weights(self.weights), log_terms.shape)
        index = np.argmax(log_terms, axis=-1, keepdims=True)
        best, at_best = leading(points, index), leading(log_prior, index)
        slope = B - 0.5 * A * (points + best)
        common = at_best + best * (B - 0.5 * A * best)
        return log_prior - at_best + (points - best) * slope, common[..., 0]
