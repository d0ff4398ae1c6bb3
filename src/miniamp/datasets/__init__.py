"""Data sets: synthetic problems with a known truth, and real ones."""

from miniamp.datasets import ensembles
from miniamp.datasets.real import Labelled, MissingDataError, load_mnist, load_newsgroups
from miniamp.datasets.synthetic import Problem, ProblemBatch, glm_stream

__all__ = [
    "Labelled",
    "MissingDataError",
    "Problem",
    "ProblemBatch",
    "ensembles",
    "glm_stream",
    "load_mnist",
    "load_newsgroups",
]
