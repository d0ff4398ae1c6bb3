"""Streaming clustering with the scikit-learn API."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import ClassifierTags, Tags, gen_even_slices
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.estimators.base import all_or_nothing
from miniamp.estimators.clusters import Clusters
from miniamp.estimators.describe import of_clusters
from miniamp.estimators.history import ClusterEntry
from miniamp.estimators.rows import (
    ACCEPTED,
    LEAST,
    MOST,
    Matrix,
    are_floats,
    blocks_of,
    first_rows,
    is_dask,
    numbers,
    require_measurable,
)
from miniamp.estimators.saving import SaveMixin, State
from miniamp.estimators.settings import ClusterSettings
from miniamp.estimators.summary import Summary, SummaryMixin
from miniamp.evidence import Factors

#: Names of the parameters that make the settings.
CLUSTERING = (
    *("n_clusters", "prior", "prior_var", "noise", "n_init_batches", "n_init", "fading"),
    *("max_iter", "tol"),
)


def measurable(X: Given, features: int) -> bool:
    """Whether X would be `rows.ready`, for who needs no ranges: a seventh of the time."""
    return are_floats(X, features) and LEAST <= max(float(X.max()), -float(X.min())) <= MOST


def _of_state(name: str, doc: str | None = None) -> Any:
    """A property of the fit state, as an attribute of the estimator."""
    described = doc or getattr(Clusters, name).__doc__
    return property(lambda self: getattr(self._learned, name), doc=described)


class MiniAMPClusterer(
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    SummaryMixin,
    SaveMixin,
    BaseEstimator,
):
    """Bayesian clustering of a stream of samples, batch by batch, in bounded memory.

    The samples are columns of a low-rank matrix with one-hot labels (`eq:lowrank`); every batch is
    absorbed by low-rank message passing, and only a tilt of the centres is kept, O(R N) numbers.
    It differs from the paper's recipe (appendix D) in three ways: the samples of the first
    `n_init_batches` are kept, and clustered again, together, whenever their number has doubled, and
    at the end; the best of several starts is chosen by its Bethe free energy, starts with a tiny
    cluster last (after a few iterations on a sample, if there are many rows); and the first batches
    get smaller weights (`fading`).

    Parameters
    ----------
    n_clusters : int, default=8
        The number R of clusters.
    prior : "gaussian" or "nonnegative", default="gaussian"
        Prior of a centre's coordinate: N(0, prior_var), or the same truncated to be >= 0.
    prior_var : float, optional
        Its variance; the mean square of the first batch by default.
    noise : "learn", "per-feature" or float, default="learn"
        Variance of a sample around its centre: learned from the residuals, one for all features or
        one per feature; or given.
    n_init_batches : int, default=5
        Number of batches after which the start is final. Their samples are kept until then. Weak
        clusters need more: 4,000 documents for 3 topics, where 200 images are enough for 3 digits.
    n_init : int, default=5
        Starts tried each time, k-means++ and small noise in turn.
    fading : float, default=1.0
        Batch k of the first K has weight (k/K)^fading, so that wrong labels at the start matter
        less. 0 weights all alike.
    batch_size : int, default=1024
        Rows per batch of `fit`.
    max_iter, tol : int, default=50; float, default=0.01
        When to stop iterating a batch: mean absolute change of centres and labels.
    random_state : int, RandomState or None, default=None
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
        Current estimate of the variance of the noise.
    labels_ : (M,) array
        Labels of the rows last passed to fit or partial_fit.
    n_samples_seen_ : int
        Number of samples learned from so far.
    posterior_ : Factors
        The posterior of the centres (one row per feature).
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

    labels_: NDArray[np.int64]
    feature_names_in_: NDArray[np.generic]
    _state: Clusters

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
        tol: float = 1e-2,
        random_state: int | np.random.RandomState | None = None,
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
        with all_or_nothing(self):
            settings = self._settings()
            size = max(checks.count("batch_size", self.batch_size), settings.n_clusters)
            start = first_rows(X) if is_dask(X) else numbers("X", X)
            first: Matrix = validate_data(self, start, **ACCEPTED)
            require_measurable("X", first)
            state = self._fresh(settings, first.shape[1])
            rows = X if is_dask(X) else first
            for part in self._blocks(rows):
                batches = max(1, part.shape[0] // size)  # none much smaller than the others
                for some in gen_even_slices(part.shape[0], batches):
                    state = state.absorbed(part[some])
            labels = np.concatenate([state.labels(part) for part in self._blocks(rows)])
            self._state, self.labels_ = state, labels
            self._warn_of_empty_clusters()
        return self

    def _blocks(self, X: Given) -> Iterator[Matrix]:
        """The rows: checked ones as they are, those of a Dask collection block by block."""
        if not is_dask(X):
            yield cast(Matrix, X)
            return
        for block in blocks_of(X):
            part = self._checked(block)
            require_measurable("X", part)
            yield part

    def partial_fit(self, X: Given, y: Given = None) -> Self:
        """Update the model with one batch of rows; an error leaves it unchanged."""
        with all_or_nothing(self):
            settings = self._settings()
            first = not hasattr(self, "_state")
            rows = cast(Matrix, X)
            if (
                first
                or hasattr(self, "feature_names_in_")
                or not measurable(X, self.n_features_in_)
            ):
                rows = validate_data(self, numbers("X", X), reset=first, **ACCEPTED)
                require_measurable("X", rows)
            old = (
                self._fresh(settings, rows.shape[1])
                if first
                else self._state.with_settings(settings)
            )
            state = old.absorbed(rows)
            assert state.last_labels is not None
            self._state, self.labels_ = state, state.last_labels
            self._warn_of_empty_clusters()
        return self

    def predict(self, X: Given) -> NDArray[np.int64]:
        """The most likely cluster of each row, (M,), with the centres held fixed."""
        return self._learned.labels(self._checked(X))

    def predict_proba(self, X: Given) -> Array:
        """Probability of each cluster for each row, (M, R), with the centres held fixed."""
        return self._learned.probabilities(self._checked(X))

    def transform(self, X: Given) -> Array:
        """Distance of each row to each centre, (M, R)."""
        return self._learned.distances(self._checked(X))

    def _settings(self) -> ClusterSettings:
        return ClusterSettings.checked(**{name: getattr(self, name) for name in CLUSTERING})

    def _fresh(self, settings: ClusterSettings, features: int) -> Clusters:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return Clusters(settings, features, seed)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_state")

    @property
    def _learned(self) -> Clusters:
        check_is_fitted(self)
        return self._state

    cluster_centers_: Array = _of_state("centres")
    cluster_std_: Array = _of_state("centre_std")
    cluster_weights_: Array = _of_state("weights")
    noise_: float | Array = _of_state("noise")
    posterior_: Factors | None = _of_state("belief", "The posterior of the centres.")
    n_samples_seen_: int = _of_state("samples", "Samples absorbed so far.")

    @property
    def n_iter_(self) -> int:
        """Iterations of the latest batch."""
        return self._learned.history[-1]["iterations"]

    @property
    def history_(self) -> list[ClusterEntry]:
        """One entry per batch, the latest 10,000."""
        return list(self._learned.history)

    @property
    def _n_features_out(self) -> int:
        return self._learned.settings.n_clusters

    def _warn_of_empty_clusters(self) -> None:
        # Clusters that share one centre are one cluster, however its samples fell on them.
        occupied = min(int(np.count_nonzero(self._state.assigned)), _apart(self.cluster_centers_))
        if occupied < self.n_clusters:
            warnings.warn(
                f"{occupied} of n_clusters={self.n_clusters} clusters have samples so far. Use "
                "more samples per batch, more starts (n_init) or fewer clusters; identical samples "
                "cannot be split",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _summary(self, level: float, names: Sequence[str] | None = None) -> Summary:
        return of_clusters(self, level, names)

    def _state_of(self, state: State) -> Clusters:
        return Clusters.from_state(state, self._settings())

    def _restore(self, fitted: State) -> None:
        # Files of version 0.1 have other names.
        old = {"labels": "labels_", "names": "feature_names_in_"}
        super()._restore({old.get(n, n): kept for n, kept in fitted.items() if kept is not None})

    def _checked(self, X: Given) -> Matrix:
        rows: Matrix = validate_data(self, numbers("X", X), reset=False, **ACCEPTED)
        return rows

    def __sklearn_tags__(self) -> Tags:
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
