"""A stream that is drawn and learned while the explorer looks on."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from miniamp import Posterior, absorb, evidence
from miniamp.app.question import Question
from miniamp.arrays import Array
from miniamp.errors import MiniampError
from miniamp.evidence.base import DrawnRows

#: Coefficients of a simulation: errors are within about 1/sqrt(N), 3 %, of the theory.
FEATURES = 1000


class Simulation:
    """One stream of the question's model, learned in a thread."""

    def __init__(self, question: Question, seed: int = 0) -> None:
        self.question = question
        self.mse: list[float] = []  #: after each batch so far
        self.done = False
        self.refused = 0  #: batches that were left out
        self._stopped = False
        self._seed = seed
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it after the present batch."""
        self._stopped = True

    def wait(self, timeout: float) -> None:
        """Wait for its end."""
        self._thread.join(timeout)

    def _run(self) -> None:
        prior, channel = self.question.model
        rng = np.random.default_rng(self._seed)
        x = prior.sample(rng, FEATURES)
        belief = Posterior(prior, size=FEATURES)
        for size in self.question.batches:
            if self._stopped:
                break
            Phi = drawn(self.question, size, rng)
            y = channel.sample(rng, Phi @ x)
            rows: DrawnRows[Any] = evidence.RobustBatch(Phi, y, channel)
            if self.question.condition is None:
                rows = evidence.Batch(Phi, y, channel)
            try:
                belief, _ = absorb(belief, rows)
            except MiniampError:
                self.refused += 1
            self.mse.append(float(np.mean((belief.mean - x) ** 2)))
        self.done = True


def drawn(question: Question, size: float, rng: np.random.Generator) -> Array:
    """Rows of a batch with the question's singular values, (size N, N)."""
    rows = max(1, round(size * FEATURES))
    Phi: Array = rng.normal(size=(rows, FEATURES)) / np.sqrt(FEATURES)
    if question.condition is None:
        return Phi
    U, values, Vt = np.linalg.svd(Phi, full_matrices=False)
    new = np.geomspace(1.0, 1.0 / question.condition, len(values))
    # Rows of mean squared norm 1, as those of independent entries.
    new = new * np.sqrt(rows / np.sum(new**2))
    found: Array = (U * new) @ Vt
    return found
