"""Mini-AMP on drawn problems against state evolution: N=2000, seeds 0 to 9, medians.

The truths are stratified, which takes out the fluctuation of |x|^2 (errata E5). What is left in the
median of ten runs is about 1.25 s/sqrt(10), where s is the spread of log10 MSE between runs: 0.02
decades in the first batches and, as deviations add up from batch to batch, up to 0.15 in the last.
The bound of 0.06 decades on the mean over batches is three times what the early batches need and
twice what the late ones do.
"""

import warnings

import numpy as np
import pytest

from miniamp import Posterior, Stop, channels, datasets, errors, evidence, priors, stream
from miniamp.designs import Averaged

N, SEEDS = 2000, range(10)
SPARSE, QUIET = priors.GaussBernoulli(rho=0.3), channels.Gaussian(var=1e-8)
SIGNS, PERCEPTRON = priors.Rademacher(), channels.Probit(var=0.0)

# Tolerances below 1e-6 double the iterations and leave the MSE as it is (errata E4).
STOP = Stop(max_iter=300, tol=1e-6)


def problem(prior, channel, alpha_b, batches, seed):
    return datasets.glm_stream(prior, channel, N, alpha_b, batches, rng=seed, stratified=True)


def mini_amp(prior, channel, alpha_b, batches, seed, stop=STOP):
    """MSE and info after each batch."""
    drawn = problem(prior, channel, alpha_b, batches, seed)
    rows = (evidence.Batch(Averaged(Phi), y, channel) for Phi, y in drawn)
    run = [(drawn.mse(b.mean), info) for b, info in stream(Posterior(prior, N), rows, stop)]
    mse, infos = zip(*run, strict=True)
    return np.array(mse), infos


def median_mse(*arguments, seeds=SEEDS, **options):
    return np.median([mini_amp(*arguments, seed, **options)[0] for seed in seeds], axis=0)


def decades(mse, expected):
    return np.abs(np.log10(mse) - np.log10(expected))


@pytest.mark.slow
@pytest.mark.parametrize("alpha_b", [0.05, 0.2])
def test_sparse_regression_follows_state_evolution(glm, alpha_b):
    E = glm["slr_rho=0.3"]["minibatch_Delta=1e-8"][str(alpha_b)]["E"]
    found = median_mse(SPARSE, QUIET, alpha_b, len(E))
    assert np.mean(decades(found, E)) < 0.06


@pytest.mark.slow
def test_one_batch_of_sparse_regression_above_the_threshold_recovers_all(glm):
    """alpha_b = 0.6: 0.5 is too close to the spinodal 0.4802 at this size (errata E5)."""
    for seed in range(3):
        mse, infos = mini_amp(SPARSE, QUIET, 0.6, 1, seed)
        assert mse[0] < 1e-7
        assert 0.75 < infos[0].health < 1.25


@pytest.mark.slow
@pytest.mark.parametrize(("t_max", "batches"), [(1, 9), (5, 9), (25, 3)])
def test_few_iterations_a_batch_follow_the_theory_of_few_iterations(glm, t_max, batches):
    """t_max = 25 is compared before the jump at batch 4, where runs part by decades at this N."""
    E = glm["slr_rho=0.3"]["t_max_alpha_b=0.35_Delta=1e-8"][str(t_max)][:batches]
    stop = Stop(max_iter=t_max, tol=0.0)
    found = median_mse(SPARSE, QUIET, 0.35, batches, seeds=range(5), stop=stop)
    assert np.mean(decades(found, E)) < 0.06


@pytest.mark.slow
def test_near_a_threshold_wandering_is_reported_and_harmless(glm):
    """alpha_b = 0.35 passes by the spinodal S_4: 1e-13 is not always met, and the end is right."""
    E = glm["slr_rho=0.3"]["minibatch_Delta=1e-8"]["0.35"]["E"]
    stop = Stop(max_iter=300, tol=1e-13)
    runs = [mini_amp(SPARSE, QUIET, 0.35, len(E), seed, stop=stop) for seed in range(4)]
    unmet = [info for _, infos in runs for info in infos if not info.converged]
    assert unmet
    assert all(info.iterations == 300 and info.trace[-1] >= 1e-13 for info in unmet)
    final = np.median([mse[-1] for mse, _ in runs])
    assert decades(final, E[-1]) < 0.15


