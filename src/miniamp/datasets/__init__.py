"""Data sets: synthetic problems with a known truth."""

from miniamp.datasets import ensembles
from miniamp.datasets.synthetic import Problem, Rows, glm_stream

__all__ = ["Problem", "Rows", "ensembles", "glm_stream"]
