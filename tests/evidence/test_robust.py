"""The robust solver: right for any design, with any prior and channel."""

from __future__ import annotations

import numpy as np
import pytest

from miniamp import Posterior, absorb, channels, evidence, priors
from miniamp.datasets import ensembles, glm_stream
from miniamp.designs.base import triangle as squared
from miniamp.errors import ConflictError, InvalidInputError
from miniamp.evidence import robust
from miniamp.evidence.linear import Sites, solve

DESIGNS = {
    "iid": ensembles.Iid(),
    "AR(.95)": ensembles.Correlated(0.95),
    "mean": ensembles.Offset(1.0),
    "factors": ensembles.LowRank(10, 0.9),
    "rows": ensembles.RowScales(1.0),
    "columns": ensembles.ColumnScales(1.0),
    "sparse": ensembles.SparseBinary(0.02),
    "duplicated": ensembles.Duplicated(0.5),
    "condition 1e6": ensembles.IllConditioned(1e6),
}
CHANNELS = [channels.Gaussian(1e-2), channels.Probit(1e-2), channels.Logistic()]
PRIORS = [priors.GaussBernoulli(0.1), priors.Laplace(0.3), priors.Gaussian(var=0.1)]


def relative_error(estimate, truth):
    return np.mean(np.square(estimate - truth)) / np.mean(np.square(truth))


@pytest.mark.parametrize("rows", [7, 30, 90])
def test_joint_marginals_and_cavities_are_those_of_the_dense_gaussian(rng, rows):
    N = 30
    R, t = rng.normal(size=(rows, N)), rng.normal(size=rows)
    sites = Sites(rng.uniform(0.1, 10.0, N), rng.normal(size=N))
    joint = solve(*squared(R, t), sites)
    covariance = np.linalg.inv(np.diag(sites.precision) + R.T @ R)
    mean = covariance @ (sites.linear + R.T @ t)
    np.testing.assert_allclose(joint.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(joint.var, np.diag(covariance), rtol=1e-9)
    np.testing.assert_allclose(
        joint.field.A, 1.0 / np.diag(covariance) - sites.precision, rtol=1e-7
    )
    np.testing.assert_allclose(
        joint.field.B, mean / np.diag(covariance) - sites.linear, rtol=1e-7, atol=1e-7
    )


def test_a_row_left_out_is_the_gaussian_without_it(rng):
    N, rows = 12, 5
    R, t = rng.normal(size=(rows, N)), rng.normal(size=rows)
    sites = Sites(np.ones(N), np.zeros(N))
    omega, V = solve(R, t, sites).left_out(t, slice(3, None))
    kept = np.delete(R, 4, 0)
    covariance = np.linalg.inv(np.eye(N) + kept.T @ kept)
    assert omega[1] == pytest.approx(R[4] @ solve(kept, np.delete(t, 4), sites).mean)
    assert V[1] == pytest.approx(R[4] @ covariance @ R[4])


def test_gaussian_prior_and_channel_give_ridge_regression(rng):
    Phi = rng.normal(size=(50, 80)) + 2.0 * rng.normal(size=(50, 1))
    y = rng.normal(size=50)
    belief, info = absorb(
        Posterior(priors.Gaussian(var=0.5), 80),
        evidence.RobustBatch(Phi, y, channels.Gaussian(var=0.1)),
    )
    precision = Phi.T @ Phi / 0.1 + np.eye(80) / 0.5
    np.testing.assert_allclose(belief.mean, np.linalg.solve(precision, Phi.T @ y / 0.1), rtol=1e-7)
    np.testing.assert_allclose(belief.var, np.diag(np.linalg.inv(precision)), rtol=1e-7)
    assert info.converged
    assert info.solver == "robust"


def test_equals_amp_on_an_independent_design():
    # N = 600: both have the same fixed point up to 1/sqrt(N) of the posterior deviations.
    prior, channel = priors.GaussBernoulli(0.2), channels.Gaussian(1e-2)
    problem = glm_stream(prior, channel, 600, 0.8, 1, 5)
    Phi, y = problem[0]
    amp, _ = absorb(Posterior(prior, 600), evidence.Batch(Phi, y, channel))
    robust, _ = absorb(Posterior(prior, 600), evidence.RobustBatch(Phi, y, channel))
    away = np.sqrt(np.mean(np.square(amp.mean - robust.mean)) / np.mean(amp.var))
    assert away < 8.0 / np.sqrt(600)


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
def test_every_design_prior_and_channel_ends_in_a_finite_posterior(design, channel):
    N = 40
    for prior in PRIORS:
        for rows in (1, 13, 2 * N):
            problem = glm_stream(prior, channel, N, rows / N, 3, 0, design=design)
            belief = Posterior(prior, N, memory=10)
            for Phi, y in problem:
                belief, info = absorb(belief, evidence.RobustBatch(Phi, y, channel))
                assert np.isfinite(info.health)
            assert np.isfinite(belief.mean).all()
            assert (belief.var >= 0.0).all()
            assert np.isfinite(belief.var).all()
            assert relative_error(belief.mean, problem.truth) < 3.0


def test_probit_on_one_row_has_the_moments_of_the_truncated_gaussian():
    # A Gaussian prior and one row: EP is exact for the direction of the row.
    row, prior = np.array([[1.0, 2.0]]), priors.Gaussian(var=1.0)
    rows = evidence.RobustBatch(row, np.array([1.0]), channels.Probit(0.5))
    belief, _ = absorb(Posterior(prior, 2, memory=2), rows)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400_000, 2))
    kept = x[(x @ row[0] + np.sqrt(0.5) * rng.normal(size=len(x))) > 0.0]
    np.testing.assert_allclose(belief.mean, kept.mean(0), atol=0.01)
    np.testing.assert_allclose(belief.var, kept.var(0), atol=0.01)


