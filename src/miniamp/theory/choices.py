"""Choices: the ways to cut a stream into equal batches, and what each of them leads to."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from miniamp.arrays import Given
from miniamp.channels import Channel
from miniamp.theory.curves import Curve
from miniamp.theory.limits import learning_curve, offline_alpha, online_alpha, online_curve
from miniamp.theory.spectrum import Spectrum

#: Batches into which the rows of a single one are cut, to look for a cheaper choice.
CUTS = (1, 2, 3, 5, 10, 20, 50, 100)
MOST_BATCHES = 5_000


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


def ways_to_batch(
    prior: Given,
    channel: Channel,
    features: int,
    target: float | None,
    budget: int | None,
    limit: float | None,
    design: Spectrum | None = None,
) -> list[Choice]:
    """One batch of all rows, that cut into pieces, the largest batch in memory, single rows."""
    if target is None and budget is not None:
        all_rows = budget
        online_rows = budget
    else:
        assert target is not None
        all_rows = int(np.ceil(offline_alpha(prior, channel, target, design) * features))
        online_rows = int(np.ceil(online_alpha(prior, channel, target) * features))
        if budget is not None:
            all_rows, online_rows = min(all_rows, budget), min(online_rows, budget)
    sizes = {max(int(np.ceil(all_rows / cut)), 1): f"in {cut} pieces" for cut in CUTS}
    sizes[all_rows] = "all rows at once"
    if limit is not None:
        fitting = largest_batch(limit, features)
        if 1 < fitting < all_rows:
            sizes[fitting] = "all that fits"
    found = []
    for size in sorted(sizes, reverse=True):
        if size == 1 and all_rows > 1:
            continue
        number = min(max(-(-online_rows // size), -(-all_rows // size)) + 1, MOST_BATCHES)
        if budget is not None:
            number = max(min(number, budget // size), 1)
        curve = learning_curve(prior, channel, size / features, batches=number, design=design)
        found.append(_choice(sizes[size], features, size, size / features, curve, target))
    grid = np.linspace(0.0, online_rows / features, 101)[1:]
    curve = online_curve(prior, channel, grid)
    found.append(_choice("one row at a time", features, 1, 0.0, curve, target, online_rows))
    return found


def _choice(
    name: str,
    features: int,
    size: int,
    alpha_b: float,
    curve: Curve,
    target: float | None,
    online_rows: int | None = None,
) -> Choice:
    rows, last = None, len(curve.mse) - 1
    if target is not None:
        # The last point of an online curve is the target itself, up to rounding.
        reached = curve.first(target * (1.0 + 1e-9))
        if reached is not None:
            last = reached
            rows = round(float(curve.alpha[last]) * features)
            if online_rows is not None:
                rows = min(max(rows, 1), online_rows)
    memory, shown = memory_of(size, features), curve.head(last + 1)
    return Choice(name, alpha_b, size, memory, rows, float(curve.mse[last]), shown)


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
