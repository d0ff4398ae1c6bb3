"""Evidence: what a belief can absorb."""

from miniamp.evidence.adf import adf
from miniamp.evidence.auto import AutoBatch
from miniamp.evidence.batch import Batch, forecast
from miniamp.evidence.factor import FactorBatch, Factors
from miniamp.evidence.mean_field import MeanFieldBatch
from miniamp.evidence.robust import RobustBatch

__all__ = [
    "AutoBatch",
    "Batch",
    "FactorBatch",
    "Factors",
    "MeanFieldBatch",
    "RobustBatch",
    "adf",
    "forecast",
]
