"""Evidence: what a belief can absorb."""

from miniamp.evidence.adf import adf
from miniamp.evidence.auto import AutoBatch, SolverChoice, choose
from miniamp.evidence.base import forecast, surprise
from miniamp.evidence.batch import Batch
from miniamp.evidence.exact import ExactBatch, choose_exact
from miniamp.evidence.factor import FactorBatch, Factors
from miniamp.evidence.frame import Frame
from miniamp.evidence.information import InformationPosterior
from miniamp.evidence.mean_field import MeanFieldBatch
from miniamp.evidence.robust import RobustBatch
from miniamp.evidence.row_scores import SoftmaxPosterior
from miniamp.evidence.softmax import SoftmaxBatch

__all__ = [
    "AutoBatch",
    "Batch",
    "ExactBatch",
    "FactorBatch",
    "Factors",
    "Frame",
    "InformationPosterior",
    "MeanFieldBatch",
    "RobustBatch",
    "SoftmaxBatch",
    "SoftmaxPosterior",
    "SolverChoice",
    "adf",
    "choose",
    "choose_exact",
    "forecast",
    "surprise",
]
