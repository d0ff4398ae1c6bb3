"""Choices: the ways to cut a stream into batches, and what each of them leads to."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from miniamp.channels import Channel
from miniamp.errors import InvalidInputError
from miniamp.priors import ScalarPrior
from miniamp.theory.curves import Curve
from miniamp.theory.limits import learning_curve, offline_alpha, online_alpha, online_curve
from miniamp.theory.scheduling import Schedule, schedule
from miniamp.theory.spectrum import Spectrum

#: Batches into which the rows of a single one are cut, to look for a cheaper choice.
CUTS = (1, 2, 3, 5, 10, 20, 50, 100)
MOST_BATCHES = 5_000
#: In a stream of more batches than this, the sizes of the first few hardly matter for the end.
MANY = 50


@dataclass(frozen=True, eq=False)
class Choice:
    """One way to cut a stream into batches, and what it leads to."""

    name: str
    alpha_b: float  #: rows of a batch over coefficients; 0 for one row at a time
    batch_rows: int  #: rows of a batch
    memory: int  #: bytes: a batch in double precision, and the working vectors
    rows: int | None  #: rows until the target is met; None where it is not within reach
    mse: float  #: the error when the target is met, or the budget spent
    curve: Curve = field(repr=False)  #: the predicted learning curve


@dataclass(frozen=True, eq=False)
class PlanRequest:
    """What a plan is asked for: a model, and what is wanted or limited. None where nothing is."""

    prior: ScalarPrior
    channel: Channel
    features: int
    target: float | None  #: the error to reach
    budget: int | None  #: rows that can be had
    limit: float | None  #: bytes
    design: Spectrum | None

    def choices(self) -> list[Choice]:
        """One batch of all rows, that cut into pieces, the largest batch in memory, single rows."""
        model, N = (self.prior, self.channel), self.features
        needed: list[float] = []
        if self.target is not None:
            needed = [offline_alpha(*model, self.target, self.design)]
            needed += [online_alpha(*model, self.target)]
        most = np.inf if self.budget is None else self.budget
        all_rows, online_rows = (
            int(min(np.ceil(alpha * N), most)) for alpha in needed or [np.inf, np.inf]
        )
        sizes = {max(int(np.ceil(all_rows / cut)), 1): f"in {cut} pieces" for cut in CUTS}
        sizes[all_rows] = "all rows at once"
        if self.limit is not None and 1 < largest_batch(self.limit, N) < all_rows:
            sizes[largest_batch(self.limit, N)] = "all that fits"
        found = []
        for size in sorted(sizes, reverse=True):
            if size == 1 and all_rows > 1:
                continue
            number = min(max(-(-online_rows // size), -(-all_rows // size)) + 1, MOST_BATCHES)
            number = max(int(min(number, most / size)), 1)
            curve = learning_curve(*model, size / N, batches=number, design=self.design)
            found.append(self._choice(sizes[size], size, size / N, curve))
        curve = online_curve(*model, np.linspace(0.0, online_rows / N, 101)[1:])
        found.append(self._choice("one row at a time", 1, 0.0, curve, online_rows))
        return found

    def _choice(
        self, name: str, size: int, alpha_b: float, curve: Curve, online_rows: int | None = None
    ) -> Choice:
        rows, last = None, len(curve.mse) - 1
        # The last point of an online curve is the target itself, up to rounding.
        reached = None if self.target is None else curve.first(self.target * (1.0 + 1e-9))
        if reached is not None:
            last = reached
            rows = round(float(curve.alpha[last]) * self.features)
            if online_rows is not None:
                rows = min(max(rows, 1), online_rows)
        memory, shown = memory_of(size, self.features), curve.head(last + 1)
        return Choice(name, alpha_b, size, memory, rows, float(curve.mse[last]), shown)

    def schedule(self) -> Schedule | None:
        """The best unequal batches within the memory; None without a limit, or out of reach."""
        if self.limit is None:
            return None
        N, largest = self.features, largest_batch(self.limit, self.features)
        if self.budget is not None and self.budget > MANY * largest:
            return None
        rows = None if self.budget is None else self.budget / N
        try:
            return schedule(self.prior, self.channel, rows, largest / N, self.target, self.design)
        except InvalidInputError:  # no sequence of batches so small reaches the target
            return None


def memory_of(rows: int, features: int) -> int:
    """Bytes for a batch of rows in double precision and the vectors that work on it.

    Examples
    --------
    >>> memory_of(rows=100, features=1000)
    851200
    """
    return 8 * (rows * features + 6 * features + 4 * rows)


def largest_batch(memory: float, features: int) -> int:
    """The rows of the largest batch within so many bytes; 0 where not even one fits."""
    return max(int((memory / 8.0 - 6 * features) // (features + 4)), 0)
