"""Rows under a Gaussian prior and Gaussian noise: the posterior in closed form, however cut."""

import numpy as np
import pytest
from scipy import sparse, stats

from miniamp import Posterior, absorb, channels, load, priors
from miniamp.designs import as_design
from miniamp.errors import InvalidInputError
from miniamp.estimators import MiniAMPRegressor, merge
from miniamp.evidence import ExactBatch, RobustBatch, choose_exact, forecast
from miniamp.streams.beliefs import decode_belief, encode_belief

NOISE, WIDTH = 0.3, 0.7


def problem(rows=60, features=12, seed=0):
    """Correlated rows, coefficients of variance WIDTH and noise of variance NOISE."""
    rng = np.random.default_rng(seed)
    Phi = rng.normal(size=(rows, features)) + rng.normal(size=(rows, 1))
    x = np.sqrt(WIDTH) * rng.normal(size=features)
    return Phi, Phi @ x + np.sqrt(NOISE) * rng.normal(size=rows)


def closed_form(Phi, y, weights=1.0):
    weights = np.broadcast_to(weights, y.shape)
    K = (Phi.T * weights) @ Phi / NOISE + np.eye(Phi.shape[1]) / WIDTH
    covariance = np.linalg.inv(K)
    return covariance @ (Phi.T @ (weights * y)) / NOISE, covariance


def absorbed(Phi, y, cuts, kind=ExactBatch, **options):
    belief = Posterior(priors.Gaussian(var=WIDTH), Phi.shape[1], memory=Phi.shape[1])
    infos = []
    for part in np.array_split(np.arange(len(y)), cuts):
        rows = kind(Phi[part], y[part], channels.Gaussian(NOISE))
        belief, info = absorb(belief, rows, **options)
        infos.append(info)
    return belief, infos


@pytest.mark.parametrize("cuts", [1, 4, 60])
def test_posterior_is_the_closed_form_however_the_rows_are_cut(cuts):
    Phi, y = problem()
    belief, infos = absorbed(Phi, y, cuts)
    mean, covariance = closed_form(Phi, y)
    np.testing.assert_allclose(belief.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(belief.var, np.diag(covariance), rtol=1e-9)
    new = np.random.default_rng(1).normal(size=(5, 12))
    found = forecast(belief, new, channels.Gaussian(NOISE))
    np.testing.assert_allclose(found[0], new @ mean, rtol=1e-9)
    np.testing.assert_allclose(
        found[1], NOISE + np.einsum("ij,jk,ik->i", new, covariance, new), rtol=1e-9
    )
    assert {info.solver for info in infos} == {"exact"}


@pytest.mark.parametrize("cuts", [1, 3, 60])
def test_log_evidence_of_the_batches_adds_up_to_the_marginal_likelihood(cuts):
    Phi, y = problem()
    total = sum(info.log_evidence for info in absorbed(Phi, y, cuts)[1])
    law = stats.multivariate_normal(cov=NOISE * np.eye(60) + WIDTH * Phi @ Phi.T)
    assert total == pytest.approx(law.logpdf(y), abs=1e-10 * abs(law.logpdf(y)))


def test_equals_the_robust_solver_with_full_memory_when_rows_are_forgotten():
    Phi, y = problem()
    a, b = (absorbed(Phi, y, 4, kind, forget=0.6)[0] for kind in (ExactBatch, RobustBatch))
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-6)
    np.testing.assert_allclose(a.var, b.var, rtol=1e-6)


