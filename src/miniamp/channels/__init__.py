"""Output channels: how an observation comes about from z = Phi_mu . x. One a file."""

from miniamp.channels.base import Channel
from miniamp.channels.gaussian import Gaussian
from miniamp.channels.interval import Interval
from miniamp.channels.logistic import Logistic
from miniamp.channels.numerical import Numerical
from miniamp.channels.poisson import Poisson
from miniamp.channels.probit import Probit
from miniamp.channels.student_t import StudentT

__all__ = [
    "Channel",
    "Gaussian",
    "Interval",
    "Logistic",
    "Numerical",
    "Poisson",
    "Probit",
    "StudentT",
]
