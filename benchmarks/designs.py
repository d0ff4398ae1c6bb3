"""Every solver on every design: errors, calibration, and whether anything ever diverges.

    python -m benchmarks.designs [--seeds 5] [--size 300] [--only noise] [--out benchmarks/results]

Three tables, printed and written as CSV.

designs_noise.csv: one batch of N = 400 coefficients (rho = 0.3) and 360 rows of eight designs, at
noise 1e-2 to 1e-8, twice as many seeds. The error of RobustBatch over that of the plain vector AMP
of tests/evidence/test_robust.py, and for both the error over the variance that they predict:
geometric means, with the least and the largest of the seeds. At finite N that ratio scatters, for
the plain one as well.

designs.csv: N coefficients, Gauss-Bernoulli with rho = 0.1, noise 0.01, 20 batches of N/5 rows. The
error is relative to the signal's power. `coverage` is that of 90 % credible intervals of the
coefficients, by the randomised probability integral transform: a plain interval of a coefficient
that is surely zero always covers it, so the plain figure (`plain`) of a perfectly calibrated sparse
belief is far above 90 %. `predictive` is the share of the next batch inside its 90 % intervals.

soundness.csv: small problems of every design, prior, channel and batch size; counts runs that
raised or ended in a number that is not finite.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from tests.evidence.test_robust import HARD, correlated, vector_amp

from benchmarks.timing import write_csv
from miniamp import Posterior, Stop, absorb, channels, evidence, priors
from miniamp.datasets import ensembles, glm_stream
from miniamp.errors import MiniampError

DESIGNS = {
    "i.i.d.": ensembles.Iid(),
    "AR(.5)": ensembles.Correlated(0.5),
    "AR(.95)": ensembles.Correlated(0.95),
    "non-zero mean": ensembles.Offset(1.0),
    "ten factors": ensembles.LowRank(10, 0.9),
    "row scales": ensembles.RowScales(1.0),
    "column scales": ensembles.ColumnScales(1.0),
    "sparse binary": ensembles.SparseBinary(0.02),
    "duplicated 10 %": ensembles.Duplicated(0.1),
    "all duplicated": ensembles.Duplicated(0.5),
    "condition 1e6": ensembles.IllConditioned(1e6),
}
PRIORS = {
    "Gauss-Bernoulli": priors.GaussBernoulli(0.1),
    "Laplace": priors.Laplace(0.3),
    "Gaussian": priors.Gaussian(var=0.1),
}
CHANNELS = {
    "Gaussian": channels.Gaussian(1e-2),
    "probit": channels.Probit(1e-2),
    "logistic": channels.Logistic(),
}
STOP = Stop(max_iter=100)


def dense(Phi):
    return Phi.toarray() if hasattr(Phi, "toarray") else Phi


def streamed(prior, channel, batches, N, memory, solver):
    belief = Posterior(prior, N, memory=memory)
    for Phi, y in batches:
        belief, _ = absorb(belief, solver(Phi, y, channel), STOP)
    return belief


def calibration(belief, truth, rng):
    draws = belief.sample(rng, 2000)
    below, equal = np.mean(draws < truth, axis=0), np.mean(draws == truth, axis=0)
    rank = below + rng.random(len(truth)) * equal
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    return np.mean((rank > 0.05) & (rank < 0.95)), np.mean((low <= truth) & (truth <= high))


def lasso(A, Y):
    from sklearn.linear_model import LassoCV

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LassoCV(cv=5, alphas=40, fit_intercept=False, max_iter=5000).fit(A, Y).coef_


def one_run(design, N, seed):
    prior, channel = PRIORS["Gauss-Bernoulli"], CHANNELS["Gaussian"]
    problem = glm_stream(prior, channel, N, 0.2, 21, seed, design=design)
    data = [(dense(Phi), y) for Phi, y in problem]
    (*past, (next_Phi, next_y)) = data
    A, Y = np.vstack([Phi for Phi, _ in past]), np.concatenate([y for _, y in past])
    truth = problem.truth
    power = np.mean(np.square(truth))
    runs = {
        "Mini-AMP": lambda: streamed(prior, channel, past, N, 0, evidence.Batch),
        "auto, memory 0": lambda: streamed(prior, channel, past, N, 0, evidence.AutoBatch),
        "robust, memory 0": lambda: streamed(prior, channel, past, N, 0, evidence.RobustBatch),
        "robust, memory N/4": lambda: streamed(
            prior, channel, past, N, N // 4, evidence.RobustBatch
        ),
        "robust, offline": lambda: streamed(prior, channel, [(A, Y)], N, N, evidence.RobustBatch),
    }
    rows = []
    for name, run in runs.items():
        start = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                belief = run()
        except MiniampError:
            rows.append({"solver": name, "error": np.nan, "refused": 1})
            continue
        mean, var = evidence.forecast(belief, next_Phi, channel)
        covered, plain = calibration(belief, truth, np.random.default_rng(seed))
        rows.append(
            {
                "solver": name,
                "error": np.mean(np.square(belief.mean - truth)) / power,
                "expected": np.mean(belief.var) / power,
                "coverage": covered,
                "plain": plain,
                "predictive": np.mean(np.abs(next_y - mean) < 1.645 * np.sqrt(var)),
                "seconds": time.process_time() - start,
                "refused": 0,
            }
        )
    start = time.process_time()
    error = np.mean(np.square(lasso(A, Y) - truth)) / power
    rows.append(
        {"solver": "LassoCV, all data", "error": error, "seconds": time.process_time() - start}
    )
    return rows


def accuracy(N, seeds, out):
    fields = ["error", "expected", "coverage", "plain", "predictive", "seconds", "refused"]
    table = []
    for name, design in DESIGNS.items():
        runs = [row for seed in range(seeds) for row in one_run(design, N, seed)]
        for solver in dict.fromkeys(row["solver"] for row in runs):
            mine = [row for row in runs if row["solver"] == solver]
            means = {}
            for f in fields:
                values = [row[f] for row in mine if np.isfinite(row.get(f, np.nan))]
                means[f] = float(np.mean(values)) if values else np.nan
            table.append({"design": name, "solver": solver, **means})
            shown = "  ".join(f"{f} {means[f]:9.4g}" for f in fields)
            print(f"{name:16s} {solver:20s} {shown}", flush=True)
    write_csv(out / "designs.csv", table)


def one_noise(kind, noise, seed, N=400, M=360, rho=0.3):
    """Error over plain vector AMP's, both errors over predicted variances, and the iterations."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=N) * (rng.random(N) < rho)
    Phi = correlated(kind, M, N, rng)
    y = Phi @ x + np.sqrt(noise) * rng.normal(size=M)
    rows = evidence.RobustBatch(Phi, y, channels.Gaussian(noise))
    belief, info = absorb(Posterior(priors.GaussBernoulli(rho), N), rows)
    plain, plain_var = vector_amp(Phi, y, noise, rho)
    error, other = (np.mean(np.square(mean - x)) for mean in (belief.mean, plain))
    return error, error / other, error / np.mean(belief.var), other / plain_var, info.iterations


