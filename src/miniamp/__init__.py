"""Streaming Bayesian inference by mini-batch approximate message passing."""

import importlib
from typing import TYPE_CHECKING, Any

from miniamp import channels, designs, errors, evidence, learning, priors
from miniamp.absorb import Info, Stop, absorb, stream
from miniamp.posterior import Posterior
from miniamp.tilt import Tilt

if TYPE_CHECKING:
    from miniamp import datasets, estimators, experiments, report, streams, theory
    from miniamp.estimators import (
        MiniAMPClassifier,
        MiniAMPClusterer,
        MiniAMPRegressor,
        from_formula,
        load,
        to_onnx,
    )

__version__ = "0.1.0"

__all__ = [
    "Info",
    "MiniAMPClassifier",
    "MiniAMPClusterer",
    "MiniAMPRegressor",
    "Posterior",
    "Stop",
    "Tilt",
    "absorb",
    "channels",
    "datasets",
    "designs",
    "errors",
    "estimators",
    "evidence",
    "experiments",
    "from_formula",
    "learning",
    "load",
    "priors",
    "report",
    "stream",
    "streams",
    "theory",
    "to_onnx",
]

#: Parts that are imported when they are asked for: they, or what they need, take long to load.
_PARTS = ("datasets", "estimators", "experiments", "report", "streams", "theory")
#: What lives in `miniamp.estimators`, which needs scikit-learn.
_ESTIMATORS = (
    "MiniAMPClassifier",
    "MiniAMPClusterer",
    "MiniAMPRegressor",
    "from_formula",
    "load",
    "to_onnx",
)


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return importlib.import_module(f"miniamp.{name}")
    if name in _ESTIMATORS:
        return getattr(importlib.import_module("miniamp.estimators"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
