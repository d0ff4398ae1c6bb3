"""Theory: what Mini-AMP will do before it has seen a row, for every prior and channel."""

from miniamp.theory.curves import Curve
from miniamp.theory.law import Law
from miniamp.theory.limits import learning_curve, mmse_curve, offline_curve, online_curve
from miniamp.theory.potential import FixedPoint, fixed_points, free_energy, mutual_information
from miniamp.theory.typical import ConvergedBatch, OptimalBatch, TypicalBatch

__all__ = [
    "ConvergedBatch",
    "Curve",
    "FixedPoint",
    "Law",
    "OptimalBatch",
    "TypicalBatch",
    "fixed_points",
    "free_energy",
    "learning_curve",
    "mmse_curve",
    "mutual_information",
    "offline_curve",
    "online_curve",
]
