"""What a report knows about an estimator: its history as columns, its coefficients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.estimators.describe import feature_names, target_labels
from miniamp.estimators.scoring import Tally
from miniamp.estimators.summary import Summary

#: A plot shows at most so many batches: of a longer stream, so many at even distances.
MOST_BATCHES = 1000
#: Memory pays where a larger share of what the batches brought was discarded between them.
PAYS = 0.2
#: Targets that are named above the tiles.
MOST_NAMES = 6


class Facts:
    """A fitted estimator as its plots see it."""

    def __init__(self, fitted: Any) -> None:
        clusters = hasattr(fitted, "cluster_centers_")
        classes = getattr(fitted, "classes_", None)
        #: "regression", "classification" or "clustering"
        self.task = "regression" if classes is None else "classification"
        self.task = "clustering" if clusters else self.task
        self.name = type(fitted).__name__  #: class of the estimator
        #: The history, one entry per batch.
        self.everything: Sequence[Mapping[str, object]] = fitted.history_
        self.rows_seen = int(fitted.n_samples_seen_)  #: rows learned from
        self.summary: Summary = fitted._summary(0.9)  #: the table of coefficients or centres
        mean = np.atleast_2d(fitted.cluster_centers_ if clusters else fitted.coef_)
        std = np.atleast_2d(fitted.cluster_std_ if clusters else fitted.coef_std_)
        if not clusters:  # levels of categories as differences from their mean
            mean, std = (
                np.reshape(self.summary.columns[name], (len(mean), -1))[:, -mean.shape[1] :]
                for name in ("mean", "std")
            )
        #: (K, N) coefficients, or centres of clusters, and their standard deviations
        self.mean, self.std = mean, np.nan_to_num(std)
        self.features = feature_names(fitted, mean.shape[1])  #: names of the N features
        #: Names of the classes of a classification.
        self.classes = [] if classes is None else [str(name) for name in classes]
        #: Names of the K rows of `mean`: one for a regression, else classes or clusters.
        self.groups = _groups(fitted, clusters, self.classes, len(mean))
        #: (K, N) inclusion probabilities, where the prior has a spike.
        self.included = None if clusters else _included(fitted.inclusion_probability_)
        #: Noise variance of a clustering, one or one per feature.
        self.noise = np.asarray(fitted.noise_ if clusters else np.nan)
        self.weights = np.asarray(fitted.cluster_weights_ if clusters else ())  #: (K,) shares
        found = [] if clusters else fitted.health_.findings
        self.findings = [(one.message, one.remedy) for one in found]  #: what `health_` found
        self.settings: dict[str, object] = fitted.get_params(deep=False)
        self.memory = 0 if clusters else _memory(fitted.posterior_)  #: remembered rows
        #: Sums over all rows; empty for a clustering, as are the units.
        self.tally: Tally = Tally() if clusters else fitted._learned.tally
        units = None if clusters else fitted._learned.units
        #: (2, N) centre and scale of each feature.
        self.units = np.zeros((2, 0)) if units is None else np.stack([units.centre, units.scale])
        #: Source and target, where the command line wrote them down.
        self.origin = _origin(getattr(fitted, "stream_", None), self.rows_seen)

    @classmethod
    def of(cls, estimator: object) -> Self:
        """The facts of a fitted estimator, or an error that says what is missing."""
        if isinstance(estimator, cls):
            return estimator
        if not getattr(estimator, "history_", None):
            raise checks.refuse(
                "estimator",
                f"{type(estimator).__name__!s:.60} without a history_",
                "a fitted MiniAMPRegressor, MiniAMPClassifier or MiniAMPClusterer",
                "call fit first",
            )
        return cls(estimator)

    @cached_property
    def history(self) -> Sequence[Mapping[str, object]]:
        """The history, thinned to `MOST_BATCHES`."""
        return [self.everything[i] for i in self._kept.tolist()]

    def column(self, name: str) -> Array:
        """One number per batch, NaN where there is none."""
        return np.array([_number(entry.get(name)) for entry in self.history])

    def has(self, name: str) -> bool:
        """Whether any batch has this number."""
        return bool(np.isfinite(self.column(name)).any())

    @property
    def rows(self) -> Array:
        """Number of rows learned after each batch."""
        if self.task == "clustering":
            samples = [_number(entry.get("samples")) for entry in self.everything]
            return np.cumsum(np.asarray(samples))[self._kept]
        return self.column("rows_seen")

    @property
    def batches(self) -> Array:
        """Numbers of the batches, counted from 1."""
        own = self._kept.astype(np.float64) if self.task == "clustering" else self.column("batch")
        return own + 1.0

    @property
    def calibration(self) -> list[Array]:
        """What batches recorded of their calibration, where they did."""
        kept = [entry.get("calibration") for entry in self.everything]
        return [np.asarray(value, dtype=float) for value in kept if value is not None]

    @property
    def single(self) -> bool:
        """Whether there was one batch: nothing changes with time, and no row was predicted."""
        return len(self.everything) == 1

    @property
    def error_name(self) -> str:
        """What the prediction error is called."""
        return "squared prediction error" if self.task == "regression" else "share of errors"

    @property
    def per_feature(self) -> bool:
        """Whether a clustering has one noise per feature."""
        return self.noise.ndim > 0

    @property
    def _kept(self) -> NDArray[np.int64]:
        size = len(self.everything)
        return np.unique(np.linspace(0, size - 1, min(size, MOST_BATCHES)).round().astype(np.int64))


def lead(facts: Facts) -> str:
    """What a report is about, in a sentence."""
    target, source = facts.origin.get("target"), facts.origin.get("source")
    about = f" of {target}" if target else ""
    several = facts.task == "regression" and len(facts.groups) > 1
    if several:
        names = ", ".join(facts.groups[:MOST_NAMES])
        more = ", ..." if len(facts.groups) > MOST_NAMES else ""
        about = f" of {len(facts.groups):,} targets ({names}{more})"
    return (
        f"{facts.name}: {facts.task}{about}{f' from {source}' if source else ''}, "
        f"{counted(facts.rows_seen, 'row')} in {counted(len(facts.everything), 'batch')}, "
        f"{counted(len(facts.features), 'feature')}."
        + (" Errors and learned parameters are means over the targets." if several else "")
    )


def counted(number: int, what: str) -> str:
    """So many of something, in words."""
    return f"{number:,} {what}" + ("" if number == 1 else "es" if what.endswith("ch") else "s")


def _groups(fitted: object, clusters: bool, classes: list[str], size: int) -> list[str]:
    if clusters:
        return [f"cluster {k}" for k in range(size)]
    if not classes:
        return ["coefficient"] if size == 1 else target_labels(fitted, size)[1]
    return classes if size == len(classes) else [f"{classes[1]} against {classes[0]}"]


def _origin(saved: object, rows: int) -> dict[str, object]:
    """Source, target and missing values per feature, of a model from the command line."""
    if not isinstance(saved, dict) or "reading" not in saved:
        return {}
    source = "standard input" if saved["source"] == "-" else saved["source"]
    origin = {"source": source, "target": saved["options"].get("target")}
    means = saved["reading"].get("means")
    if means is not None:
        origin["missing"] = np.maximum(rows - np.asarray(means["count"], dtype=float), 0.0)
    return origin


def _included(given: Array) -> Array | None:
    chances = np.atleast_2d(given)
    # Priors without a spike say 1 of every coefficient, which is nothing to draw.
    return None if bool(np.all(chances == 1.0)) else chances


def _memory(posterior: Given) -> int:
    first = posterior[0] if isinstance(posterior, list) else posterior
    return int(getattr(first, "memory", 0) or 0)


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float, np.number)) else float("nan")
