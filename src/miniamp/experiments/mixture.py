"""The left of figure 3: a synthetic Gaussian mixture, streamed, against its state evolution."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from miniamp import channels, priors
from miniamp.absorb import Stop, absorb
from miniamp.arrays import Array
from miniamp.evidence import FactorBatch
from miniamp.experiments.streaming import MINI_AMP, THEORY, seeded
from miniamp.experiments.tables import Row
from miniamp.posterior import Posterior
from miniamp.theory import lowrank

R, NOISE = 5, 0.1
#: Below this batch size state evolution learns nothing of the labels.
ALPHA_C = R**2 * NOISE**2
SIZES = (0.1, 0.2, 0.3, 0.5, 1.0)
ALPHA_MAX = 4.0
#: Overlap by chance that a finite problem starts with; it grows, so a factor shifts the escape by a
#: batch or two (errata L14).
SEED = 1e-4
SEEDED = f"{THEORY}, seeded"

#: How far a batch below the threshold is iterated decides how fast it leaves the symmetric point.
STOP = Stop(max_iter=200, tol=1e-7)


def predicted(alpha_b: float, seed: float) -> list[Row]:
    """State evolution from the symmetric point, or from a small overlap."""
    curve = lowrank.learning_curve(
        priors.GaussianRows(R), priors.OneHot(R), NOISE, alpha_b, alpha_max=ALPHA_MAX, seed=seed
    )
    return [
        {
            "kind": SEEDED if seed else THEORY,
            "alpha_b": alpha_b,
            "batch": k + 1,
            "alpha": float(curve.alpha[k]),
            "mse": float(curve.mse[k]),
            "loss": float(curve.label_error[k]),
        }
        for k in range(len(curve.alpha))
    ]


def simulated(alpha_b: float, seed: int, size: int) -> list[Row]:
    """One instance: error of U and 0-1 loss of each batch's labels."""
    rng = seeded(alpha_b, seed, 3)
    U = rng.normal(size=(size, R))
    columns, channel = round(alpha_b * size), channels.Gaussian(var=NOISE)
    belief: Posterior = Posterior(priors.GaussianRows(R), size)
    rows: list[Row] = []
    for k in range(int(ALPHA_MAX / alpha_b + 1e-9)):
        labels = rng.integers(R, size=columns)
        Y = U[:, labels] / np.sqrt(size) + np.sqrt(NOISE) * rng.normal(size=(size, columns))
        batch = FactorBatch(Y, channel, priors.OneHot(R), rng=rng)
        belief, info = absorb(belief, batch, STOP)
        order = matched(U, belief.mean)
        found = belief.columns[:, order].argmax(axis=1)  # type: ignore[attr-defined]
        rows.append(
            {
                "kind": MINI_AMP,
                "alpha_b": alpha_b,
                "seed": seed,
                "batch": k + 1,
                "alpha": (k + 1) * columns / size,
                "mse": float(np.mean(np.square(U - belief.mean[:, order]))),
                "loss": float(np.mean(found != labels)),
                "iterations": info.iterations,
            }
        )
    return rows


def matched(truth: Array, estimate: Array) -> Array:
    """For each true component, which estimated one stands for it: labels have no names."""
    return np.asarray(linear_sum_assignment(-truth.T @ estimate)[1])
