"""Evidence: what a belief can absorb."""

from miniamp.evidence.adf import adf
from miniamp.evidence.auto import AutoBatch
from miniamp.evidence.batch import Batch, forecast
from miniamp.evidence.factor import FactorBatch, Factors
from miniamp.evidence.frame import Frame
from miniamp.evidence.mean_field import MeanFieldBatch
from miniamp.evidence.robust import RobustBatch
from miniamp.evidence.surprise import surprise

__all__ = [
    "AutoBatch",
    "Batch",
    "FactorBatch",
    "Factors",
    "Frame",
    "MeanFieldBatch",
    "RobustBatch",
    "adf",
    "forecast",
    "surprise",
]
