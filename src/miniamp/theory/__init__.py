"""Theory: the errors of Mini-AMP, predicted without data, for every prior and channel."""

from miniamp.theory import lowrank
from miniamp.theory.balance import FixedPoint
from miniamp.theory.curves import Curve, DecayRate, decay_rate, generalisation_error
from miniamp.theory.diagram import PhaseDiagram, phase_diagram
from miniamp.theory.drift import LongRun, best_forget, long_run
from miniamp.theory.information import (
    InformationCurve,
    expected_log_evidence,
    information_curve,
    information_slope,
    y_mmse,
)
from miniamp.theory.law import ConvergedBatch, Law, OptimalBatch, TypicalBatch
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
from miniamp.theory.planning import Choice, Plan, plan
from miniamp.theory.potential import fixed_points, free_energy, mutual_information
from miniamp.theory.scheduling import Schedule, Sizes, schedule
from miniamp.theory.spectrum import Spectrum

__all__ = [
    "BatchThresholds",
    "BatchVerdict",
    "Choice",
    "ConvergedBatch",
    "Curve",
    "DecayRate",
    "FixedPoint",
    "InformationCurve",
    "Law",
    "LongRun",
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
    "best_forget",
    "decay_rate",
    "expected_log_evidence",
    "fixed_points",
    "free_energy",
    "generalisation_error",
    "information_curve",
    "information_slope",
    "learning_curve",
    "long_run",
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
    "y_mmse",
]