def test_rows_without_noise_are_fitted():
    problem = glm_stream(priors.GaussBernoulli(0.1), channels.Gaussian(0.0), 100, 0.8, 1, 0)
    belief, _ = absorb(
        Posterior(priors.GaussBernoulli(0.1), 100),
        evidence.RobustBatch(*problem[0], channels.Gaussian(0.0)),
    )
    assert relative_error(belief.mean, problem.truth) < 1e-6


def test_rows_that_contradict_the_model_are_refused_by_name(rng):
    Phi = rng.normal(size=(60, 30))
    with pytest.raises(ConflictError, match="belief is unchanged"):
        absorb(
            Posterior(priors.GaussBernoulli(0.5), 30),
            evidence.RobustBatch(Phi, 1e6 * rng.normal(size=60), channels.Gaussian(1e-6)),
        )


def test_one_row_on_one_heavy_tailed_coefficient_is_taken():
    # Far out a Laplace prior has no curvature: left out, the row leaves no proper forecast.
    rows = evidence.RobustBatch(np.eye(3)[:1], np.array([-3.0]), channels.Gaussian(1e-2))
    belief, info = absorb(Posterior(priors.Laplace(0.3), 3), rows)
    exact, _ = priors.Laplace(0.3).moments(100.0, -300.0)
    assert belief.mean[0] == pytest.approx(float(exact), abs=1e-4)
    assert info.health < 100.0


def test_rows_of_another_length_are_refused(rng):
    rows = evidence.RobustBatch(rng.normal(size=(3, 4)), np.zeros(3), channels.Gaussian())
    with pytest.raises(InvalidInputError, match="Phi: got 4 columns"):
        absorb(Posterior(priors.Gaussian(), 5), rows)


def test_a_row_of_zeros_says_nothing(rng):
    Phi = rng.normal(size=(6, 5))
    y = rng.normal(size=6)
    prior = priors.GaussBernoulli(0.5)
    for channel, labels in (
        (channels.Gaussian(1.0), y),
        (channels.Probit(1.0), np.sign(y)),
    ):
        start = Posterior(prior, 5)
        without, _ = absorb(start, evidence.RobustBatch(Phi, labels, channel))
        padded = np.vstack([Phi, np.zeros((1, 5))])
        with_zeros, _ = absorb(start, evidence.RobustBatch(padded, np.append(labels, 1.0), channel))
        np.testing.assert_allclose(with_zeros.mean, without.mean, atol=1e-4)


@pytest.mark.parametrize("var", [0.01, 0.05, 1.0])
def test_labels_with_a_wide_intercept_settle(rng, var):
    # The intercept hides from the first sites how much the labels will say of everything else.
    Phi = np.hstack([rng.normal(size=(80, 120)), np.ones((80, 1))])
    y = np.where(Phi[:, 0] + Phi[:, 1] > 0.0, 1.0, -1.0)
    prior = priors.WithIntercept(priors.Gaussian(var=var), 100.0)
    rows = evidence.RobustBatch(Phi, y, channels.Probit(1.0))
    _, info = absorb(Posterior(prior, 121, memory=121), rows)
    assert info.converged


