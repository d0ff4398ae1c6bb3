"""The log-evidence of a batch, against closed forms, enumeration and the replica free energy."""

import itertools

import mpmath as mp
import numpy as np
import pytest
from scipy import sparse, stats
from scipy.special import logsumexp

from miniamp import Posterior, Stop, absorb, channels, evidence, learning, priors, stream, theory
from miniamp.evidence.softmax import SoftmaxBatch, SoftmaxPosterior
from miniamp.tilt import Tilt

SPARSE = priors.GaussBernoulli(rho=0.3)


def mp_logpdf(Phi, y, noise, width):
    """log N(y; 0, width Phi Phi' + noise), with 50 digits."""
    with mp.workdps(50):
        rows = mp.matrix(Phi.tolist())
        C = rows * rows.T * mp.mpf(width) + mp.diag(noise)
        lower = mp.cholesky(C)
        white = mp.lu_solve(lower, mp.matrix(y.tolist()))
        volume = sum(mp.log(lower[i, i]) for i in range(len(y)))
        return -(white.T * white)[0] / 2 - volume - len(y) * mp.log(2 * mp.pi) / 2


def gaussian_chain(Phi, y, noise, cuts, forget):
    """log p(batch | batches before), these with a noise that grows as they are forgotten."""
    out = []
    for k, (a, b) in enumerate(itertools.pairwise(cuts)):
        with mp.workdps(50):
            each = [
                mp.mpf(noise) / mp.mpf(forget) ** (k - j)
                for j in range(k + 1)
                for _ in range(cuts[j + 1] - cuts[j])
            ]
            past = mp_logpdf(Phi[:a], y[:a], each[:a], 4.0) if a else 0
            out.append(float(mp_logpdf(Phi[:b], y[:b], each, 4.0) - past))
    return np.array(out)


@pytest.mark.parametrize("kind", [evidence.RobustBatch, evidence.AutoBatch, evidence.ExactBatch])
@pytest.mark.parametrize("forget", [1.0, 0.7])
@pytest.mark.parametrize("noise", [0.1, 1e-8])
def test_gaussian_models_are_exact_also_for_single_rows_and_after_forgetting(kind, noise, forget):
    """12 correlated columns, 20 rows, seed 0; the sums of products lose digits at a noise of 1e-8
    while there are fewer rows than columns (5e-7), rows do not."""
    rng, cuts = np.random.default_rng(0), [0, 6, 7, 8, 20]
    Phi, x = rng.normal(size=(20, 12)) + 1.0, 2.0 * rng.normal(size=12)
    y = Phi @ x + np.sqrt(noise) * rng.normal(size=20)
    rows = [
        kind(Phi[a:b], y[a:b], channels.Gaussian(var=noise)) for a, b in itertools.pairwise(cuts)
    ]
    belief = Posterior(priors.Gaussian(var=4.0), 12, memory=12)
    infos = [info for _, info in stream(belief, rows, forget=forget)]
    found, exact = (
        [info.log_evidence for info in infos],
        gaussian_chain(Phi, y, noise, cuts, forget),
    )
    loose = kind is evidence.ExactBatch and noise < 1e-4
    np.testing.assert_allclose(found, exact, rtol=1e-5 if loose else 1e-10)
    assert infos[-1].log_evidence_sum == pytest.approx(sum(found), rel=1e-12)


