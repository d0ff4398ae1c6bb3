"""The memory dial: from the paper's program at 0 to offline inference at N."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from miniamp import Posterior, Stop, absorb, channels, evidence, priors
from miniamp.datasets import ensembles, glm_stream
from miniamp.errors import InvalidInputError
from miniamp.evidence.compress import strongest

SPARSE, NOISY = priors.GaussBernoulli(0.1), channels.Gaussian(1e-2)


def streamed(prior, channel, batches, N, memory, solver=evidence.RobustBatch):
    belief = Posterior(prior, N, memory=memory)
    for Phi, y in batches:
        belief, _ = absorb(belief, solver(Phi, y, channel), Stop(100))
    return belief


def relative_error(belief, truth):
    return np.mean(np.square(belief.mean - truth)) / np.mean(np.square(truth))


@pytest.mark.parametrize("rows", [1, 8, 40])
@pytest.mark.parametrize("design", [ensembles.Correlated(0.95), ensembles.IllConditioned(1e3)])
def test_a_memory_of_n_is_ridge_regression(design, rows):
    N, prior, channel = 25, priors.Gaussian(var=0.5), channels.Gaussian(1e-2)
    problem = glm_stream(prior, channel, N, rows / N, 80 // rows, 0, design=design)
    belief = streamed(prior, channel, problem, N, N)
    A = np.vstack([Phi for Phi, _ in problem])
    y = np.concatenate([y for _, y in problem])
    precision = A.T @ A / 1e-2 + np.eye(N) / 0.5
    exact = np.linalg.solve(precision, A.T @ y / 1e-2)
    np.testing.assert_allclose(belief.mean, exact, atol=1e-6 * np.abs(exact).max())
    np.testing.assert_allclose(belief.var, np.diag(np.linalg.inv(precision)), rtol=1e-6)
    assert belief.remembered.rows.shape == (N, N)


def test_compression_moves_no_mean_and_no_variance():
    N = 60
    problem = glm_stream(SPARSE, NOISY, N, 0.5, 3, 1, design=ensembles.Correlated(0.9))
    start = streamed(SPARSE, NOISY, [problem[0], problem[1]], N, N)
    Phi, y = problem[2]
    rows = evidence.RobustBatch(Phi, y, NOISY)
    whole, _ = absorb(start, rows)
    for memory in (0, 1, 10, 40):
        some = Posterior(SPARSE, N, start.tilt, memory=memory).remembering(start.remembered)
        less, _ = absorb(some, rows)
        np.testing.assert_allclose(less.mean, whole.mean, atol=1e-9)
        np.testing.assert_allclose(less.var, whole.var, atol=1e-9)
        kept = 0 if less.remembered is None else len(less.remembered.rows)
        assert kept == memory


def test_what_is_remembered_reproduces_the_marginals_when_solved_again():
    # The next batch starts from tilt and rows alone: they must stand for the same belief, but for
    # the average over all sites, which is taken anew under a tilt that has changed (0.14 to 0.26 of
    # a posterior deviation on the seeds that converge).
    N = 60
    problem = glm_stream(SPARSE, NOISY, N, 0.5, 2, 1, design=ensembles.Correlated(0.9))
    belief = streamed(SPARSE, NOISY, problem, N, 20)
    silent = evidence.RobustBatch(np.zeros((1, N)), np.zeros(1), NOISY)
    again, _ = absorb(belief, silent)
    off = np.square(again.mean - belief.mean) / np.mean(belief.var)
    assert np.sqrt(np.mean(off)) < 0.3


@pytest.mark.parametrize("rows", [9, 120])
def test_the_strongest_rows_have_the_largest_singular_values(rng, rows):
    """Of 120 rows four are found by random products: 90 % of the power of the best four."""
    R, t = rng.normal(size=(rows, 20)), rng.normal(size=rows)
    R[:, :4] *= 5.0
    var = rng.uniform(0.5, 1.0, 20)
    kept, targets = strongest(R, t, var, 4)
    assert kept.shape == (4, 20)
    assert targets.shape == (4,)
    best = np.linalg.svd(R * np.sqrt(var), compute_uv=False)[:4]
    share = np.sum(np.square(kept) * var) / np.sum(np.square(best))
    assert share == pytest.approx(1.0, abs=1e-9 if rows == 9 else 0.1)
    # A rotation of R: no direction has more than it had.
    assert np.linalg.eigvalsh(R.T @ R - kept.T @ kept).min() > -1e-9 * np.sum(np.square(R))


@pytest.mark.slow
@pytest.mark.parametrize(
    "design",
    [
        ensembles.Correlated(0.95),
        ensembles.LowRank(10, 0.9),
        ensembles.Offset(1.0),
        ensembles.IllConditioned(1e6),
    ],
    ids=["AR(.95)", "ten factors", "non-zero mean", "condition 1e6"],
)
def test_a_quarter_of_n_is_nearly_offline_and_none_is_not(design):
    # N = 200, 12 batches of N/5; the mean over three seeds tames single undecided coefficients.
    N, errors, covered = 200, np.zeros(3), []
    for seed in range(3):
        problem = glm_stream(SPARSE, NOISY, N, 0.2, 13, seed, design=design)
        (*past, (next_Phi, next_y)) = list(problem)
        A, Y = np.vstack([p for p, _ in past]), np.concatenate([y for _, y in past])
        beliefs = [
            streamed(SPARSE, NOISY, past, N, 0),
            streamed(SPARSE, NOISY, past, N, N // 4),
            streamed(SPARSE, NOISY, [(A, Y)], N, N),
        ]
        errors += [relative_error(b, problem.truth) for b in beliefs]
        mean, var = evidence.forecast(beliefs[1], next_Phi, NOISY)
        covered.append(np.mean(np.abs(next_y - mean) < 1.645 * np.sqrt(var)))
    none, quarter, offline = errors
    assert quarter < 1.3 * offline
    # 120 rows: two standard deviations of a share of 0.9 are 0.055.
    assert 0.8 < np.mean(covered) < 0.97
    if isinstance(design, ensembles.LowRank | ensembles.Correlated):
        assert none > 1.5 * quarter


def test_without_memory_it_is_mini_amp_on_independent_designs():
    N, amp, robust = 400, [], []
    for seed in range(3):
        problem = glm_stream(SPARSE, NOISY, N, 0.2, 8, seed)
        amp.append(
            relative_error(streamed(SPARSE, NOISY, problem, N, 0, evidence.Batch), problem.truth)
        )
        robust.append(relative_error(streamed(SPARSE, NOISY, problem, N, 0), problem.truth))
    assert np.sum(robust) == pytest.approx(np.sum(amp), rel=0.05)


def test_labels_remember_their_gaussian_sites():
    N, prior, channel = 60, priors.Gaussian(var=1.0), channels.Probit(0.1)
    problem = glm_stream(prior, channel, N, 0.5, 8, 0, design=ensembles.LowRank(3, 0.9))
    A, Y = np.vstack([p for p, _ in problem]), np.concatenate([y for _, y in problem])
    offline = streamed(prior, channel, [(A, Y)], N, N)
    remembered = streamed(prior, channel, problem, N, N)
    forgetful = streamed(prior, channel, problem, N, 0)
    assert relative_error(remembered, offline.mean) < 0.05
    assert relative_error(remembered, offline.mean) < relative_error(forgetful, offline.mean)


def test_forecast_knows_the_correlations():
    # Rows along one direction: what is known of the sum is sharper than of any coefficient.
    N = 10
    ones, y = np.ones((1, N)), np.array([3.0])
    belief, _ = absorb(
        Posterior(priors.Gaussian(), N, memory=3), evidence.RobustBatch(ones, y, NOISY)
    )
    _, var = evidence.forecast(belief, ones, channels.Gaussian(0.0))
    assert var[0] == pytest.approx(1.0 / (1.0 / 1e-2 + 1.0 / N))


def test_forgetting_scales_tilt_and_rows_and_half_life_says_the_same():
    N = 20
    problem = glm_stream(SPARSE, NOISY, N, 1.0, 2, 0)
    belief = streamed(SPARSE, NOISY, [problem[0]], N, 5)
    half = belief.scaled(0.5)
    np.testing.assert_allclose(half.tilt.A, 0.5 * belief.tilt.A)
    np.testing.assert_allclose(
        half.remembered.rows.T @ half.remembered.rows,
        0.5 * belief.remembered.rows.T @ belief.remembered.rows,
    )
    rows = evidence.RobustBatch(*problem[1], NOISY)
    one, _ = absorb(belief, rows, forget=0.5)
    other, _ = absorb(belief, rows, half_life=20)
    by_hand, _ = absorb(half, rows)
    np.testing.assert_allclose(one.mean, other.mean)
    np.testing.assert_allclose(one.mean, by_hand.mean)
    for wrong in ({"forget": 0.0}, {"forget": 1.5}, {"half_life": -1.0}):
        with pytest.raises(InvalidInputError):
            absorb(belief, rows, **wrong)


@pytest.mark.parametrize("noise", [1e-2, 1.0])
def test_forgetting_widens_sparse_coefficients_as_the_exact_posterior(noise):
    """8 coefficients, 20 rows, seeds 910 to 915: all 256 supports, and rows at twice the noise.

    Widths under forget=.5 grow by more than sqrt(2) where a coefficient becomes undecided: exact
    ones do so too, by up to 1.7, and those of the belief follow them.
    """
    prior, grown, ratios = priors.GaussBernoulli(rho=0.3), [], []
    for seed in range(910, 916):
        rng = np.random.default_rng(seed)
        Phi, x = rng.normal(size=(20, 8)), rng.normal(size=8) * (rng.random(8) < 0.3)
        y = Phi @ x + np.sqrt(noise) * rng.normal(size=20)
        rows = evidence.RobustBatch(Phi, y, channels.Gaussian(var=noise))
        belief = absorb(Posterior(prior, 8, memory=8), rows)[0].scaled(0.5)
        before, after = (spike_and_slab_std(Phi, y, var, 0.3) for var in (noise, 2.0 * noise))
        grown.append(after / before)
        ratios.append(np.sqrt(belief.var) / after)
    assert np.max(grown) > 1.5
    assert 0.95 < np.median(ratios) < 1.05
    assert np.mean(np.abs(np.log(ratios)) < 0.15) > 0.85  # EP itself is off by as much on the rest


def spike_and_slab_std(Phi, y, noise, rho):
    """Exact standard deviations under a unit slab, from all supports."""
    logs, first, second = [], [], []
    for support in itertools.product((False, True), repeat=Phi.shape[1]):
        some, mean, square = np.array(support), np.zeros(len(support)), np.zeros(len(support))
        covariance = np.linalg.inv(Phi[:, some].T @ Phi[:, some] / noise + np.eye(some.sum()))
        mean[some] = covariance @ (Phi[:, some].T @ y / noise)
        square[some] = np.diag(covariance) + mean[some] ** 2
        odds, pull = some.sum() * np.log(rho / (1.0 - rho)), Phi.T @ y / noise
        logs.append(odds + 0.5 * np.linalg.slogdet(covariance)[1] + 0.5 * float(pull @ mean))
        first.append(mean)
        second.append(square)
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    return np.sqrt(weights @ np.array(second) - np.square(weights @ np.array(first)))


@pytest.mark.parametrize("memory", [0, 10])
def test_forgetting_follows_a_change(memory):
    N, channel, prior = 30, channels.Gaussian(1e-2), priors.Gaussian()
    rng = np.random.default_rng(0)
    before, after = rng.normal(size=(2, N))
    fixed = fading = Posterior(prior, N, memory=memory)
    surprises = []
    for k in range(12):
        x = before if k < 6 else after
        Phi = rng.normal(size=(20, N)) / np.sqrt(N)
        y = Phi @ x + 0.1 * rng.normal(size=20)
        surprises.append(evidence.surprise(fading, Phi, y, channel))
        rows = evidence.RobustBatch(Phi, y, channels.Gaussian(0.1))
        fixed, _ = absorb(fixed, rows)
        fading, _ = absorb(fading, rows, half_life=20)
    assert relative_error(fading, after) < 0.3 * relative_error(fixed, after)
    assert surprises[6] > 5.0 > max(surprises[3:6])


@pytest.mark.parametrize("design", [ensembles.IllConditioned(1e6), ensembles.Correlated(0.9)])
def test_a_memory_of_n_is_offline_for_sparse_coefficients_too(design):
    # N = 100, seeds 50 and 51: the solver starts from what the remembered rows had said and ends
    # where it would have with all rows at once, to a tenth of a posterior deviation.
    for seed in (50, 51):
        problem = glm_stream(SPARSE, NOISY, 100, 0.3, 6, seed, design=design)
        A, Y = np.vstack([p for p, _ in problem]), np.concatenate([y for _, y in problem])
        offline = streamed(SPARSE, NOISY, [(A, Y)], 100, 100)
        belief = streamed(SPARSE, NOISY, problem, 100, 100)
        off = np.square(belief.mean - offline.mean) / np.mean(offline.var)
        assert np.sqrt(np.mean(off)) < 0.1


@pytest.mark.parametrize("factor", [0.9, 0.5, 0.1])
def test_forgetting_with_memory_is_exact_for_gaussians(factor, rng):
    # Scaling the field alone made marginals up to 1.57 times too wide.
    Phi = np.cumsum(rng.normal(size=(60, 30)), axis=1)
    rows = evidence.RobustBatch(Phi, rng.normal(size=60), channels.Gaussian(0.1))
    belief, _ = absorb(Posterior(priors.Gaussian(var=2.0), 30, memory=12), rows)
    kept, faded = belief.remembered, belief.scaled(factor)
    precision = np.diag(0.5 + factor * belief.tilt.A) + factor * kept.rows.T @ kept.rows
    pull = factor * (belief.tilt.B + kept.rows.T @ kept.targets)
    np.testing.assert_allclose(faded.var, np.diag(np.linalg.inv(precision)), rtol=1e-6)
    np.testing.assert_allclose(faded.mean, np.linalg.solve(precision, pull), atol=1e-6)
