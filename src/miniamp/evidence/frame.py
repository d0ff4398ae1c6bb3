"""A frame for features as they come: where their zeros and units are, and an intercept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, cast

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.designs import Design, Framed
from miniamp.designs.base import row_blocks
from miniamp.designs.dense import (
    WORTH_COMPILING,
    checked_matrix,
    column_sums,
    framed,
    sweepable,
    trusted,
)


class Ranges(NamedTuple):
    """Smallest and largest value and sum of each column of some rows, (N,) each."""

    low: Array
    high: Array
    total: Array
    power: Array | None = None  #: sum of the squared distances from a centre, where it was given

    @classmethod
    def of(cls, X: Array, centre: Array | None = None) -> Self:
        """Those of X, in float64; `LINE` entries of short rows at once.

        With a `centre`, for rows that are swept by compiled code, in one compiled pass.
        """
        if centre is not None and sweeps_pay(X):
            return cls(*column_sums(X, centre))
        (M, N), kinds = X.shape, (np.minimum, np.maximum, np.add)
        several = LINE // N
        if several < 2 or 8 * several > M or not X.flags.c_contiguous:
            low, high = (kind.reduce(X, 0).astype(np.float64, copy=False) for kind in kinds[:2])
            return cls(low, high, np.add.reduce(X, 0, np.float64))
        whole = M - M % several
        lines, rest = X[:whole].reshape(-1, several * N), X[whole:]
        found = (kind.reduce(lines, 0, np.float64).reshape(several, N) for kind in kinds)
        parts = zip(kinds, found, strict=True)
        return cls(*(kind.reduce(np.vstack([own, rest]), 0) for kind, own in parts))


@dataclass(frozen=True, eq=False)
class Frame:
    """Where each feature's zero and unit are: zeros fixed at first sight, units too or followed.

    A stream cannot be standardised: its means and scales are only known at the end. It need not be.
    Any fixed change of zero and unit is a change of coordinates under which a belief stays valid
    for ever, and that of the first batch brings features of wildly different scales into one range;
    what the first batch gets wrong by a factor, the solver and the learned prior put right. A
    feature that has been constant carries no information, so its unit can still be chosen later.

    A feature that is mostly zero keeps its zero (sparse rows stay sparse) and takes the root mean
    square of its other values for a unit; the others take mean and standard deviation. The
    intercept is a last column of ones; give it a wide prior with `priors.WithIntercept`.

    A prior of one width says how much each feature is expected to matter, and with units of one
    standard deviation all are expected to matter alike. `following` keeps the units at the root
    mean square of all rows so far, zeros among them, which for rare features is only known late;
    the belief then changes units with `belief.stretched(old.stretch(new))`, which is exact.

    Examples
    --------
    >>> import numpy as np
    >>> frame = Frame.of(np.array([[1e6, 5.0], [3e6, 5.0]]))
    >>> frame.rows(np.array([[3e6, 5.0]]))
    array([[1., 0., 1.]])
    >>> frame.seeing(np.array([[2e6, 4.0], [2e6, 6.0]])).scale  # the second feature now varies
    array([1.e+06, 1.e+00])
    >>> old = Frame.none(1).following(np.array([[0.0], [4.0], [0.0], [0.0]]))
    >>> new = old.following(np.zeros((12, 1)))
    >>> old.scale, new.scale, old.stretch(new)  # a coefficient is half as large a unit
    (array([2.]), array([1.]), array([0.5, 1. ]))
    """

    #: Zero and unit of each feature, (N,) each; the scale is 0 while the feature has not varied.
    centre: Array
    scale: Array
    started: Array  #: (N,) of bool: which features have a centre
    #: Rows that the scales were taken from, where they are followed; of sparse rows those alone in
    #: which the feature is not zero.
    counted: int | NDArray[np.integer] = 0

    @classmethod
    def none(cls, size: int) -> Frame:
        """The frame of so many features of which nothing has been seen."""
        return cls(np.zeros(size), np.zeros(size), np.zeros(size, dtype=bool))

    @classmethod
    def of(cls, Phi: Given) -> Frame:
        """The frame of a first batch."""
        size = Phi.shape[1] if hasattr(Phi, "shape") and len(Phi.shape) == 2 else 0
        size = size or checked_matrix(Phi).shape[1]
        return cls.none(size).seeing(Phi)

    def seeing(self, Phi: Given) -> Frame:
        """The frame that also fixes the features which vary in `Phi` for the first time."""
        self._check(Phi)
        new = self.scale == 0.0
        if not new.any():
            return self
        sparse, every = scipy.sparse.issparse(Phi), bool(new.all())
        part: Any = scipy.sparse.csc_array(Phi) if sparse else checked_matrix(Phi)
        part = (part if every else part[:, new]).astype(np.float64, copy=False)
        rows = part.shape[0]
        filled = np.asarray((part != 0.0).sum(axis=0)).ravel()
        power = part.multiply(part).sum(axis=0) if sparse else np.einsum("ij,ij->j", part, part)
        power = np.asarray(power).ravel() / np.maximum(filled, 1)
        mean = np.asarray(part.mean(axis=0)).ravel()
        mostly_zero = sparse | (filled <= 0.5 * rows)
        centre, scale, started = self.centre.copy(), self.scale.copy(), self.started.copy()
        centre[new] = np.where(
            self.started[new], self.centre[new], np.where(mostly_zero, 0.0, mean)
        )
        if sparse:
            scale[new] = np.sqrt(power)
        else:
            away = part - centre[new]
            spread = np.sqrt(np.einsum("ij,ij->j", away, away) / rows)
            scale[new] = np.where(mostly_zero, np.sqrt(power), spread)
        # A column that is constant up to rounding has not varied.
        scale[new] = np.where(scale[new] > CONSTANT * np.abs(centre[new]), scale[new], 0.0)
        started[new] = True
        return replace(self, centre=centre, scale=scale, started=started)

    def following(self, Phi: Given) -> Frame:
        """The frame whose units are the root mean squares of all rows so far, these among them.

        Those of sparse rows are of the stored entries alone: with zeros among them, a prior of one
        width would expect a word that occurs once in a million rows to matter as much in all as one
        in every second row. Centres stay where they were first. What was framed before is carried
        over by `stretch`.
        """
        if scipy.sparse.issparse(Phi):
            return self._following_sparse(scipy.sparse.csr_array(Phi))
        return self.framing(checked_matrix(Phi), intercept=False)[0]

    def framing(
        self,
        Phi: Given,
        intercept: bool,
        follow: bool = True,
        *,
        swept: bool = False,
        power: Array | None = None,
    ) -> tuple[Frame, Design]:
        """The frame after checked rows, `following` or `seeing`, and the `design` of them.

        `power` is the sum of (Phi - centre)^2 over the rows, where that is known.
        """
        Phi = self._with_centres(Phi)
        if scipy.sparse.issparse(Phi) or not follow:
            frame = self.following(Phi) if follow else self.seeing(Phi)
            return frame, frame.design(Phi, intercept, swept=swept)
        X, first = cast(Array, Phi), self.seeing(Phi)
        (M, N), blocks = X.shape, row_blocks(*X.shape)
        as_they_are = swept and sweeps_pay(X)
        if as_they_are:
            if power is None or first is not self:
                power = column_sums(X, first.centre)[3]
        else:
            # Whole rows, contiguous in memory: two thirds of the time of their first columns.
            made, row, squares = np.empty((M, N + intercept)), *np.zeros((2, N + intercept))
            row[:N] = first.centre
            for block in blocks:  # in the cache: a third of the time
                own = made[block]
                own[:, :N] = X[block]
                own[:, N:] = 1.0
                own -= row
                squares += np.einsum("ij,ij->j", own, own)
            power = squares[:N]
        counted = self.counted + M
        scale = np.sqrt((self.counted * np.square(self.scale) + power) / counted)
        if not first.scale.all():
            scale = np.where((scale > 0.0) & (first.scale > 0.0), scale, first.scale)
        frame = Frame(first.centre, scale, first.started, counted)
        unit = frame._unit
        if as_they_are:
            square = float(np.sum(power * np.square(unit))) + M * intercept
            known = square / (M * (N + intercept))
            return frame, Framed(X, frame.centre, unit, intercept=intercept, mean_square=known)
        row[:N], row[N:] = unit, 1.0
        made *= row
        return frame, trusted(made)

    def design(self, Phi: Given, intercept: bool, *, swept: bool = False) -> Design:
        """The design of checked rows, which will be `swept` a few times (predicted, or by AMP).

        No copy is made where that pays.
        """
        if swept and isinstance(Phi, np.ndarray) and sweeps_pay(Phi):
            return Framed(Phi, self.centre, self._unit, intercept=intercept)
        return trusted(self.rows(Phi, intercept=intercept, checked=True))

    @property
    def _unit(self) -> Array:
        """One over the scale of each feature, 0 of those that have not varied."""
        if self.scale.all():
            return np.asarray(1.0 / self.scale)
        return np.divide(1.0, self.scale, out=np.zeros_like(self.scale), where=self.scale > 0.0)

    def _following_sparse(self, Phi: scipy.sparse.csr_array) -> Frame:
        """Only features with an entry are looked at: most of a million have none."""
        self._check(Phi)
        filled = Phi.data != 0.0
        where, places = np.unique(Phi.indices[filled], return_inverse=True)
        count = np.bincount(places)
        power = np.bincount(places, np.square(Phi.data[filled], dtype=np.float64)).astype(float)
        scale, started = self.scale.copy(), self.started.copy()
        counted = np.array(np.broadcast_to(self.counted, scale.shape))
        power += counted[where] * np.square(scale[where])
        new = counted[where] == 0.0
        counted[where] += count
        scale[where], started[where] = np.sqrt(power / counted[where]), True
        # One entry near zero would be a unit in which the next entries are huge: R2 fell to -255
        # with 3,000 features and 100 rows at a time. So a new feature has one typical entry more.
        own = np.log(scale[where])
        typical = float(own @ count) / max(int(count.sum()), 1)
        scale[where[new]] = np.exp((count * own + typical) / (count + 1.0))[new]
        return replace(self, scale=scale, started=started, counted=counted)

    def stretch(self, new: Frame, *, intercept: bool = True) -> Array:
        """By how much the coefficients grow, (N,) or (N + 1,), when their features' units do."""
        factor = np.ones(len(self.scale) + intercept)
        if np.ndim(new.counted) == 0:  # all columns of dense rows
            both = np.minimum(self.scale, new.scale) > 0.0
            np.divide(new.scale, self.scale, out=factor[: len(both)], where=both)
            return factor
        changed = np.flatnonzero(self.scale != new.scale)  # few of many columns of sparse rows
        old, now = self.scale[changed], new.scale[changed]
        both = (old > 0.0) & (now > 0.0)
        factor[changed] = np.divide(now, old, out=np.ones(len(changed)), where=both)
        return factor

    def rows(self, Phi: Given, *, intercept: bool = True, checked: bool = False) -> Any:
        """`Phi` in this frame, (M, N) or with the intercept's ones (M, N + 1); sparse stays sparse.

        Features that have not yet varied are zero. `checked` rows are known to be finite floats.
        """
        self._check(Phi)
        Phi = self._with_centres(Phi)
        if scipy.sparse.issparse(Phi):
            return self._sparse_rows(scipy.sparse.csr_array(Phi), intercept)
        X = cast(Array, Phi) if checked else checked_matrix(Phi)
        return framed(X, self.centre, self._unit, X.shape[1] + intercept)

    def _with_centres(self, Phi: Given) -> Given:
        """Sparse rows as an array, if features have centres."""
        sparse = scipy.sparse.issparse(Phi) and self.centre.any()
        return scipy.sparse.csr_array(Phi).toarray() if sparse else Phi

    def _sparse_rows(self, Phi: scipy.sparse.csr_array, intercept: bool) -> scipy.sparse.csr_array:
        """The stored entries in their units, and a one at the end of each row.

        A feature that has never been seen is in the units that others have: its coefficient is as
        unknown as theirs were.
        """
        units = self.scale[Phi.indices]
        if not units.all():
            seen = self.scale[self.scale > 0.0]
            units[units == 0.0] = np.sqrt(np.mean(np.square(seen))) if len(seen) else 1.0
        entries = Phi.data / units.astype(Phi.data.dtype)
        (M, N), indices, ends = Phi.shape, Phi.indices, Phi.indptr
        if not intercept:
            return scipy.sparse.csr_array((entries, indices, ends), shape=(M, N))
        ends = ends + np.arange(M + 1, dtype=ends.dtype)
        ones = np.zeros(ends[-1], dtype=bool)
        ones[ends[1:] - 1] = True
        data, places = np.ones(len(ones), entries.dtype), np.full(len(ones), N, indices.dtype)
        data[~ones], places[~ones] = entries, indices
        return scipy.sparse.csr_array((data, places, ends), shape=(M, N + 1))

    def _check(self, Phi: Given) -> None:
        shape = np.shape(cast(ArrayLike, Phi))
        if len(shape) != 2 or shape[1] != len(self.centre):
            raise checks.refuse(
                "Phi",
                f"shape {shape}",
                f"rows of {len(self.centre)} features",
                "use the same columns in every batch",
            )


def sweeps_pay(X: Array) -> bool:
    """Whether to sweep rows as they are, without a copy in their units."""
    return X.size >= WORTH_COMPILING and X.shape[0] >= TALL * X.shape[1] and sweepable(X)


#: Entries that NumPy reduces at once: one by one, rows of 10 take 8 times as long, of 100 twice.
LINE = 1000
#: A standard deviation this small against the mean is that of rounding.
CONSTANT = 1e-12
#: A batch of so many rows for each feature is solved in few sweeps, and without a copy 1.01 to 4
#: times as fast (100 to 1000 features); one of a twentieth takes many, and 0.83 times.
TALL = 0.5