@pytest.mark.parametrize("kind", [evidence.RobustBatch, evidence.ExactBatch, evidence.Batch])
def test_weights_count_rows_so_often_and_adapted_rows_have_more_noise(kind, rng):
    """Rows given 1, 2 or 3 times; of a batch with an outlier, that of the model with its noise."""
    Phi, times = rng.normal(size=(12, 5)) / np.sqrt(5), np.arange(12) % 3 + 1
    y, belief = rng.normal(size=12), Posterior(priors.Gaussian(), 5, memory=5)
    often = kind(np.repeat(Phi, times, axis=0), np.repeat(y, times), channels.Gaussian(var=0.1))
    once = kind(Phi, y, channels.Gaussian(var=0.1).weighted(times.astype(float)))
    values = [absorb(belief, rows)[1].log_evidence for rows in (often, once)]
    # AMP sees 25 rows or 12: its expansion is another one.
    assert values[0] == pytest.approx(values[1], rel=0.15 if kind is evidence.Batch else 1e-10)
    y[3] += 50.0
    _, info = absorb(belief, kind(Phi, y, channels.Gaussian(var=0.1)), on_conflict="adapt")
    var = np.full(12, 0.1)
    for done in info.adapted:
        if done.kind == "noise":
            var *= done.factor
    for done in info.adapted:
        if done.outlier is not None:
            var[done.outlier.row] /= done.factor
    assert var[3] > 1.0
    plain = absorb(belief, kind(Phi, y, channels.Gaussian(var=var)))[1].log_evidence
    assert info.log_evidence == pytest.approx(plain, rel=1e-6)


def test_wide_sparse_rows_and_a_belief_without_memory_are_exact(rng):
    """Given the factorised belief before it: the second batch is N(Phi m, Phi diag(v) Phi' + D)."""
    Phi = np.where(rng.random((24, 200)) < 0.05, rng.normal(size=(24, 200)), 0.0)
    y, channel = rng.normal(size=24), channels.Gaussian(var=rng.uniform(0.1, 0.5, size=12))
    belief = Posterior(priors.Gaussian(), 200)
    for part in (slice(12), slice(12, 24)):
        cov = (Phi[part] * belief.var) @ Phi[part].T + np.diag(channel.var)
        exact = stats.multivariate_normal(Phi[part] @ belief.mean, cov).logpdf(y[part])
        rows = evidence.RobustBatch(sparse.csr_array(Phi[part]), y[part], channel)
        belief, info = absorb(belief, rows)
        assert info.log_evidence == pytest.approx(exact, rel=1e-10)


def spike_and_slab(Phi, y, noise):
    """log p(y) by a sum over all supports."""
    M, N = Phi.shape
    terms = []
    for support in itertools.product([False, True], repeat=N):
        some = Phi[:, np.array(support)]
        law = stats.multivariate_normal(cov=some @ some.T + noise * np.eye(M))
        k = some.shape[1]
        terms.append(k * np.log(0.3) + (N - k) * np.log(0.7) + law.logpdf(y))
    return float(logsumexp(terms))


def sparse_problem(seed, N=8, M=6, noise=0.05):
    rng = np.random.default_rng(seed)
    Phi = rng.normal(size=(M, N)) / np.sqrt(N)
    return Phi, Phi @ SPARSE.sample(rng, N) + np.sqrt(noise) * rng.normal(size=M), noise


def test_sparse_models_against_all_supports():
    """N = 8, 6 rows, seeds 0 to 7. Expectation propagation has an error of .2 nats in the mean and
    Bethe for AMP, an expansion in 1/N, one of .25; mean field stays below, by .5 to 1."""
    errors = {"robust": [], "streamed": [], "amp": [], "mean field": []}
    for seed in range(8):
        Phi, y, noise = sparse_problem(seed)
        exact, channel = spike_and_slab(Phi, y, noise), channels.Gaussian(var=noise)
        belief = Posterior(SPARSE, 8, memory=8)
        pieces = [evidence.RobustBatch(Phi[i : i + 2], y[i : i + 2], channel) for i in (0, 2, 4)]
        bound = evidence.MeanFieldBatch(Phi, y, channel, learn_noise=False)
        for name, value in {
            "robust": absorb(belief, evidence.RobustBatch(Phi, y, channel))[1].log_evidence,
            "streamed": list(stream(belief, pieces))[-1][1].log_evidence_sum,
            "amp": absorb(belief, evidence.Batch(Phi, y, channel))[1].log_evidence,
            "mean field": absorb(belief, bound)[1].log_evidence,
        }.items():
            errors[name].append(value - exact)
    assert np.mean(np.abs(errors["robust"])) < 0.3
    np.testing.assert_allclose(errors["streamed"], errors["robust"], atol=0.02)
    assert np.mean(np.abs(errors["amp"])) < 0.5
    assert max(errors["mean field"]) < 0.0
    assert min(errors["mean field"]) > -2.0


