"""Estimators in files, without pickle."""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from miniamp import checks, streams
from miniamp.errors import InvalidInputError
from miniamp.streams.beliefs import require_sound

#: Plain values, arrays and posteriors under names: what `miniamp.streams.save` writes.
State: TypeAlias = dict[str, Any]
#: Features up to which a row that tries a model out is dense.
DENSE_TRIAL = 10_000
#: No number of a saved model is larger, beliefs apart: rows are below 1e140, and sums of them kept.
LARGEST = 1e160
#: Class labels or feature names.
Labels: TypeAlias = NDArray[np.generic]
#: Attributes that are labels of features, targets and rows.
LABELS = ("feature_names_in_", "classes_", "class_count_", "target_names_in_", "labels_")


class Saved(Protocol):
    """What an estimator has learned: one frozen value."""

    @property
    def features(self) -> int: ...
    def state(self) -> State:
        """This in plain values and posteriors."""


class SaveMixin(ABC):
    """An estimator that can be saved to one file, without pickle, and resumes from it."""

    stream_: State
    n_features_in_: int
    _state: Saved
    _savable: ClassVar[dict[str, type[SaveMixin]]] = {}

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        cls._savable[cls.__name__] = cls

    def save(self, path: str | os.PathLike[str], stream: State | None = None) -> None:
        """Write the estimator to one file, all or nothing, without pickle; `miniamp.load` reads it.

        Parameters
        ----------
        path : path
            The file; a file that was there before is kept beside it (`miniamp.streams.save`).
        stream : dict, optional
            What else to keep in it, such as `batch.state()`, the position in a stream.
        """
        streams.save(path, self.state(stream))

    def state(self, stream: State | None = None) -> State:
        """The whole estimator as plain values and posteriors, for `miniamp.streams.save`."""
        parameters = self.get_params(deep=False)  # type: ignore[attr-defined]  # of BaseEstimator
        if isinstance(parameters["random_state"], (np.random.RandomState, np.random.Generator)):
            raise checks.refuse(
                "random_state",
                "a generator",
                "a whole number or None in a file",
                "set_params(random_state=0) before saving",
            )
        return {
            "estimator": type(self).__name__,
            "parameters": parameters,
            "fitted": self._fitted(),
            "stream": stream,
        }

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The estimator whose `state` this is."""
        if state.get("estimator") != cls.__name__:
            raise InvalidInputError(
                "state",
                repr(state.get("estimator")),
                repr(cls.__name__),
                "miniamp.load finds the class by itself",
            )
        for field in ("parameters", "fitted", "stream"):
            if field not in state:
                raise InvalidInputError(
                    "state", f"no field {field!r}", "all that was saved", "save it again"
                )
        new = cls(**state["parameters"])
        if state["fitted"]:
            fitted = dict(state["fitted"])
            own = {k: v for k, v in fitted["state"].items() if k != "history"}
            require_sound("", {**fitted, "state": own}, LARGEST)
            new._restore(fitted)
            new._try_out()
        if state["stream"] is not None:
            new.stream_ = state["stream"]
        return new

    def _try_out(self) -> None:
        """Predict rows of zeros: what was restored must fit together, whoever wrote it."""
        n: object = self.n_features_in_
        if not isinstance(n, (int, np.integer)) or n < 1:
            raise checks.refuse("n_features_in_", repr(n), "a whole number >= 1", "save it again")
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # about names that zeros do not have
            for k in (2, 3):  # a number of rows that an array has by chance would be broadcast
                rows = np.zeros((k, n)) if n <= DENSE_TRIAL else sp.csr_array((k, n))
                self.predict(rows)  # type: ignore[attr-defined]  # of every estimator here

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a saved estimator of this class; see `miniamp.load`."""
        state = streams.load(path)
        with streams.restoring(path):
            return cls.from_state(state)

    def _label_names(self) -> list[str]:
        return [name for name in LABELS if hasattr(self, name)]

    def _fitted(self) -> State:
        """What was learned, as plain values and posteriors; empty before the first batch."""
        if not hasattr(self, "_state"):
            return {}
        labels = {name: labels_state(getattr(self, name)) for name in self._label_names()}
        return {**labels, "state": self._state.state()}

    def _restore(self, fitted: State) -> None:
        """The way back from `_fitted`."""
        self._state = self._state_of(fitted.pop("state"))
        self.n_features_in_ = self._state.features
        for name, labels in fitted.items():
            setattr(self, name, labels_of(labels))

    @abstractmethod
    def _state_of(self, state: State) -> Saved:
        """The way back from the state of what was learned."""


def load(path: str | os.PathLike[str]) -> Any:
    """Load a saved estimator, which then resumes bit for bit as if it had never stopped.

    What was saved with it (`save(path, stream=...)`) is its attribute `stream_`.

    Raises
    ------
    CheckpointError
        The file is cut short, altered, or no checkpoint; see `miniamp.streams.load`.

    Examples
    --------
    >>> import tempfile
    >>> from miniamp.estimators import MiniAMPRegressor
    >>> model = MiniAMPRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.1, 1.9])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/m.amp")
    ...     again = load(f"{folder}/m.amp")
    >>> bool((again.coef_ == model.coef_).all())
    True
    """
    state = streams.load(path)
    name = str(state.get("estimator"))
    if name not in SaveMixin._savable:
        raise InvalidInputError(
            os.fspath(path),
            repr(state.get("estimator", "no estimator")),
            "a saved estimator",
            "miniamp.streams.load reads any checkpoint",
        )
    with streams.restoring(path):
        return SaveMixin._savable[name].from_state(state)


def labels_state(labels: Labels) -> Labels | list[object]:
    """Class labels or feature names as an array, or where they are objects as a list."""
    labels = np.asarray(labels)
    return labels if labels.dtype.kind != "O" else labels.tolist()


def labels_of(state: Labels | list[object]) -> Labels:
    """The way back from `labels_state`."""
    return state if isinstance(state, np.ndarray) else np.array(state, dtype=object)
