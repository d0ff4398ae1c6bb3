"""Names for the array types that every file of the package uses."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

#: Numbers as the core holds them: float64, any shape.
Array: TypeAlias = NDArray[np.float64]

#: What a formula takes elementwise: an array, or a plain number that broadcasts.
ArrayOrFloat: TypeAlias = NDArray[np.float64] | float

#: What a user may hand in: anything NumPy can turn into an array.
Given: TypeAlias = object