@pytest.mark.parametrize("kind", [evidence.Batch, evidence.RobustBatch])
@pytest.mark.parametrize(
    ("prior", "channel", "alpha"),
    [
        (priors.Gaussian(), channels.Gaussian(var=0.1), 0.8),
        (SPARSE, channels.Gaussian(var=0.01), 0.6),
        (SPARSE, channels.Probit(var=0.1), 1.0),
    ],
    ids=["gaussian", "sparse", "probit"],
)
def test_mean_over_iid_designs_is_the_replica_free_energy(kind, prior, channel, alpha):
    """N = 200, seeds 0 to 9: within 3.5 standard errors of the mean, .005 to .02 per coefficient,
    and 1/N more for the finite size."""
    N, found = 200, []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        Phi = rng.normal(size=(int(alpha * N), N)) / np.sqrt(N)
        y = channel.sample(rng, Phi @ prior.sample(rng, N))
        found.append(absorb(Posterior(prior, N), kind(Phi, y, channel))[1].log_evidence / N)
    error = 3.5 * np.std(found, ddof=1) / np.sqrt(10) + 1.0 / N
    assert np.mean(found) == pytest.approx(
        theory.expected_log_evidence(prior, channel, alpha), abs=error
    )


@pytest.mark.parametrize(
    "kind", [evidence.Batch, evidence.RobustBatch, evidence.MeanFieldBatch, evidence.AutoBatch]
)
def test_units_of_y_shift_it_and_rotations_of_rows_do_not(kind, rng):
    Phi = rng.normal(size=(30, 80)) / 9.0
    y, c = Phi @ SPARSE.sample(rng, 80) + 0.1 * rng.normal(size=30), 7.0
    prior = SPARSE.replaced(var=c**2)
    (plain, scaled) = (
        absorb(Posterior(p, 80), kind(Phi, s * y, channels.Gaussian(var=s**2 * 0.01)))[1]
        for p, s in ((SPARSE, 1.0), (prior, c))
    )
    assert scaled.log_evidence == pytest.approx(plain.log_evidence - 30 * np.log(c), abs=1e-6)
    Q = np.linalg.qr(rng.normal(size=(30, 30)))[0]
    channel = channels.Gaussian(var=0.01)
    turned = absorb(Posterior(SPARSE, 80), evidence.RobustBatch(Q @ Phi, Q @ y, channel))[1]
    robust = absorb(Posterior(SPARSE, 80), evidence.RobustBatch(Phi, y, channel))[1]
    assert turned.log_evidence == pytest.approx(robust.log_evidence, abs=1e-6)


def test_labels_against_a_two_dimensional_integral(rng):
    """Probit rows of two coefficients, seed of the fixture: the error of EP is .010 nats."""
    Phi = rng.normal(size=(8, 2))
    y, channel = np.sign(Phi @ np.array([1.0, -0.5])), channels.Probit(var=1.0)
    t = np.linspace(-8.0, 8.0, 401)
    z = np.stack(np.meshgrid(t, t), axis=-1) @ Phi.T
    logs = np.sum(stats.norm.logcdf(y * z), axis=-1)
    weights = np.exp(-0.5 * (t**2 + t[:, None] ** 2)) / (2.0 * np.pi) * (t[1] - t[0]) ** 2
    exact = np.log(np.sum(weights * np.exp(logs)))
    _, info = absorb(
        Posterior(priors.Gaussian(), 2, memory=2), evidence.RobustBatch(Phi, y, channel)
    )
    assert info.log_evidence == pytest.approx(exact, abs=0.02)


