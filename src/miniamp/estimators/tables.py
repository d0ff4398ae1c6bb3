"""What users hold rows in: frames and tables of any library, and Dask collections."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import numpy as np

from miniamp import checks
from miniamp.arrays import Given


def plain(X: Given) -> Any:
    """`X` in a form that scikit-learn takes: Arrow tables become frames, Dask is computed.

    Anything else comes back as it is.
    """
    held: Any = X
    if is_dask(X):
        return plain(held.compute())
    if _library(X) == "pyarrow" and hasattr(X, "column_names"):
        return held.to_pandas() if "pandas" in sys.modules or _has("pandas") else _columns(held)
    if _library(X) == "pyarrow":
        return X.to_numpy(zero_copy_only=False) if hasattr(X, "to_numpy") else np.asarray(X)
    return X


#: Numbers whose squares neither over- nor underflow, with room for sums of them.
LEAST, MOST = 1e-140, 1e140


def require_measurable(name: str, values: Any) -> None:
    """Refuse numbers so large or so small that their squares are none, which no unit could mend.

    Examples
    --------
    >>> require_measurable("X", np.array([1.0, 1e300]))
    Traceback (most recent call last):
    miniamp.errors.InvalidInputError: X: got 1e+300, expected numbers below 1e+140; change the units
    """
    values = values.data if hasattr(values, "tocsr") else values
    if not values.size:
        return
    largest = float(max(values.max(), -values.min()))
    if largest > MOST:
        raise checks.refuse(name, f"{largest:g}", f"numbers below {MOST:g}", "change the units")
    if 0.0 < largest < LEAST:
        raise checks.refuse(
            name,
            f"{largest:g} as the largest",
            f"zeros, or numbers above {LEAST:g}",
            "change the units",
        )


def is_dask(X: Given) -> bool:
    """Whether this is a Dask collection, without importing Dask."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "compute")


def _columns(table: Any) -> Any:
    return np.column_stack([column.to_numpy() for column in table.columns])


def _library(source: object) -> str:
    return type(source).__module__.split(".")[0]


def _has(name: str) -> bool:
    return importlib.util.find_spec(name) is not None
