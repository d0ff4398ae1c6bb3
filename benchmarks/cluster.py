"""Dask: an iteration on a cluster against one process, and parallel absorb against one stream.

    python -m benchmarks.cluster [--only iterations | parallel] [--out benchmarks/results]

distributed.csv: one iteration (sweep, prior and convergence test) on 2 workers x (2000 x 5000)
float64, one thread per worker, against one process with two threads on the same rows, and against
the same iteration written with dask.array on the same workers. Least time of many, in turns.

parallel.csv: `streams.parallel_absorb` against one stream over the same 16 batches of 300 rows,
N = 1000, the signal of a row of power 1 (Gaussian coefficients) or 0.2 (sparse ones): the ratio of
the final errors, by the mean of its logarithm over three seeds.
"""

from __future__ import annotations

import argparse
import functools
import warnings
from pathlib import Path

import numpy as np

from benchmarks.timing import best, write_csv
from miniamp import Posterior, channels, designs, evidence, priors, stream
from miniamp.designs import threads
from miniamp.errors import MiniampError
from miniamp.posterior import Moments
from miniamp.streams import parallel_absorb

WORKERS, ROWS, COLUMNS = 2, 2000, 5000
PRIOR, CHANNEL = priors.GaussBernoulli(rho=0.3), channels.Gaussian(var=1e-4)


def block(k):
    """Rows and observations of one worker, made where they are needed."""
    rng = np.random.default_rng(k)
    Phi = rng.standard_normal((ROWS, COLUMNS)) / np.sqrt(COLUMNS)
    truth = PRIOR.sample(np.random.default_rng(99), COLUMNS)
    return Phi, Phi @ truth + 1e-2 * rng.standard_normal(ROWS)


def iteration(design, y):
    """A refinement in the midst of a batch, ready to be repeated."""
    rows, belief = evidence.Batch(design, y, CHANNEL), Posterior(PRIOR, COLUMNS)
    step = rows.refine(belief, *rows.start(belief))
    return lambda: rows.refine(belief, step.estimate, step.memory)


def dask_iteration(client, averaged):
    """The same with dask.array on rows that the workers hold."""
    import dask
    import dask.array as da

    made = [dask.delayed(block)(k) for k in range(WORKERS)]
    Phi = da.concatenate([da.from_delayed(m[0], (ROWS, COLUMNS), float) for m in made])
    y = da.concatenate([da.from_delayed(m[1], (ROWS,), float) for m in made])
    Phi, y = client.persist([Phi, y])
    g = client.persist(da.zeros(WORKERS * ROWS, chunks=ROWS))
    belief = Posterior(PRIOR, COLUMNS)
    x, v = belief.moments
    mean_square = 1.0 / COLUMNS

    def run():
        V = mean_square * v.sum() if averaged else (Phi**2) @ v
        answer = 1.0 / (CHANNEL.var + V) * da.ones_like(y)
        new = answer * (y - Phi @ x + V * g)
        pull = Phi.T @ new
        curvature = mean_square * answer.sum() if averaged else (Phi**2).T @ answer
        pull, curvature, _ = dask.compute(pull, curvature, (new**2).mean())
        return Moments(*PRIOR.moments(curvature, pull + curvature * x))

    return run


def iterations(out):
    from distributed import Client, LocalCluster

    cores = threads.cores()  # before a cluster tells all of this process to take one
    whole = [block(k) for k in range(WORKERS)]
    Phi, y = np.vstack([rows for rows, _ in whole]), np.concatenate([y for _, y in whole])
    del whole
    table = []
    with (
        LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        far = designs.Distributed([functools.partial(block, k) for k in range(WORKERS)], client)
        for name, averaged in (("GAMP, vector variances", False), ("AMP, scalar variances", True)):
            here, there = (d.averaged() if averaged else d for d in (designs.as_design(Phi), far))
            one, ours = best(iteration(here, y), iteration(there, y), repeats=3, turns=120)
            (theirs,) = best(dask_iteration(client, averaged), repeats=5, turns=3)
            table.append(
                {
                    "iteration": name,
                    "workers": WORKERS,
                    "threads per worker": 1,
                    "rows x columns per worker": f"{ROWS} x {COLUMNS}",
                    "threads of one process": cores,
                    "one process, ms": 1e3 * one,
                    "Distributed, ms": 1e3 * ours,
                    "dask.array, ms": 1e3 * theirs,
                    "Distributed / one process": ours / one,
                    "dask.array / one process": theirs / one,
                }
            )
            print(table[-1], flush=True)
    write_csv(out / "distributed.csv", table)


def batch(size, rows, prior, noise, seed, k):
    """Batch k of a stream, made on the worker that absorbs it."""
    rng = np.random.default_rng((seed, k))
    Phi = rng.standard_normal((rows, size)) / np.sqrt(size)
    truth = prior.sample(np.random.default_rng(seed), size)
    return Phi, Phi @ truth + np.sqrt(noise) * rng.standard_normal(rows)


def parallel(out, size=1000, rows=300, batches=16, seeds=3):
    from distributed import Client, LocalCluster

    table = []
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=4, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        for prior in (priors.Gaussian(), priors.GaussBernoulli(rho=0.2)):
            for noise in (1.0, 0.1, 0.01):
                runs = [
                    ratios(client, prior, noise, size, seed, [
                        functools.partial(batch, size, rows, prior, noise, seed, k)
                        for k in range(batches)
                    ])
                    for seed in range(seeds)
                ]  # fmt: skip
                for width, latest in runs[0]:
                    found = np.array([run[width, latest] for run in runs])
                    kept = found[np.isfinite(found)]
                    table.append(
                        {
                            "prior": repr(prior),
                            "noise variance": noise,
                            "at once": width,
                            "a batch starts from": "the latest sum" if latest else "its own stream",
                            "error / one stream": float(np.exp(np.mean(np.log(kept)))),
                            "least": float(kept.min()),
                            "most": float(kept.max()),
                            "refused": int(len(found) - len(kept)),
                        }
                    )
                    print(table[-1], flush=True)
    write_csv(out / "parallel.csv", table)


def ratios(client, prior, noise, size, seed, sources):
    """Errors of parallel absorb over that of one stream, by how many and how."""
    truth, channel = prior.sample(np.random.default_rng(seed), size), channels.Gaussian(var=noise)
    start = Posterior(prior, size)
    *_, (alone, _) = stream(start, (evidence.Batch(*load(), channel) for load in sources))
    found = {}
    for width in (2, 4, 8):
        for latest in (True, False):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    belief, _ = parallel_absorb(
                        start, sources, channel, client, at_once=width, latest=latest
                    )
                except MiniampError:
                    found[width, latest] = np.nan
                    continue
            error, best = (np.mean(np.square(b.mean - truth)) for b in (belief, alone))
            found[width, latest] = error / best
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["iterations", "parallel"], default=None)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    if given.only != "parallel":
        iterations(given.out)
    if given.only != "iterations":
        parallel(given.out)


if __name__ == "__main__":
    main()
