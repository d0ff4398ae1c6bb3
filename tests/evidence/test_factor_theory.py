"""The low-rank algorithm meets its state evolution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from miniamp import Posterior, Stop, absorb, channels, evidence, priors
from miniamp.theory import lowrank

N, R, DELTA = 1000, 5, 0.1


def centres(rng: np.random.Generator) -> np.ndarray:
    """Ground truth of exactly unit second moments, so that chance has no part in the error."""
    U = rng.normal(size=(N, R))
    return U @ np.linalg.inv(np.linalg.cholesky(U.T @ U / N)).T


def columns(U: np.ndarray, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    labels = rng.permutation(np.arange(count) % R)
    noise = np.sqrt(DELTA) * rng.normal(size=(N, count))
    return labels, U[:, labels] / np.sqrt(N) + noise


def run(alpha_b: float, batches: int, seed: int) -> np.ndarray:
    """MSE in U and 0-1 loss in V after each batch, components matched to the truth by overlap."""
    rng = np.random.default_rng(seed)
    U, belief, out = centres(rng), Posterior(priors.GaussianRows(R), N), []
    for _ in range(batches):
        labels, Y = columns(U, int(alpha_b * N), rng)
        batch = evidence.FactorBatch(Y, channels.Gaussian(var=DELTA), priors.OneHot(R), rng=seed)
        belief, _ = absorb(belief, batch, Stop(max_iter=300, tol=1e-6))
        ours, theirs = linear_sum_assignment(-belief.mean.T @ U)
        mse = np.mean((belief.mean[:, ours] - U[:, theirs]) ** 2)
        out.append((mse, np.mean(theirs[belief.columns.argmax(axis=1)] != labels)))
    return np.array(out)


@pytest.mark.slow
@pytest.mark.parametrize(("alpha_b", "batches"), [(0.5, 4), (1.0, 3)])
def test_error_and_label_loss(alpha_b: float, batches: int) -> None:
    """N = 1000, 20 instances, seeds 0 to 19.

    An instance's MSE scatters by about 4 % (1/sqrt(N) = 3 % and the labels' share); its median
    over 20 by 1 %. The loss of M labels scatters by sqrt(.2/M) = .02, its mean over 20 by .005.
    """
    found = np.array([run(alpha_b, batches, seed) for seed in range(20)])
    curve = lowrank.learning_curve(
        priors.GaussianRows(R), priors.OneHot(R), DELTA, alpha_b, batches=batches
    )
    np.testing.assert_allclose(np.median(found[:, :, 0], axis=0), curve.mse, rtol=0.03)
    np.testing.assert_allclose(np.median(found[:, :, 1], axis=0), curve.label_error, atol=0.01)


def test_one_instance_follows_the_prediction() -> None:
    """The same once, N = 1000, seed 0: 10 % for one instance's scatter of 4 %."""
    found = run(1.0, 2, 0)
    curve = lowrank.learning_curve(priors.GaussianRows(R), priors.OneHot(R), DELTA, 1.0, batches=2)
    np.testing.assert_allclose(found[:, 0], curve.mse, rtol=0.10)
    np.testing.assert_allclose(found[:, 1], curve.label_error, atol=0.04)


@pytest.mark.slow
def test_below_the_threshold_a_seed_grows_as_predicted() -> None:
    """alpha_b = .1 < alpha_c = .25: nothing of labels in the first batches; a seed grows.

    Errata L14: by 1/(1 - alpha_b/alpha_c) = 1.667 a batch; measured there 1.72 at N = 4000 and 1.78
    to 1.95 at N = 1000, seeds 0 to 5 here.
    """
    alpha_b, growth, losses = 0.1, [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        U, belief = centres(rng), Posterior(priors.GaussianRows(R), N)
        # A seed that leans on the truth in the symmetry-breaking directions.
        lean = U - U.mean(axis=1, keepdims=True)
        a = 2e-3
        belief = belief.tilted(_tilt(a / DELTA * (np.eye(R) - 1.0 / R), a / DELTA * lean, rng))
        overlaps = []
        for k in range(4):
            labels, Y = columns(U, int(alpha_b * N), rng)
            batch = evidence.FactorBatch(Y, channels.Gaussian(var=DELTA), priors.OneHot(R))
            belief, _ = absorb(belief, batch, Stop(max_iter=200, tol=1e-8))
            centred = belief.tilt.B - belief.tilt.B.mean(axis=1, keepdims=True)
            overlaps.append(DELTA * np.vdot(centred, lean) / np.vdot(lean, lean))
            if k == 0:
                losses.append(np.mean(belief.columns.argmax(axis=1) != labels))
        growth.append((overlaps[-1] / overlaps[0]) ** (1.0 / 3.0))
    assert 1.45 < np.median(growth) < 2.1
    assert np.mean(losses) > 0.6


def _tilt(A: np.ndarray, B: np.ndarray, rng: np.random.Generator) -> object:
    from miniamp import Tilt

    noise = rng.normal(size=B.shape) * np.sqrt(A[0, 0])
    return Tilt(A, B + noise - noise.mean(axis=1, keepdims=True))
