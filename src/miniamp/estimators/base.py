"""Base class of the streaming regressor and classifier."""

from __future__ import annotations

import sys
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    check_random_state,
    validate_data,
)

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.designs.distributed import Distributed
from miniamp.errors import ConflictError
from miniamp.estimators.describe import entry_line, of_coefficients, to_arviz
from miniamp.estimators.health import HealthReport, HealthWarning, blocks, diagnose, findings
from miniamp.estimators.history import Entry, expected_error, prior_of
from miniamp.estimators.rows import (
    ACCEPTED,
    Collection,
    Matrix,
    Rows,
    as_dask_array,
    blocks_of,
    current_client,
    first_rows,
    is_dask,
    numbers,
    plain,
    ready,
    ready_targets,
    require_measurable,
)
from miniamp.estimators.saving import SaveMixin, State
from miniamp.estimators.scoring import RowPrediction, Scorer
from miniamp.estimators.settings import CHECKED, ModelSettings, cut, takes_amp
from miniamp.estimators.state import FitState
from miniamp.estimators.summary import JointUncertainty, Summary, SummaryMixin
from miniamp.estimators.targets import conflict
from miniamp.info import Naming
from miniamp.posterior import Posterior
from miniamp.priors import ScalarPrior

if TYPE_CHECKING:
    from arviz import InferenceData

#: One lock per estimator that has learned. Kept here and not in the estimator, so that copies,
#: clones and pickles have locks of their own.
_LOCKS: WeakKeyDictionary[object, RLock] = WeakKeyDictionary()
_LOCKS_CHANGE = RLock()


@contextmanager
def all_or_nothing(estimator: object) -> Iterator[None]:
    """While entered, no other thread learns, and an error leaves the estimator as it was before.

    Without the lock, three threads that fed one estimator kept a third of the rows, and a call that
    failed undid the batches of the others.
    """
    with _LOCKS_CHANGE:
        own = _LOCKS.setdefault(estimator, RLock())
    with own, checks.computing():
        before = estimator.__dict__.copy()
        try:
            yield
        except BaseException:
            # Never empty in between: another thread may be predicting.
            for name in estimator.__dict__.keys() - before.keys():
                del estimator.__dict__[name]
            estimator.__dict__.update(before)
            raise


