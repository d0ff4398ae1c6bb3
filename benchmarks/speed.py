"""One iteration against one pass of a tuned BLAS; ADF and Mini-AMP against their peers."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np
from scipy import sparse

from benchmarks.timing import Row, best, faster, slower
from miniamp import Posterior, Stop, absorb, channels, designs, evidence, priors
from miniamp.evidence import Batch, adf

PRIOR = priors.GaussBernoulli(rho=0.3)


def problem(rows: int, columns: int, noise: float = 1e-8):
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((rows, columns))
    Phi /= np.sqrt(columns)
    x = rng.standard_normal(columns) * (rng.random(columns) < 0.3)
    return Phi, x, Phi @ x + np.sqrt(noise) * rng.standard_normal(rows)


def iteration(Phi, y):
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
    share = peak / Phi.nbytes
    yield Row(
        "memory of a GAMP iteration over Phi itself",
        peak / 1e6,
        Phi.nbytes / 1e6,
        "MB",
        share,
        "<= 0.15 of Phi",
        share <= 0.15,
    )


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


def online() -> Iterator[Row]:
    try:
        from river import linear_model
    except ImportError:
        return
    rows, columns = 400, 1000
    Phi, _, y = problem(rows, columns)
    start, channel = Posterior(PRIOR, columns), channels.Gaussian(1e-4)
    as_dicts = [dict(enumerate(row)) for row in Phi.tolist()]
    model = linear_model.LinearRegression()

    def river():
        for row, seen in zip(as_dicts[:40], y, strict=False):
            model.learn_one(row, seen)

    ridge = Posterior(priors.Gaussian(), columns)
    ours, like, theirs = best(
        lambda: adf(start, Phi, y, channel),
        lambda: adf(ridge, Phi, y, channel),
        river,
        repeats=2,
    )
    case = "ADF a row, N = 1000, against river's LinearRegression"
    yield faster(f"{case}, Gaussian prior", like / rows, theirs / 40, 20.0)
    yield faster(f"{case}, spike and slab", ours / rows, theirs / 40, 20.0)
    dots = best(lambda: [row @ y_ for row, y_ in zip(Phi, Phi, strict=True)], repeats=2)[0]
    eta = best(lambda: PRIOR.moments(np.ones(columns), Phi[0]), repeats=20)[0]
    yield slower(
        "ADF a row, against two NumPy dot products and eta", ours / rows, 2 * dots / rows + eta, 2.0
    )


def numpy_amp(Phi, y, noise, tol):
    """AMP as one writes it in an afternoon: `eq:amp1` to `eq:amp3`."""
    rows, columns = Phi.shape
    x, V, z, V_old = np.zeros(columns), 0.3, np.zeros(rows), np.inf
    for _ in range(500):
        z = y - Phi @ x + V / (noise + V_old) * z
        A = rows / columns / (noise + V)
        new, var = PRIOR.moments(A, Phi.T @ z / (noise + V) + A * x)
        V_old, V, moved = V, float(np.mean(var)), np.mean(np.abs(new - x))
        x = new
        if moved < tol:
            break
    return x


def to_convergence() -> Iterator[Row]:
    Phi, x, y = problem(1200, 2000)
    start, channel = Posterior(PRIOR, 2000), channels.Gaussian(1e-8)

    def mini_amp():
        rows = evidence.Batch(designs.Averaged(Phi), y, channel)
        return absorb(start, rows, Stop(500, 1e-6))[0].mean

    ours, theirs = best(mini_amp, lambda: numpy_amp(Phi, y, 1e-8, 1e-6), repeats=1)
    errors = [np.mean((m - x) ** 2) for m in (mini_amp(), numpy_amp(Phi, y, 1e-8, 1e-6))]
    case = f"AMP to convergence, N = 2000, alpha = 0.6 (errors {errors[0]:.1e}, {errors[1]:.1e})"
    yield faster(case, ours, theirs, 2.0)


CASES = (large, small, stored_by_rows, online, to_convergence)
