"""Streaming classification with calibrated probabilities, with the scikit-learn API."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.errors import InvalidTypeError
from miniamp.estimators.base import StreamingEstimator, all_or_nothing
from miniamp.estimators.health import SIGMAS, Finding, HealthReport
from miniamp.estimators.history import History, pooled
from miniamp.estimators.scoring import class_probabilities, score_labels, score_reweighted
from miniamp.estimators.settings import LABELS, ModelSettings
from miniamp.estimators.state import FitState
from miniamp.info import Naming
from miniamp.posterior import Posterior
from miniamp.priors import ScalarPrior

#: So many of the latest batches are searched for blocks of one class, less likely than exp(-BLOCK).
WATCHED, BLOCK = 40, 20.0
#: Of at least so many rows, log loss over that of the class frequencies: labels of pure chance (60
#: to 1000 rows, 2 to 30 features) had up to 1.08.
SCORED_ROWS, WORSE = 40, 1.15
#: Brier scores over what was predicted: beyond this, and chance, the model is too sure of itself.
TOO_SURE = 1.1


class MiniAMPClassifier(ClassifierMixin, StreamingEstimator):
    """Bayesian classification of a stream of rows, batch by batch, in bounded memory.

    Two classes: probit regression, with one vector of coefficients. More classes: multinomial
    logistic regression, with one vector per class and a joint posterior. That needs a Gaussian
    prior and an N x N matrix per class; with other priors, `memory` below N, solver="amp" or too
    many features (50 million numbers in all matrices; 2048 for sparse rows, in batches of fewer
    rows than features) each class has a model of its own, against all others. Probabilities account
    for the uncertainty of the coefficients, and those of a joint posterior for the share of wrong
    labels, which is learned.

    Parameters
    ----------
    class_weight : None, "balanced" or dict, default=None
        Weights of the classes, by label; those not listed have weight 1. "balanced" weights a class
        by rows / (K * rows of the class): `fit` counts all rows, `partial_fit` those so far, with
        the new batch. Probabilities are then those for balanced classes.
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
        """Fit the model to X and y from scratch, in batches of `batch_size`.

        A row of weight k counts as k rows.
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
                if self.__sklearn_is_fitted__() and not np.array_equal(wanted, self.classes_):
                    known = f"{self.classes_.tolist()} as in the first call"
                    remedy = "leave it out, or clone the estimator to start over"
                    raise checks.refuse("classes", wanted.tolist(), known, remedy)
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
        places = self.predict_proba(X).argmax(axis=1)  # which refuses a model that is not fitted
        return np.asarray(self.classes_[places])

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

    @property
    def health_(self) -> HealthReport:
        """What is wrong with the model, in plain words; empty when all is well."""
        report, history = super().health_, self._learned.history
        found = [*report.findings, *_class_blocks(history, self._names)]
        found = found or list(_waiting_blocks(self._state))
        return replace(report, findings=tuple(found or _overall(history)))

    def _over_all(self, state: FitState) -> HealthReport:
        history, count = state.history, state.history[-1]["batch"] + 1
        if count < 4 or count & (count - 1):  # all batches are looked at, after 4, 8, 16 ..
            return HealthReport()
        known = {kind for entry in history for kind in entry["found"]}
        new = tuple(finding for finding in _overall(history) if finding.kind not in known)
        history[-1]["found"] += [finding.kind for finding in new]
        return HealthReport(new)

    def _settings(self) -> ModelSettings:
        settings = super()._settings()
        if not settings.channel.predicts_probabilities:
            remedy = "use channels.Logistic(), or leave it out"
            raise checks.refuse("noise", f"{settings.channel!r}", "a channel of labels", remedy)
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
            known = f"classes of {self.classes_.tolist()[:8]}"
            got, remedy = f"the class {unknown[0]!r}", "use labels as they are in y"
            raise checks.refuse("class_weight", got, known, remedy)
        own = [given.get(label, 1.0) for label in self.classes_.tolist()]
        return np.array([checks.number("class_weight", w, least=0.0) for w in own])

    def _checked_targets(
        self, target: NDArray[np.generic], y: Given, reset: bool
    ) -> NDArray[np.generic]:
        try:
            with warnings.catch_warnings():
                if hasattr(self, "classes_"):  # of many classes a batch has most only once
                    warnings.filterwarnings("ignore", "The number of unique classes")
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
            got, known = f"the class {unknown.tolist()[0]!r}", f"one of {classes.tolist()[:8]}"
            raise checks.refuse(
                "y", got, known, "list all classes in the first call of partial_fit"
            )
        if len(classes) < 2:
            remedy = "give rows of other classes too, or list all with classes="
            raise checks.refuse("y", f"one class, {classes.tolist()[0]!r}", "at least two", remedy)
        self.classes_ = classes
        places = np.searchsorted(classes, y)
        if len(classes) == 2:
            return np.where(places == 1, 1.0, -1.0)[:, None]
        return np.where(places[:, None] == np.arange(len(classes)), 1.0, -1.0)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = True
        return tags


def _waiting_blocks(state: FitState) -> Iterator[Finding]:
    """First rows in blocks of one class, from several batches: they wait for others."""
    rows = state.waiting
    if rows is None or state.frame is not None or rows.calls == 1:
        return
    share, seen = np.mean(rows.Y > 0.0, axis=0), rows.changes / rows.count
    share = share if len(share) > 1 else np.append(share, 1.0 - share)
    expected = 1.0 - np.sum(np.square(share))
    # Chernoff's bound of the probability of so few changes in a random order.
    unlikely = rows.count * (rel_entr(seen, expected) + rel_entr(1.0 - seen, 1.0 - expected))
    if seen < expected and unlikely > BLOCK:
        found = f"{rows.changes + 1} blocks in the {rows.count} rows so far"
        yield Finding(
            "order", f"The rows come in blocks of one class: {found}.", "Shuffle the rows."
        )


def _class_blocks(history: History, names: Naming) -> Iterator[Finding]:
    """A class whose rows come in a block, or late: it is learned at the cost of the others."""
    latest = [one["classes"] for one in islice(reversed(history), WATCHED) if "classes" in one]
    counts = np.array([each for each in latest if len(each) == len(latest[0])])
    if len(counts) < 2:
        return
    came, ends = counts > 0, np.append(0, np.cumsum(counts.sum(axis=1)))
    span = ends[len(came) - came[::-1].argmax(axis=0)] - ends[came.argmax(axis=0)]
    # The probability that so many rows, at random places among all, lie within such a span.
    unlikely = counts.sum(axis=0) * np.log(span / ends[-1])
    k = int(np.argmin(unlikely))
    if unlikely[k] < -BLOCK:
        label = k if names.classes is None else names.classes[k]
        where = f"{counts[:, k].sum()} rows of class {label} among the last {ends[-1]}"
        seen = f"The rows come in blocks: all {where} lie within {span[k]} rows."
        yield Finding("order", seen, "Shuffle the rows.")


def _overall(history: History) -> Iterator[Finding]:
    """Predictions that are worse than class frequencies, or too sure, over all rows."""
    known = [entry for entry in history if "classes" in entry and "surprise" in entry]
    scored = [entry for entry in known if len(entry["classes"]) == len(known[-1]["classes"])]
    count = np.sum([entry["classes"] for entry in scored], axis=0)
    if len(scored) < 2 or count.sum() < SCORED_ROWS:
        return
    share = count[count > 0] / count.sum()
    nothing, rows = -float(share @ np.log(share)), [entry["rows"] for entry in scored]
    loss = -float(np.average([entry["score"] for entry in scored], weights=rows))
    shuffle = "If the rows are sorted, shuffle them. If the stream has changed, use {forget=auto}."
    if loss > WORSE * nothing > 0.0:
        ratio = f"their log loss is {loss / nothing:.2g} times that of the class frequencies"
        seen = f"Predictions of rows, before they were learned from: {ratio}."
        yield Finding("useless", seen, shuffle)
    # Whatever one batch shows: a certain prediction that fails is beyond any limit.
    surprise, std = pooled(sorted(scored, key=lambda entry: entry["surprise"])[:-1], "surprise")
    if surprise > max(TOO_SURE, 1.0 + SIGMAS * std):
        seen = f"over all rows the Brier score is {surprise:.2g} times what it predicted"
        action = f"If rows come more than once, drop the copies. {shuffle}"
        yield Finding("overconfidence", f"The model is too sure of itself: {seen}.", action)
