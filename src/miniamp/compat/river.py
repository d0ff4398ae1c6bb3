"""Estimators with the river API: rows as dicts, one at a time.

Rows are collected until there are `batch_size` of them and are then absorbed together, so that
`learn_one` and `learn_many` give the same model. Features and classes may come and go: a feature
that is missing from a row has the value at which it has no effect.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.errors import ConflictError, InvalidTypeError, MissingExtraError
from miniamp.estimators import HealthWarning, MiniAMPClassifier, MiniAMPRegressor
from miniamp.estimators.base import StreamingEstimator, all_or_nothing
from miniamp.estimators.merging import with_classes, with_features
from miniamp.estimators.rows import Rows
from miniamp.estimators.scoring import RowPrediction, class_probabilities
from miniamp.estimators.state import FitState

if TYPE_CHECKING:
    import pandas as pd

try:
    from river import base
except ImportError as error:
    raise MissingExtraError(
        "miniamp.compat.river",
        expected="river",
        remedy='install it with pip install river "miniamp[sklearn]"',
    ) from error

#: Features of a row by name, as river passes them and as numbers.
GivenRow: TypeAlias = dict[Hashable, Given]
Row: TypeAlias = dict[Hashable, float]


class _Adapter(ABC):
    """What both adapters share: waiting rows, names of features, and the fit state."""

    def __init__(
        self,
        prior: str = "gaussian",
        batch_size: int = 32,
        memory: int | str = "auto",
        forget: float = 1.0,
    ) -> None:
        self.prior = prior
        self.batch_size = checks.count("batch_size", batch_size)
        self.memory = memory
        self.forget = forget
        self._names: dict[Hashable, int] = {}
        self._classes: dict[Hashable, int] = {}
        self._waiting: list[tuple[Row, Hashable]] = []
        self._state: FitState | None = None

    @property
    @abstractmethod
    def _estimator(self) -> StreamingEstimator:
        """An estimator with the same parameters."""

    @abstractmethod
    def _targets(self, labels: Sequence[Hashable]) -> Array:
        """Targets (M, K) as the channel takes them."""

    def _target(self, y: Hashable) -> Hashable:
        """A target, checked."""
        return y

    def learn_one(self, x: GivenRow, y: Hashable) -> None:
        """Learn from one row."""
        row, target = _numbers(x), self._target(y)
        with all_or_nothing(self):
            self._waiting = [*self._waiting, (row, target)]
            named = self._names or any(row for row, _ in self._waiting)  # else no model to learn
            if len(self._waiting) >= self.batch_size and named:
                rows, labels = zip(*self._waiting, strict=True)
                self._waiting = []
                self._absorb(rows, labels)

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Learn from the rows of a frame, as by `learn_one` one after the other."""
        columns, labels = list(X.columns), list(y)
        if len(labels) != len(X):
            raise checks.refuse("y", f"{len(labels)} values", f"{len(X)}", "one for each row")
        with all_or_nothing(self):
            for row, label in zip(X.to_numpy().tolist(), labels, strict=True):
                self.learn_one(dict(zip(columns, row, strict=True)), label)

    def _absorb(self, rows: Sequence[Row], labels: Sequence[Hashable]) -> None:
        new = sorted({name for row in rows for name in row} - self._names.keys(), key=str)
        names = {**self._names, **{name: len(self._names) + j for j, name in enumerate(new)}}
        Y, settings = self._targets(labels), self._estimator._settings()
        state = self._state or FitState(settings, len(names), Y.shape[1])
        state = with_features(state.with_settings(settings), len(names))
        state = with_classes(state, max(Y.shape[1], 2))
        try:
            batch = Rows(self._matrix(rows, names, state), Y)
            self._state = state.absorbed(batch)
        except (ConflictError, np.linalg.LinAlgError) as error:
            self._state = state
            warnings.warn(f"{len(rows)} rows were left out: {error}", HealthWarning, stacklevel=4)
        self._names = names

    def _predictions(self, state: FitState, rows: Sequence[GivenRow]) -> list[RowPrediction]:
        numbers = [_numbers(row) for row in rows]
        settled = state.settled
        return settled.predictions(self._matrix(numbers, self._names, settled))

    def _matrix(self, rows: Sequence[Row], names: dict[Hashable, int], state: FitState) -> Array:
        X = np.full((len(rows), len(names)), np.nan)
        for i, row in enumerate(rows):
            for name, value in row.items():
                if name in names:
                    X[i, names[name]] = value
        # Without effect: at the centre, or where there is none yet at the mean of those present.
        absent = np.isnan(X)
        centre = np.where(absent, 0.0, X).sum(axis=0) / np.maximum((~absent).sum(axis=0), 1)
        if state.frame is not None:
            centre = np.where(state.frame.started, state.frame.centre, centre)
        return np.where(absent, centre, X)


