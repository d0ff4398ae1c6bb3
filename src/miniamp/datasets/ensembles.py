"""Random designs, independent or not: what draws the rows of a synthetic problem.

An ensemble first fixes what belongs to the columns (their scales, factors, copies) for the whole
stream, and then draws the rows of one batch after the other. All are scaled so that the mean
squared entry is 1/N, as in the paper's i.i.d. designs.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TypeAlias

import numpy as np
import scipy.sparse

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.errors import InvalidTypeError

#: Draws a batch: (generator, number of rows) to an (M, N) array or CSR matrix.
Draw: TypeAlias = Callable[[np.random.Generator, int], Array]


def bounded(default: float, **bounds: float) -> float:
    """A parameter of an ensemble, with the bounds that `checks.number` or `count` take."""
    return field(default=default, metadata=bounds)


@dataclass(frozen=True)
class Ensemble(ABC):
    """A distribution of designs."""

    def __post_init__(self) -> None:
        for given in fields(self):
            check: Callable[..., object] = checks.count if given.type == "int" else checks.number
            check(given.name, getattr(self, given.name), **given.metadata)

    @abstractmethod
    def columns(self, rng: np.random.Generator, N: int) -> Draw:
        """What draws batches of N columns, once what belongs to the columns is fixed."""


@dataclass(frozen=True)
class Iid(Ensemble):
    """Independent entries N(0, 1/N): the designs of the paper, where Mini-AMP is optimal.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> Iid().columns(rng, 4)(rng, 2).shape
    (2, 4)
    """

    def columns(self, rng: np.random.Generator, N: int) -> Draw:
        return lambda rng, M: _normal(rng, M, N)


@dataclass(frozen=True)
class Correlated(Ensemble):
    """Rows that are AR(1) series: columns i and j correlate as correlation**|i - j|."""

    correlation: float = bounded(0.5, above=-1.0, most=1.0 - 1e-12)

    def columns(self, rng: np.random.Generator, N: int) -> Draw:
        from scipy.signal import lfilter  # slow to import, and only this ensemble needs it

        fresh = np.sqrt(1.0 - self.correlation**2)

        def draw(rng: np.random.Generator, M: int) -> Array:
            noise = _normal(rng, M, N)
            noise[:, 1:] *= fresh  # the first column starts the series in its stationary law
            return np.asarray(lfilter([1.0], [1.0, -self.correlation], noise, axis=1))

        return draw


@dataclass(frozen=True)
class Offset(Ensemble):
    """Independent entries whose mean is `offset` of their standard deviations, not zero."""

    offset: float = 1.0

    def columns(self, rng: np.random.Generator, N: int) -> Draw:
        scale = 1.0 / np.sqrt(1.0 + self.offset**2)
        return lambda rng, M: scale * (_normal(rng, M, N) + self.offset / np.sqrt(N))


@dataclass(frozen=True)
class LowRank(Ensemble):
    """A few latent factors that all columns load on, plus independent noise.

    `share` is the part of the variance that the `factors` factors carry.
    """

    factors: int = 5
    share: float = bounded(0.5, least=0.0, most=1.0)

    def columns(self, rng: np.random.Generator, N: int) -> Draw:
        loadings = rng.normal(size=(self.factors, N))
        loadings *= np.sqrt(self.share / N / np.mean(np.sum(loadings**2, axis=0)))
        noise = np.sqrt(1.0 - self.share)
        return lambda rng, M: (
            rng.normal(size=(M, self.factors)) @ loadings + noise * _normal(rng, M, N)
        )


@dataclass(frozen=True)
class IllConditioned(Ensemble):
    """Rows N(0, C), where the root of C has a geometric spectrum of the given condition number.

    The eigenvectors are uniformly random and the same in every batch, so no stack of batches is
    better conditioned than C itself.
    """

    condition: float = bounded(100.0, least=1.0)

    def columns(self, rng: np.random.Generator, N: int) -> Draw:
        spectrum = np.geomspace(1.0, 1.0 / self.condition, N)
        spectrum /= np.sqrt(np.mean(spectrum**2))
        basis, triangle = np.linalg.qr(rng.normal(size=(N, N)))
        root = spectrum[:, None] * (basis * np.sign(np.diag(triangle))).T
        return lambda rng, M: _normal(rng, M, N) @ root


@dataclass(frozen=True)
class SparseBinary(Ensemble):
    """Entries that are one value with probability `density`, else zero; a CSR matrix."""

    density: float = bounded(0.01, above=0.0, most=1.0)

    def columns(self, rng: np.random.Generator, N: int) -> Draw:
        value = 1.0 / np.sqrt(N * self.density)

        def draw(rng: np.random.Generator, M: int) -> Array:
            counts = rng.binomial(N, self.density, size=M)
            where = [np.sort(rng.choice(N, n, replace=False, shuffle=False)) for n in counts]
            indptr = np.concatenate([[0], np.cumsum(counts)])
            data = np.full(int(indptr[-1]), value)
            parts = (data, np.concatenate(where), indptr)
            rows: Array = scipy.sparse.csr_array(parts, shape=(M, N))  # used like a dense one
            return rows

        return draw


@dataclass(frozen=True)
class RowScales(Ensemble):
    """Independent entries in rows of log-normal scales: `spread` is that of their logarithm."""

    spread: float = bounded(1.0, least=0.0)

    def columns(self, rng: np.random.Generator, N: int) -> Draw:
        return lambda rng, M: _log_normal(rng, M, self.spread)[:, None] * _normal(rng, M, N)


@dataclass(frozen=True)
class ColumnScales(Ensemble):
    """Independent entries in columns of log-normal scales, the same in every batch."""

    spread: float = bounded(1.0, least=0.0)

    def columns(self, rng: np.random.Generator, N: int) -> Draw:
        scales = _log_normal(rng, N, self.spread)
        scales /= np.sqrt(np.mean(scales**2))
        return lambda rng, M: scales * _normal(rng, M, N)


@dataclass(frozen=True)
class Duplicated(Ensemble):
    """Independent entries, but a `share` of the columns repeats another column exactly."""

    share: float = bounded(0.1, least=0.0, most=0.5)

    def columns(self, rng: np.random.Generator, N: int) -> Draw:
        order = rng.permutation(N)
        copies = round(self.share * N)
        source = np.arange(N)
        source[order[:copies]] = order[copies : 2 * copies]
        return lambda rng, M: _normal(rng, M, N)[:, source]


#: The ensembles by the name that `glm_stream` takes, each with its defaults.
BY_NAME: dict[str, type[Ensemble]] = {
    re.sub("(?<!^)(?=[A-Z])", "_", kind.__name__).lower(): kind
    for kind in Ensemble.__subclasses__()
}


def as_ensemble(design: Given) -> Ensemble:
    """`design` as an ensemble: itself if it is one, else the one of that name.

    Examples
    --------
    >>> as_ensemble("correlated")
    Correlated(correlation=0.5)
    """
    if isinstance(design, Ensemble):
        return design
    if isinstance(design, str) and design in BY_NAME:
        return BY_NAME[design]()
    expected = f"an ensemble or one of {', '.join(BY_NAME)}"
    raise InvalidTypeError("design", repr(design), expected, "see miniamp.datasets.ensembles")


def _normal(rng: np.random.Generator, M: int, N: int) -> Array:
    entries = rng.normal(size=(M, N))
    entries *= 1.0 / np.sqrt(N)
    return entries


def _log_normal(rng: np.random.Generator, size: int, spread: float) -> Array:
    """Log-normal scales of mean square 1."""
    return np.exp(spread * rng.normal(size=size) - spread**2)
