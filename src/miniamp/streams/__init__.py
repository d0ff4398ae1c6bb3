"""Streams: where rows come from, in bounded memory; and checkpoints, to stop and resume."""

from miniamp.streams.beliefs import decode_belief, encode_belief, register
from miniamp.streams.checkpoint import is_sound, load, lock, previous_of, restoring, save
from miniamp.streams.parallel import Absorbed, MergeWarning, merge, parallel_absorb
from miniamp.streams.schema import Column, Schema
from miniamp.streams.stream import Stream, StreamBatch, open_stream

__all__ = [
    "Absorbed",
    "Column",
    "MergeWarning",
    "Schema",
    "Stream",
    "StreamBatch",
    "decode_belief",
    "encode_belief",
    "is_sound",
    "load",
    "lock",
    "merge",
    "open_stream",
    "parallel_absorb",
    "previous_of",
    "register",
    "restoring",
    "save",
]