class StreamingEstimator(SummaryMixin, JointUncertainty, SaveMixin, BaseEstimator):
    """A model that absorbs batches of rows; see `MiniAMPRegressor` and `MiniAMPClassifier`."""

    feature_names_in_: NDArray[np.generic]
    _channel: ClassVar[Channel]
    _score: ClassVar[Scorer]
    #: What scikit-learn's `validate_data` is asked for.
    _accepted: ClassVar[dict[str, Any]] = ACCEPTED
    _state: FitState

    def __init__(
        self,
        prior: str | ScalarPrior = "gaussian",
        *,
        noise: str | float | Channel = "learn",
        batch_size: int | str = "auto",
        memory: int | str = "auto",
        forget: float | str = 1.0,
        solver: str = "auto",
        on_conflict: str = "adapt",
        max_iter: int = 500,
        tol: float = 1e-8,
        fit_intercept: bool = True,
        standardize: bool = True,
        random_state: int | np.random.RandomState | None = None,
        verbose: int | bool = 0,
    ) -> None:
        self.prior = prior
        self.noise = noise
        self.batch_size = batch_size
        self.memory = memory
        self.forget = forget
        self.solver = solver
        self.on_conflict = on_conflict
        self.max_iter = max_iter
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.random_state = random_state
        self.verbose = verbose

    # Learning.

    def fit(self, X: Given, y: Given, sample_weight: Given = None) -> Self:
        """Fit the model to X and y from scratch, in batches of `batch_size`.

        A row of weight k counts as k rows.
        """
        return self._fit_rows(X, y, sample_weight)

    def partial_fit(self, X: Given, y: Given, sample_weight: Given = None) -> Self:
        """Update the model with one batch of rows; an error leaves it unchanged."""
        return self._fit_batch(X, y, sample_weight)

    def _fit_rows(self, X: Given, y: Given, sample_weight: Given) -> Self:
        with all_or_nothing(self):
            settings = self._settings()
            rng = check_random_state(self.random_state)
            if is_dask(X):
                self._state = self._fitted_to_collection(settings, X, y, sample_weight, rng)
                return self
            rows = self._rows(settings, X, y, sample_weight, reset=True)
            state = FitState(settings, rows.X.shape[1], rows.Y.shape[1])
            for part in cut(self.batch_size, settings, rows.X, rng, rows.Y.shape[1]):
                state = self._next(state, rows.at(part))
            state.settled  # noqa: B018  # what is wrong with the rows shows now
            self._state = state
        return self

    def _fitted_to_collection(
        self,
        settings: ModelSettings,
        X: Collection,
        y: Given,
        sample_weight: Given,
        rng: np.random.RandomState,
    ) -> FitState:
        """The state after rows that are on a cluster, or too many to be in memory at once."""
        target = np.asarray(plain(y))
        Y = self._targets(settings, target)
        sample_weight = self._weights(target, sample_weight)
        state = FitState(settings, X.shape[1], Y.shape[1])
        client = current_client(X) if sample_weight is None else None
        if client is not None:
            named = first_rows(X)
            first = np.asarray(named, dtype=np.float64)
            if takes_amp(settings, first):
                validate_data(self, named, reset=True, **ACCEPTED)
                frame, whole = settings.first_frame(first), as_dask_array(X)
                standardised = whole.map_blocks(
                    frame.rows,
                    intercept=settings.intercept,
                    dtype=np.float64,
                    chunks=(whole.chunks[0], (first.shape[1] + settings.intercept,)),
                )
                design = Distributed.from_array(standardised, client=client)
                return state.after_design(frame, design, Y)
        weights = None if sample_weight is None else np.asarray(plain(sample_weight))
        done = 0
        for block in blocks_of(X):
            part: Matrix = validate_data(self, block, reset=done == 0, **ACCEPTED)
            end = done + part.shape[0]
            rows = Rows.weighted(part, Y[done:end], None if weights is None else weights[done:end])
            for some in cut(self.batch_size, settings, rows.X, rng, rows.Y.shape[1]):
                state = self._next(state, rows.at(some))
            done = end
        if done != len(Y):
            raise checks.refuse("y", f"{len(Y)} values", f"{done}", "give one value for each row")
        return state

    def _fit_batch(self, X: Given, y: Given, sample_weight: Given) -> Self:
        with all_or_nothing(self):
            first = not self.__sklearn_is_fitted__()
            settings = self._settings()
            rows = self._rows(settings, X, y, sample_weight, reset=first)
            shape = rows.X.shape[1], rows.Y.shape[1]
            if not first and shape[1] != self._state.targets:
                before = f"{self._state.targets} as before"
                raise checks.refuse("y", f"{shape[1]} columns", before, "call fit to start over")
            state = FitState(settings, *shape) if first else self._state.with_settings(settings)
            self._state = self._next(state, rows)
        return self

    def _next(self, state: FitState, rows: Rows) -> FitState:
        """The state after one batch, with a warning about what is wrong for the first time."""
        before = set(state.history[-1]["found"]) if state.history else set()
        try:
            old, state = state, state.absorbed(rows)
        except (ConflictError, np.linalg.LinAlgError) as error:
            waited = state.waiting is not None
            raise conflict(error, rows, state.settings, waited) from error
        waiting = state.waiting
        if waiting is not None:
            if waiting.left_out and not (old.waiting and old.waiting.left_out):
                found = blocks(len(waiting), state.rows_seen)
                warnings.warn(HealthWarning(f"{found.seen} {found.action}"), stacklevel=5)
            return state
        entry = state.history[-1]
        same = before.issuperset(entry["found"])
        told = [] if same else findings(state.history, self._names)
        for finding in (*told, *self._over_all(state).findings):
            if finding.kind not in before:
                warnings.warn(HealthWarning(f"{finding.seen} {finding.action}"), stacklevel=5)
        if self.verbose:
            sys.stdout.write(entry_line(entry) + "\n")
        return state

    def _over_all(self, state: FitState) -> HealthReport:  # a classifier looks
        """What predictions of all rows show for the first time."""
        return HealthReport()

    def _settings(self) -> ModelSettings:
        old = self._state.settings if self.__sklearn_is_fitted__() else None
        chosen = old is not None and (old.auto_prior or old.auto_forget)  # it has what was learned
        if old and not chosen and all(getattr(self, n) is v for n, v in old.given.items()):
            return old  # checked in the batch before
        given = {name: getattr(self, name) for name in CHECKED}
        return ModelSettings.checked(given, channel=self._channel, score=type(self)._score)

    def _rows(
        self, settings: ModelSettings, X: Given, y: Given, weights: Given, *, reset: bool
    ) -> Rows:
        """Rows, targets and weights, checked; a row of weight k is there k times."""
        named = reset or hasattr(self, "feature_names_in_")
        fits = not named and ready_targets(y, X)
        ranges = ready(X, self.n_features_in_, self._state.frame, settings.solver) if fits else None
        if ranges is not None:
            values, target = cast("tuple[Array, NDArray[np.generic]]", (X, y))
        else:
            given = numbers("X", X), checks.unmasked("y", plain(y))
            values, target = validate_data(self, *given, reset=reset, **self._accepted)
            target = self._checked_targets(target, y, reset)
            require_measurable("X", values)
        Y = self._targets(settings, target)
        if ranges is None:
            require_measurable("y", Y)
        weights = self._weights(target, weights)
        if weights is not None:
            own = plain(weights)
            weights = _check_sample_weight(own, values, dtype=float, ensure_non_negative=True)
            require_measurable("sample_weight", cast(Array, weights))
        return Rows.weighted(values, Y, cast("Array | None", weights), ranges)

    @abstractmethod
    def _checked_targets(
        self, target: NDArray[np.generic], y: Given, reset: bool
    ) -> NDArray[np.generic]:
        """The targets that scikit-learn made of y, if they suit the model."""

    def _targets(self, settings: ModelSettings, y: NDArray[np.generic]) -> Array:
        """Targets (M, K) as the channel takes them."""
        Y = y.reshape(len(y), -1)
        columns = np.array([settings.channel.checked(column) for column in Y.T])
        return np.ascontiguousarray(columns.T)

    def _weights(self, y: NDArray[np.generic], weights: Given) -> Given:
        """The weights of the rows, as given or changed by those of their classes."""
        return weights

    # Asking.

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_state")

    @property
    def _learned(self) -> FitState:
        check_is_fitted(self)
        return self._state.settled

    @property
    def n_samples_seen_(self) -> int:
        """Number of rows learned from so far."""
        check_is_fitted(self)
        return self._state.rows_seen

    @property
    def forget_(self) -> float:
        """The forgetting factor in use: the one given, or learned with forget="auto"."""
        return self._learned.settings.forget

    @property
    def prior_(self) -> ScalarPrior | list[ScalarPrior]:
        """The prior with its current hyper-parameters, for standardised features; a list of K."""
        state = self._learned
        units = zip(state.models, state.target_units, strict=True)
        found = [prior_of(model).rescaled(scale) for model, (_, scale) in units]
        return found if len(found) > 1 else found[0]

    @property
    def n_iter_(self) -> int:
        """Iterations of the latest batch."""
        return self._learned.history[-1]["iterations"]

    @property
    def history_(self) -> list[Entry]:
        """One entry per batch, the latest 10,000; see `MiniAMPRegressor`."""
        return self._learned.history.with_theory()

    @property
    def log_evidence_(self) -> float:
        """Log-density of all y so far, each batch given those before it; nan where unknown.

        Of several models of the same rows, the one with the highest value is the most probable.
        Unknown after merging, and after a batch that could not be solved.
        """
        return float(self._learned.history[-1].get("log_evidence_sum", np.nan))

    @property
    def health_(self) -> HealthReport:
        """Problems found in the stream so far, with remedies; empty if there are none."""
        state = self._learned
        seen = state.models, state.features, state.rows, state.y_scale
        expected = partial(expected_error, *seen)
        return diagnose(state.history, expected, state.tally.r2, self._names)

    @property
    def _names(self) -> Naming:
        """The user's names; the command line gives plain arrays, and names beside them."""
        features = getattr(self, "feature_names_in_", getattr(self, "_features", None))
        return Naming(features, getattr(self, "classes_", None))

    @property
    def _posteriors(self) -> list[Posterior]:
        return [model.posterior for model in self._learned.models]

    def _predictions(self, X: Given) -> list[RowPrediction]:
        """Predictions for rows, one per target."""
        state = self._learned
        if not (is_dask(X) or (issparse(X) and state.units.centre.any())):
            return state.predictions(validate_data(self, numbers("X", X), reset=False, **ACCEPTED))
        blocks = zip(*(self._predictions(block) for block in blocks_of(X)), strict=True)
        return [
            RowPrediction(
                parts[0].channel, *(np.concatenate([part[k] for part in parts]) for k in (1, 2, 3))
            )
            for parts in blocks
        ]

    def _summary(self, level: float, names: Sequence[str] | None = None) -> Summary:
        return of_coefficients(self, self._learned, level, names)

    def to_arviz(self, draws: int = 1000, random_state: int | None = None) -> InferenceData:
        """Draws from the posterior as ArviZ's InferenceData, for its tables and plots.

        One chain of `draws` independent draws of `coef` and `intercept`: joint ones where
        `covariance` is known, else of each coefficient on its own, which the attribute `joint`
        tells (1 or 0).

        Examples
        --------
        >>> import numpy as np
        >>> from miniamp import MiniAMPRegressor
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> data = MiniAMPRegressor().fit(X, X[:, 0]).to_arviz(draws=50)
        >>> dict(data.posterior["coef"].sizes)
        {'chain': 1, 'draw': 50, 'feature': 2}
        """
        return to_arviz(self, draws, random_state)

    # Files.

    def _state_of(self, state: State) -> FitState:
        return FitState.from_state(state, self._settings())

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = self._accepted.get("multi_output", False)
        return tags
