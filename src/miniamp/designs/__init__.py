"""Designs: who holds the rows Phi, and how they are swept."""

from miniamp.designs.base import Averaged, Design, Sweep, as_design
from miniamp.designs.dense import Dense, Framed, Fused
from miniamp.designs.distributed import Distributed
from miniamp.designs.sparse import Sparse

__all__ = [
    "Averaged",
    "Dense",
    "Design",
    "Distributed",
    "Framed",
    "Fused",
    "Sparse",
    "Sweep",
    "as_design",
]
