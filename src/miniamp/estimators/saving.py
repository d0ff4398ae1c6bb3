"""Estimators in files: no code in them, and every bit comes back."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import scipy.sparse as sp

from miniamp import streams
from miniamp.errors import InvalidInputError
from miniamp.estimators.knowledge import Knowledge
from miniamp.estimators.settings import Settings
from miniamp.evidence import Frame
from miniamp.learning import Model


def load(path: str | os.PathLike[str]) -> Any:
    """The estimator that was saved, ready to go on bit for bit as if never stopped.

    What was saved beside it (`save(path, stream=...)`) is its attribute `stream_`.

    Raises
    ------
    CheckpointError
        The file is cut short, altered, or no checkpoint; see `miniamp.streams.load`.

    Examples
    --------
    >>> import tempfile
    >>> from miniamp.estimators import MiniAMPRegressor
    >>> model = MiniAMPRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.1, 1.9])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/m.amp")
    ...     again = load(f"{folder}/m.amp")
    >>> bool((again.coef_ == model.coef_).all())
    True
    """
    from miniamp import estimators  # every estimator that has a state, by its name

    state = streams.load(path)
    cls: Any = getattr(estimators, str(state.get("estimator")), None)
    if not hasattr(cls, "from_state"):
        raise InvalidInputError(
            f"{os.fspath(path)}: holds {state.get('estimator', 'no estimator')!r}, expected a "
            "saved estimator; miniamp.streams.load reads any checkpoint"
        )
    return cls.from_state(state)


def state_of(known: Knowledge) -> dict[str, Any]:
    """What is known, in plain values and beliefs."""
    frame = known.frame
    return {
        "features": known.features,
        "targets": known.targets,
        "rows": known.rows,
        "history": [dict(entry) for entry in known.history],
        "frame": None
        if frame is None
        else {
            "centre": frame.centre,
            "scale": frame.scale,
            "started": frame.started,
            "counted": frame.counted,
        },
        "models": [
            {
                "posterior": m.posterior,
                "channel": m.channel,
                "batches": m.batches,
                "scale_known": m.scale_known,
                "noise_known": m.noise_known,
            }
            for m in known.models
        ],
        "kept": None
        if known.kept is None
        else {
            "X": matrix_state(known.kept[0]),
            "Y": known.kept[1],
            "weights": known.kept[2],
        },
    }


def knowledge_of(state: dict[str, Any], settings: Settings) -> Knowledge:
    """The way back from `state_of`."""
    kept = state["kept"]
    return Knowledge(
        settings,
        state["features"],
        state["targets"],
        None if state["frame"] is None else Frame(**state["frame"]),
        tuple(Model(**model) for model in state["models"]),
        None if kept is None else (matrix_of(kept["X"]), kept["Y"], kept["weights"]),
        state["rows"],
        tuple(state["history"]),
    )


def labels_state(labels: Any) -> Any:
    """Class labels or names of features as an array, or where they are objects as a list."""
    labels = np.asarray(labels)
    return labels if labels.dtype.kind != "O" else labels.tolist()


def labels_of(state: Any) -> Any:
    """The way back from `labels_state`."""
    return state if isinstance(state, np.ndarray) else np.array(state, dtype=object)


def matrix_state(X: Any) -> Any:
    """Rows as an array, or where they are sparse as their parts."""
    if not sp.issparse(X):
        return X
    X = sp.csr_array(X)
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr}
    return {**parts, "shape": [int(n) for n in X.shape]}


def matrix_of(state: Any) -> Any:
    """The way back from `matrix_state`."""
    if isinstance(state, np.ndarray):
        return state
    parts = (state["data"], state["indices"], state["indptr"])
    return sp.csr_array(parts, shape=tuple(state["shape"]))
