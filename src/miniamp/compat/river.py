"""Estimators with the face of river: rows as dicts, one at a time.

Rows gather until there are `batch_size` of them and are then absorbed together, so that it makes no
difference whether they come by `learn_one` or by `learn_many`. Features and classes may come and
go: a feature that is missing from a row takes the value at which it has no effect.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from miniamp import checks
from miniamp.arrays import Array
from miniamp.errors import ConflictError, InvalidTypeError, MissingExtraError
from miniamp.estimators import HealthWarning, MiniAMPClassifier, MiniAMPRegressor
from miniamp.estimators.growth import with_classes, with_features
from miniamp.estimators.judge import class_probabilities, judge_labels, judge_numbers
from miniamp.estimators.knowledge import Judge, Knowledge
from miniamp.estimators.saved import all_or_nothing
from miniamp.estimators.settings import Settings

try:
    from river import base
except ImportError as error:
    raise MissingExtraError(
        'miniamp.compat.river needs river; install it with pip install river "miniamp[sklearn]"'
    ) from error


class _Gathering(ABC):
    """What both adapters share: rows that wait, names of features, and the knowledge so far."""

    def __init__(self, prior: str, batch_size: int, memory: int | str, forget: float) -> None:
        self.prior = prior
        self.batch_size = checks.count("batch_size", batch_size)
        self.memory = memory
        self.forget = forget
        self._names: dict[Any, int] = {}
        self._waiting: list[tuple[dict[Any, float], Any]] = []
        self._known: Knowledge | None = None

    @abstractmethod
    def _settings(self) -> Settings:
        """The settings of the estimator."""

    @abstractmethod
    def _targets(self, labels: list[Any]) -> Array:
        """Targets (M, K) as the channel takes them."""

    @property
    @abstractmethod
    def _judge(self) -> Judge:
        """What scores the forecasts of a batch."""

    def _add(self, x: dict[Any, float], y: Any) -> None:
        with all_or_nothing(self):
            self._waiting = [*self._waiting, (x, y)]
            if len(self._waiting) >= self.batch_size:
                rows, labels = zip(*self._waiting, strict=True)
                self._waiting = []
                self._absorb(list(rows), list(labels))

    def _add_many(self, X: Any, y: Any) -> None:
        columns, labels = list(X.columns), list(y)
        table = [_numbers(dict(zip(columns, row, strict=True))) for row in X.to_numpy().tolist()]
        if len(labels) != len(table):
            raise checks.refuse("y", f"{len(labels)} values", f"{len(table)}", "one for each row")
        with all_or_nothing(self):
            for row, label in zip(table, labels, strict=True):
                self._add(row, label)

    def _absorb(self, rows: list[dict[Any, float]], labels: list[Any]) -> None:
        new = sorted({name for row in rows for name in row} - self._names.keys(), key=str)
        names = {**self._names, **{name: len(self._names) + j for j, name in enumerate(new)}}
        Y = self._targets(labels)
        known = self._known
        if known is None:
            known = Knowledge(self._settings(), len(names), Y.shape[1])
        known = known.under(self._settings())
        known = with_classes(with_features(known, len(names)), max(Y.shape[1], 2))
        try:
            self._known = known.absorbed(self._matrix(rows, names, known), Y, self._judge)
        except ConflictError as error:
            self._known = known
            warnings.warn(f"{len(rows)} rows were left out: {error}", HealthWarning, stacklevel=4)
        self._names = names

    def _seen(self, rows: list[dict[Any, Any]]) -> Any:
        assert self._known is not None
        numbers = [_numbers(row) for row in rows]
        return self._known.seen(self._matrix(numbers, self._names, self._known))

    def _matrix(
        self, rows: list[dict[Any, float]], names: dict[Any, int], known: Knowledge
    ) -> Array:
        X = np.full((len(rows), len(names)), np.nan)
        for i, row in enumerate(rows):
            for name, value in row.items():
                if name in names:
                    X[i, names[name]] = value
        # Without effect: at the centre, or where there is none yet at the mean of those present.
        absent = np.isnan(X)
        centre = np.where(absent, 0.0, X).sum(axis=0) / np.maximum((~absent).sum(axis=0), 1)
        if known.frame is not None:
            centre = np.where(known.frame.started, known.frame.centre, centre)
        return np.where(absent, centre, X)


class RiverRegressor(_Gathering, base.MiniBatchRegressor):
    """`MiniAMPRegressor` for river.

    Parameters
    ----------
    prior
        As for `MiniAMPRegressor`.
    batch_size
        Rows that are absorbed together.
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

    def __init__(
        self,
        prior: str = "gaussian",
        batch_size: int = 32,
        memory: int | str = "auto",
        forget: float = 1.0,
    ) -> None:
        super().__init__(prior, batch_size, memory, forget)

    def learn_one(self, x: dict[Any, Any], y: float) -> None:
        """Learn from one row."""
        self._add(_numbers(x), _number("y", y))

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn from the rows of a frame, as by `learn_one` one after the other."""
        self._add_many(X, [_number("y", value) for value in y])

    def predict_one(self, x: dict[Any, Any]) -> float:
        """Forecast for one row; the mean so far, or 0, while nothing is absorbed."""
        return float(self._forecasts([x])[0])

    def predict_many(self, X: Any) -> Any:
        """Forecast for each row of a frame."""
        import pandas as pd

        return pd.Series(self._forecasts(X.to_dict("records")), index=X.index)

    def _forecasts(self, rows: list[dict[Any, Any]]) -> Array:
        if self._known is None:
            seen = [y for _, y in self._waiting]
            return np.full(len(rows), np.mean(seen) if seen else 0.0)
        ((channel, omega, V),) = self._seen(rows)
        return np.asarray(channel.predict(omega, V)[0])

    def _settings(self) -> Settings:
        model = MiniAMPRegressor(self.prior, memory=self.memory, forget=self.forget)
        return model._settings()

    def _targets(self, labels: list[Any]) -> Array:
        return np.array(labels, dtype=np.float64)[:, None]

    @property
    def _judge(self) -> Judge:
        return judge_numbers


class RiverClassifier(_Gathering, base.MiniBatchClassifier):
    """`MiniAMPClassifier` for river; classes may come up at any time.

    What is known of a class begins with the first batch that has it. That the rows before were not
    of it is not counted, as they are gone; its own first batches make up for that (a belief that
    began with them counted as rows at the features' centre gave the same log-loss to one part in a
    hundred, over the second and the third batch after a class came).

    Parameters
    ----------
    prior
        As for `MiniAMPClassifier`.
    batch_size
        Rows that are absorbed together.
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

    def __init__(
        self,
        prior: str = "gaussian",
        batch_size: int = 32,
        memory: int | str = "auto",
        forget: float = 1.0,
    ) -> None:
        super().__init__(prior, batch_size, memory, forget)
        self._classes: dict[Any, int] = {}

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Learn from one row."""
        self._add(_numbers(x), y)

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn from the rows of a frame, as by `learn_one` one after the other."""
        self._add_many(X, y)

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Probability of every class seen so far; empty before any."""
        return self._chances([x])[0]

    def predict_proba_many(self, X: Any) -> Any:
        """Probability of every class seen so far, for each row of a frame."""
        import pandas as pd

        return pd.DataFrame(self._chances(X.to_dict("records")), index=X.index)

    def predict_many(self, X: Any) -> Any:
        """The likeliest class of each row of a frame."""
        import pandas as pd

        chances = self._chances(X.to_dict("records"))
        found = [max(row, key=row.__getitem__) if row else None for row in chances]
        return pd.Series(found, index=X.index)

    def _chances(self, rows: list[dict[Any, Any]]) -> list[dict[Any, float]]:
        waiting = [y for _, y in self._waiting]
        fresh = [y for y in dict.fromkeys(waiting) if y not in self._classes]
        if self._known is None:
            share = {y: waiting.count(y) / len(waiting) for y in fresh}
            return [dict(share) for _ in rows]
        if len(self._classes) == 1:
            known = np.ones((len(rows), 1))
        else:
            known = class_probabilities(self._seen(rows))
        # A class that only rows in waiting have shown has, so far, the chance of a rare one.
        rare = 1.0 / (self._known.rows + len(waiting) + len(fresh))
        rest = 1.0 - rare * len(fresh)
        names = list(self._classes)
        return [
            {**dict(zip(names, (rest * row).tolist(), strict=True)), **dict.fromkeys(fresh, rare)}
            for row in known
        ]

    def _settings(self) -> Settings:
        model = MiniAMPClassifier(self.prior, memory=self.memory, forget=self.forget)
        return model._settings()

    def _targets(self, labels: list[Any]) -> Array:
        classes = dict(self._classes)
        for label in labels:
            classes.setdefault(label, len(classes))
        self._classes = classes
        places = np.array([classes[label] for label in labels])
        if len(classes) <= 2:
            return np.where(places == 1, 1.0, -1.0)[:, None]
        return np.where(places[:, None] == np.arange(len(classes)), 1.0, -1.0)

    @property
    def _judge(self) -> Judge:
        return judge_labels


def _numbers(x: dict[Any, Any]) -> dict[Any, float]:
    """A row with every value a float; refused by name where one is not."""
    return {name: _number(f"x[{name!r}]", value) for name, value in x.items()}


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InvalidTypeError(
            f"{name}: got {value!r:.60}, expected a number; encode categories first, "
            "with river.preprocessing.OneHotEncoder for instance"
        ) from None
    if not math.isfinite(number):
        raise checks.refuse(name, value, "a finite number", "drop or fill missing values")
    return number
