"""Joint uncertainty of the coefficients: covariances, contrasts and draws."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from sklearn.utils.validation import check_random_state

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.estimators.state import FitState
from miniamp.evidence.linear import sites_of, solve
from miniamp.posterior import Posterior


class JointPosterior(NamedTuple):
    """Coefficients of one target and, last, the intercept, in the user's units."""

    mean: Array  #: (N + 1,)
    covariance: Array  #: (N + 1, N + 1)


def joint(state: FitState) -> list[JointPosterior]:
    """The joint posterior of each target, refused where it is not known.

    It is known where every batch was absorbed by the robust solver with at least as many remembered
    rows as coefficients: nothing about pairs of coefficients was dropped then. It is Gaussian, and
    so an approximation for priors that are not, with the means of the Gaussian behind the marginals
    (`evidence.RobustBatch`).
    """
    amp = any(entry["solver"] == "amp" for entry in state.history)
    return [
        _joint(state, model.posterior, amp, *unit)
        for model, unit in zip(state.models, state.target_units, strict=True)
    ]


def _joint(
    state: FitState, belief: Posterior, amp: bool, centre: float, y_scale: float
) -> JointPosterior:
    remembered, N = belief.remembered, state.features
    if amp or remembered is None or belief.memory < belief.size:
        kept = "none (a batch was absorbed by AMP)" if amp else f"{belief.memory} remembered rows"
        raise checks.refuse(
            "memory",
            f"{kept} for {belief.size} coefficients, whose covariances are not known",
            "at least as many remembered rows as coefficients",
            f"set {{memory={belief.size}}} and {{solver=robust}} and fit again, or use coef_std_",
        )
    found = solve(remembered.rows, remembered.targets, sites_of(belief))
    covariance = np.diag(found.D) - found.root.T @ found.root
    # From standardised features and targets to the user's: w = unit u, b = centre + ...
    scale = state.units.scale
    unit = np.divide(y_scale, scale, out=np.zeros(N), where=scale > 0.0)
    T = np.zeros((N + 1, belief.size))
    T[:N, :N] = np.diag(unit)
    T[N, :N] = -unit * state.units.centre
    T[N, N:] = y_scale
    mean = T @ found.mean
    mean[N] += centre
    return JointPosterior(mean, T @ covariance @ T.T)


class JointUncertainty(ABC):
    """What a regressor or classifier can tell of several coefficients together."""

    @property
    @abstractmethod
    def _learned(self) -> FitState:
        """The state after all rows."""

    def covariance(self) -> Array:
        """Posterior covariance of the coefficients, (N, N); of each of several classes, (K, N, N).

        Refused where it is not known, which is where `memory` is below the number of features or
        AMP has absorbed a batch: there the posterior holds marginals (`coef_std_`) alone.
        """
        N = self._learned.features
        return _squeezed([one.covariance[:N, :N] for one in joint(self._learned)])

    def contrast(self, weights: Given) -> tuple[Array, Array]:
        """Mean and standard deviation of linear combinations of the coefficients.

        Correlations count: the difference of two coefficients that stand for each other may be
        known far better than either. Refused where `covariance` is.

        Parameters
        ----------
        weights : (N,) or (C, N) array
            One combination, or several.

        Returns
        -------
        mean, std : arrays of shape () or (C,), for several classes (K,) or (K, C)

        Examples
        --------
        >>> import numpy as np
        >>> from miniamp import MiniAMPRegressor
        >>> rng = np.random.default_rng(0)
        >>> shared = rng.normal(size=200)
        >>> X = np.column_stack([shared, shared]) + 0.01 * rng.normal(size=(200, 2))
        >>> model = MiniAMPRegressor().fit(X, X.sum(axis=1) + 0.1 * rng.normal(size=200))
        >>> mean, std = model.contrast([1.0, 1.0])  # known well, unlike each of the two
        >>> bool(abs(mean - 2.0) < 4.0 * std), bool(std < 0.1 * model.coef_std_.min())
        (True, True)
        """
        N = self._learned.features
        W = checks.numeric("weights", weights)
        if W.ndim not in (1, 2) or W.shape[-1] != N:
            raise checks.refuse(
                "weights", f"shape {W.shape}", f"({N},) or (C, {N})", "one weight per feature"
            )
        found = joint(self._learned)
        mean = [W @ one.mean[:N] for one in found]
        var = [np.einsum("...i,ij,...j->...", W, one.covariance[:N, :N], W) for one in found]
        return _squeezed(mean), np.sqrt(np.maximum(_squeezed(var), 0.0))

    def sample_coefficients(
        self, size: int = 1, random_state: int | np.random.RandomState | None = None
    ) -> tuple[Array, Array]:
        """Joint draws of the coefficients and the intercept from the posterior.

        Refused where `covariance` is. `posterior_.sample` draws each coefficient from its own
        marginal, whatever is known.

        Returns
        -------
        coef : (size, N) array, or (size, K, N) for several classes
        intercept : (size,) array, or (size, K)
        """
        size = checks.count("size", size)
        rng = check_random_state(random_state)
        draws = []
        for one in joint(self._learned):
            values, vectors = np.linalg.eigh(one.covariance)
            noise = rng.standard_normal((size, len(values)))
            draws.append(one.mean + (noise * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)
        both = draws[0] if len(draws) == 1 else np.stack(draws, axis=1)
        return both[..., :-1], both[..., -1]


def _squeezed(values: list[Array]) -> Array:
    """One array of what each target has, without an axis where there is one target."""
    return np.asarray(values[0] if len(values) == 1 else np.stack(values))
