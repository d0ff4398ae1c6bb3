"""Hyper-parameters learned from the stream."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from miniamp import (
    MiniAMPRegressor,
    Posterior,
    absorb,
    channels,
    evidence,
    learning,
    priors,
    stream,
)
from miniamp.datasets import ensembles, glm_stream
from miniamp.errors import InvalidInputError
from miniamp.estimators.scoring import RowPrediction
from miniamp.evidence import robust
from miniamp.model import LEAST_NOISE, initial_from_evidence

GUESS = priors.GaussBernoulli(0.1)


def relative_error(belief, truth):
    return np.mean(np.square(belief.mean - truth)) / np.mean(np.square(truth))


def learned(problem, N, solver=evidence.AutoBatch, memory=0, prior=GUESS):
    model = learning.Model(Posterior(prior, N, memory=memory), channels.Gaussian(1.0))
    models = stream(model, (learning.Learn(Phi, y, solver) for Phi, y in problem))
    return [after for after, _ in models][-1]


def test_the_first_batch_sets_the_scale():
    rng = np.random.default_rng(0)
    Phi, y = 1e3 * rng.normal(size=(40, 30)), 1e5 * rng.normal(size=40)
    model = learning.Model(Posterior(GUESS, 30), channels.Gaussian(1.0))
    prior, channel = learning.initial(model, evidence.RobustBatch(Phi, y, model.channel))
    assert float(channel.var) == pytest.approx(np.var(y) / 2.0)
    signal = 0.1 * float(prior.var) * 30 * np.mean(np.square(Phi))
    assert signal == pytest.approx(np.var(y) / 2.0)


@pytest.mark.parametrize("solver", [evidence.Batch, evidence.RobustBatch, evidence.AutoBatch])
def test_every_solver_learns(solver):
    # N = 300, 60 non-zero: rho to about 1/sqrt(60), the noise to sqrt(2/600) and what it shares.
    N, channel = 300, channels.Gaussian(1e-2)
    problem = glm_stream(priors.GaussBernoulli(0.2), channel, N, 0.5, 4, 0, stratified=True)
    model = learned(problem, N, solver)
    assert float(model.posterior.prior.rho) == pytest.approx(0.2, rel=0.35)
    assert float(model.channel.var) == pytest.approx(1e-2, rel=0.35)
    assert model.batches == 4


def test_learning_works_with_memory_on_correlated_rows():
    N, channel, truth = 100, channels.Gaussian(1e-2), priors.GaussBernoulli(0.2)
    problem = glm_stream(truth, channel, N, 0.5, 6, 1, design=ensembles.LowRank(5, 0.8))
    model = learned(problem, N, memory=25)
    # Twenty non-zero coefficients; the error with the true prior and noise is 0.032 on this stream.
    assert relative_error(model, problem.truth) < 0.1
    assert float(model.channel.var) == pytest.approx(1e-2, rel=0.3)


@pytest.mark.slow
def test_learning_with_memory_costs_little_on_average():
    # N = 200, seeds 1 to 4: forty non-zero coefficients teach rho and the slab to about a fifth,
    # and one stream differs from the next by more than that.
    N, channel, truth = 200, channels.Gaussian(1e-2), priors.GaussBernoulli(0.2)
    ratios, noises = [], []
    for seed in range(1, 5):
        problem = glm_stream(truth, channel, N, 0.5, 6, seed, design=ensembles.LowRank(5, 0.8))
        model = learned(problem, N, memory=50)
        oracle = Posterior(truth, N, memory=50)
        for Phi, y in problem:
            oracle, _ = absorb(oracle, evidence.RobustBatch(Phi, y, channel))
        ratios.append(relative_error(model, problem.truth) / relative_error(oracle, problem.truth))
        noises.append(float(model.channel.var))
    assert np.exp(np.mean(np.log(ratios))) < 1.2
    assert max(ratios) < 1.6
    np.testing.assert_allclose(noises, 1e-2, rtol=0.3)


def test_mean_field_is_refused_as_a_teacher_of_noise(rng):
    model = learning.Model(Posterior(priors.Gaussian(), 30), channels.Gaussian(1e-3))
    Phi, y = rng.normal(size=(40, 30)), rng.normal(size=40)
    with pytest.raises(InvalidInputError, match=r"MeanFieldBatch.*noise=False"):
        absorb(model, learning.Learn(Phi, y, evidence.MeanFieldBatch))
    problem = glm_stream(priors.GaussBernoulli(0.2), channels.Gaussian(1e-2), 100, 1.0, 3, 0)
    model = learning.Model(Posterior(GUESS, 100), channels.Gaussian(1e-4))
    for Phi, y in problem:
        model, _ = absorb(model, learning.Learn(Phi, y, evidence.MeanFieldBatch, noise=False))
    assert relative_error(model, problem.truth) < 0.2
    assert float(model.channel.var) == 1e-4


def test_the_given_model_stays_and_a_scaled_one_keeps_what_it_learned():
    problem = glm_stream(priors.Gaussian(), channels.Gaussian(0.1), 40, 1.0, 1, 0)
    start = learning.Model(Posterior(priors.Gaussian(), 40), channels.Gaussian(1.0))
    model, info = absorb(start, learning.Learn(*problem[0]))
    assert start.batches == 0
    assert float(start.channel.var) == 1.0
    assert info.solver in ("amp", "robust")
    half = model.scaled(0.5)
    np.testing.assert_allclose(half.posterior.tilt.A, 0.5 * model.posterior.tilt.A)
    assert half.channel == model.channel


def test_labels_keep_their_channel_and_learn_their_prior():
    prior, channel = priors.Gaussian(var=4.0), channels.Logistic()
    problem = glm_stream(prior, channel, 60, 2.0, 4, 0)
    model = learning.Model(Posterior(priors.Gaussian(), 60), channel)
    for Phi, y in problem:
        model, _ = absorb(model, learning.Learn(Phi, y, fixed=("mean",)))
    assert model.channel == channel
    assert float(model.posterior.prior.mean) == 0.0
    assert 1.0 < float(model.posterior.prior.var) < 16.0


def test_a_channel_of_any_class_may_learn_by_itself(rng):
    """`Channel.seeing`: from rows left out, and beside the past from the second batch on."""

    class Counting(channels.Probit):
        def seeing(self, y, left_out, past, weights):
            omega, V = left_out()
            calls.append((omega.shape, V.shape, past if past is None else past()[0].shape, weights))
            return self

    calls, coef = [], rng.normal(size=3)
    model = learning.Model(Posterior(priors.Gaussian(), 3, memory=3), Counting())
    for _ in range(2):
        Phi = rng.normal(size=(40, 3))
        model, _ = absorb(model, learning.Learn(Phi, np.sign(Phi @ coef)))
    assert calls[0] == ((40,), (40,), None, None)
    assert calls[-1] == ((40,), (40,), (40,), None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rho", "noise"),
    [(0.05, 1e-3), (0.1, 1e-4), (0.1, 1e-2), (0.2, 1e-2), (0.2, 0.1), (0.2, 1.0), (0.3, 1e-4)],
)
def test_learning_costs_little_against_the_oracle(rho, noise):
    # N = 2000, alpha = 3 in ten batches; seed 0, a stratified truth.
    N, prior, channel = 2000, priors.GaussBernoulli(rho), channels.Gaussian(noise)
    problem = glm_stream(prior, channel, N, 0.3, 10, 0, stratified=True)
    model, oracle = learned(problem, N), Posterior(prior, N)
    for Phi, y in problem:
        oracle, _ = absorb(oracle, evidence.Batch(Phi, y, channel))
    assert relative_error(model, problem.truth) < 1.05 * relative_error(oracle, problem.truth)
    assert float(model.posterior.prior.rho) == pytest.approx(rho, rel=0.2)
    assert float(model.posterior.prior.var) == pytest.approx(1.0, rel=0.2)
    assert float(model.channel.var) == pytest.approx(noise, rel=0.2)


def wild_features(rng, rows, N=12):
    scale, centre = np.geomspace(1e-3, 1e4, N), np.linspace(-5.0, 5.0, N)
    return (rng.normal(size=(rows, N)) + centre) * scale, scale


def test_wild_scales_and_means_need_no_standardising():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=12)
    frame, model, errors = None, None, []
    for _ in range(6):
        Phi, scale = wild_features(rng, 30)
        y = 1000.0 + Phi @ (truth / scale) + 0.1 * rng.normal(size=30)
        frame = evidence.Frame.of(Phi) if frame is None else frame.seeing(Phi)
        rows = frame.rows(Phi)
        if model is None:
            prior = priors.WithIntercept(priors.Gaussian())
            model = learning.Model(Posterior(prior, 13, memory=4), channels.Gaussian())
        else:
            errors.append(np.sqrt(np.mean(np.square(model.forecast(rows)[0] - y))))
        model, _ = absorb(model, learning.Learn(rows, y))
    assert errors[-1] < 0.15
    own = model.mean[:-1] / frame.scale
    intercept = model.mean[-1] - own @ frame.centre
    np.testing.assert_allclose(own * scale, truth, atol=0.1)
    assert intercept == pytest.approx(1000.0, abs=0.5)


def test_a_frame_fixes_a_feature_when_it_first_varies(rng):
    first = np.column_stack([rng.normal(size=20), np.full(20, 7.0)])
    frame = evidence.Frame.of(first)
    assert (frame.rows(first)[:, 1] == 0.0).all()
    second = np.column_stack([rng.normal(size=20), 7.0 + 100.0 * rng.normal(size=20)])
    later = frame.seeing(second)
    assert later.scale[0] == frame.scale[0]
    assert later.centre[1] == 7.0
    assert later.rows(second)[:, 1].std() == pytest.approx(1.0, rel=0.2)
    with pytest.raises(InvalidInputError, match="Phi"):
        frame.rows(np.ones((2, 3)))


def test_a_frame_keeps_sparse_rows_sparse(rng):
    Phi = sparse.random_array((30, 50), density=0.1, rng=rng, format="csr")
    frame = evidence.Frame.of(Phi)
    framed = frame.rows(Phi)
    assert sparse.issparse(framed)
    assert framed.nnz == Phi.nnz + 30
    dense = evidence.Frame.of(Phi.toarray()).rows(Phi.toarray())
    np.testing.assert_allclose(framed.toarray(), dense)


def test_an_intercept_has_its_own_prior(rng):
    prior = priors.WithIntercept(priors.GaussBernoulli(0.1), intercept_var=100.0)
    A, B = np.full(4, 2.0), rng.normal(size=4)
    mean, var = prior.moments(A, B)
    inner = prior.inner.moments(A[:3], B[:3])
    np.testing.assert_allclose(mean[:3], inner[0])
    np.testing.assert_allclose(var[:3], inner[1])
    assert var[3] == pytest.approx(1.0 / (2.0 + 0.01))
    draws = prior.sample(rng, (4000, 4), A, B)
    np.testing.assert_allclose(draws.mean(0), mean, atol=0.1)
    assert prior.log_partition(A, B).shape == (4,)


@pytest.mark.parametrize(
    ("solver", "memory"),
    [(evidence.Batch, 0), pytest.param(evidence.RobustBatch, 50, marks=pytest.mark.slow)],
)
def test_the_scale_of_labels_does_not_stay_where_it_began(solver, memory):
    # N = 100, seeds 0 to 2; z has the power 100, and 8 is where learning begins.
    N, prior, channel = 100, priors.Gaussian(var=100.0), channels.Logistic()
    ratios = []
    for seed in range(3):
        problem = glm_stream(prior, channel, N, 0.5, 20, seed)
        model = learning.Model(Posterior(priors.Gaussian(), N, memory=memory), channel)
        for Phi, y in problem:
            model, _ = absorb(model, learning.Learn(Phi, y, solver, fixed=("mean",)))
        ratios.append(np.linalg.norm(model.mean) / np.linalg.norm(problem.truth))
        assert model.scale_known > 0.0
    # With EM alone it comes out at 0.44 of the length.
    assert np.mean(ratios) > 0.6


def test_a_prior_that_is_given_keeps_the_scale_of_labels():
    problem = glm_stream(priors.Gaussian(var=100.0), channels.Logistic(), 30, 2.0, 2, 0)
    model = learning.Model(Posterior(priors.Gaussian(), 30), channels.Logistic())
    for Phi, y in problem:
        model, _ = absorb(model, learning.Learn(Phi, y, fixed=("mean", "var")))
    assert float(model.posterior.prior.var) == 1.0
    assert model.scale_known == 0.0


@pytest.mark.parametrize("memory", [0, 5, 20])
def test_a_change_of_units_is_exact(rng, memory):
    factor = np.geomspace(0.1, 10.0, 20)
    Phi, y, more = rng.normal(size=(30, 20)), rng.normal(size=30), rng.normal(size=(4, 20))
    one = Posterior(priors.Gaussian(var=2.0), 20, memory=memory)
    other = Posterior(priors.Gaussian(var=2.0 * factor**2), 20, memory=memory)
    channel = channels.Gaussian(0.1)
    one, _ = absorb(one, evidence.RobustBatch(Phi, y, channel))
    other, _ = absorb(other, evidence.RobustBatch(Phi / factor, y, channel))
    changed = one.stretched(factor).with_prior(other.prior)
    np.testing.assert_allclose(changed.mean, other.mean, rtol=1e-6)
    np.testing.assert_allclose(changed.var, other.var, rtol=1e-6)
    for a, b in zip(
        evidence.forecast(changed, more / factor, channel),
        evidence.forecast(one, more, channel),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_units_follow_all_rows_and_the_belief_with_them(rng, kind):
    chances = np.geomspace(0.02, 0.9, 15)
    rows = (rng.random((400, 15)) < chances) * rng.lognormal(size=15)
    frame, belief = evidence.Frame.none(15), Posterior(priors.Gaussian(), 16, memory=16)
    for part in np.split(rows, 8):
        later = frame.following(kind(part))
        belief = belief.stretched(frame.stretch(later))
        y = part.sum(axis=1)
        framed = later.rows(kind(part))
        belief, _ = absorb(belief, evidence.RobustBatch(framed, y, channels.Gaussian(1e-6)))
        frame = later
    counted = 400 if kind is np.asarray else np.sum(rows != 0.0, axis=0)  # of sparse rows: stored
    power = np.sqrt(np.sum(np.square(rows - frame.centre), axis=0) / counted)
    # A column of sparse rows that is new has one entry of the others' size besides its own.
    np.testing.assert_allclose(frame.scale, power, rtol=1e-7 if kind is np.asarray else 0.6)
    np.testing.assert_array_equal(frame.counted, counted)
    own = belief.mean[:-1] / frame.scale
    intercept = belief.mean[-1] - own @ frame.centre
    np.testing.assert_allclose(own, 1.0, atol=1e-3)
    assert intercept == pytest.approx(0.0, abs=1e-3)


def test_an_entry_near_zero_is_no_unit():
    # 300 rows of 2,000 features, seed 0: a feature has three entries on average, some of them tiny.
    # In units of these alone R2 was below -1.
    rng = np.random.default_rng(0)
    X = sparse.random_array((600, 2000), density=0.01, format="csr", rng=rng)  # uniform entries
    y = X @ rng.normal(size=2000) + 0.1 * rng.normal(size=600)
    model = MiniAMPRegressor()
    for part in range(0, 300, 100):
        model.partial_fit(X[part : part + 100], y[part : part + 100])
        assert model.score(X[300:], y[300:]) > -0.05


@pytest.mark.parametrize(
    "rows", [pytest.param(2, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow), 10]
)
def test_noise_does_not_depend_on_how_rows_are_cut(rows):
    # 400 rows, 5 features, seeds 60 to 62, after a first batch of 40: 360 rows tell a variance to
    # sqrt(2/360) = 0.075; the cut itself may move it by two thirds of that. Weighed by each batch's
    # own fit it came out at (M - 4)/M of the truth, and at 0 for M <= 4.
    for seed in range(60, 63):
        rng = np.random.default_rng(seed)
        coef, Phi = rng.normal(size=5), rng.normal(size=(400, 5))
        y = Phi @ coef + rng.normal(size=400)
        found = []
        for size in (rows, 360):
            model = learning.Model(Posterior(priors.Gaussian(), 5, memory=5), channels.Gaussian())
            for part in np.split(np.arange(400), [40, *range(40 + size, 400, size)]):
                rows_of = learning.Learn(Phi[part], y[part], evidence.RobustBatch, fixed=("mean",))
                model, _ = absorb(model, rows_of)
            found.append(float(model.channel.var))
        assert found[0] == pytest.approx(found[1], rel=0.05)
        assert found[0] == pytest.approx(1.0, rel=0.25)


def test_exact_targets_leave_the_least_noise(rng):
    coef, Phi = rng.normal(size=6), rng.normal(size=(120, 6))
    model = learning.Model(Posterior(priors.Gaussian(), 6, memory=6), channels.Gaussian())
    for part in np.split(np.arange(120), 6):
        model, info = absorb(model, learning.Learn(Phi[part], Phi[part] @ coef))
        assert info.converged
    noise = float(model.channel.var) / np.var(Phi @ coef)
    assert 0.9 * LEAST_NOISE < noise < 1e-6
    np.testing.assert_allclose(model.mean, coef, atol=1e-4)
    assert np.isfinite(model.forecast(Phi)[1]).all()


def test_learned_noise_makes_predictions_student_t(rng):
    def df(model, V):
        return float(RowPrediction.of(model, np.zeros(1), np.full(1, V), (0.0, 1.0)).df[0])

    coef, Phi = rng.normal(size=3), rng.normal(size=(200, 3))
    model = learning.Model(Posterior(priors.Gaussian(), 3, memory=3), channels.Gaussian())
    assert df(model, 0.0) == np.inf  # the noise was given so far
    model, _ = absorb(model, learning.Learn(Phi, Phi @ coef + rng.normal(size=200)))
    # 200 rows less what three coefficients take; leverages of a few per cent.
    assert 180.0 < df(model, 0.0) < 200.0
    assert df(model, float(model.channel.var)) / df(model, 0.0) == pytest.approx(4.0)


def test_rounds_cut_short_on_purpose_have_converged():
    problem = glm_stream(priors.Gaussian(), channels.Gaussian(0.1), 40, 1.0, 3, 0)
    model = learning.Model(Posterior(priors.Gaussian(), 40), channels.Gaussian(1.0))
    for Phi, y in problem:
        model, info = absorb(model, learning.Learn(Phi, y, evidence.RobustBatch))
    assert info.iterations <= learning.ROUNDS
    assert info.converged


class TestConflicts:
    """Streams of 10 features with unit noise, batches of 50, learned with `on_conflict="adapt"`."""

    def stream(self, rng, y_of, batches=12, **options):
        coef = 3.0 * rng.normal(size=10)
        model = learning.Model(Posterior(priors.Gaussian(), 10, memory=10), channels.Gaussian())
        infos = []
        for k in range(batches):
            Phi = rng.normal(size=(50, 10))
            y = y_of(k, Phi @ coef + rng.normal(size=50))
            model, info = absorb(model, learning.Learn(Phi, y), on_conflict="adapt", **options)
            infos.append(info)
        return coef, model, infos

    def test_outliers_are_down_weighted_and_named(self):
        def soiled(k, y):
            return y + np.where(np.arange(50) == 17, 50.0, 0.0) if k in (0, 5) else y

        coef, model, infos = self.stream(np.random.default_rng(70), soiled)
        for k, info in enumerate(infos):
            rows = [entry.outlier.row for entry in info.adapted]
            assert rows == ([17] if k in (0, 5) else [])
        [entry] = infos[5].adapted
        assert 40.0 < entry.outlier.deviations < 60.0
        assert entry.factor < 0.01
        assert str(entry).startswith("row 17: y=")
        # 600 rows: the error of a coefficient is 1/sqrt(600) = 0.041, and the noise known to 6 %.
        assert np.sqrt(np.mean(np.square(model.mean - coef))) < 0.08
        assert float(model.channel.var) == pytest.approx(1.0, rel=0.2)

    def test_a_batch_that_contradicts_the_past_gets_the_noise_it_shows(self):
        coef, model, infos = self.stream(
            np.random.default_rng(71), lambda k, y: -y if k == 8 else y
        )
        assert [entry.kind for entry in infos[8].adapted] == ["noise"]
        assert infos[8].adapted[0].factor > 50.0
        assert not any(info.adapted for k, info in enumerate(infos) if k != 8)
        assert np.sqrt(np.mean(np.square(model.mean - coef))) < 0.15

    def test_a_changed_stream_that_forgets_is_followed_and_a_dirty_one_is_not(self):
        coef, model, infos = self.stream(
            np.random.default_rng(72), lambda k, y: -y if k >= 6 else y, forget=0.95
        )
        assert [entry.kind for entry in infos[6].adapted] == ["forgotten"]
        assert np.sqrt(np.mean(np.square(model.mean + coef))) < 0.3

        def soiled(k, y):
            return y + np.where(np.arange(50) == 3, 50.0, 0.0) if k == 6 else y

        coef, model, infos = self.stream(np.random.default_rng(73), soiled, forget=0.95)
        assert [entry.kind for entry in infos[6].adapted] == ["row"]
        assert np.sqrt(np.mean(np.square(model.mean - coef))) < 0.15

    def test_labels_that_are_flipped_do_not_stop_a_stream(self):
        rng = np.random.default_rng(74)
        coef = 5.0 * rng.normal(size=10)
        model = learning.Model(Posterior(priors.Gaussian(), 10, memory=10), channels.Logistic())
        for _ in range(10):
            Phi = rng.normal(size=(50, 10))
            y = np.where(Phi @ coef > 0.0, 1.0, -1.0) * np.where(rng.random(50) < 0.05, -1.0, 1.0)
            model, info = absorb(
                model, learning.Learn(Phi, y, fixed=("mean",)), on_conflict="adapt"
            )
            assert "skipped" not in {entry.kind for entry in info.adapted}
        cosine = model.mean @ coef / np.linalg.norm(model.mean) / np.linalg.norm(coef)
        assert cosine > 0.95


def test_sparse_coefficients_are_found_in_sparse_rows():
    # 1000 x 3000, 1 % filled, seeds 80 to 82: 10 of 25 such fits used to be refused. With 6 entries
    # per column in the place of 10, AMP does not converge on some seeds (R2 down to 0.7).
    for seed in range(80, 83):
        rng = np.random.default_rng(seed)
        Phi = sparse.random_array((1000, 3000), density=0.01, rng=rng, format="csr")
        Phi.data = rng.normal(size=Phi.nnz)
        x = np.where(rng.random(3000) < 0.01, 3.0 * rng.normal(size=3000), 0.0)
        z = Phi @ x
        y = z + 0.1 * np.std(z) * rng.normal(size=1000)
        model = learning.Model(Posterior(GUESS, 3000), channels.Gaussian())
        model, info = absorb(model, learning.Learn(Phi, y, fixed=("mean",)), on_conflict="adapt")
        assert "skipped" not in {entry.kind for entry in info.adapted}
        assert np.var(Phi @ model.mean - z) < 0.02 * np.var(z)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::miniamp.estimators.health.HealthWarning")  # of a batch skipped
@pytest.mark.parametrize("seed", [0, 1])
def test_sparse_rows_in_small_batches_do_not_run_away(seed):
    # 10 batches of 20 rows, 300 features, 6 of them used, memory for 40 rows. The solver ran away
    # in one batch; hyper-parameters fitted to that overflowed (seed 0) or grew to 1e44 (seed 1).
    rng = np.random.default_rng(seed)
    X = sparse.random(
        200, 300, density=0.03, random_state=rng, data_rvs=rng.standard_normal, format="csr"
    )
    coef = np.zeros(300)
    coef[rng.choice(300, 6, replace=False)] = 3.0 * rng.normal(size=6)
    y = X @ coef + 0.01 * rng.normal(size=200)
    model = MiniAMPRegressor(prior="sparse", memory=40)
    for rows in np.split(np.arange(200), 10):
        model.partial_fit(X[rows], y[rows])
        assert float(model.prior_.var) < 100.0 * np.max(np.square(coef))
    assert np.mean(np.square(model.coef_ - coef)) < 0.2 * np.mean(np.square(coef))


@pytest.mark.filterwarnings("ignore::miniamp.estimators.health.HealthWarning")  # not converged
@pytest.mark.parametrize("seed", [101, 109, 110, 113])
def test_sparse_rows_in_small_batches_are_all_used(seed):
    """10 batches of 20 rows, 300 features, 3 % filled, a tenth of the signal is noise.

    First rows without signal made the prior too narrow for good (seeds 101 and 113, R2 of 0), or
    the solver did not settle, and batches were skipped (109, 110).
    """
    rng = np.random.default_rng(seed)
    X = sparse.random_array((700, 300), density=0.03, rng=rng, format="csr")
    X.data = rng.normal(size=X.nnz)
    z = X @ np.where(rng.random(300) < 0.02, 3.0 * rng.normal(size=300), 0.0)
    noise = 0.1 * np.std(z)
    y = z + noise * rng.normal(size=700)
    model = MiniAMPRegressor(prior="sparse")
    for start in range(0, 200, 20):
        model.partial_fit(X[start : start + 20], y[start : start + 20])
    done = {one["kind"] for entry in model.history_ for one in entry.get("conflicts", [])}
    assert "skipped" not in done
    assert np.mean(np.square(model.predict(X[200:]) - z[200:])) < 0.05 * np.var(z)
    assert 0.4 < model.noise_ / noise**2 < 2.5


def test_a_collinear_signal_is_learned_from_batches_below_the_number_of_features():
    # Two factors behind 15 features, 200 noise features, 9 batches of 100, seeds 300 to 302. The
    # noise found in the first batch, whose rows are hardly known, once stayed 40 times too high.
    for seed in range(300, 303):
        rng = np.random.default_rng(seed)
        factors = rng.normal(size=(1000, 2)) @ rng.normal(size=(2, 15))
        signal = factors + 0.02 * rng.normal(size=(1000, 15))
        Phi = np.hstack([signal, rng.normal(size=(1000, 200))])
        z = signal @ rng.normal(size=15)
        y = z + 0.05 * rng.normal(size=1000)
        model = learning.Model(Posterior(priors.Gaussian(), 215, memory=215), channels.Gaussian())
        for part in np.split(np.arange(900), 9):
            model, _ = absorb(model, learning.Learn(Phi[part], y[part], fixed=("mean",)))
        mean, _ = model.forecast(Phi[900:])
        assert np.sqrt(np.mean(np.square(mean - z[900:]))) < 0.03 * np.std(z)
        assert float(model.channel.var) < 20.0 * 0.05**2


@pytest.mark.parametrize("intercept", [False, True])
def test_initial_variances_have_the_largest_evidence_of_the_rows(intercept):
    """Dense rows, half as many as coefficients: all of them are used, and y is not changed."""
    rng = np.random.default_rng(3)
    Phi = rng.normal(size=(40, 81)) @ np.diag(np.linspace(2.0, 0.1, 81))
    y = Phi @ rng.normal(size=81) + 3.0 * rng.normal(size=40)
    if intercept:
        Phi[:, -1] = 1.0
        y += 5.0
    prior, N = priors.Gaussian(var=0.5), Phi.shape[1]
    whole = priors.WithIntercept(prior, 1e6) if intercept else prior
    given = y.copy()
    rows = evidence.RobustBatch(Phi, y, channels.Gaussian(1.0))
    found, channel = initial_from_evidence(whole, rows.channel, rows)
    assert (rows.y == given).all()
    width = np.ones(N)
    width[N - intercept :] = 0.0
    seen = Phi - Phi.mean(axis=0) if intercept else Phi
    basis = np.linalg.svd(np.ones((1, 40)))[2][1:] if intercept else np.eye(40)

    def log_evidence(noise, var):
        signal = var * (seen * width) @ seen.T
        C = basis @ (signal + noise * np.eye(40)) @ basis.T
        share = np.trace(signal) / (np.trace(signal) + 40 * noise)
        t = basis @ y
        fit = np.linalg.slogdet(C)[1] + t @ np.linalg.solve(C, t)
        return 0.5 * np.log(share * (1.0 - share)) - 0.5 * fit

    noise, var = float(channel.var), float(found.coefficients.var)
    best = log_evidence(noise, var)
    for a, b in ((1.2, 1.0), (1 / 1.2, 1.0), (1.0, 1.2), (1.0, 1 / 1.2), (1.3, 1.3)):
        assert log_evidence(a * noise, b * var) < best


def test_rows_are_framed_as_they_are_measured(rng):
    first, second = rng.normal(size=(2, 50, 4))
    frame = evidence.Frame.of(first)
    new, design = frame.framing(second, intercept=True)
    np.testing.assert_array_equal(design.toarray(), new.rows(second, intercept=True))


@pytest.mark.parametrize("noise", [1e-2, 1e-4, 1e-5])
@pytest.mark.parametrize("prior", ["gaussian", "sparse", "laplace"])
@pytest.mark.parametrize("solver", ["auto", "amp"])
def test_low_noise_is_learned_from_one_batch(solver, prior, noise):
    """The rounds of EM ended at a deviation of 8e-4, however low the noise was."""
    rng = np.random.default_rng(20)
    X = rng.normal(size=(1500, 3 if solver == "auto" else 60))
    weights = np.zeros(X.shape[1])
    weights[:2] = 1.0, 0.5
    y = X @ weights + noise * rng.normal(size=len(X))
    model = MiniAMPRegressor(prior=prior, solver=solver).fit(X, y)
    assert np.sqrt(model.noise_) == pytest.approx(noise, rel=0.1)


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_rounds_for_the_width_of_labels_go_on_from_each_other(monkeypatch, seed):
    # 300 correlated features: rounds that each began anew ended at .83, .72 and .79 of the width
    # at which rounds settle that are solved to the end.
    N, rng = 300, np.random.default_rng(seed)
    Phi = rng.normal(size=(N, 10)) @ rng.normal(size=(10, N)) + 0.3 * rng.normal(size=(N, N))
    coefficients = rng.normal(size=N) * (rng.random(N) < 0.3) / np.sqrt(N)
    y = np.where(Phi @ coefficients + 0.3 * rng.logistic(size=N) > 0.0, 1.0, -1.0)

    def width():
        start = evidence.InformationPosterior(priors.Gaussian(), N)
        model = learning.Model(start, channels.Probit(1.0))
        after, _ = absorb(model, learning.Learn(Phi, y, evidence.RobustBatch, fixed=("mean",)))
        return float(after.posterior.prior.var)

    found = width()
    monkeypatch.setattr(robust, "ROWS_ENOUGH", 1e-5)
    monkeypatch.setattr(learning, "FIRST_ROUNDS", 60)
    monkeypatch.setattr(learning, "SETTLED", 1e-3)
    assert found == pytest.approx(width(), rel=0.05)