@pytest.mark.slow
def test_noiseless_sparse_regression_ends_at_rounding(glm):
    """Delta = 0: after the jump the state evolution has E = 0, the computer its rounding."""
    E = glm["slr_rho=0.3"]["minibatch_Delta=0"]["0.2"]["E"]
    found = median_mse(SPARSE, channels.Gaussian(var=0.0), 0.2, len(E), seeds=range(5))
    assert np.mean(decades(found, E)) < 0.06
    stop = Stop(max_iter=300, tol=1e-13)
    mse, _ = mini_amp(SPARSE, channels.Gaussian(var=0.0), 0.6, 2, seed=1, stop=stop)
    assert mse[-1] < 1e-24


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::miniamp.errors.ConflictWarning")
def test_perceptron_follows_state_evolution_until_it_is_solved(glm):
    reference = glm["perceptron_rademacher"]["minibatch"]["0.25"]
    E = np.array(reference["E_AMP"])
    runs = np.array([mini_amp(SIGNS, PERCEPTRON, 0.25, len(E), seed)[0] for seed in SEEDS])
    before = E > 0.0
    assert np.mean(decades(np.median(runs, axis=0)[before], E[before])) < 0.06
    # The theory is at zero after batch 15; a run of N=2000 may need two batches more.
    assert reference["batches_to_zero_AMP"] == 15
    assert np.all(runs[:, 16] < 1e-9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::miniamp.errors.ConflictWarning")
def test_perceptron_is_not_unlearnt_once_solved():
    """Without the guard half of the runs end above 1e-3, and with a guard that looks at variances
    only one in ten: a coordinate that is wrong and certain ends a batch as solved (seed 8)."""
    for seed in (3, 8, 12):
        mse, infos = mini_amp(SIGNS, PERCEPTRON, 0.25, 22, seed)
        assert np.all(mse[17:] < 1e-9)
        assert all(info.converged for info in infos[18:])


@pytest.mark.slow
def test_probit_with_noise_follows_state_evolution(glm):
    E = glm["probit"]["rademacher Delta=0.1"]["0.5"]["E_AMP"]
    found = median_mse(SIGNS, channels.Probit(var=0.1), 0.5, len(E), seeds=range(5))
    assert np.mean(decades(found, E)) < 0.06


@pytest.mark.slow
def test_a_wrong_model_does_what_the_theory_of_wrong_models_says(glm):
    """Assumed rho = 0.2, true 0.3, Delta = 0.01."""
    key = "assumed rho=0.2 Delta=0.01 | true rho=0.3 Delta=0.01 | alpha_b=0.4 tmax=200"
    E = glm["mismatched_slr"][key]["E"]
    channel, assumed = channels.Gaussian(var=0.01), priors.GaussBernoulli(rho=0.2)
    found = []
    for seed in range(5):
        drawn = problem(SPARSE, channel, 0.4, len(E), seed)
        rows = (evidence.Batch(Averaged(Phi), y, channel) for Phi, y in drawn)
        found.append([drawn.mse(b.mean) for b, _ in stream(Posterior(assumed, N), rows, STOP)])
    assert np.mean(decades(np.median(found, axis=0), E)) < 0.06


def test_vector_and_scalar_variances_agree_on_an_iid_design():
    """N=500, seed 4: the two differ by O(1/sqrt(N)) of the error, not in its size (errata E6)."""
    drawn = datasets.glm_stream(SPARSE, channels.Gaussian(var=1e-2), 500, 0.5, 4, rng=4)
    mse = {}
    for name, wrap in (("scalar", Averaged), ("vector", lambda Phi: Phi)):
        rows = (evidence.Batch(wrap(Phi), y, channels.Gaussian(var=1e-2)) for Phi, y in drawn)
        *_, (belief, _) = stream(Posterior(SPARSE, 500), rows)
        mse[name] = drawn.mse(belief.mean)
    assert decades(mse["scalar"], mse["vector"]) < 2 / np.sqrt(500)


def test_a_batch_from_a_far_noisier_world_is_refused_and_the_stream_goes_on():
    """N=500, seed 2: a batch with 1e8 times the noise does not spoil what was learned."""
    drawn = datasets.glm_stream(SPARSE, QUIET, 500, 0.6, 4, rng=2)
    noise = np.random.default_rng(0)
    belief = Posterior(SPARSE, 500)
    for k, (Phi, y) in enumerate(drawn):
        observed = y + noise.normal(size=y.shape) if k == 2 else y
        batch = evidence.Batch(Averaged(Phi), observed, QUIET)
        before = belief
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", errors.ConflictWarning)
                ((belief, _),) = stream(belief, [batch], STOP)
        except errors.ConflictError:
            assert k == 2
            assert belief is before
        else:
            assert k != 2
    assert drawn.mse(belief.mean) < 1e-7
