"""Streams: where rows come from, in bounded memory; and checkpoints, to stop and go on."""

from miniamp.streams.batch import Batch
from miniamp.streams.open_stream import Stream, open_stream
from miniamp.streams.schema import Column, Schema

__all__ = [
    "Batch",
    "Column",
    "Schema",
    "Stream",
    "open_stream",
]
