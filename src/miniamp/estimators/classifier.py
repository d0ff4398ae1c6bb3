"""Streaming classification with calibrated probabilities, with the scikit-learn API."""

from __future__ import annotations

from typing import Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.errors import InvalidTypeError
from miniamp.estimators.base import StreamingEstimator
from miniamp.estimators.rows import ACCEPTED, Matrix
from miniamp.estimators.saving import all_or_nothing
from miniamp.estimators.scoring import class_probabilities, score_labels
from miniamp.estimators.settings import LABELS, ModelSettings
from miniamp.posterior import Posterior


class MiniAMPClassifier(ClassifierMixin, StreamingEstimator):
    """Bayesian probit classification of a stream of rows, batch by batch, in bounded memory.

    Two classes have one vector of coefficients. More have one each, learned together: the classes
    have softmax probabilities, and one posterior of all vectors. That takes a Gaussian prior and an
    N x N matrix per class; with other priors, `memory` below N, solver="amp" or too many features
    (50 million numbers in all matrices) each class is learned against all others. Probabilities
    account for the uncertainty of the coefficients.

    Parameters are those of `MiniAMPRegressor`; `noise` is the variance of the noise on the margin,
    1 by default, which sets the scale of the coefficients, or a channel: channels.Logistic().

    Attributes
    ----------
    classes_ : (K,) array
        The labels.
    coef_, coef_std_, inclusion_probability_ : (1, N) or (K, N) arrays
    intercept_ : (1,) or (K,) array
    posterior_ : Posterior, or list of K
    n_samples_seen_, history_, log_evidence_, health_, n_features_in_, feature_names_in_
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
    _channel = LABELS
    _score = score_labels

    def fit(self, X: Given, y: Given, sample_weight: Given = None) -> Self:
        """Start over with these rows, streamed in batches of `batch_size`.

        A weight of k counts a row k times.
        """
        with all_or_nothing(self):
            self.__dict__.pop("classes_", None)
            return self._fit(X, y, sample_weight)

    def partial_fit(
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
            return self._partial_fit(X, y, sample_weight)

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
        return settings

    def _validated(self, X: Given, y: Given, reset: bool) -> tuple[Matrix, NDArray[np.generic]]:
        both = validate_data(self, X, y, reset=reset, **ACCEPTED)
        values, labels = cast("tuple[Matrix, NDArray[np.generic]]", both)
        try:
            check_classification_targets(labels)
            np.unique(labels if labels.dtype.kind == "O" else labels[:1])
        except TypeError:  # labels that cannot be compared
            raise InvalidTypeError(
                "y", "labels of several types", "one type", "make all of them text, or numbers"
            ) from None
        except ValueError as error:
            received = str(error).split(".", maxsplit=1)[0]
            raise checks.refuse(
                "y", received, "text or whole numbers", "use MiniAMPRegressor for measurements"
            ) from None
        return values, labels

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
