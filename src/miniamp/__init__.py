"""Streaming Bayesian inference by mini-batch approximate message passing."""

from miniamp import channels, datasets, designs, errors, evidence, learning, priors, theory
from miniamp.absorb import Info, Stop, absorb, stream
from miniamp.posterior import Posterior
from miniamp.tilt import Tilt

__version__ = "0.1.0"

__all__ = [
    "Info",
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
    "priors",
    "stream",
    "theory",
]
