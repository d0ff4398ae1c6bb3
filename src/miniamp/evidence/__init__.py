"""Evidence: what a belief can absorb."""

from miniamp.evidence.batch import Batch, forecast

__all__ = ["Batch", "forecast"]
