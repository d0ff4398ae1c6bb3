"""Theory of low-rank models: what streaming factorisation and clustering can reach.

The functions of `miniamp.theory`, for Y = U V'/sqrt(N) + noise: learning curves, free energies,
transitions and verdicts.
"""

from miniamp.theory.curves import Curve
from miniamp.theory.lowrank.curves import learning_curve, mmse_curve, offline_curve
from miniamp.theory.lowrank.labels import (
    LabelLaw,
    SoftmaxAverages,
    label_error,
    softmax_averages,
)
from miniamp.theory.lowrank.matrix import (
    ConvergedColumns,
    MatrixLaw,
    OptimalColumns,
    TypicalColumns,
)
from miniamp.theory.lowrank.phases import Energy, free_energy, transitions, verdict
from miniamp.theory.phases import Transitions, Verdict

__all__ = [
    "ConvergedColumns",
    "Curve",
    "Energy",
    "LabelLaw",
    "MatrixLaw",
    "OptimalColumns",
    "SoftmaxAverages",
    "Transitions",
    "TypicalColumns",
    "Verdict",
    "free_energy",
    "label_error",
    "learning_curve",
    "mmse_curve",
    "offline_curve",
    "softmax_averages",
    "transitions",
    "verdict",
]