def vector_amp(Phi, y, noise, rho, iterations=400, step=0.7):
    """Plain vector AMP for a Gauss-Bernoulli prior and Gaussian noise: means and mean variance."""
    prior, N = priors.GaussBernoulli(rho), Phi.shape[1]
    U, s, Vt = np.linalg.svd(Phi, full_matrices=False)
    r, gamma, pull, before = np.zeros(N), 1e-6, Vt.T @ (s * (U.T @ y)) / noise, None
    for _ in range(iterations):
        x, v = prior.moments(np.full(N, gamma), gamma * r)
        eta = 1.0 / np.mean(v)
        g = np.clip(eta - gamma, 1e-11, 1e11)
        m = (eta * x - gamma * r) / g
        if before is not None:
            m = step * m + (1.0 - step) * before[0]
            g = (step / np.sqrt(g) + (1.0 - step) / np.sqrt(before[1])) ** -2.0
        before = m, g
        d = g + s**2 / noise
        full = g * m + pull
        x2 = full / g + Vt.T @ ((1.0 / d - 1.0 / g) * (Vt @ full))
        eta2 = N / (np.sum(1.0 / d) + (N - len(s)) / g)
        gamma = np.clip(eta2 - g, 1e-11, 1e11)
        r = (eta2 * x2 - g * m) / gamma
    return x, np.mean(v)


def correlated(kind, M, N, rng):
    Z = rng.normal(size=(M, N))
    if kind.startswith("condition"):
        U, _, Vt = np.linalg.svd(Z, full_matrices=False)
        s = np.geomspace(1.0, float(kind.split()[1]), M)
        return U * (s * np.sqrt(M / np.sum(s**2))) @ Vt
    if kind.startswith("AR"):
        r, X = float(kind.split()[1]), Z.copy()
        for j in range(1, N):
            X[:, j] = r * X[:, j - 1] + np.sqrt(1.0 - r * r) * Z[:, j]
        return X / np.sqrt(N)
    if kind == "ten factors":
        common = rng.normal(size=(M, 10)) @ rng.normal(size=(10, N)) / np.sqrt(10.0)
        return (0.95 * common + 0.3 * Z) / np.sqrt(N)
    return Z / np.sqrt(N)


HARD = ["i.i.d.", "condition 10", "condition 1e4", "condition 1e6", "AR 0.8", "AR 0.95"]
slow = pytest.mark.slow


NOISES = [pytest.param(1e-2, marks=slow), 1e-4, pytest.param(1e-6, marks=slow), 1e-8]


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("kind", [*HARD, "condition 100", "ten factors"])
def test_it_is_as_good_as_plain_vector_amp_and_knows_its_error(kind, noise):
    # N = 400, M = 360, rho = 0.3, seeds 20 to 23. Geometric means: at condition 1e4 and 1e6 a seed
    # is just below or above the threshold of recovery, and dominates any sum. E/V of 480 non-zero
    # coefficients fluctuates by 10 %; what is left is the approximation at finite N.
    rho, N, M = 0.3, 400, 360
    ratios, calibration, plain_calibration = [], [], []
    for seed in range(20, 24):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=N) * (rng.random(N) < rho)
        Phi = correlated(kind, M, N, rng)
        y = Phi @ x + np.sqrt(noise) * rng.normal(size=M)
        rows = evidence.RobustBatch(Phi, y, channels.Gaussian(noise))
        belief, info = absorb(Posterior(priors.GaussBernoulli(rho), N), rows)
        plain, plain_var = vector_amp(Phi, y, noise, rho)
        error, plain_error = (np.mean(np.square(m - x)) for m in (belief.mean, plain))
        ratios.append(error / plain_error)
        plain_calibration.append(plain_error / plain_var)
        calibration.append(error / np.mean(belief.var))
        assert info.converged
    assert np.exp(np.mean(np.log(ratios))) < 1.1
    # At condition 1e6 and noise 1e-8 these four draws are lucky: 0.65, and 0.76 for the plain one;
    # two other seeds at N = 300 had 1.7.
    found, plain_found = (np.exp(np.mean(np.log(c))) for c in (calibration, plain_calibration))
    assert min(0.7, 0.85 * plain_found) < found < 1.5


