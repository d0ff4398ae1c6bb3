"""What a report knows of an estimator: its history as columns, its coefficients, its choices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from miniamp.arrays import Array
from miniamp.errors import InvalidInputError

#: A plot shows at most so many batches: of a longer stream, so many at even distances.
MOST_BATCHES = 1000


@dataclass(frozen=True, eq=False)
class Facts:
    """A fitted estimator as its plots see it.

    Attributes
    ----------
    task : str
        "regression", "classification" or "clustering".
    history : sequence of dict
        One entry a batch, thinned to `MOST_BATCHES`.
    everything : sequence of dict
        The same, not thinned.
    features : list of str
        Names of the N features.
    groups : list of str
        Names of the K rows of `mean`: one for a regression, else classes or clusters.
    mean, std : (K, N) arrays
        Coefficients, or centres of clusters, and their standard deviations.
    included : (K, N) array or None
        Probabilities that coefficients are not zero, where the prior has such.
    """

    estimator: Any
    task: str
    history: Sequence[dict[str, Any]]
    everything: Sequence[dict[str, Any]]
    features: list[str]
    groups: list[str]
    mean: Array
    std: Array
    included: Array | None

    @classmethod
    def of(cls, estimator: Any) -> Self:
        """The facts of a fitted estimator, or an error that says what is missing."""
        if isinstance(estimator, cls):
            return estimator
        history = getattr(estimator, "history_", None)
        if not history:
            raise InvalidInputError(
                f"estimator: got {type(estimator).__name__!s:.60} without a history_, expected a "
                "fitted MiniAMPRegressor, MiniAMPClassifier or MiniAMPClusterer; call fit first"
            )
        task = _task(estimator)
        clusters = task == "clustering"
        mean = estimator.cluster_centers_ if clusters else estimator.coef_
        std = estimator.cluster_std_ if clusters else estimator.coef_std_
        mean = np.atleast_2d(mean)
        return cls(
            estimator=estimator,
            task=task,
            history=_thinned(history),
            everything=history,
            features=_names(estimator, mean.shape[1]),
            groups=_groups(estimator, mean.shape[0], task),
            mean=mean,
            std=np.atleast_2d(std),
            included=None if clusters else _included(estimator),
        )

    def column(self, name: str) -> Array:
        """One number a batch, NaN where there is none."""
        return np.array([_number(entry.get(name)) for entry in self.history])

    def has(self, name: str) -> bool:
        """Whether any batch has this number."""
        return bool(np.isfinite(self.column(name)).any())

    @property
    def rows(self) -> Array:
        """Rows seen after each batch."""
        if self.task == "clustering":
            seen = np.cumsum([entry["samples"] for entry in self.everything], dtype=float)
            return _thinned(seen)  # type: ignore[no-any-return]
        return self.column("rows_seen")

    @property
    def batches(self) -> Array:
        """Numbers of the batches, counted from 1."""
        if self.task == "clustering":
            return _thinned(np.arange(1.0, len(self.everything) + 1))  # type: ignore[no-any-return]
        return self.column("batch") + 1.0

    @property
    def calibration(self) -> list[Any]:
        """What batches recorded of their calibration, where they did."""
        kept = [entry.get("calibration") for entry in self.everything]
        return [value for value in kept if value is not None]

    @property
    def error_name(self) -> str:
        """What the error of a forecast is called."""
        return "squared error of forecasts" if self.task == "regression" else "share of mistakes"


def _task(estimator: Any) -> str:
    if hasattr(estimator, "cluster_centers_"):
        return "clustering"
    return "classification" if hasattr(estimator, "classes_") else "regression"


def _thinned(values: Any) -> Any:
    if len(values) <= MOST_BATCHES:
        return values
    kept = np.unique(np.linspace(0, len(values) - 1, MOST_BATCHES).round().astype(int))
    return values[kept] if isinstance(values, np.ndarray) else [values[i] for i in kept]


def _names(estimator: Any, size: int) -> list[str]:
    given = getattr(estimator, "feature_names_in_", None)
    return [f"x{i}" for i in range(size)] if given is None else [str(name) for name in given]


def _groups(estimator: Any, size: int, task: str) -> list[str]:
    if task == "clustering":
        return [f"cluster {k}" for k in range(size)]
    if task == "classification":
        classes = [str(name) for name in estimator.classes_]
        return classes if size == len(classes) else [f"{classes[1]} against {classes[0]}"]
    return ["coefficient"]


def _included(estimator: Any) -> Array | None:
    chances = np.atleast_2d(estimator.inclusion_probability_)
    # Priors without a spike say 1 of every coefficient, which is nothing to draw.
    return None if bool(np.all(chances == 1.0)) else chances


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float, np.number)) else float("nan")
