"""Streaming linear regression with error bars, with the face of scikit-learn."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import ndtri
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.estimators.base import ACCEPTED, StreamingEstimator
from miniamp.estimators.judge import judge_numbers
from miniamp.estimators.knowledge import Judge
from miniamp.estimators.settings import NUMBERS


class MiniAMPRegressor(RegressorMixin, StreamingEstimator):
    """Linear regression on a stream of rows, Bayesian, batch after batch, in bounded memory.

    Parameters
    ----------
    prior : str or prior
        Prior of the coefficients: "gaussian" (ridge), "sparse" (spike and slab), "laplace",
        "nonnegative", with hyper-parameters learned from the stream; or an object of
        `miniamp.priors`, which is taken at its word, for coefficients in the units of X.
    noise : "learn", float or channel
        Variance of the noise: learned, or given. Or a channel of `miniamp.channels`, such as
        StudentT for outliers or Poisson for counts.
    batch_size : "auto" or int
        Rows that `fit` takes at a time; "auto" asks the theory (`miniamp.theory.plan`) where there
        are too many for one batch.
    memory : "auto" or int
        Pseudo-rows that keep correlations between coefficients from batch to batch: 0 is the
        paper's program, the number of features is offline inference.
    forget : float
        For drifting streams: what is known counts this many times as much when a batch comes.
    solver : "auto", "amp" or "robust"
        AMP for independent features, vector AMP with memory for any; "auto" looks at the rows.
    max_iter, tol : int, float
        When to stop iterating a batch.
    fit_intercept : bool
        Whether to add an intercept, under a wide prior.
    standardize : bool
        Whether features are brought to one scale first, as seen in the first rows.
    random_state : int, RandomState or None
        For the order in which `fit` takes the rows where there are several batches.
    verbose : int
        Whether to print a line a batch.

    Attributes
    ----------
    coef_ : (N,) array
        Posterior means of the coefficients, in the units of X.
    coef_std_ : (N,) array
        Their posterior standard deviations. Under a sparse prior most are surely zero, and
        intervals made of these hold more of the coefficients than they say.
    intercept_ : float
        Posterior mean of the intercept.
    inclusion_probability_ : (N,) array
        Probability that a coefficient is not zero; ones under priors without a spike.
    posterior_ : Posterior
        The belief itself, in the standardised units, the intercept last.
    noise_ : float
        Variance of the noise as now believed.
    n_samples_seen_ : int
        Rows absorbed so far.
    history_ : list of dict
        One entry a batch: rows, iterations, solver, score and error of the forecasts before
        learning, mean variance, hyper-parameters.
    health_ : HealthReport
        What is wrong with the model, in plain words; empty when all is well.
    n_features_in_ : int
        Features of the rows.
    feature_names_in_ : (N,) array of str
        Their names, where the rows came with names.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> coef = np.array([2.0, 0.0, -1.0])
    >>> model = MiniAMPRegressor()
    >>> for _ in range(5):
    ...     X = rng.normal(size=(50, 3))
    ...     _ = model.partial_fit(X, X @ coef + 4.0 + 0.1 * rng.normal(size=50))
    >>> bool(np.all(np.abs(model.coef_ - coef) < 4.0 * model.coef_std_)), round(model.intercept_, 1)
    (True, 4.0)
    >>> mean, std = model.predict(X[:2], return_std=True)
    """

    _channel = NUMBERS

    def fit(self, X: Given, y: Given, sample_weight: Given = None) -> Self:
        """Begin anew with these rows, streamed in batches of `batch_size`.

        A weight of k counts a row k times.
        """
        return self._fit(X, y, sample_weight)

    def partial_fit(self, X: Given, y: Given, sample_weight: Given = None) -> Self:
        """Absorb one batch of rows; on any error the estimator stays as it was."""
        return self._partial_fit(X, y, sample_weight, first=not hasattr(self, "_known"))

    def predict(self, X: Given, return_std: bool = False) -> Any:
        """Forecast of y for each row, (M,); with `return_std` also its standard deviation."""
        mean, var = self._forecast(X)
        return (mean, np.sqrt(var)) if return_std else mean

    def predict_interval(self, X: Given, level: float = 0.9) -> tuple[Array, Array]:
        """Lower and upper ends between which y lies with probability `level`, (M,) each."""
        level = checks.number("level", level, above=0.0, most=1.0)
        if level == 1.0:
            raise checks.refuse("level", level, "less than 1", "nothing is certain")
        mean, var = self._forecast(X)
        reach = ndtri(0.5 + level / 2.0) * np.sqrt(var)
        return mean - reach, mean + reach

    def _forecast(self, X: Given) -> tuple[Array, Array]:
        (seen,) = self._seen(X)
        return seen.channel.predict(seen.omega, seen.V)  # type: ignore[no-any-return]

    def _validated(self, X: Given, y: Given, reset: bool) -> tuple[Any, Any]:
        X, y = validate_data(self, X, y, reset=reset, y_numeric=True, **ACCEPTED)
        return X, y

    def _targets(self, y: Any) -> Array:
        return self._settings().channel.checked(y)[:, None]

    @property
    def _judge(self) -> Judge:
        return judge_numbers

    def _take_coefficients(self, mean: Array, std: Array, intercept: Any, included: Array) -> None:
        super()._take_coefficients(mean[0], std[0], float(intercept[0]), included[0])
        self.noise_ = float(np.mean(getattr(self._known.models[0].channel, "var", np.nan)))
