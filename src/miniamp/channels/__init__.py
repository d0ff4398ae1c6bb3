"""Output channels: how an observation comes about from z = Phi_mu . x. One a file."""

from miniamp.channels.base import Channel
from miniamp.channels.gaussian import Gaussian
from miniamp.channels.logistic import Logistic
from miniamp.channels.probit import Probit

__all__ = ["Channel", "Gaussian", "Logistic", "Probit"]
