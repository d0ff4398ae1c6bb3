"""Theory of low-rank models: what streaming factorisation and clustering can reach.

The verbs of `miniamp.theory`, for Y = U V'/sqrt(N) + noise: learning curves, free energies,
transitions and verdicts.
"""

from miniamp.theory.lowrank.curve import Curve, learning_curve, mmse_curve, offline_curve
from miniamp.theory.lowrank.exchangeable import Mixture
from miniamp.theory.lowrank.potential import Energy, Pair, free_energy, mixture_free_energy
from miniamp.theory.lowrank.softmax import SoftmaxAverages, label_error, softmax_averages
from miniamp.theory.lowrank.transitions import Transitions, Verdict, transitions, verdict

__all__ = [
    "Curve",
    "Energy",
    "Mixture",
    "Pair",
    "SoftmaxAverages",
    "Transitions",
    "Verdict",
    "free_energy",
    "label_error",
    "learning_curve",
    "mixture_free_energy",
    "mmse_curve",
    "offline_curve",
    "softmax_averages",
    "transitions",
    "verdict",
]