class RiverRegressor(_Adapter, base.MiniBatchRegressor):
    """`MiniAMPRegressor` for river.

    Parameters
    ----------
    prior
        As for `MiniAMPRegressor`.
    batch_size
        Rows per batch.
    memory
        As for `MiniAMPRegressor`.
    forget
        As for `MiniAMPRegressor`, for each `batch_size` rows.

    Examples
    --------
    >>> from miniamp.compat.river import RiverRegressor
    >>> model = RiverRegressor(batch_size=8)
    >>> for i in range(64):
    ...     model.learn_one({"a": i % 7, "b": i % 3}, 2.0 * (i % 7) + 1.0)
    >>> round(model.predict_one({"a": 10, "b": 0}))
    21
    """

    def predict_one(self, x: GivenRow) -> float:
        """Predicted mean for one row; the mean of y so far, or 0, before the first batch."""
        return float(self._means([x])[0])

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Predicted mean for each row of a frame."""
        import pandas as pd  # noqa: PLC0415 (optional)

        return pd.Series(self._means(X.to_dict("records")), index=X.index)

    def _means(self, rows: Sequence[GivenRow]) -> Array:
        if self._state is None:
            waiting = [float(y) for _, y in self._waiting]  # type: ignore[arg-type]  # numbers
            return np.full(len(rows), np.mean(waiting) if waiting else 0.0)
        ((channel, omega, V, _),) = self._predictions(self._state, rows)
        return np.asarray(channel.predict(omega, V)[0])

    def _target(self, y: Hashable) -> float:
        return _number("y", y)

    @property
    def _estimator(self) -> MiniAMPRegressor:
        return MiniAMPRegressor(self.prior, memory=self.memory, forget=self.forget)

    def _targets(self, labels: Sequence[Hashable]) -> Array:
        return np.array(labels, dtype=np.float64)[:, None]


class RiverClassifier(_Adapter, base.MiniBatchClassifier):
    """`MiniAMPClassifier` for river; classes may come up at any time.

    The model of a class starts with the first batch that has it. That earlier rows were not of it
    is not counted, as they are gone; its own first batches make up for that (a model that started
    with them counted as rows at the features' centre had the same log loss within one part in a
    hundred, over the second and the third batch after a class came).

    Parameters
    ----------
    prior
        As for `MiniAMPClassifier`.
    batch_size
        Rows per batch.
    memory
        As for `MiniAMPClassifier`.
    forget
        As for `MiniAMPClassifier`, for each `batch_size` rows.

    Examples
    --------
    >>> from miniamp.compat.river import RiverClassifier
    >>> model = RiverClassifier(batch_size=8)
    >>> for i in range(64):
    ...     model.learn_one({"a": i % 7}, i % 7 > 3)
    >>> model.predict_one({"a": 6}), model.predict_one({"a": 1})
    (True, False)
    """

    @property
    def _multiclass(self) -> bool:
        return True

    def predict_proba_one(  # type: ignore[override]  # labels of any type
        self, x: GivenRow, **kwargs: object
    ) -> dict[Hashable, float]:
        """Probability of every class seen so far; empty before any."""
        return self._probabilities([x])[0]

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Probability of every class seen so far, for each row of a frame."""
        import pandas as pd  # noqa: PLC0415 (optional)

        return pd.DataFrame(self._probabilities(X.to_dict("records")), index=X.index)

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """The most likely class of each row of a frame."""
        import pandas as pd  # noqa: PLC0415 (optional)

        rows = self._probabilities(X.to_dict("records"))
        found = [max(row, key=row.__getitem__) if row else None for row in rows]
        return pd.Series(found, index=X.index)

    def _probabilities(self, rows: Sequence[GivenRow]) -> list[dict[Hashable, float]]:
        waiting = [y for _, y in self._waiting]
        fresh = [y for y in dict.fromkeys(waiting) if y not in self._classes]
        if self._state is None:
            share = {y: waiting.count(y) / len(waiting) for y in fresh}
            return [dict(share) for _ in rows]
        if len(self._classes) == 1:
            known = np.ones((len(rows), 1))
        else:
            known = class_probabilities(self._predictions(self._state, rows))
        # A class that only waiting rows have shown has, so far, the probability of a rare one.
        rare = 1.0 / (self._state.rows_seen + len(waiting) + len(fresh))
        rest = 1.0 - rare * len(fresh)
        names = list(self._classes)
        return [
            {**dict(zip(names, (rest * row).tolist(), strict=True)), **dict.fromkeys(fresh, rare)}
            for row in known
        ]

    def _target(self, y: Hashable) -> Hashable:
        if not isinstance(y, Hashable):
            raise InvalidTypeError("y", repr(y), "a class", "pass a text, a number or a tuple")
        return y

    @property
    def _estimator(self) -> MiniAMPClassifier:
        return MiniAMPClassifier(self.prior, memory=self.memory, forget=self.forget)

    def _targets(self, labels: Sequence[Hashable]) -> Array:
        classes = dict(self._classes)
        for label in labels:
            classes.setdefault(label, len(classes))
        self._classes = classes
        places = np.array([classes[label] for label in labels])
        if len(classes) <= 2:
            return np.where(places == 1, 1.0, -1.0)[:, None]
        return np.where(places[:, None] == np.arange(len(classes)), 1.0, -1.0)


def _numbers(x: GivenRow) -> Row:
    """A row with every value a float; refused by name where one is not."""
    return {name: _number(f"x[{name!r}]", value) for name, value in x.items()}


def _number(name: str, value: Given) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]  # refused below
    except (TypeError, ValueError):
        raise InvalidTypeError(
            name,
            f"{value!r:.60}",
            "a number",
            "encode categories first, for instance with river.preprocessing.OneHotEncoder",
        ) from None
    if not math.isfinite(number):
        raise checks.refuse(name, value, "a finite number", "drop or fill missing values")
    return number
