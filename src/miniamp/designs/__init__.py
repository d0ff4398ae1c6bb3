"""Designs: who holds Phi, and how it is swept."""

from miniamp.designs.averaged import Averaged
from miniamp.designs.base import Design, Sweep
from miniamp.designs.choose import as_design
from miniamp.designs.dense import Dense
from miniamp.designs.distributed import Distributed
from miniamp.designs.fused import Fused
from miniamp.designs.sparse import Sparse

__all__ = ["Averaged", "Dense", "Design", "Distributed", "Fused", "Sparse", "Sweep", "as_design"]
