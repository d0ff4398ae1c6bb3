"""Streaming clustering with the face of scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import ClassifierTags
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.estimators.clusters import Clusters, Settings
from miniamp.estimators.dask_rows import blocks_of, first_rows
from miniamp.estimators.saved import Saved
from miniamp.estimators.saving import labels_of, labels_state, matrix_of, matrix_state
from miniamp.estimators.tables import is_dask, require_measurable

#: What a method that looks at rows accepts.
ACCEPTED: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
#: What a clustering knows, apart from the samples it keeps and its history.
_KNOWN = (
    "features",
    "seed",
    "belief",
    "level",
    "unit",
    "counts",
    "assigned",
    "batches",
    "samples",
    "last_labels",
)


class MiniAMPClusterer(
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    Saved,
    BaseEstimator,
):
    """Clusters of a stream of samples, batch after batch, with error bars on the centres.

    The samples are columns of a low-rank matrix with one-hot labels (`eq:lowrank`); every batch is
    absorbed by low-rank message passing, and only a tilt of the centres is kept, O(R N) numbers.
    Differs from the paper's recipe (appendix D) in three documented ways: the samples of the first
    `n_init_batches` are kept until those are over, and clustered anew, together, with each of them;
    the best of several starts is taken by its Bethe free energy, starts with a tiny cluster last;
    and early batches fade.

    Parameters
    ----------
    n_clusters : int
        The number R of clusters.
    prior : "gaussian" or "nonnegative"
        Prior of a centre's coordinate: N(0, prior_var), or that cut to be >= 0.
    prior_var : float, optional
        Its variance; the mean square of the first batch by default.
    noise : "learn", "per-feature" or float
        Variance of a sample around its centre: learned from the residuals, one for all features or
        one each; or given.
    n_init_batches : int
        How many batches the start is reconsidered for. Their samples are kept meanwhile. Weak
        clusters need more: 4,000 documents for 3 topics, where 200 images are enough for 3 digits.
    n_init : int
        Starts tried each time, k-means++ and small noise in turn.
    fading : float
        Batch k of the first K weighs (k/K)^fading: mistakes of the early labels are outgrown.
        0 counts all alike.
    batch_size : int
        Rows that `fit` takes at a time.
    max_iter, tol : int, float
        When to stop iterating a batch: mean absolute change of centres and labels.
    random_state : int, RandomState or None
        For the starts.

    Attributes
    ----------
    cluster_centers_ : (R, N) array
        Posterior means of the centres.
    cluster_std_ : (R, N) array
        Posterior standard deviations of the centres.
    cluster_weights_ : (R,) array
        Share of the samples seen in each cluster, faded like the centres.
    noise_ : float or (N,) array
        Variance of the noise as now believed.
    labels_ : (M,) array
        Labels of what was last given to fit or partial_fit.
    n_samples_seen_ : int
        Samples absorbed so far.
    posterior_ : Factors
        The belief about the centres (one row a feature).
    history_ : list of dict
        For each batch: samples, iterations, converged, health, noise.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> centres = rng.normal(size=(3, 50))
    >>> model = MiniAMPClusterer(n_clusters=3, random_state=0)
    >>> for _ in range(8):
    ...     labels = rng.integers(3, size=30)
    ...     _ = model.partial_fit(centres[labels] + 0.3 * rng.normal(size=(30, 50)))
    >>> sorted(model.predict(centres).tolist())
    [0, 1, 2]
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        prior: str = "gaussian",
        prior_var: float | None = None,
        noise: str | float = "learn",
        n_init_batches: int = 5,
        n_init: int = 5,
        fading: float = 1.0,
        batch_size: int = 1024,
        max_iter: int = 50,
        tol: float = 1e-7,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.prior = prior
        self.prior_var = prior_var
        self.noise = noise
        self.n_init_batches = n_init_batches
        self.n_init = n_init
        self.fading = fading
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Given, y: Given = None) -> Self:
        """Cluster all rows of X, streamed in batches of `batch_size`; `labels_` by a second pass.

        On any error the estimator stays as it was.
        """
        with self._all_or_nothing():
            settings = self._settings()
            size = max(checks.count("batch_size", self.batch_size), settings.n_clusters)
            first = validate_data(self, first_rows(X) if is_dask(X) else X, **ACCEPTED)
            require_measurable("X", first)
            state = self._fresh(settings, first.shape[1])
            X = X if is_dask(X) else first
            for part in self._blocks(X):
                for rows in _chunks(part.shape[0], size):
                    state = state.absorbed(part[rows])
            self._take(state, np.concatenate([state.labels(part) for part in self._blocks(X)]))
            self._warn_of_empty_clusters()
        return self

    def _blocks(self, X: Any) -> Iterator[Any]:
        """The rows: checked ones as they are, those of a Dask collection a block at a time."""
        if not is_dask(X):
            yield X
            return
        for block in blocks_of(X):
            part = self._checked(block)
            require_measurable("X", part)
            yield part

    def partial_fit(self, X: Given, y: Given = None) -> Self:
        """Absorb one batch of rows; on any error the estimator stays as it was."""
        with self._all_or_nothing():
            settings = self._settings()
            first = not hasattr(self, "_state")
            rows = validate_data(self, X, reset=first, **ACCEPTED)
            require_measurable("X", rows)
            old = self._fresh(settings, rows.shape[1]) if first else self._state.under(settings)
            state = old.absorbed(rows)
            self._take(state, state.last_labels)
            self._warn_of_empty_clusters()
        return self

    def predict(self, X: Given) -> Any:
        """The likeliest cluster of each row, the centres held fixed: the second pass."""
        return self._checked_state().labels(self._checked(X))

    def predict_proba(self, X: Given) -> Array:
        """Probability of each cluster for each row, (M, R), the centres held fixed."""
        return self._checked_state().probabilities(self._checked(X))

    def transform(self, X: Given) -> Array:
        """Distance of each row to each centre, (M, R)."""
        return self._checked_state().distances(self._checked(X))

    def _settings(self) -> Settings:
        return Settings.checked(
            n_clusters=self.n_clusters,
            prior=self.prior,
            prior_var=self.prior_var,
            noise=self.noise,
            n_init_batches=self.n_init_batches,
            n_init=self.n_init,
            fading=self.fading,
            max_iter=self.max_iter,
            tol=self.tol,
        )

    def _fresh(self, settings: Settings, features: int) -> Clusters:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return Clusters(settings, features, seed)

    def _take(self, state: Clusters, labels: Any) -> None:
        self._state = state
        self.cluster_centers_ = state.centres
        self.cluster_std_ = state.centre_std
        self.cluster_weights_ = state.weights
        self.noise_ = state.noise
        self.posterior_ = state.belief
        self.n_samples_seen_ = state.samples
        self.n_iter_ = state.history[-1]["iterations"]
        self.history_ = list(state.history)
        self.labels_ = labels
        self._n_features_out = self.n_clusters

    def _warn_of_empty_clusters(self) -> None:
        # Clusters that share one centre are one cluster, however its samples fell on them.
        occupied = min(int(np.count_nonzero(self._state.assigned)), _apart(self.cluster_centers_))
        if occupied < self.n_clusters:
            warnings.warn(
                f"{occupied} clusters have samples, {self.n_clusters} were asked "
                "for: the others are empty so far. More samples a batch, more starts (n_init) or "
                "fewer clusters would help; identical samples cannot be split",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _fitted(self) -> dict[str, Any]:
        if not hasattr(self, "_state"):
            return {}
        fitted = {name: getattr(self._state, name) for name in _KNOWN}
        kept, names = self._state.kept, getattr(self, "feature_names_in_", None)
        return {
            **fitted,
            "history": [dict(entry) for entry in self._state.history],
            "kept": None if kept is None else matrix_state(kept),
            "labels": self.labels_,
            "names": None if names is None else labels_state(names),
        }

    def _take_fitted(self, fitted: dict[str, Any]) -> None:
        kept = None if fitted["kept"] is None else matrix_of(fitted["kept"])
        known = {name: fitted[name] for name in _KNOWN}
        history = tuple(fitted["history"])
        self.n_features_in_ = fitted["features"]
        if fitted["names"] is not None:
            self.feature_names_in_ = labels_of(fitted["names"])
        self._take(
            Clusters(self._settings(), **known, kept=kept, history=history), fitted["labels"]
        )

    def _checked_state(self) -> Clusters:
        check_is_fitted(self, "cluster_centers_")
        return self._state

    def _checked(self, X: Given) -> Any:
        return validate_data(self, X, reset=False, **ACCEPTED)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = self.prior == "nonnegative"
        tags.transformer_tags.preserves_dtype = []
        # scikit-learn's checks of sparse input read here how many columns predict_proba has.
        tags.classifier_tags = ClassifierTags(multi_class=self.n_clusters != 2)
        return tags


def _apart(centres: Array) -> int:
    """How many centres differ from all before them by more than a millionth of their size."""
    square = centres @ centres.T
    size = np.diag(square)
    far = size[:, None] - 2.0 * square + size
    same = np.tril(far <= 1e-12 * np.max(size, initial=0.0), k=-1).any(axis=1)
    return len(centres) - int(np.count_nonzero(same))


def _chunks(rows: int, size: int) -> Iterator[slice]:
    """Slices of about `size` rows, none much smaller than the others."""
    pieces = max(1, rows // size)
    edges = np.linspace(0, rows, pieces + 1).astype(int)
    for low, high in pairwise(edges):
        yield slice(int(low), int(high))
