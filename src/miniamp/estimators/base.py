"""What the streaming regressor and classifier share."""

from __future__ import annotations

import sys
import warnings
from abc import abstractmethod
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    check_random_state,
    column_or_1d,
    validate_data,
)

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.errors import ConflictError, InvalidInputError, InvalidTypeError
from miniamp.estimators.batching import cut
from miniamp.estimators.contradiction import in_words
from miniamp.estimators.dask_rows import blocks_of, cluster_for, first_rows, joined, swept
from miniamp.estimators.health import HealthWarning, diagnose, findings
from miniamp.estimators.judge import judge_weighted
from miniamp.estimators.knowledge import Judge, Knowledge
from miniamp.estimators.saved import Saved
from miniamp.estimators.saving import knowledge_of, labels_of, labels_state, state_of
from miniamp.estimators.settings import Settings, coefficient_prior
from miniamp.estimators.tables import is_dask, plain, require_measurable
from miniamp.estimators.weights import copies

#: What a method that looks at rows accepts.
ACCEPTED: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


class StreamingEstimator(Saved, BaseEstimator):
    """A model that absorbs batches of rows; see `MiniAMPRegressor` and `MiniAMPClassifier`."""

    _channel: ClassVar[Channel]
    _known: Knowledge

    def __init__(
        self,
        prior: Any = "gaussian",
        *,
        noise: Any = "learn",
        batch_size: int | str = "auto",
        memory: int | str = "auto",
        forget: float = 1.0,
        solver: str = "auto",
        max_iter: int = 500,
        tol: float = 1e-8,
        fit_intercept: bool = True,
        standardize: bool = True,
        random_state: Any = None,
        verbose: int | bool = 0,
    ) -> None:
        self.prior = prior
        self.noise = noise
        self.batch_size = batch_size
        self.memory = memory
        self.forget = forget
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.random_state = random_state
        self.verbose = verbose

    # Learning.

    def _fit(self, X: Given, y: Given, sample_weight: Given) -> Self:
        if is_dask(X):
            return self._fit_dask(X, y, sample_weight)
        with self._all_or_nothing():
            settings = self._settings()
            rng = check_random_state(self.random_state)
            all_rows, Y, weights = self._rows(X, y, sample_weight, reset=True)
            known = Knowledge(settings, all_rows.shape[1], Y.shape[1])
            for rows in cut(self.batch_size, settings, all_rows, rng):
                part = None if weights is None else weights[rows]
                known = self._absorbed(known, all_rows[rows], Y[rows], part)
            self._take(known)
        return self

    def _fit_dask(self, X: Any, y: Given, sample_weight: Given) -> Self:
        """As `_fit`, with rows that are on a cluster, or too many to be here at once."""
        with self._all_or_nothing():
            settings = self._settings()
            rng = check_random_state(self.random_state)
            Y = self._targets(column_or_1d(np.asarray(plain(y))))
            known = Knowledge(settings, X.shape[1], Y.shape[1])
            client = cluster_for(known, X) if sample_weight is None else None
            if client is not None:
                validate_data(self, first_rows(X), reset=True, **ACCEPTED)
                self._take(swept(known, X, Y, client))
                return self
            weights = None if sample_weight is None else np.asarray(plain(sample_weight))
            done = 0
            for block in blocks_of(X):
                part = validate_data(self, block, reset=done == 0, **ACCEPTED)
                for rows in cut(self.batch_size, settings, part, rng):
                    taken, rest = rows, None
                    if weights is not None:
                        some, rest = copies(weights[done + rows])
                        taken = rows[some]
                    known = self._absorbed(known, part[taken], Y[done + taken], rest)
                done += part.shape[0]
            if done != len(Y):
                raise InvalidInputError(
                    f"y: got {len(Y)} values, expected {done}; give one value for each row"
                )
            self._take(known)
        return self

    def _partial_fit(self, X: Given, y: Given, sample_weight: Given, first: bool) -> Self:
        with self._all_or_nothing():
            settings = self._settings()
            rows, Y, weights = self._rows(X, y, sample_weight, reset=first)
            known = (
                Knowledge(settings, rows.shape[1], Y.shape[1])
                if first
                else self._known.under(settings)
            )
            self._take(self._absorbed(known, rows, Y, weights))
        return self

    def _absorbed(self, known: Knowledge, X: Any, Y: Array, weights: Array | None) -> Knowledge:
        """One batch, with a warning where it shows for the first time that the model is wrong."""
        before = set(known.history[-1]["found"]) if known.history else set()
        judge = self._judge if weights is None else partial(judge_weighted, self._judge)
        try:
            known = known.absorbed(X, Y, judge, weights)
        except (ConflictError, np.linalg.LinAlgError) as error:
            raise in_words(error, X, self.noise) from error
        for finding in findings(known.history):
            if finding.kind not in before:
                warnings.warn(f"{finding.message} {finding.remedy}", HealthWarning, stacklevel=5)
        if self.verbose:
            sys.stdout.write(_line(known.history[-1]) + "\n")
        return known

    def _settings(self) -> Settings:
        for name in ("fit_intercept", "standardize"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise InvalidTypeError(
                    f"{name}: got {getattr(self, name)!r:.60}, expected True or False; choose one"
                )
        settings = Settings.checked(
            prior=self.prior,
            noise=self.noise,
            channel=self._channel,
            memory=self.memory,
            forget=self.forget,
            solver=self.solver,
            max_iter=self.max_iter,
            tol=self.tol,
            fit_intercept=self.fit_intercept,
            standardize=self.standardize,
        )
        if hasattr(self, "predict_proba") and not hasattr(settings.channel, "predict_proba"):
            raise checks.refuse(
                "noise",
                f"{settings.channel!r}",
                "a channel of labels",
                "use channels.Logistic(), or leave it out",
            )
        return settings

    def _rows(
        self, X: Given, y: Given, weights: Given, *, reset: bool
    ) -> tuple[Any, Array, Array | None]:
        """Rows, targets and weights, checked; a row of weight k is there k times."""
        try:
            rows, targets = self._validated(plain(X), plain(y), reset)
            Y = self._targets(targets)
        except TypeError as error:
            if "not supported between instances" not in str(error):
                raise
            raise InvalidTypeError(
                "y: got labels of several types, expected one; make all of them text, or numbers"
            ) from None
        require_measurable("X", rows)
        require_measurable("y", Y)
        if weights is None:
            return rows, Y, None
        checked = _check_sample_weight(
            plain(weights), rows, dtype=np.float64, ensure_non_negative=True
        )
        require_measurable("sample_weight", checked)
        taken, rest = copies(checked)
        return rows[taken], Y[taken], rest

    @abstractmethod
    def _validated(self, X: Given, y: Given, reset: bool) -> tuple[Any, Any]:
        """Rows and targets as arrays, checked."""

    @abstractmethod
    def _targets(self, y: Any) -> Array:
        """Targets (M, K) as the channel takes them."""

    @property
    @abstractmethod
    def _judge(self) -> Judge:
        """What scores the forecasts of a batch."""

    def _take(self, known: Knowledge) -> None:
        self._known = known
        self.n_samples_seen_ = known.rows
        self.history_ = list(known.history)
        self.health_ = diagnose(known.history)
        self.n_iter_ = known.history[-1]["iterations"]
        beliefs = [model.posterior for model in known.models]
        self.posterior_: Any = beliefs[0] if len(beliefs) == 1 else beliefs
        included = np.stack([_inclusion(belief, known.features) for belief in beliefs])
        self._take_coefficients(*known.coefficients(), included)

    def _take_coefficients(self, mean: Array, std: Array, intercept: Any, included: Array) -> None:
        self.coef_: Any = mean
        self.coef_std_: Any = std
        self.intercept_: Any = intercept
        self.inclusion_probability_: Any = included

    # Asking.

    def _seen(self, X: Given) -> Any:
        check_is_fitted(self, "n_samples_seen_")
        if is_dask(X):
            return joined([self._seen(block) for block in blocks_of(X)])
        X = validate_data(self, plain(X), reset=False, **ACCEPTED)
        return self._known.seen(X)

    # Files.

    def _fitted(self) -> dict[str, Any]:
        if not hasattr(self, "_known"):
            return {}
        labels = {name: labels_state(getattr(self, name)) for name in self._labels_held()}
        return {**labels, "known": state_of(self._known)}

    def _take_fitted(self, fitted: dict[str, Any]) -> None:
        known = knowledge_of(fitted.pop("known"), self._settings())
        self.n_features_in_ = known.features
        for name, labels in fitted.items():
            setattr(self, name, labels_of(labels))
        self._take(known)

    def _labels_held(self) -> list[str]:
        return [name for name in ("feature_names_in_", "classes_") if hasattr(self, name)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _inclusion(belief: Any, features: int) -> Array:
    """Posterior probability that each coefficient is not zero, (N,)."""
    prior = coefficient_prior(belief.prior)
    chance = getattr(prior, "inclusion_probability", None)
    if chance is None:
        return np.ones(features)
    total = belief.total
    A = np.broadcast_to(total.A, total.B.shape)
    return np.asarray(chance(A[:features], total.B[:features]))


def _line(entry: dict[str, Any]) -> str:
    error = "" if entry.get("error") is None else f", error before learning {entry['error']:.4g}"
    return (
        f"batch {entry['batch'] + 1}: {entry['rows']} rows, {entry['iterations']} iterations "
        f"({entry['solver']}){error}"
    )
