"""Whole tasks against those who do them today: river, plain NumPy, scikit-learn."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator

import numpy as np

from benchmarks.speed import PRIOR, problem
from benchmarks.theory import curves
from benchmarks.timing import Row, best, faster, slower
from miniamp import Posterior, Stop, absorb, channels, datasets, designs, evidence, priors
from miniamp.evidence import adf

#: Few enough for the slow side, many enough for the clock.
ROWS, THEIRS = 400, 40


def online() -> Iterator[Row]:
    """Rows of N = 1000, one by one; river's models take each as a dictionary made beforehand."""
    try:
        from river import linear_model
    except ImportError:
        print("river: not installed, left out")
        return
    columns = 1000
    Phi, _, y = problem(ROWS, columns)
    clicks = np.random.default_rng(0).random((ROWS, columns)) < 0.5  # AdPredictor reads 0 and 1
    signs, active = np.where(y > 0.0, 1.0, -1.0), clicks / np.sqrt(columns)
    as_dicts, as_clicks = ([dict(enumerate(row)) for row in m.tolist()] for m in (Phi, clicks))
    regression, predictor = linear_model.LinearRegression(), linear_model.AdPredictor()

    def learn(model, rows, seen):
        for row, one in zip(rows[:THEIRS], seen.tolist(), strict=False):
            model.learn_one(row, one)

    sparse, ridge = Posterior(PRIOR, columns), Posterior(priors.Gaussian(), columns)
    gaussian, probit = channels.Gaussian(1e-4), channels.Probit(1e-2)
    spike, plain, labels, theirs, ads = best(
        lambda: adf(sparse, Phi, y, gaussian),
        lambda: adf(ridge, Phi, y, gaussian),
        lambda: adf(ridge, active, signs, probit),
        lambda: learn(regression, as_dicts, y),
        lambda: learn(predictor, as_clicks, signs > 0.0),
        repeats=4,
        clock=time.process_time,
    )
    case, theirs, ads = "ADF a row, N = 1000, against river's", theirs / THEIRS, ads / THEIRS
    yield faster(f"{case} LinearRegression, spike and slab", spike / ROWS, theirs, 20.0)
    yield faster(f"{case} LinearRegression, Gaussian prior", plain / ROWS, theirs, 20.0)
    yield faster(f"{case} AdPredictor, labels, Gaussian prior", labels / ROWS, ads, 20.0)
    dots, eta = best(
        lambda: [row @ other for row, other in zip(Phi, Phi, strict=True)],
        lambda: PRIOR.moments(np.ones(columns), Phi[0]),
        repeats=20,
        clock=time.process_time,
    )
    least = 2.0 * dots / ROWS + eta
    yield slower("ADF a row, against two NumPy dot products and eta", spike / ROWS, least, 2.0)


def numpy_amp(Phi, y, noise, tol, most=500):
    """AMP as one writes it in an afternoon, `eq:amp1` to `eq:amp3`: every estimate in turn."""
    rows, columns = Phi.shape
    x, V, z, V_old = np.zeros(columns), 0.3, np.zeros(rows), np.inf
    for _ in range(most):
        z = y - Phi @ x + V / (noise + V_old) * z
        A = rows / columns / (noise + V)
        new, var = PRIOR.moments(A, Phi.T @ z / (noise + V) + A * x)
        V_old, V, moved = V, float(np.mean(var)), np.mean(np.abs(new - x))
        x = new
        yield x
        if moved < tol:
            return


def to_convergence() -> Iterator[Row]:
    """Each by its own rule; and NumPy stopped by one who knows x, at 1 % above its final error."""
    noise = 1e-8
    Phi, x, y = problem(1200, 2000, noise)
    start, channel = Posterior(PRIOR, 2000), channels.Gaussian(noise)

    def mini_amp():
        rows = evidence.Batch(designs.Averaged(Phi), y, channel)
        return absorb(start, rows, Stop(500, 1e-8, slack=0.1))

    def error(estimate):
        return float(np.mean((estimate - x) ** 2))

    path = [error(one) for one in numpy_amp(Phi, y, noise, 1e-6)]
    known = next(t for t, e in enumerate(path, 1) if e < 1.01 * path[-1])
    ours, theirs, oracle = best(
        mini_amp,
        lambda: list(numpy_amp(Phi, y, noise, 1e-6)),
        lambda: list(numpy_amp(Phi, y, noise, 0.0, known)),
        repeats=1,
    )
    belief, info = mini_amp()
    case = "AMP to convergence, N = 2000, alpha = 0.6, against NumPy"
    counts = f"{info.iterations} and {len(path)} iterations"
    errors = f"errors {error(belief.mean):.2e} and {path[-1]:.2e}"
    yield faster(f"{case} ({counts}, {errors})", ours, theirs, 2.0)
    yield faster(f"{case}, told to stop after {known}", ours, oracle, None)
    print("Tree-AMP: no package index has it, so it could not be installed; left out")


def clustering() -> Iterator[Row]:
    """One pass in one order; samples a second, and the accuracy of both in the pass itself."""
    from benchmarks.lowrank import one_pass, rivals
    from miniamp.estimators import MiniAMPClusterer

    try:
        data = datasets.load_mnist((0, 1, 2))
    except datasets.MissingDataError as error:
        print(error)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = one_pass(MiniAMPClusterer(3, random_state=0), data, 39, 0)
        others = rivals(3, data.X.shape[1]).items()
        for name, make in others:
            theirs = one_pass(make(0), data, 39, 0)
            case = f"MNIST 0, 1, 2 by 39, against {name} (accuracy {ours[0]:.3f}, {theirs[0]:.3f})"
            yield Row(
                case, ours[-1], theirs[-1], "samples/s", ours[-1] / theirs[-1], "reported", None
            )


def state_evolution() -> Iterator[Row]:
    fresh, again, naive = curves()
    yield faster("state evolution, a curve of 8 batches, against naive iteration", fresh, naive, 20)
    yield faster("state evolution, another curve of the same prior", again, naive, None)


CASES = (online, to_convergence, clustering, state_evolution)
