"""The Gaussian mixture prior: coefficients that come in several kinds."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, Self

import numpy as np
from numpy.random import Generator

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given, Shape
from miniamp.numerics.panels import choose, leading, log_weights, shares, spread
from miniamp.priors.base import Components, ScalarPrior
from miniamp.priors.gaussian import gaussian_log_partition, gaussian_moments


class GaussianMixture(ScalarPrior):
    """N(means[k], vars[k]) with probability weights[k].

    Parameters
    ----------
    weights : (K,) or (N, K) array
        Probabilities of the components, >= 0, divided by their sum.
    means, vars : (K,) or (N, K) array
        Means and variances of the components, vars >= 0; zero makes a point mass.

    Examples
    --------
    >>> prior = GaussianMixture(weights=[0.5, 0.5], means=[-1.0, 1.0], vars=[0.1, 0.1])
    >>> mean, var = prior.moments(A=0.0, B=0.0)
    >>> round(float(mean), 12), round(float(var), 12)
    (0.0, 1.1)
    """

    names = ("weights", "means", "vars")
    widths: ClassVar[dict[str, int]] = {"vars": 2}
    centres = ("means",)
    trailing: ClassVar[dict[str, int]] = {"weights": 1, "means": 1, "vars": 1}

    def __init__(self, weights: Given, means: Given, vars: Given) -> None:  # noqa: A002
        self.weights = checks.probabilities("weights", weights)
        self.means = checks.components("means", means)
        self.vars = checks.components("vars", vars, least=0.0)
        K = self.weights.shape[-1]
        for name in ("means", "vars"):
            if getattr(self, name).shape[-1] != K:
                raise checks.refuse(
                    name, f"{getattr(self, name).shape[-1]} values", f"{K}", "give one per weight"
                )

    def components(self) -> Components:
        return Components(self.weights, self.means, self.vars)

    def log_partition(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        log_terms, common = self._log_terms(np.asarray(A)[..., None], np.asarray(B)[..., None])
        return np.asarray(common + shares(log_terms)[0])

    def _parts(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array, Array]:
        """Share, mean and variance of each component under the tilt, all of shape (..., K)."""
        A, B = np.asarray(A)[..., None], np.asarray(B)[..., None]
        share = shares(self._log_terms(A, B)[0])[1]
        means, variances = self.means, self.vars
        if variances.any():
            means, variances = gaussian_moments(means, variances, A, B)
        return share, np.broadcast_to(means, share.shape), np.broadcast_to(variances, share.shape)

    def moments(self, A: ArrayOrFloat, B: ArrayOrFloat) -> tuple[Array, Array]:
        share, means, variances = self._parts(A, B)
        best = leading(means, np.argmax(share, axis=-1, keepdims=True))
        mean, between = spread(share, means - best)
        return best[..., 0] + mean, np.sum(share * variances, axis=-1) + between

    def probabilities(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        """Posterior probability of each component, along a last axis of length K."""
        return self._parts(A, B)[0]

    def inclusion_probability(self, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        zero = (self.means == 0.0) & (self.vars == 0.0)
        return np.asarray(np.sum(self.probabilities(A, B), axis=-1, where=~zero))

    def drawn(self, rng: Generator, shape: Shape, A: ArrayOrFloat, B: ArrayOrFloat) -> Array:
        share, means, variances = self._parts(A, B)
        full = (*shape, share.shape[-1])
        chosen = choose(rng, share, shape)
        mean, var = (leading(np.broadcast_to(v, full), chosen)[..., 0] for v in (means, variances))
        return np.asarray(mean + np.sqrt(var) * rng.normal(size=shape)) if var.any() else mean

    def fitted(self, A: ArrayOrFloat, B: ArrayOrFloat, fixed: Collection[str] = ()) -> Self:
        """The prior after one EM step on whatever is shared among weights, means and vars.

        A component that no coordinate belongs to keeps its mean and variance; a point mass stays
        one.
        """
        free = self._free(fixed)
        K = self.weights.shape[-1]
        share, means, variances = (v.reshape(-1, K) for v in self._parts(A, B))
        total = np.sum(share, axis=0)
        held = total > 0.0
        safe = np.where(held, total, 1.0)
        centres = self.means
        if "means" in free:
            # Coordinates count by the precision of the component they belong to; equal where the
            # variances are shared. The change is averaged, so that a point mass does not move.
            scale = np.where(self.vars > 0.0, self.vars, 1.0)
            pull = share / (scale if scale.ndim > 1 else 1.0)
            change = np.sum(pull * (means - self.means), axis=0)
            centres = self.means + change / np.where(held, np.sum(pull, axis=0), 1.0)
        spreads = np.sum(share * (variances + np.square(means - centres)), axis=0) / safe
        if "vars" in free:
            spreads = np.where(held, spreads, self.vars)
        return self._learned(free, weights=total / np.sum(total), means=centres, vars=spreads)

    def _log_terms(self, A: Array, B: Array) -> tuple[Array, Array]:
        """log of weight times partition of each component, less a common part; and that part.

        A and B have a last axis of length 1, beside which the components are; the common part is
        without that axis.

        Where the tilt is sharper than the components, B^2/2A is common to all and so large that
        their differences would drown in its rounding: there the centred form
        -(B/A - mean)^2 / 2 (var + 1/A) is used.
        """
        sharp = np.max(self.vars, axis=-1, keepdims=True) * A > 1.0
        safe = np.where(sharp, A, 1.0)
        centred = -0.5 * safe * np.square(B / safe - self.means) / (1.0 + safe * self.vars)
        log_partition = np.where(
            sharp,
            centred - 0.5 * np.log1p(safe * self.vars),
            gaussian_log_partition(self.means, self.vars, A, B),
        )
        common = np.where(sharp, 0.5 * np.square(B) / safe, 0.0)
        return log_weights(self.weights) + log_partition, common[..., 0]
