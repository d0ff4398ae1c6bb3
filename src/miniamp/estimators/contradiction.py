"""A batch that was refused, in the words of those who gave it."""

from __future__ import annotations

from typing import Any

import numpy as np

from miniamp.errors import ConflictError


def in_words(error: ConflictError | np.linalg.LinAlgError, X: Any, noise: Any) -> ConflictError:
    """The same refusal, saying of the rows X what may be the matter with them.

    Parameters
    ----------
    error : ConflictError or LinAlgError
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
    health = getattr(error, "health", np.nan)
    why = "that contradict what was learned before"
    if health > 2.0:
        why += f" (squared residuals {health:.3g} times as large as their error bars)"
    elif not health < 0.5:
        why = "for which no solver found an answer that holds"
    return ConflictError(
        f"X, y: got {rows} rows {why}; the estimator stays as it was. {' '.join(causes)}",
        health=health,
        iteration=getattr(error, "iteration", 0),
    )


def _distinct(X: Any) -> int:
    """How many different rows there are."""
    if hasattr(X, "tocsr"):
        X = X.tocsr()
        ends = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        return len({(X.indices[a:b].tobytes(), X.data[a:b].tobytes()) for a, b in ends})
    return len({row.tobytes() for row in np.ascontiguousarray(X)})
