"""Synthetic streams with a known truth: rows of a random design seen through a channel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from miniamp import checks
from miniamp.arrays import Array, Given
from miniamp.channels.base import Channel
from miniamp.datasets.ensembles import Draw, Ensemble, as_ensemble
from miniamp.errors import InvalidTypeError
from miniamp.posterior import Prior

#: A stratified truth is taken at even steps from at least this many sorted draws. Its power
#: then varies by about 1/sqrt(draws), below anything that a test can see.
STRATIFIED_DRAWS = 1 << 20


class ProblemBatch(NamedTuple):
    """A batch: the rows of the design, and what was observed."""

    Phi: Array  #: (M, N) array, or CSR array of the sparse ensembles
    y: Array  #: (M,)


@dataclass(frozen=True, eq=False)
class Problem:
    """A truth and a stream of rows about it, drawn lazily: one batch in memory at a time.

    Batch k has a random generator of its own. Iterating again gives the same rows again, so several
    algorithms can be compared on one problem without holding it.
    """

    truth: Array  #: (N,) read-only
    channel: Channel
    rows: int  #: rows of a batch, M_b
    batches: int
    _draw: Draw = field(repr=False)
    _entropy: tuple[int, ...] = field(repr=False)

    def __len__(self) -> int:
        return self.batches

    def __getitem__(self, k: int) -> ProblemBatch:
        if not -self.batches <= k < self.batches:
            raise IndexError(f"batch {k} of a stream of {self.batches}")
        rng = np.random.default_rng([*self._entropy, k % self.batches])
        Phi = self._draw(rng, self.rows)
        return ProblemBatch(Phi, self.channel.sample(rng, Phi @ self.truth))

    def __iter__(self) -> Iterator[ProblemBatch]:
        return (self[k] for k in range(self.batches))

    @cached_property
    def alpha(self) -> Array:
        """Rows seen after each batch over the number of coefficients, (batches,)."""
        return np.arange(1, self.batches + 1) * self.rows / len(self.truth)

    def mse(self, estimate: Array) -> float:
        """Mean squared error of an estimate of the truth."""
        return float(np.mean(np.square(estimate - self.truth)))


def glm_stream(
    prior: Prior,
    channel: Channel,
    N: int,
    alpha_b: float,
    batches: int,
    rng: Given = None,
    *,
    design: str | Ensemble = "iid",
    stratified: bool = False,
) -> Problem:
    """A truth drawn from the prior, and batches of rows (Phi, y) about it.

    Parameters
    ----------
    prior : Prior
        Where the N coefficients come from.
    channel : Channel
        How y comes about from Phi x.
    N : int
        Number of coefficients.
    alpha_b : float
        Rows of a batch over N; rounded to whole rows, at least one.
    batches : int
        How many batches.
    rng : numpy.random.Generator or int, optional
        Generator or seed; with the same seed everything is the same again.
    design : str or Ensemble
        "iid" (the paper's N(0, 1/N) entries) or another of `datasets.ensembles`.
    stratified : bool
        Take the quantiles of the prior for a truth, shuffled, instead of draws: the empirical law
        of the coefficients is then the prior, and most of the deviation from state evolution at
        finite N, which is the fluctuation of `|x|^2`, is gone (errata E5).

    Returns
    -------
    Problem
        Has `truth`; iterate over it for the batches.

    Examples
    --------
    >>> from miniamp import channels, datasets, priors
    >>> problem = datasets.glm_stream(
    ...     priors.GaussBernoulli(rho=0.3), channels.Gaussian(var=1e-8), 100, 0.2, 3, rng=0)
    >>> for Phi, y in problem:
    ...     print(Phi.shape, y.shape)
    (20, 100) (20,)
    (20, 100) (20,)
    (20, 100) (20,)
    """
    N = checks.count("N", N)
    batches = checks.count("batches", batches)
    rows = max(1, round(checks.number("alpha_b", alpha_b, above=0.0) * N))
    ensemble = as_ensemble(design)
    if not isinstance(channel, Channel):
        raise InvalidTypeError("channel", repr(channel), "a channel", "see miniamp.channels")
    if not callable(getattr(prior, "sample", None)):
        raise InvalidTypeError("prior", repr(prior), "a prior", "see miniamp.priors")
    checks.fits("prior", prior.shape, N)
    checks.fits("channel", channel.shape, rows)
    rng = checks.generator("rng", rng)
    truth = _quantiles(prior, N, rng) if stratified else prior.sample(rng, N)
    truth.setflags(write=False)
    draw = ensemble.columns(rng, N)
    entropy = tuple(int(word) for word in rng.integers(1 << 32, size=4))
    return Problem(truth, channel, rows, batches, draw, entropy)


def _quantiles(prior: Prior, N: int, rng: np.random.Generator) -> Array:
    """The (i + 1/2)/N quantiles of the prior in random order.

    From sorted draws: every prior has a sampler and few a quantile function, and those with atoms
    come out right.
    """
    if prior.shape:
        raise checks.refuse(
            "stratified",
            f"a prior with hyper-parameters of shape {prior.shape}",
            "one prior for all coefficients",
            "pass stratified=False",
        )
    each = max(STRATIFIED_DRAWS // N, 64)
    sorted_draws = np.sort(prior.sample(rng, N * each))
    return rng.permutation(sorted_draws[each // 2 :: each])
