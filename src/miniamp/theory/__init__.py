"""Theory: what Mini-AMP will do before it has seen a row, for every prior and channel."""

from miniamp.theory import lowrank
from miniamp.theory.choices import Choice
from miniamp.theory.curves import Curve, DecayRate, decay_rate, generalisation_error
from miniamp.theory.diagram import PhaseDiagram, phase_diagram
from miniamp.theory.law import Law
from miniamp.theory.limits import learning_curve, mmse_curve, offline_curve, online_curve
from miniamp.theory.phases import (
    BatchThresholds,
    BatchVerdict,
    Transitions,
    Verdict,
    batch_thresholds,
    transitions,
    verdict,
)
from miniamp.theory.planning import Plan, plan
from miniamp.theory.potential import FixedPoint, fixed_points, free_energy, mutual_information
from miniamp.theory.scheduling import Schedule, Sizes, schedule
from miniamp.theory.spectrum import Spectrum
from miniamp.theory.typical import ConvergedBatch, OptimalBatch, TypicalBatch

__all__ = [
    "BatchThresholds",
    "BatchVerdict",
    "Choice",
    "ConvergedBatch",
    "Curve",
    "DecayRate",
    "FixedPoint",
    "Law",
    "OptimalBatch",
    "PhaseDiagram",
    "Plan",
    "Schedule",
    "Sizes",
    "Spectrum",
    "Transitions",
    "TypicalBatch",
    "Verdict",
    "batch_thresholds",
    "decay_rate",
    "fixed_points",
    "free_energy",
    "generalisation_error",
    "learning_curve",
    "lowrank",
    "mmse_curve",
    "mutual_information",
    "offline_curve",
    "online_curve",
    "phase_diagram",
    "plan",
    "schedule",
    "transitions",
    "verdict",
]
