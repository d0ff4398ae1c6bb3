"""Names for the types of arrays that every file of the package uses."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

#: Numbers as the core holds them: float64, any shape.
Array: TypeAlias = NDArray[np.float64]

#: What a formula takes elementwise: an array, or a plain number that broadcasts.
ArrayOrFloat: TypeAlias = NDArray[np.float64] | float

#: What a user passes, before it is checked: anything, such as what NumPy can make an array of.
Given: TypeAlias = object

Shape: TypeAlias = tuple[int, ...]

#: The shape of a sample: a number, a shape, or None for what the arguments broadcast to.
Size: TypeAlias = int | Shape | None