def test_weights_count_rows_so_many_times():
    Phi, y = problem(seed=3)
    weights = np.random.default_rng(4).uniform(0.2, 3.0, size=60)
    rows = ExactBatch(Phi, y, channels.Gaussian(NOISE)).weighted(weights)
    belief, _ = absorb(Posterior(priors.Gaussian(var=WIDTH), 12), rows)
    mean, covariance = closed_form(Phi, y, weights)
    np.testing.assert_allclose(belief.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(belief.var, np.diag(covariance), rtol=1e-9)


def test_exact_targets_give_the_least_norm_in_every_order_of_the_rows():
    """Eight distinct rows, three times each, of 12 coefficients, with noise of 1e-12: four
    directions were never seen, and rounding of the sums (1e-16 of them) must not be taken for
    information on them. The tolerance is that of scikit-learn's check of weights."""
    rng = np.random.default_rng(4)
    Phi = np.repeat(rng.normal(size=(8, 12)), 3, axis=0)
    y = np.repeat(rng.normal(size=8), 3)
    least = np.linalg.pinv(Phi) @ y
    for order in (np.arange(24), rng.permutation(24)):
        rows = ExactBatch(Phi[order], y[order], channels.Gaussian(var=1e-12))
        belief, _ = absorb(Posterior(priors.Gaussian(), 12), rows)
        np.testing.assert_allclose(belief.mean, least, rtol=1e-7, atol=1e-9)
        sure = np.linalg.pinv(Phi) @ Phi
        np.testing.assert_allclose(belief.var, 1.0 - np.diagonal(sure), atol=1e-9)


def test_noise_that_differs_from_row_to_row_has_the_right_evidence():
    Phi, y = problem(seed=5)
    var = np.random.default_rng(6).uniform(0.1, 2.0, size=60)
    _, info = absorb(
        Posterior(priors.Gaussian(var=WIDTH), 12), ExactBatch(Phi, y, channels.Gaussian(var))
    )
    law = stats.multivariate_normal(cov=np.diag(var) + WIDTH * Phi @ Phi.T)
    assert info.log_evidence == pytest.approx(law.logpdf(y), rel=1e-10)


def test_sparse_rows_give_the_same():
    rng = np.random.default_rng(0)
    Phi = np.where(rng.random((60, 12)) < 0.3, rng.normal(size=(60, 12)), 0.0)
    y = Phi @ rng.normal(size=12) + np.sqrt(NOISE) * rng.normal(size=60)
    dense, _ = absorbed(Phi, y, 1)
    rows = ExactBatch(sparse.csr_array(Phi), y, channels.Gaussian(NOISE))
    other, _ = absorb(Posterior(priors.Gaussian(var=WIDTH), 12), rows)
    np.testing.assert_allclose(other.mean, dense.mean, rtol=1e-9)
    np.testing.assert_allclose(
        forecast(other, sparse.csr_array(Phi), channels.Gaussian(NOISE))[1],
        forecast(dense, Phi, channels.Gaussian(NOISE))[1],
        rtol=1e-9,
    )


def test_a_belief_goes_from_remembered_rows_to_products_and_back():
    Phi, y = problem()
    mean, covariance = closed_form(Phi, y)
    belief, halves = (
        Posterior(priors.Gaussian(var=WIDTH), 12, memory=12),
        np.array_split(range(60), 4),
    )
    for part, kind in zip(halves, (RobustBatch, ExactBatch, RobustBatch, ExactBatch), strict=True):
        belief, _ = absorb(belief, kind(Phi[part], y[part], channels.Gaussian(NOISE)))
    np.testing.assert_allclose(belief.mean, mean, rtol=1e-6)
    np.testing.assert_allclose(belief.var, np.diag(covariance), rtol=1e-6)


def test_change_of_units_prior_and_tilt_keep_the_closed_form():
    Phi, y = problem()
    belief, _ = absorbed(Phi, y, 2)
    factor = np.linspace(0.5, 2.0, 12)
    stretched = belief.stretched(factor)
    rows = Phi / factor
    np.testing.assert_allclose(
        forecast(stretched, rows, channels.Gaussian(NOISE))[1],
        forecast(belief, Phi, channels.Gaussian(NOISE))[1],
        rtol=1e-9,
    )
    again = stretched.with_prior(priors.Gaussian(var=WIDTH))
    K = rows.T @ rows / NOISE + np.eye(12) / WIDTH
    np.testing.assert_allclose(again.var, np.diag(np.linalg.inv(K)), rtol=1e-9)


def test_files_keep_every_bit():
    belief, _ = absorbed(*problem(), 3)
    again = decode_belief(encode_belief(belief))
    np.testing.assert_array_equal(again.mean, belief.mean)
    np.testing.assert_array_equal(again.information.S, belief.information.S)


@pytest.mark.parametrize("rows", [8, 60, 1000])
def test_learned_hyper_parameters_are_at_the_largest_evidence(rows):
    """Within a tenth of their standard deviation, or the pull of the one row beside them."""
    Phi, y = problem(rows, 30, seed=rows)
    start = ExactBatch(Phi, y, channels.Gaussian(np.var(y) / 2), prior=True, noise=True)
    belief, info = absorb(Posterior(priors.Gaussian(var=1.0), 30), start)
    assert info.converged
    width, noise = float(belief.prior.var), belief.information.noise

    def evidence(log_width, log_noise):
        cov = np.exp(log_noise) * np.eye(rows) + np.exp(log_width) * Phi @ Phi.T
        signal = np.exp(log_width) * np.sum(Phi**2) / rows
        share = signal / (signal + np.exp(log_noise))
        return stats.multivariate_normal(cov=cov).logpdf(y) + 0.5 * np.log(share * (1.0 - share))

    best = evidence(np.log(width), np.log(noise))
    for step in (-0.5, 0.5):
        assert evidence(np.log(width) + step, np.log(noise)) < best + 0.05
        assert evidence(np.log(width), np.log(noise) + step) < best + 0.05


def test_priors_and_channels_that_are_not_gaussian_are_refused():
    Phi, y = problem()
    with pytest.raises(InvalidInputError, match="RobustBatch"):
        ExactBatch(Phi, np.sign(y), channels.Probit())
    with pytest.raises(InvalidInputError, match="RobustBatch"):
        absorb(Posterior(priors.Laplace(), 12), ExactBatch(Phi, y, channels.Gaussian()))


def test_choice_depends_on_cost_and_on_the_limit_of_memory():
    rng, channel = np.random.default_rng(0), channels.Gaussian()
    few, many = Posterior(priors.Gaussian(), 20), Posterior(priors.Gaussian(), 600)
    narrow = as_design(rng.normal(size=(30, 20)))
    wide = as_design(rng.normal(size=(200, 600)))
    shifted = as_design(rng.normal(size=(200, 600)) + 1.0)
    assert choose_exact(narrow, few, channel).solver == "exact"
    assert choose_exact(narrow, few, channel, memory=5) is None
    assert choose_exact(wide, many, channel).solver == "exact"  # AMP would lose what rows share
    assert choose_exact(shifted, many, channel).solver == "exact"
    assert choose_exact(as_design(shifted.toarray()[:20]), many, channel) is None


def streamed(X, y, size, **parameters):
    model = MiniAMPRegressor(**parameters)
    for k in range(0, len(y), size):
        model.partial_fit(X[k : k + size], y[k : k + size])
    return model


def test_regressor_takes_it_and_the_cut_of_the_stream_does_not_matter():
    """400 rows, 10 features, seed 0: means within .02 posterior standard deviations, those .5 %.

    Units of the features come from the first 32 rows, and hyper-parameters settle within a tenth of
    their standard deviation.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 10)) + rng.normal(size=(400, 1))
    y = X @ rng.normal(size=10) + 2.0 + rng.normal(size=400)
    whole = MiniAMPRegressor(batch_size=400).fit(X, y)
    assert whole.history_[-1]["solver"] == "exact"
    for size in (1, 5, 20, 100):
        model = streamed(X, y, size)
        assert np.max(np.abs(model.coef_ - whole.coef_) / whole.coef_std_) < 0.02
        np.testing.assert_allclose(model.coef_std_, whole.coef_std_, rtol=5e-3)
        assert model.noise_ == pytest.approx(whole.noise_, rel=0.01)


def test_regressor_resumes_bit_for_bit_and_merges(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 6)) + rng.normal(size=(300, 1))
    y = X @ rng.normal(size=6) + 0.5 * rng.normal(size=300)
    model = streamed(X[:200], y[:200], 50)
    model.save(tmp_path / "m.amp")
    again = load(tmp_path / "m.amp")
    for one in (model, again):
        one.partial_fit(X[200:], y[200:])
    np.testing.assert_array_equal(model.coef_, again.coef_)
    np.testing.assert_array_equal(model.covariance(), again.covariance())
    with pytest.warns(UserWarning, match="merged"):
        both = merge(streamed(X[:150], y[:150], 50), streamed(X[150:], y[150:], 50))
    assert np.max(np.abs(both.coef_ - model.coef_) / model.coef_std_) < 0.5
    both.partial_fit(X, y)


def test_one_outlier_is_down_weighted_and_named():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 5))
    y = X @ np.ones(5) + 0.1 * rng.normal(size=300)
    y[217] = 50.0
    with pytest.warns(UserWarning, match="row 218"):  # of the stream, from 1
        model = streamed(X, y, 100)
    assert model.history_[-1]["solver"] == "exact"
    assert np.max(np.abs(model.coef_ - 1.0)) < 5.0 * model.coef_std_.max()
    assert model.noise_ == pytest.approx(0.01, rel=0.3)


@pytest.mark.filterwarnings("ignore:A batch contradicts")
def test_a_batch_of_much_larger_noise_is_absorbed_with_that_noise():
    """Noise 500 times as wide in one batch: its factor is found at once, the model stays.

    N = 20, seed 0. The factor is a mean of 100 squares: 4 standard deviations are sqrt(2/100) * 4,
    and the noise that it is relative to was learned from 300 rows.
    """
    rng = np.random.default_rng(0)
    x, model = rng.normal(size=20), MiniAMPRegressor()
    for k in range(4):
        X = rng.normal(size=(100, 20))
        width = 50.0 if k == 3 else 0.1
        model.partial_fit(X, X @ x + width * rng.normal(size=100))
    (done,) = model.history_[-1]["conflicts"]
    assert done["kind"] == "noise"
    assert done["factor"] == pytest.approx(500.0**2, rel=0.6)
    assert model.history_[-1]["health"] == pytest.approx(1.0, rel=0.6)
    assert np.abs(model.coef_ - x).max() < 0.05  # 0.1/sqrt(300), nine times


@pytest.mark.filterwarnings("ignore:A batch contradicts")
@pytest.mark.parametrize("value", [10.0, 1e3, 1e6, 1e9])
def test_an_outlier_costs_its_own_row_however_far_it_is(value):
    """From 1,000 on it pulled the fit from all rows of its batch, and all of them were left out."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(600, 20))
    y = X @ rng.normal(size=20) + 0.1 * rng.normal(size=600)
    clean = streamed(X, y, 100)
    y[507] = value
    model = streamed(X, y, 100)
    assert [(c["kind"], c["row"]) for c in model.history_[-1]["conflicts"]] == [("row", 7)]
    assert model.coef_std_.mean() == pytest.approx(clean.coef_std_.mean(), rel=0.01)
    assert np.max(np.abs(model.coef_ - clean.coef_) / clean.coef_std_) < 1.0


def test_features_that_never_varied_do_not_widen_the_prior():
    """In files sorted by a category: 1e34 times too wide after four batches, and R2 -3.8."""
    rng = np.random.default_rng(0)
    belief, channel = (
        Posterior(priors.WithIntercept(priors.Gaussian(), 1e4), 3),
        channels.Gaussian(),
    )
    Phi = np.zeros((100, 3))
    Phi[:, -1] = 1.0
    for _ in range(4):
        rows = ExactBatch(Phi, 10.0 + rng.normal(size=100), channel, prior=True, noise=True)
        belief, _ = absorb(belief, rows)
    assert belief.prior.coefficients.var == 1.0


@pytest.mark.parametrize("size", [20, 100, 400])
@pytest.mark.parametrize("difference", [0.1, 0.01])
def test_a_small_difference_of_large_features_is_not_taken_for_noise(difference, size):
    """400 rows, seed 0: the evidence has a second maximum, where all of y is noise."""
    rng = np.random.default_rng(0)
    large, y = rng.normal(size=(2, 600))
    noise = rng.normal(size=(600, 20))
    X = np.column_stack([large, large + difference * y, noise])
    y = y + 0.01 * rng.normal(size=600)
    model = streamed(X[:400], y[:400], size)
    assert model.score(X[400:], y[400:]) > 0.999
    assert model.noise_ == pytest.approx(1e-4, rel=0.3)  # sqrt(2/400) is .07
    assert not model.health_.findings
