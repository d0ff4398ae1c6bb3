"""Streaming Bayesian inference by mini-batch approximate message passing."""

from typing import TYPE_CHECKING, Any

from miniamp import channels, datasets, designs, errors, evidence, learning, priors, theory
from miniamp.absorb import Info, Stop, absorb, stream
from miniamp.posterior import Posterior
from miniamp.tilt import Tilt

if TYPE_CHECKING:
    from miniamp.estimators import MiniAMPClassifier, MiniAMPClusterer, MiniAMPRegressor, load

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
    "evidence",
    "learning",
    "load",
    "priors",
    "stream",
    "theory",
]

#: What lives in `miniamp.estimators`, which needs scikit-learn and is imported when asked for.
_ESTIMATORS = ("MiniAMPClassifier", "MiniAMPClusterer", "MiniAMPRegressor", "load")


def __getattr__(name: str) -> Any:
    if name in _ESTIMATORS:
        from miniamp import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
