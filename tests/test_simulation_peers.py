"""ADF and streaming VB on drawn problems: N=2000, stratified truths, medians over seeds.

ADF sees each row once, so its runs part more slowly than those of Mini-AMP: log10 MSE spreads by
0.05 up to alpha = 3 and 0.12 at alpha = 6, and a median of ten is good to 0.02 and 0.05.
"""

import numpy as np
import pytest

from miniamp import Posterior, Stop, absorb, channels, datasets, priors
from miniamp.designs import Averaged
from miniamp.evidence import Batch, MeanFieldBatch, adf

N = 2000
SPARSE, QUIET = priors.GaussBernoulli(rho=0.3), channels.Gaussian(var=1e-8)


def fully_online(prior, channel, step, batches, seed):
    """MSE of ADF after each `step` of alpha."""
    drawn = datasets.glm_stream(prior, channel, N, step, batches, rng=seed, stratified=True)
    belief, mse = Posterior(prior, N), []
    for Phi, y in drawn:
        belief, _ = adf(belief, Phi, y, channel)
        mse.append(drawn.mse(belief.mean))
    return mse


@pytest.mark.slow
def test_adf_on_sparse_regression_follows_its_differential_equation(glm):
    reference = glm["slr_rho=0.3"]["online_ADF"]["Delta=1e-8"]
    np.testing.assert_allclose(reference["alpha"], 0.1 * np.arange(1, 61))
    runs = [fully_online(SPARSE, QUIET, 0.1, 60, seed) for seed in range(10)]
    off = np.abs(np.log10(np.median(runs, axis=0) / reference["E"]))
    assert np.mean(off) < 0.03
    assert np.max(off[:30]) < 0.06


@pytest.mark.slow
def test_adf_on_the_perceptron_follows_its_differential_equation(glm):
    """Up to alpha = 3.3; beyond, the equation is about to blow up (4.368, errata C4)."""
    reference = glm["perceptron_rademacher"]["online_ADF"]
    alpha = np.array(reference["alpha"])
    before = alpha < 3.5
    at = np.round(10 * alpha[before]).astype(int) - 1
    runs = [
        fully_online(priors.Rademacher(), channels.Probit(var=0.0), 0.1, 33, seed)
        for seed in range(10)
    ]
    found = np.median(runs, axis=0)[at]
    assert np.mean(np.abs(np.log10(found / np.array(reference["E"])[before]))) < 0.03


@pytest.mark.slow
def test_streaming_vb_is_far_worse_than_mini_amp():
    """alpha_b = 0.2 at alpha = 3, medians of five seeds: at least 30 times; 150 or so are seen."""
    stop = Stop(max_iter=300, tol=1e-6)
    final = {"Mini-AMP": [], "VB": []}
    for seed in range(5):
        drawn = datasets.glm_stream(SPARSE, QUIET, N, 0.2, 15, rng=seed, stratified=True)
        amp = vb = Posterior(SPARSE, N)
        for Phi, y in drawn:
            amp, _ = absorb(amp, Batch(Averaged(Phi), y, QUIET), stop)
            vb, _ = absorb(vb, MeanFieldBatch(Phi, y, QUIET), stop)
        final["Mini-AMP"].append(drawn.mse(amp.mean))
        final["VB"].append(drawn.mse(vb.mean))
    assert np.median(final["VB"]) > 30 * np.median(final["Mini-AMP"])
    # It is poor, not broken: it still beats guessing zero by two orders of magnitude.
    assert np.median(final["VB"]) < 0.01
