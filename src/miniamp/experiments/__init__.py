"""The figures of the paper, and more, with the claims that they decide: `miniamp reproduce`."""

from miniamp.experiments import demo
from miniamp.experiments.figure import Scale, Task, load, names, reproduce
from miniamp.experiments.tables import Claim, outcome

__all__ = ["Claim", "Scale", "Task", "demo", "load", "names", "outcome", "reproduce"]
