"""Which design holds a given matrix."""

from __future__ import annotations

from miniamp.arrays import Given
from miniamp.designs.base import Design
from miniamp.designs.dense import Dense


def as_design(Phi: Given) -> Design:
    """`Phi` as a design: itself if it is one, else the design that suits its kind."""
    if isinstance(Phi, Design):
        return Phi
    return Dense(Phi)
