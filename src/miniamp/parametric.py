"""What priors and channels share: hyper-parameters, each one value or one a coordinate."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from miniamp.arrays import Array


class Parametric:
    """An immutable object made of named hyper-parameters, kept as read-only float64 arrays.

    A subclass lists their names, which are also its constructor's arguments. A hyper-parameter of
    shape () is shared; one of shape (N,) belongs to the coordinates (of a prior) or the rows (of a
    channel). `trailing` names those that have inner axes of their own, such as the points of a
    discrete prior.
    """

    names: ClassVar[tuple[str, ...]] = ()
    trailing: ClassVar[dict[str, int]] = {}

    @property
    def shape(self) -> tuple[int, ...]:
        """() where everything is shared, (N,) where something is one a coordinate."""
        return np.broadcast_shapes(*(self._outer(name) for name in self.names))

    def at(self, where: slice | Array | int) -> Self:
        """The same object for some of its coordinates or rows; itself where all is shared."""
        if self.shape in ((), (1,)):
            return self
        return self.replaced(
            **{n: getattr(self, n)[where] for n in self.names if self._outer(n) not in ((), (1,))}
        )

    def replaced(self, **changes: Any) -> Self:
        """A copy with some hyper-parameters changed."""
        return type(self)(**{**self.parameters(), **changes})

    def parameters(self) -> dict[str, Any]:
        """The hyper-parameters by name."""
        return {name: getattr(self, name) for name in self.names}

    def _outer(self, name: str) -> tuple[int, ...]:
        shape: tuple[int, ...] = np.shape(getattr(self, name))
        return shape[: len(shape) - self.trailing.get(name, 0)]

    def __repr__(self) -> str:
        parts = (f"{n}={_short(value)}" for n, value in self.parameters().items())
        return f"{type(self).__name__}({', '.join(parts)})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            np.array_equal(getattr(self, n), getattr(other, n)) for n in self.names
        )

    __hash__ = None  # type: ignore[assignment]  # arrays have no hash


def _short(value: Any) -> str:
    array = np.asarray(value)
    if array.ndim == 0 and array.dtype.kind == "f":
        return f"{float(array):g}"
    return repr(value) if array.size < 5 else f"<{'x'.join(map(str, array.shape))} values>"
