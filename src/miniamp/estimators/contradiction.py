"""A batch that was refused, in the words of those who gave it."""

from __future__ import annotations

from typing import Any

import numpy as np

from miniamp.errors import IllBatch


def in_words(error: IllBatch, X: Any, noise: Any) -> IllBatch:
    """The same refusal, saying of the rows X what may be the matter with them.

    Parameters
    ----------
    error : IllBatch
        What the solvers said.
    X : (M, N) array or sparse matrix
        The rows.
    noise
        The estimator's parameter.
    """
    rows = X.shape[0]
    copies = rows - _distinct(X)
    causes = []
    if copies:
        causes.append(f"{copies} of the rows are copies of others: drop those.")
    if not isinstance(noise, str):
        causes.append("The noise may be larger than the one given: try noise='learn'.")
    causes.append("If the stream itself has changed, set forget=0.9 or begin anew.")
    return IllBatch(
        f"X, y: got {rows} rows that contradict what was learned before (mean g^2 / mean(-dg) is "
        f"{error.health:.3g}, expected about 1); the estimator stays as it was. {' '.join(causes)}",
        health=error.health,
        iteration=error.iteration,
    )


def _distinct(X: Any) -> int:
    """How many different rows there are."""
    if hasattr(X, "tocsr"):
        X = X.tocsr()
        ends = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        return len({(X.indices[a:b].tobytes(), X.data[a:b].tobytes()) for a, b in ends})
    return len({row.tobytes() for row in np.ascontiguousarray(X)})
