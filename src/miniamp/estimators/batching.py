"""How `fit` cuts data in hand into batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miniamp import theory
from miniamp.arrays import Given
from miniamp.designs import as_design
from miniamp.errors import MiniampError
from miniamp.estimators.knowledge import FEW_FEATURES
from miniamp.estimators.settings import Settings, batch_rows
from miniamp.evidence.auto import TRUSTED, spectral_outlier

#: Entries of a matrix that AMP takes at once without a thought: 64 MB.
AT_ONCE = 8_000_000
#: Multiplications that the robust solver may spend on an iteration of a batch: rows with Gaussian
#: noise are decomposed once, others again and again.
WORK, WORK_AGAIN = 2e8, 4e6
#: No batch is chosen smaller than this.
LEAST_ROWS = 128
#: Rows that are looked at to tell whether AMP can take the design.
SAMPLED = 512


def cut(batch_size: Given, settings: Settings, X: Any, rng: Any) -> Iterator[NDArray[np.int64]]:
    """The rows of each batch, in random order where there is more than one."""
    rows = X.shape[0]
    size = batch_rows(batch_size) or auto_rows(settings, X)
    pieces = -(-rows // size)
    order = np.arange(rows) if pieces == 1 else rng.permutation(rows)
    if batch_rows(batch_size) is None:
        yield from np.array_split(order, pieces)
    else:
        for begin in range(0, rows, size):
            yield order[begin : begin + size]


def auto_rows(settings: Settings, X: Any) -> int:
    """Rows of a batch: as many as the solver can take, or as the theory says are worth it."""
    rows, features = (int(n) for n in X.shape)
    if takes_amp(settings, X):
        return rows if rows * features <= AT_ONCE else _planned(settings, rows, features)
    work = WORK if settings.channel.shift_invariant else WORK_AGAIN
    memory = settings.memory_for(features)
    sizes = np.unique(np.geomspace(1, rows, 200).astype(int))
    stack = sizes + memory
    affordable = sizes[stack * features * np.minimum(stack, float(features)) <= work]
    return max(int(affordable[-1]) if len(affordable) else 1, min(LEAST_ROWS, rows))


def takes_amp(settings: Settings, X: Any) -> bool:
    """Whether the rows are such that AMP can take them."""
    if settings.solver != "auto":
        return settings.solver == "amp"
    if X.shape[1] <= FEW_FEATURES:
        return False
    sample = X[:: max(1, X.shape[0] // SAMPLED)]
    framed = settings.first_frame(sample).rows(sample, intercept=settings.intercept)
    return spectral_outlier(as_design(framed)) < TRUSTED


def _planned(settings: Settings, rows: int, features: int) -> int:
    """What `theory.plan` picks for so many rows, within 64 MB."""
    try:
        found = theory.plan(
            settings.prior, settings.channel, features, budget_rows=rows, max_memory=8.0 * AT_ONCE
        )
    except (MiniampError, NotImplementedError, ArithmeticError):  # a model without a theory
        return max(AT_ONCE // features, LEAST_ROWS)
    return min(max(found.pick.batch_rows, LEAST_ROWS), rows)
