"""What channels with two classes share: labels -1 and +1."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from miniamp import checks
from miniamp.arrays import Array, ArrayOrFloat, Given
from miniamp.channels.base import Channel


class Binary(Channel):
    """A channel whose observations are the labels -1 and +1."""

    @abstractmethod
    def predict_proba(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> Array:
        """Probabilities of -1 and +1, along a last axis of length 2."""

    def predict(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        minus, plus = np.moveaxis(self.predict_proba(omega, V), -1, 0)
        return plus - minus, 4.0 * plus * minus

    def outcomes(self, omega: ArrayOrFloat, V: ArrayOrFloat) -> tuple[Array, Array]:
        both = (*self._shape_of(omega, V), 2)
        return np.broadcast_to([-1.0, 1.0], both), np.ones(both)

    def checked(self, y: Given) -> Array:
        return checked_signs(y)


def checked_signs(y: Given) -> Array:
    """Labels as -1.0 and +1.0, anything else refused by name."""
    labels = checks.numeric("y", y)
    strange = labels[np.abs(labels) != 1.0]
    if strange.size:
        raise checks.refuse(
            "y",
            f"the label {strange.flat[0]:g}",
            "only -1 and +1",
            "encode the classes as -1 and +1",
        )
    return labels