def by_noise(seeds, out):
    def spread(values):
        mean = np.exp(np.mean(np.log(values)))
        return f"{mean:.2f} ({np.min(values):.2f} to {np.max(values):.2f})"

    table = []
    for kind in [*HARD, "condition 100", "ten factors"]:
        for noise in (1e-2, 1e-4, 1e-6, 1e-8):
            runs = [one_noise(kind, noise, seed) for seed in range(300, 300 + seeds)]
            errors, *ratios, iterations = zip(*runs, strict=True)
            line = {
                "design": kind,
                "noise": noise,
                "error": f"{np.exp(np.mean(np.log(errors))):.3g}",
            }
            names = ("over plain vector AMP", "error over variance", "the same of plain vector AMP")
            line |= dict(zip(names, map(spread, ratios), strict=True))
            table.append(line | {"iterations": f"{min(iterations)} to {max(iterations)}"})
            print("  ".join(f"{name} {value}" for name, value in table[-1].items()), flush=True)
    write_csv(out / "designs_noise.csv", table)


def soundness(N, seeds, out):
    table = []
    for name, design in DESIGNS.items():
        for prior_name, prior in PRIORS.items():
            for channel_name, channel in CHANNELS.items():
                for rows in (1, N // 10, N // 3, N, 2 * N):
                    bad, raised, errors = 0, 0, []
                    for seed in range(seeds):
                        problem = glm_stream(
                            prior, channel, N, rows / N, max(1, 2 * N // rows), seed, design=design
                        )
                        data = [(dense(Phi), y) for Phi, y in problem]
                        try:
                            belief = streamed(prior, channel, data, N, N // 4, evidence.RobustBatch)
                        except MiniampError:
                            raised += 1
                            continue
                        error = np.mean(np.square(belief.mean - problem.truth))
                        error /= np.mean(np.square(problem.truth))
                        finite = np.isfinite(belief.mean).all() and np.isfinite(belief.var).all()
                        bad += not (finite and (belief.var >= 0.0).all())
                        errors.append(error)
                    table.append(
                        {
                            "design": name,
                            "prior": prior_name,
                            "channel": channel_name,
                            "rows": rows,
                            "raised": raised,
                            "not finite": bad,
                            "error": float(np.median(errors)) if errors else np.nan,
                            "worst": float(np.max(errors)) if errors else np.nan,
                        }
                    )
        mine = [row for row in table if row["design"] == name]
        print(
            f"{name:16s} {len(mine) * seeds} runs: raised {sum(r['raised'] for r in mine)}, not "
            f"finite {sum(r['not finite'] for r in mine)}, worst error "
            f"{max(r['worst'] for r in mine):.3g}",
            flush=True,
        )
    write_csv(out / "soundness.csv", table)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--size", type=int, default=300)
    parser.add_argument("--small", type=int, default=60, help="size of the soundness problems")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--only", choices=["noise", "accuracy", "soundness"])
    given = parser.parse_args()
    if given.only in (None, "noise"):
        by_noise(2 * given.seeds, given.out)
    if given.only in (None, "accuracy"):
        accuracy(given.size, given.seeds, given.out)
    if given.only in (None, "soundness"):
        soundness(given.small, min(given.seeds, 2), given.out)


if __name__ == "__main__":
    main()