@pytest.mark.parametrize("rows", [120, 400])
@pytest.mark.parametrize(
    "channel",
    [channels.Probit(1e-2), channels.Logistic(), channels.Poisson(), channels.StudentT(3.0, 0.1)],
    ids=lambda c: type(c).__name__,
)
def test_other_channels_converge_to_calibrated_errors(channel, rows):
    # N = 200, seeds 30 to 32, ten factors. 600 coefficients: a share of 0.9 has a deviation of
    # 0.012 if they were independent; ten factors and few informative rows leave more.
    N, prior, covered = 200, priors.Gaussian(var=1.0), []
    for seed in range(30, 33):
        rng = np.random.default_rng(seed)
        x, Phi = rng.normal(size=N), correlated("ten factors", rows, N, rng)
        y = channel.sample(rng, Phi @ x)
        belief, info = absorb(Posterior(prior, N), evidence.RobustBatch(Phi, y, channel))
        covered.append(np.mean(np.abs(belief.mean - x) < 1.645 * np.sqrt(belief.var)))
        assert info.converged
    assert 0.85 < np.mean(covered) < 0.94


def test_variances_do_not_rise_from_batch_to_batch():
    # AR(.8), noise 1e-6, N = 200, five batches of 100: the third once took 1e-9 to 0.14.
    N, prior, channel = 200, priors.GaussBernoulli(0.3), channels.Gaussian(1e-6)
    for seed in (40, 41):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=N) * (rng.random(N) < 0.3)
        belief, errors = Posterior(prior, N, memory=N), []
        for _ in range(5):
            Phi = correlated("AR 0.8", 100, N, rng)
            y = Phi @ x + 1e-3 * rng.normal(size=100)
            before = np.mean(belief.var)
            belief, _ = absorb(belief, evidence.RobustBatch(Phi, y, channel))
            errors.append(np.mean(np.square(belief.mean - x)))
            assert np.mean(belief.var) < 1.5 * before
        assert errors[-1] < 1e-5
        assert max(errors[2:]) < 2.0 * errors[1]


def test_a_step_that_has_not_converged_and_widens_the_belief_is_a_conflict():
    # The design of the test above, cut after two iterations: variances above those before it.
    rng = np.random.default_rng(42)
    belief = Posterior(priors.GaussBernoulli(0.3), 40)
    rows = evidence.RobustBatch(rng.normal(size=(60, 40)), rng.normal(size=60), channels.Gaussian())
    estimate, state = rows.start(belief)
    step = rows.refine(belief, estimate, state)
    wide = step.estimate._replace(var=20.0 * belief.var)
    assert robust._accepted(belief, step._replace(estimate=wide, solved=False)).health == np.inf
    assert robust._accepted(belief, step._replace(estimate=wide, solved=True)).health < np.inf


@pytest.mark.parametrize("rows", [12, 40])
def test_labels_on_an_information_matrix_equal_those_on_remembered_rows(rows):
    """In the space of the rows and in that of the coefficients, two batches, to the tolerance."""
    rng, N = np.random.default_rng(2), 20
    x, prior = rng.normal(size=N), priors.Gaussian(var=1.0)
    stacked, kept = Posterior(prior, N, memory=N), evidence.InformationPosterior(prior, N)
    for _ in range(2):
        Phi = rng.normal(size=(rows, N)) + 2.0 * rng.normal(size=(rows, 1))
        y = np.sign(Phi @ x)
        batch = evidence.RobustBatch(Phi, y, channels.Probit(var=1.0))
        stacked, one = absorb(stacked, batch)
        kept, other = absorb(kept, batch)
        assert other.converged
        assert np.allclose(kept.mean, stacked.mean, atol=1e-3)
        assert np.allclose(kept.var, stacked.var, rtol=1e-3)
        assert other.log_evidence == pytest.approx(one.log_evidence, abs=1e-2)
        assert other.health == pytest.approx(one.health, rel=1e-2)


@pytest.mark.parametrize("remembers", [False, True], ids=["information", "remembered rows"])
def test_labels_of_a_later_batch_take_one_iteration(remembers):
    """Their sites start from the means that all rows together give, N = 60, 6 batches of 50."""
    rng, N = np.random.default_rng(4), 60
    x, prior = rng.normal(size=N) / np.sqrt(N), priors.Gaussian(var=1.0 / N)
    belief = Posterior(prior, N, memory=N) if remembers else evidence.InformationPosterior(prior, N)
    made = []
    for _ in range(6):
        Phi = rng.normal(size=(50, N))
        y = np.sign(Phi @ x + rng.normal(size=50))
        belief, info = absorb(belief, evidence.RobustBatch(Phi, y, channels.Probit(var=1.0)))
        made.append(info.iterations)
    assert made[2:] == [1] * 4
