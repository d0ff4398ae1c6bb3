"""One realisation of a stream: errors batch after batch, for any way of absorbing a batch."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from miniamp.absorb import Stop, absorb
from miniamp.channels import Channel
from miniamp.datasets import glm_stream
from miniamp.designs import Averaged
from miniamp.errors import ConflictError, ConflictWarning
from miniamp.evidence import Batch, MeanFieldBatch
from miniamp.evidence.base import DrawnRows
from miniamp.experiments.tables import Row, rows_of
from miniamp.posterior import Posterior
from miniamp.priors import ScalarPrior
from miniamp.theory import Curve

MINI_AMP, STREAMING_VB, THEORY = "Mini-AMP", "streaming VB", "state evolution"

#: Near a threshold a finite problem never settles, at an error that is small all the same, and a
#: tolerance of 1e-6 already gives that of 1e-13 (errata E4).
STOP = Stop(max_iter=500, tol=1e-8)
#: Mean field settles slowly and is far from anything that more digits would change.
VB_STOP = Stop(max_iter=300, tol=1e-6)


@dataclass(frozen=True)
class Setup:
    """The prior and the channel of a stream, and the title of their panel."""

    title: str
    prior: ScalarPrior
    channel: Channel

    @property
    def model(self) -> tuple[ScalarPrior, Channel]:
        """Prior and channel, in the order in which functions of the theory take them."""
        return self.prior, self.channel


def seeded(*numbers: float) -> np.random.Generator:
    """A generator that belongs to these numbers: the same ones give the same problem again."""
    return np.random.default_rng([round(1e4 * number) for number in numbers])


def realisation(
    prior: ScalarPrior,
    channel: Channel,
    size: int,
    alpha_b: float,
    batches: int,
    seed: int,
    algorithm: str = MINI_AMP,
    stop: Stop | None = None,
) -> list[Row]:
    """Errors after each batch of one random problem with a stratified truth (errata E5)."""
    problem = glm_stream(
        prior, channel, size, alpha_b, batches, rng=seeded(alpha_b, seed), stratified=True
    )
    belief, errors, iterations = Posterior(prior, size), [], []
    for Phi, y in problem:
        if algorithm == MINI_AMP:
            evidence: DrawnRows[Any] = Batch(Averaged(Phi), y, channel)
        else:
            evidence = MeanFieldBatch(Phi, y, channel)
        default = STOP if algorithm == MINI_AMP else VB_STOP
        belief, number = absorbed(belief, evidence, stop or default)
        errors.append(problem.mse(belief.mean))
        iterations.append(number)
    return rows_of(
        kind=algorithm, alpha_b=alpha_b, seed=seed, batch=np.arange(1, batches + 1),
        alpha=problem.alpha, mse=errors, iterations=iterations,
    )  # fmt: skip


def absorbed(belief: Posterior, rows: DrawnRows[Any], stop: Stop) -> tuple[Posterior, int]:
    """The belief after a batch, and its iterations; a refused batch leaves it as it was, after 0.

    As it would in use.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConflictWarning)
            belief, info = absorb(belief, rows, stop)
        return belief, info.iterations
    except ConflictError:
        return belief, 0


def curve_rows(kind: str, curve: Curve, **own: float) -> list[Row]:
    """A curve of the theory as rows of the same table."""
    batch = np.arange(1, len(curve.alpha) + 1)
    return rows_of(kind=kind, **own, batch=batch, alpha=curve.alpha, mse=curve.mse)
