"""Streaming classification with calibrated probabilities, with the face of scikit-learn."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from miniamp.arrays import Array, Given
from miniamp.errors import InvalidInputError
from miniamp.estimators.base import ACCEPTED, StreamingEstimator
from miniamp.estimators.judge import class_probabilities, judge_labels
from miniamp.estimators.knowledge import Judge
from miniamp.estimators.settings import LABELS


class MiniAMPClassifier(ClassifierMixin, StreamingEstimator):
    """Probit classification of a stream of rows, Bayesian, batch after batch, in bounded memory.

    Two classes have one belief about the coefficients; more have one each, this class against all
    others. Probabilities come from the channel and take in how uncertain the coefficients are.

    Parameters are those of `MiniAMPRegressor`; `noise` is the variance of the noise on the margin,
    1 by default, which sets the scale of the coefficients, or a channel: channels.Logistic().

    Attributes
    ----------
    classes_ : (K,) array
        The labels.
    coef_, coef_std_, inclusion_probability_ : (1, N) or (K, N) arrays
    intercept_ : (1,) or (K,) array
    posterior_ : Posterior, or list of K
    n_samples_seen_, history_, health_, n_features_in_, feature_names_in_
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

    _channel = LABELS

    def fit(self, X: Given, y: Given, sample_weight: Given = None) -> Self:
        """Begin anew with these rows, streamed in batches of `batch_size`.

        A weight of k counts a row k times.
        """
        with self._all_or_nothing():
            self._classes_to_be = None
            self._fit(X, y, sample_weight)
        return self

    def partial_fit(
        self, X: Given, y: Given, classes: Given = None, sample_weight: Given = None
    ) -> Self:
        """Absorb one batch of rows; on any error the estimator stays as it was.

        `classes` lists all labels there will be; the first call needs it unless its rows have them
        all.
        """
        first = not hasattr(self, "_known")
        with self._all_or_nothing():
            wanted: Any = None if first else self.classes_
            if classes is not None:
                wanted = np.unique(column_or_1d(classes))
                if not first and not np.array_equal(wanted, self.classes_):
                    raise InvalidInputError(
                        f"classes: got {wanted.tolist()}, expected {self.classes_.tolist()} as in "
                        "the first call; leave it out, or clone the estimator to begin anew"
                    )
            self._classes_to_be = wanted
            self._partial_fit(X, y, sample_weight, first=first)
        return self

    def predict_proba(self, X: Given) -> Array:
        """Probability of each class for each row, (M, K), in the order of `classes_`."""
        return class_probabilities(self._seen(X))

    def predict_log_proba(self, X: Given) -> Array:
        """Logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def predict(self, X: Given) -> Any:
        """The likeliest class of each row, (M,)."""
        chances = self.predict_proba(X)
        return self.classes_[np.argmax(chances, axis=1)]

    def decision_function(self, X: Given) -> Array:
        """How strongly each row speaks for the second of two classes, (M,), or for each, (M, K)."""
        margins = [omega / np.sqrt(1.0 + V) for _, omega, V in self._seen(X)]
        return margins[0] if len(margins) == 1 else np.stack(margins, axis=1)

    def _validated(self, X: Given, y: Given, reset: bool) -> tuple[Any, Any]:
        X, y = validate_data(self, X, y, reset=reset, **ACCEPTED)
        check_classification_targets(y)
        return X, y

    def _targets(self, y: Any) -> Array:
        classes = self.__dict__.pop("_classes_to_be", None)
        if classes is None:
            classes = np.unique(y)
        unknown = np.setdiff1d(y, classes)
        if len(unknown):
            raise InvalidInputError(
                f"y: got the class {unknown.tolist()[0]!r}, expected one of "
                f"{classes.tolist()[:8]}; list all classes in the first call of partial_fit"
            )
        if len(classes) < 2:
            raise InvalidInputError(
                f"y: got one class, {classes.tolist()[0]!r}, expected at least two; give rows of "
                "other classes too, or list all with classes="
            )
        self.classes_ = classes
        places = np.searchsorted(classes, y)
        if len(classes) == 2:
            return np.where(places == 1, 1.0, -1.0)[:, None]
        return np.where(places[:, None] == np.arange(len(classes)), 1.0, -1.0)

    @property
    def _judge(self) -> Judge:
        return judge_labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = True
        return tags
