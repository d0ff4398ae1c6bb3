"""One iteration against one pass of a tuned BLAS, dense and sparse."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator

import numpy as np
from scipy import sparse

from benchmarks.timing import Row, best, faster, slower
from miniamp import Posterior, channels, designs, priors
from miniamp.evidence import Batch

PRIOR = priors.GaussBernoulli(rho=0.3)


def problem(rows: int, columns: int, noise: float = 1e-8):
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((rows, columns))
    Phi /= np.sqrt(columns)
    x = rng.standard_normal(columns) * (rng.random(columns) < 0.3)
    return Phi, x, Phi @ x + np.sqrt(noise) * rng.standard_normal(rows)


def iteration(Phi, y) -> Callable[[], object]:
    """A refinement in the midst of a batch, ready to be repeated."""
    batch, belief = Batch(Phi, y, channels.Gaussian(1e-4)), Posterior(PRIOR, Phi.shape[1])
    step = batch.refine(belief, *batch.start(belief))
    return lambda: batch.refine(belief, step.estimate, step.memory)


def large() -> Iterator[Row]:
    Phi, x, y = problem(4000, 10000)
    squares, v = np.square(Phi), np.ones(10000)
    scalar, vector = iteration(designs.Averaged(Phi), y), iteration(Phi, y)

    def numpy_gamp():
        V, omega = squares @ v, Phi @ x
        answer = 1.0 / (1e-4 + V)
        g = (y - omega) * answer
        return PRIOR.moments(answer @ squares, g @ Phi)

    blas, ours, ours_vector, stored = best(lambda: Phi @ x, scalar, vector, numpy_gamp, repeats=4)
    yield slower("AMP iteration 4000 x 10000, against one BLAS pass", ours, blas, 1.25)
    yield slower("GAMP iteration, same, against one BLAS pass", ours_vector, blas, 1.5)
    yield faster("GAMP iteration, same, against NumPy, squares stored", ours_vector, stored, 3.0)
    tracemalloc.start()
    vector()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    share, megabytes = peak / Phi.nbytes, (peak / 1e6, Phi.nbytes / 1e6)
    case = "memory of a GAMP iteration over Phi itself"
    yield Row(case, *megabytes, "MB", share, "<= 0.15 of Phi", share <= 0.15)


def small() -> Iterator[Row]:
    Phi, x, y = problem(700, 2000)
    blas, ours = best(lambda: (Phi @ x, y @ Phi), iteration(designs.Averaged(Phi), y), repeats=200)
    yield slower("AMP iteration 700 x 2000, against two BLAS products", ours, blas, 1.3)


def stored_by_rows() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    Phi = sparse.random_array((20000, 50000), density=0.01, format="csr", rng=rng)
    x, y = rng.standard_normal(50000), rng.standard_normal(20000)
    scipy, ours, vector = best(
        lambda: (Phi @ x, Phi.T @ y),
        iteration(designs.Averaged(Phi), y),
        iteration(designs.Sparse(Phi), y),
        repeats=3,
    )
    yield slower("AMP iteration, CSR 20000 x 50000 at 1 %, against scipy's two", ours, scipy, 1.5)
    yield slower("GAMP iteration, same", vector, scipy, 1.5)


CASES = (large, small, stored_by_rows)
