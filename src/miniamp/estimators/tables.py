"""What users hold rows in: frames and tables of any library, and Dask collections."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import numpy as np

from miniamp.arrays import Given


def plain(X: Given) -> Any:
    """`X` in a form that scikit-learn takes: Arrow tables become frames, Dask is computed.

    Anything else comes back as it is.
    """
    if is_dask(X):
        return plain(X.compute())
    if _library(X) == "pyarrow" and hasattr(X, "column_names"):
        return X.to_pandas() if "pandas" in sys.modules or _has("pandas") else _columns(X)
    if _library(X) == "pyarrow":
        return X.to_numpy(zero_copy_only=False) if hasattr(X, "to_numpy") else np.asarray(X)
    return X


def is_dask(X: Given) -> bool:
    """Whether this is a Dask collection, without importing Dask."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "compute")


def _columns(table: Any) -> Any:
    return np.column_stack([column.to_numpy() for column in table.columns])


def _library(source: object) -> str:
    return type(source).__module__.split(".")[0]


def _has(name: str) -> bool:
    return importlib.util.find_spec(name) is not None
