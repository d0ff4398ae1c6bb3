"""Ctrl-C at a moment when it does no harm."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any, Self, TypeVar

T = TypeVar("T")


class Interruption:
    """While entered, Ctrl-C ends the wait for rows at once, but lets a batch be finished first.

    A second Ctrl-C ends that too; the estimator is all or nothing, so nothing is half learned.

    Attributes
    ----------
    asked : bool
        Whether Ctrl-C was pressed.
    """

    def __init__(self) -> None:
        self.asked = False
        self._waiting = False
        self._before: Any = None
        # Signals can be caught in the main thread only; elsewhere nobody sends them.
        self._works = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Self:
        if self._works:
            self._before = signal.signal(signal.SIGINT, self._caught)
        return self

    def __exit__(self, *error: object) -> None:
        if self._works:
            signal.signal(signal.SIGINT, self._before)

    def until(self, batches: Iterable[T]) -> Iterator[T]:
        """The batches, until Ctrl-C."""
        source = iter(batches)
        while not self.asked:
            try:
                self._waiting = True
                try:
                    batch = next(source)
                finally:
                    self._waiting = False
            except (StopIteration, KeyboardInterrupt):
                return
            yield batch

    def _caught(self, number: int, frame: FrameType | None) -> None:
        again, self.asked = self.asked, True
        if self._waiting or again:
            raise KeyboardInterrupt
