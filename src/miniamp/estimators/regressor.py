"""Streaming linear regression with error bars, with the scikit-learn API."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, overload

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.estimators.base import StreamingEstimator
from miniamp.estimators.rows import ACCEPTED
from miniamp.estimators.scoring import RowPrediction, score_numbers
from miniamp.estimators.settings import NUMBERS
from miniamp.estimators.summary import checked_level
from miniamp.posterior import Posterior


class MiniAMPRegressor(RegressorMixin, StreamingEstimator):
    """Bayesian linear regression on a stream of rows, batch by batch, in bounded memory.

    Several targets, y of shape (M, K), share the rows: they are standardised once, and in closed
    form their products are computed once for all targets. Prior and noise are learned for each.

    Parameters
    ----------
    prior : str or prior, default="gaussian"
        Prior of the coefficients: "gaussian" (ridge), "sparse" (spike and slab), "laplace",
        "nonnegative" or "sparse-nonnegative", with hyper-parameters learned from the stream; or an
        object of `miniamp.priors`, used as given, for coefficients in the units of X. "auto" fits
        the first three in parallel, which takes about twice as long as the slowest of them (at
        most three times), and uses the one with the highest evidence.
    noise : "learn", float or channel, default="learn"
        Variance of the noise: learned, or given. Or a channel of `miniamp.channels`, such as
        StudentT for outliers or Poisson for counts.
    batch_size : "auto" or int, default="auto"
        Rows per batch of `fit`; "auto" uses one batch if there are few rows, and otherwise what the
        theory recommends (`miniamp.theory.plan`).
    memory : "auto" or int, default="auto"
        Pseudo-rows that keep correlations between coefficients from batch to batch: 0 keeps none,
        the number of features keeps all (offline inference). "auto" keeps up to 512 within 32 MB,
        and none for sparse rows of more than 4096 features, which stay sparse.
    forget : float or "auto", default=1.0
        Forgetting factor for drifting streams: weight of everything learned before, relative to a
        new batch. "auto" learns it: the model runs with 1 and up to three neighbouring factors in
        parallel, which takes three to four times as long, and uses the best predicting factor.
    solver : "auto", "amp" or "robust", default="auto"
        AMP (fast, for many independent features), or vector AMP with memory; "auto" chooses, and
        learns from rows with Gaussian noise and prior in closed form, up to 4096 features.
    on_conflict : "adapt", "skip" or "raise", default="adapt"
        What to do with rows that contradict what was learned before. "adapt" uses what it can: a
        row far beyond its error bars is down-weighted, a batch that contradicts the past is
        absorbed with the noise it shows, or with less of the past where `forget` < 1; an entry of X
        far from all others, which y contradicts, is replaced by the mean of its feature, then also
        in rows to predict (not in sparse rows, nor in exported models).
        "skip" leaves such a batch out, "raise" raises a ConflictError and leaves the estimator as
        it was. What was done is in `history_`, under "conflicts", and a HealthWarning is issued.
    max_iter, tol : int, default=500; float, default=1e-8
        When to stop iterating a batch: after so many iterations, or at so small a relative change.
    fit_intercept : bool, default=True
        Whether to add an intercept, under a wide prior.
    standardize : bool, default=True
        Whether features are standardised first, by the mean of the first rows and the spread of
        all rows so far. Sparse rows are scaled only, not centred, unless there are up to 1024
        features and one of them is mostly filled.
    random_state : int, RandomState or None, default=None
        For the random order of the rows in `fit` if there are several batches.
    verbose : int, default=0
        Whether to print one line per batch.

    Attributes
    ----------
    coef_ : (N,) array, or (K, N) where y has K > 1 columns
        Posterior means of the coefficients, in the units of X.
    coef_std_ : (N,) or (K, N) array
        Their posterior standard deviations. Under a sparse prior most coefficients are certainly
        zero, and intervals of these widths contain more of the coefficients than their level.
    intercept_ : float, or (K,) array
        Posterior mean of the intercept.
    inclusion_probability_ : (N,) or (K, N) array
        Probability that a coefficient is not zero; ones under priors without a spike.
    posterior_ : Posterior, or list of K
        The posterior itself, in the standardised units, the intercept last.
    forget_ : float
        The forgetting factor in use, per batch of `history_`: given, or learned.
    prior_ : prior, or list of K
        The prior in use with its current hyper-parameters, for standardised features.
    noise_ : float, or (K,) array
        Current estimate of the variance of the noise.
    n_samples_seen_ : int
        Number of rows learned from so far.
    history_ : list of dict
        One entry per batch, the latest 10,000: rows, iterations, solver, score and error of the
        predictions before learning (of 256 rows of a large batch), mean variance, hyper-parameters,
        conflicts. Rows of small batches are absorbed in groups of 32, which have one entry.
    log_evidence_ : float
        Log-density of all y so far, each batch given those before it; nan where unknown.
    health_ : HealthReport
        Problems found in the stream so far, with remedies; empty if there are none.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : (N,) array of str
        Their names, if X has column names that are all strings.
    target_names_in_ : (K,) array of str
        Names of several targets, if y is a data frame.

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

    target_names_in_: NDArray[np.object_]
    _channel = NUMBERS
    _score = score_numbers
    _accepted: ClassVar[dict[str, Any]] = {**ACCEPTED, "y_numeric": True, "multi_output": True}

    @overload
    def predict(self, X: Given, return_std: Literal[False] = False) -> Array: ...
    @overload
    def predict(self, X: Given, return_std: Literal[True]) -> tuple[Array, Array]: ...
    def predict(self, X: Given, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Predicted mean of y for each row, (M,); with `return_std` also its standard deviation.

        Both are (M, K) where y had K columns.
        """
        mean, std = self._moments(self._predictions(X))
        return (mean, std) if return_std else mean

    def predict_interval(self, X: Given, level: float = 0.9) -> tuple[Array, Array]:
        """Lower and upper ends of prediction intervals of probability `level`, (M,) or (M, K).

        Where the noise is learned, quantiles of a Student t account for its own uncertainty.
        """
        level, predicted = checked_level(level), self._predictions(X)
        mean, std = self._moments(predicted)
        reach = std * self._of_targets([one.quantile(0.5 + level / 2.0) for one in predicted])
        return mean - reach, mean + reach

    @property
    def coef_(self) -> Array:
        """Posterior means of the coefficients, (N,) or (K, N)."""
        return self._single(self._learned.coefficients.mean)

    @property
    def coef_std_(self) -> Array:
        """Posterior standard deviations of the coefficients, (N,) or (K, N)."""
        return self._single(self._learned.coefficients.std)

    @property
    def intercept_(self) -> float | Array:
        """Posterior mean of the intercept; (K,) where y had K columns."""
        found = self._single(self._learned.coefficients.intercept)
        return found if found.ndim else float(found)

    @property
    def inclusion_probability_(self) -> Array:
        """Probability that a coefficient is not zero, (N,) or (K, N)."""
        return self._single(self._learned.coefficients.inclusion)

    @property
    def posterior_(self) -> Posterior | list[Posterior]:
        """The posterior in the standardised units, the intercept last; a list of K targets' own."""
        return self._posteriors if self._state.targets > 1 else self._posteriors[0]

    @property
    def noise_(self) -> float | Array:
        """Current variance of the noise, (K,) of K targets; nan where the channel has none."""
        found = self._single(self._learned.noise)
        return found if found.ndim else float(found)

    def _single(self, values: Array) -> Array:
        """Values of all targets; of one target without their axis."""
        return np.asarray(values if self._state.targets > 1 else values[0])

    def _of_targets(self, values: list[Array]) -> Array:
        return np.stack(values, axis=1) if self._state.targets > 1 else values[0]

    def _moments(self, predicted: list[RowPrediction]) -> tuple[Array, Array]:
        """Means and standard deviations, (M,) or (M, K)."""
        both = [one.channel.predict(one.omega, one.V) for one in predicted]
        mean, var = (self._of_targets([one[k] for one in both]) for k in (0, 1))
        return mean, np.sqrt(var)

    def _checked_targets(
        self, target: NDArray[np.generic], y: Given, reset: bool
    ) -> NDArray[np.generic]:
        if issparse(target):
            raise checks.refuse("y", "a sparse matrix", "an array", "use y.toarray()")
        columns = 1 if target.ndim == 1 else target.shape[1]
        if columns == 1:
            target = column_or_1d(target, warn=True)
        if reset:
            self.__dict__.pop("target_names_in_", None)
            if columns > 1 and hasattr(y, "columns"):
                self.target_names_in_ = np.array([str(name) for name in y.columns], dtype=object)
        return target