def test_rows_one_by_one_sum_their_predictive_densities(rng):
    Phi = rng.normal(size=(6, 30)) / np.sqrt(30)
    y, channel, belief = rng.normal(size=6), channels.Gaussian(var=0.1), Posterior(SPARSE, 30)
    tilted = belief.tilted(Tilt(np.full(30, 2.0), rng.normal(size=30)))
    for matrix in (Phi, sparse.csr_array(Phi)):
        belief, total = tilted, 0.0
        for row, value in zip(Phi, y, strict=True):
            mean, var = row @ belief.mean, 0.1 + row**2 @ belief.var
            total += stats.norm(mean, np.sqrt(var)).logpdf(value)
            one = evidence.Batch(row[None], np.array([value]), channel)
            belief, _ = absorb(belief, one, Stop(max_iter=1))
        _, info = evidence.adf(tilted, matrix, y, channel)
        assert info.log_evidence == pytest.approx(total, rel=1e-12)


def test_clusters_against_all_labellings(rng):
    """Two clusters, 60 features, 7 samples: the sum over all 2^7 labellings, each a Gaussian."""
    labels, U = np.array([0, 0, 1, 1, 0, 1, 0]), rng.normal(size=(60, 2))
    Y = U[:, labels] + rng.normal(size=(60, 7))
    terms = []
    for guess in itertools.product([0, 1], repeat=7):
        V = np.eye(2)[list(guess)]
        terms.append(stats.multivariate_normal(cov=V @ V.T + np.eye(7)).logpdf(Y).sum())
    exact = logsumexp(terms) - 7 * np.log(2.0)
    batch = evidence.FactorBatch(
        Y, channels.Gaussian(var=1.0), priors.OneHot(2), scale=1.0, start="kmeans++"
    )
    belief, info = absorb(Posterior(priors.GaussianRows(2), 60), batch)
    # The two orders of the labels are one of 2 modes; Bethe sees the one it is in.
    assert info.log_evidence == pytest.approx(exact - np.log(2.0), rel=0.01)
    assert belief.log_evidence == info.log_evidence


def test_softmax_gives_a_lower_bound_close_to_the_integral(rng):
    """One coefficient and three classes: a grid of 81^3 points."""
    x, labels = np.array([[1.0], [-0.5], [2.0], [0.3]]), np.array([0, 1, 0, 2])
    t = np.linspace(-7.0, 7.0, 81)
    b = np.stack(np.meshgrid(t, t, t), axis=-1)
    logs = np.sum(stats.norm.logpdf(b), axis=-1) + 3 * np.log(t[1] - t[0])
    for row, label in zip(x[:, 0], labels, strict=True):
        logs = logs + row * b[..., label] - logsumexp(row * b, axis=-1)
    exact = logsumexp(logs)
    start = SoftmaxPosterior.start(priors.Gaussian(), classes=3, size=1)
    _, info = absorb(start, SoftmaxBatch(x, labels))
    assert exact - 0.2 < info.log_evidence < exact
    wide = np.hstack([x, np.zeros((4, 4))])  # fewer rows than coefficients
    _, again = absorb(SoftmaxPosterior.start(priors.Gaussian(), 3, 5), SoftmaxBatch(wide, labels))
    assert again.log_evidence == pytest.approx(info.log_evidence, rel=1e-3)


def test_a_learned_model_reports_it_under_the_hyper_parameters_before_the_batch(rng):
    Phi = rng.normal(size=(2, 40, 20))
    y = Phi @ rng.normal(size=20) + 0.1 * rng.normal(size=(2, 40))
    start = learning.Model(Posterior(priors.Gaussian(), 20, memory=20), channels.Gaussian())
    model, first = absorb(start, learning.Learn(Phi[0], y[0]))
    _, second = absorb(model, learning.Learn(Phi[1], y[1]))
    rows = evidence.RobustBatch(Phi[1], y[1], model.channel)
    _, info = absorb(model.posterior, rows)
    assert np.isfinite(first.log_evidence)
    assert second.log_evidence == pytest.approx(info.log_evidence, rel=1e-9)
