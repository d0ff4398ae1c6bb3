"""Output channels: how an observation comes about from z = Phi_mu . x. One per file."""

from miniamp.channels.base import Channel
from miniamp.channels.gaussian import Gaussian
from miniamp.channels.interval import Interval
from miniamp.channels.logistic import Logistic
from miniamp.channels.numerical import Numerical
from miniamp.channels.poisson import Poisson
from miniamp.channels.probit import Probit
from miniamp.channels.smooth import Mislabelled
from miniamp.channels.softmax import Softmax
from miniamp.channels.student_t import StudentT

__all__ = [
    "Channel",
    "Gaussian",
    "Interval",
    "Logistic",
    "Mislabelled",
    "Numerical",
    "Poisson",
    "Probit",
    "Softmax",
    "StudentT",
    "by_name",
]


def by_name() -> dict[str, type[Channel]]:
    """The channels that have a name, as estimators and the command line know them.

    Examples
    --------
    >>> from miniamp import channels
    >>> channels.by_name()["student-t"].default()
    StudentT(df=4, scale=1)
    """
    exported = (globals()[name] for name in __all__)
    found = (one for one in exported if isinstance(one, type) and issubclass(one, Channel))
    return {one.name: one for one in found if one.name is not None}
