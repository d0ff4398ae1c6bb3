"""Streaming classification with calibrated probabilities, with the scikit-learn API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.errors import InvalidTypeError
from miniamp.estimators.base import StreamingEstimator, all_or_nothing
from miniamp.estimators.scoring import class_probabilities, score_labels, score_reweighted
from miniamp.estimators.settings import LABELS, ModelSettings
from miniamp.posterior import Posterior
from miniamp.priors import ScalarPrior


class MiniAMPClassifier(ClassifierMixin, StreamingEstimator):
    """Bayesian probit classification of a stream of rows, batch by batch, in bounded memory.

    Two classes have one vector of coefficients. More have one each, learned together: the classes
    have softmax probabilities, and one posterior of all vectors. That takes a Gaussian prior and an
    N x N matrix per class; with other priors, `memory` below N, solver="amp" or too many features
    (50 million numbers in all matrices; 2048 for sparse rows, in batches of fewer rows than
    features) each class is learned against all others. Probabilities account for the uncertainty of
    the coefficients.

    Parameters
    ----------
    class_weight : None, "balanced" or dict
        Weights of the classes, by label; those not listed have weight 1. "balanced" weighs a class
        by rows / (K * rows of the class): `fit` counts all rows, `partial_fit` those so far, with
        the new batch. Probabilities are then those of rows with balanced classes.
    prior, noise, ...
        As for `MiniAMPRegressor`; `noise` is the variance of the noise on the margin, 1 by default,
        which sets the scale of the coefficients, or a channel: channels.Logistic().

    Attributes
    ----------
    classes_ : (K,) array
        The labels.
    class_count_ : (K,) array
        Number of rows of each class so far.
    coef_, coef_std_, inclusion_probability_ : (1, N) or (K, N) arrays
    intercept_ : (1,) or (K,) array
    posterior_ : Posterior, or list of K
    forget_, prior_, n_samples_seen_, history_, log_evidence_, health_, n_features_in_,
    feature_names_in_
        As for `MiniAMPRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> model = MiniAMPClassifier()
    >>> for _ in range(5):
    ...     X = rng.normal(size=(50, 3))
    ...     y = np.where(X[:, 0] > X[:, 1], "yes", "no")
    ...     _ = model.partial_fit(X, y, classes=["no", "yes"])
    >>> model.predict(np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0]])).tolist()
    ['yes', 'no']
    """

    classes_: NDArray[np.generic]
    class_count_: Array
    _channel = LABELS
    _score = score_labels

    def __init__(
        self,
        prior: str | ScalarPrior = "gaussian",
        *,
        noise: str | float | Channel = "learn",
        class_weight: str | Mapping[str | float, float] | None = None,
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
        super().__init__(
            prior,
            noise=noise,
            batch_size=batch_size,
            memory=memory,
            forget=forget,
            solver=solver,
            on_conflict=on_conflict,
            max_iter=max_iter,
            tol=tol,
            fit_intercept=fit_intercept,
            standardize=standardize,
            random_state=random_state,
            verbose=verbose,
        )
        self.class_weight = class_weight

    def fit(self, X: Given, y: Given, sample_weight: Given = None) -> Self:
        """Start over with these rows, streamed in batches of `batch_size`.

        A weight of k counts a row k times.
        """
        with all_or_nothing(self):
            for name in ("classes_", "class_count_"):
                self.__dict__.pop(name, None)
            return self._fit_rows(X, y, sample_weight)

    def partial_fit(  # type: ignore[override]  # scikit-learn has classes before weights
        self, X: Given, y: Given, classes: Given = None, sample_weight: Given = None
    ) -> Self:
        """Absorb one batch of rows; on any error the estimator stays as it was.

        `classes` lists all labels; the first call needs it unless its rows have them all.
        """
        with all_or_nothing(self):
            if classes is not None:
                wanted = np.unique(column_or_1d(classes))
                fitted = self.__sklearn_is_fitted__()
                if fitted and not np.array_equal(wanted, self.classes_):
                    raise checks.refuse(
                        "classes",
                        wanted.tolist(),
                        f"{self.classes_.tolist()} as in the first call",
                        "leave it out, or clone the estimator to start over",
                    )
                self.classes_ = wanted
            return self._fit_batch(X, y, sample_weight)

    def predict_proba(self, X: Given) -> Array:
        """Probability of each class for each row, (M, K), in the order of `classes_`."""
        return class_probabilities(self._predictions(X))

    def predict_log_proba(self, X: Given) -> Array:
        """Logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def predict(self, X: Given) -> NDArray[np.generic]:
        """The most likely class of each row, (M,)."""
        probabilities = self.predict_proba(X)
        return np.asarray(self.classes_[np.argmax(probabilities, axis=1)])

    def decision_function(self, X: Given) -> Array:
        """Margin of each row for the second of two classes, (M,), or for each class, (M, K)."""
        margins = [omega / np.sqrt(1.0 + V) for _, omega, V, _ in self._predictions(X)]
        return margins[0] if len(margins) == 1 else np.stack(margins, axis=1)

    @property
    def coef_(self) -> Array:
        """Posterior means of the coefficients, (1, N) or (K, N)."""
        return self._learned.coefficients.mean

    @property
    def coef_std_(self) -> Array:
        """Posterior standard deviations of the coefficients, (1, N) or (K, N)."""
        return self._learned.coefficients.std

    @property
    def intercept_(self) -> Array:
        """Posterior means of the intercepts, (1,) or (K,)."""
        return self._learned.coefficients.intercept

    @property
    def inclusion_probability_(self) -> Array:
        """Probability that a coefficient is not zero, (1, N) or (K, N)."""
        return self._learned.coefficients.inclusion

    @property
    def posterior_(self) -> Posterior | list[Posterior]:
        """The posterior in the standardised units, or a list of one per class."""
        return self._posteriors if len(self._posteriors) > 1 else self._posteriors[0]

    def _settings(self) -> ModelSettings:
        settings = super()._settings()
        if not settings.channel.predicts_probabilities:
            raise checks.refuse(
                "noise",
                f"{settings.channel!r}",
                "a channel of labels",
                "use channels.Logistic(), or leave it out",
            )
        # Probabilities of balanced classes do not predict their own Brier score on other rows.
        score = score_labels if self.class_weight is None else score_reweighted
        return settings if settings.score is score else replace(settings, score=score)

    def _weights(self, y: NDArray[np.generic], weights: Given) -> Given:
        places = np.searchsorted(self.classes_, column_or_1d(y))
        count = np.bincount(places, minlength=len(self.classes_)).astype(np.float64)
        before = getattr(self, "class_count_", np.zeros(0))  # classes may be added at the end
        count[: len(before)] += before
        self.class_count_ = count
        if self.class_weight is None:
            return weights
        each = self._class_weights()[places]
        return each if weights is None else each * _check_sample_weight(weights, y)

    def _class_weights(self) -> Array:
        """Weights of the classes, (K,)."""
        given, count = self.class_weight, self.class_count_
        if isinstance(given, str) and given == "balanced":
            return np.asarray(count.sum() / (len(count) * np.maximum(count, 1.0)))
        if not isinstance(given, Mapping):
            raise checks.refuse(
                "class_weight", repr(given), "None, 'balanced' or a dict", "choose one"
            )
        unknown = [label for label in given if label not in self.classes_]
        if unknown:
            raise checks.refuse(
                "class_weight",
                f"the class {unknown[0]!r}",
                f"classes of {self.classes_.tolist()[:8]}",
                "use labels as they are in y",
            )
        own = [given.get(label, 1.0) for label in self.classes_.tolist()]
        return np.array([checks.number("class_weight", w, least=0.0) for w in own])

    def _checked_targets(
        self, target: NDArray[np.generic], y: Given, reset: bool
    ) -> NDArray[np.generic]:
        try:
            check_classification_targets(target)
            np.unique(target if target.dtype.kind == "O" else target[:1])
        except TypeError:  # labels that cannot be compared
            raise InvalidTypeError(
                "y", "labels of several types", "one type", "make all of them text, or numbers"
            ) from None
        except ValueError as error:
            received = str(error).split(".", maxsplit=1)[0]
            raise checks.refuse(
                "y", received, "text or whole numbers", "use MiniAMPRegressor for measurements"
            ) from None
        return target

    def _targets(self, settings: ModelSettings, y: NDArray[np.generic]) -> Array:
        y, classes = column_or_1d(y), getattr(self, "classes_", None)
        classes = np.unique(y) if classes is None else classes
        unknown = np.setdiff1d(y, classes)
        if len(unknown):
            raise checks.refuse(
                "y",
                f"the class {unknown.tolist()[0]!r}",
                f"one of {classes.tolist()[:8]}",
                "list all classes in the first call of partial_fit",
            )
        if len(classes) < 2:
            raise checks.refuse(
                "y",
                f"one class, {classes.tolist()[0]!r}",
                "at least two",
                "give rows of other classes too, or list all with classes=",
            )
        self.classes_ = classes
        places = np.searchsorted(classes, y)
        if len(classes) == 2:
            return np.where(places == 1, 1.0, -1.0)[:, None]
        return np.where(places[:, None] == np.arange(len(classes)), 1.0, -1.0)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = True
        return tags
