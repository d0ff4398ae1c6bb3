"""Base class of priors and channels: hyper-parameters, shared or one per coordinate."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from miniamp.arrays import Array

#: Which coordinates or rows are meant, as NumPy indexes an array.
Places = slice | NDArray[np.integer] | int


class Parametric:
    """An immutable object made of named hyper-parameters, kept as read-only float64 arrays.

    A subclass lists their names, which are also its constructor's arguments. A hyper-parameter of
    shape () is shared; one of shape (N,) has one value per coordinate (of a prior) or per row (of a
    channel). `trailing` names those that have inner axes of their own, such as the points of a
    discrete prior.
    """

    #: What it is called where one is chosen by name, such as prior="sparse"; None if it cannot be.
    name: ClassVar[str | None] = None
    names: ClassVar[tuple[str, ...]] = ()
    recorded: ClassVar[tuple[str, ...] | None] = None  #: what a history has of it in their place
    trailing: ClassVar[dict[str, int]] = {}
    #: Those that are places on the axis, in the units of x.
    centres: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def default(cls) -> Self:
        """What `name` stands for: hyper-parameters to start learning from."""
        return cls()

    @property
    def shape(self) -> tuple[int, ...]:
        """() where everything is shared, (N,) where something has one value per coordinate."""
        return np.broadcast_shapes(*(self._outer(name) for name in self.names))

    def replaced(self, **changes: object) -> Self:
        """A copy with some hyper-parameters changed."""
        return type(self)(**{**self.parameters(), **changes})

    def parameters(self) -> dict[str, Any]:
        """The arguments of the constructor that make an equal object, by name."""
        return {name: getattr(self, name) for name in self.names}

    def change_from(self, old: Self) -> float:
        """The largest relative change of a hyper-parameter since `old`.

        Relative to its own size, or, of a centre, to the standard deviation where that is larger: a
        mean near zero has no size of its own.
        """
        changes = [0.0]
        for name in self.names:
            a, b = np.asarray(getattr(old, name)), np.asarray(getattr(self, name))
            if b.dtype.kind == "f" and a.shape == b.shape == ():  # most, and in a tenth of the time
                size = abs(float(b))
                if name in self.centres:
                    size = max(size, math.sqrt(float(np.min(getattr(self, "var", 0.0)))))
                if float(a) != float(b):
                    changes.append(abs(float(b) - float(a)) / (size or 1.0))
            elif b.dtype.kind == "f" and a.shape == b.shape:
                spread = getattr(self, "var", 0.0) if name in self.centres else 0.0
                size = np.maximum(np.abs(b), np.sqrt(spread))
                moved = np.subtract(b, a, out=np.zeros(b.shape), where=a != b)
                relative = np.abs(moved) / np.where(size > 0.0, size, 1.0)
                changes.append(float(np.max(relative, initial=0.0)))
        return max(changes)

    def _at(self, where: Places) -> Self:
        """The same object for some of its coordinates or rows; itself where all is shared."""
        if not self.shape:
            return self
        return self.replaced(**{n: getattr(self, n)[where] for n in self.names if self._outer(n)})

    def _outer(self, name: str) -> tuple[int, ...]:
        shape: tuple[int, ...] = np.shape(getattr(self, name))
        return shape[: len(shape) - self.trailing.get(name, 0)]

    def __repr__(self) -> str:
        parts = (f"{n}={_short(value)}" for n, value in self.parameters().items())
        return f"{type(self).__name__}({', '.join(parts)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Parametric) or type(self) is not type(other):
            return False
        mine, theirs = self.parameters(), other.parameters()
        return all(np.array_equal(mine[name], theirs[name]) for name in mine)

    __hash__ = None  # type: ignore[assignment]  # arrays have no hash


def _short(value: object) -> str:
    array: Array = np.asarray(value)
    if array.ndim == 0 and array.dtype.kind == "f":
        return f"{float(array):g}"
    return repr(value) if array.size < 5 else f"<{'x'.join(map(str, array.shape))} values>"
