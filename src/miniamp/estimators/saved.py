"""What all estimators share: into a file and back, and no state that is half learned."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Self

import numpy as np

from miniamp import checks, streams
from miniamp.errors import InvalidInputError


@contextmanager
def all_or_nothing(estimator: object) -> Iterator[None]:
    """While entered, an error of any kind leaves the estimator as it was before."""
    before = estimator.__dict__.copy()
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


class Saved(ABC):
    """An estimator that can be written to one file, without pickle, and go on from it."""

    stream_: dict[str, Any]

    def save(self, path: str | os.PathLike[str], stream: dict[str, Any] | None = None) -> None:
        """Write the estimator to one file, all or nothing, without pickle; `miniamp.load` reads it.

        Parameters
        ----------
        path : path
            The file; the one before it stays beside it (`miniamp.streams.save`).
        stream : dict, optional
            What else to keep in it, such as `batch.state()`, the place in a stream.
        """
        streams.save(path, self.state(stream))

    def state(self, stream: dict[str, Any] | None = None) -> dict[str, Any]:
        """All of the estimator in plain values and beliefs, as `miniamp.streams.save` takes it."""
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
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The estimator whose `state` this is."""
        if state.get("estimator") != cls.__name__:
            raise InvalidInputError(
                f"state: holds {state.get('estimator')!r}, expected {cls.__name__!r}; "
                "miniamp.load finds the class by itself"
            )
        new = cls(**state["parameters"])
        if state["fitted"]:
            new._take_fitted(dict(state["fitted"]))
        if state["stream"] is not None:
            new.stream_ = state["stream"]
        return new

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The estimator of this class that was saved; see `miniamp.load`."""
        return cls.from_state(streams.load(path))

    def _all_or_nothing(self) -> AbstractContextManager[None]:
        return all_or_nothing(self)

    @abstractmethod
    def _fitted(self) -> dict[str, Any]:
        """What was learned, in plain values and beliefs; empty before the first batch."""

    @abstractmethod
    def _take_fitted(self, fitted: dict[str, Any]) -> None:
        """The way back from `_fitted`."""
