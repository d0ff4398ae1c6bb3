"""The joint posterior of several classes: exactness, theory, weights, drift, files."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp, ndtri, softmax
from scipy.stats import qmc
from sklearn.datasets import load_digits

from miniamp import Posterior, Tilt, absorb, channels, priors, streams
from miniamp.errors import InvalidInputError
from miniamp.evidence import InformationPosterior, SoftmaxBatch, SoftmaxPosterior


def labelled(rng, rows, size, classes, strength=2.0):
    """Rows and labels of a softmax with N(0, strength^2) scores, and its coefficients (K, N)."""
    X = rng.normal(size=(rows, size)) / np.sqrt(size)
    W = strength * rng.normal(size=(classes, size))
    return X, (X @ W.T + rng.gumbel(size=(rows, classes))).argmax(axis=1), W


def test_averages_over_scores_are_those_of_many_draws():
    """400,000 draws: standard deviations of 0.0007; 64 points are off by up to 0.012."""
    rng = np.random.default_rng(0)
    omega, V = rng.normal(size=(5, 4)), 4.0 * rng.random((5, 4))
    draws = softmax(omega + np.sqrt(V) * rng.normal(size=(400_000, 1, 4))[:, :, :], axis=-1)
    p, curvature, total = channels.Softmax().joint_output(omega, V)
    np.testing.assert_allclose(p, draws.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(curvature, (draws * (1.0 - draws)).mean(axis=0), atol=0.02)
    np.testing.assert_allclose(p, channels.Softmax().joint_probabilities(omega, V), atol=1e-6)
    none, far = np.zeros_like(V), 1e6 + omega  # single precision is of differences of scores
    for certain in (channels.Softmax().joint_output(z, none) for z in (omega, far)):
        np.testing.assert_allclose(certain[0], softmax(omega, axis=1), rtol=1e-5)
    np.testing.assert_allclose(certain[2], 1e6 + logsumexp(omega, axis=1), rtol=1e-12)
    exact = channels.Softmax().joint_probabilities(omega, none)
    np.testing.assert_allclose(exact, softmax(omega, axis=1), rtol=1e-12)
    rough = channels.Softmax().joint_output(omega, V, 16)
    np.testing.assert_allclose(rough[0], p, atol=0.1)
    assert total.shape == (5,)


@pytest.mark.parametrize("rows", [30, 400])
def test_means_maximise_the_expected_likelihood(rows):
    """In rows' space (30 of 40) and coefficients' (400), at the variances that were found.

    The gradient of sum E log p_y - |x|^2/2 in all coefficients; steps end at 0.005 deviations.
    """
    rng = np.random.default_rng(1)
    X, y, _ = labelled(rng, rows, 40, 3)
    rows = SoftmaxBatch(X, y)
    start = SoftmaxPosterior.start(priors.Gaussian(var=4.0), 3, 40)
    belief, info = absorb(start, rows)
    assert info.converged
    omega, V = belief.scores(X)
    p = channels.Softmax().joint_output(omega, V)[0]
    gradient = (np.eye(3)[y] - p).T @ X - belief.mean / 4.0
    assert np.linalg.norm(gradient) < 0.05 * np.linalg.norm(belief.mean / 4.0)


def test_rows_and_coefficients_give_the_same():
    """The same batch in both spaces: with columns of zeros it is no longer more rows than those."""
    rng = np.random.default_rng(2)
    X, y, _ = labelled(rng, 60, 20, 3)
    wide = np.hstack([X, np.zeros((60, 60))])
    one, _ = absorb(SoftmaxPosterior.start(priors.Gaussian(), 3, 20), SoftmaxBatch(X, y))
    other, _ = absorb(SoftmaxPosterior.start(priors.Gaussian(), 3, 80), SoftmaxBatch(wide, y))
    np.testing.assert_allclose(other.mean[:, :20], one.mean, atol=0.01)
    np.testing.assert_allclose(other.var[:, :20], one.var, rtol=0.02)  # both end within ENOUGH


def test_iterations_end_where_scores_are_large():
    """Digits with coefficients of variance 3: whole steps of the precisions turn round for ever, at
    a log-evidence that is 13 nats lower."""
    X, y = load_digits(return_X_y=True)
    X = (X[:600] - X[:600].mean(axis=0)) / (X[:600].std(axis=0) + 1e-9)
    start = SoftmaxPosterior.start(priors.Gaussian(var=3.0), 10, 64)
    _, info = absorb(start, SoftmaxBatch(X, y[:600]))
    assert info.converged
    assert info.log_evidence > -276.0


def test_with_many_rows_it_is_maximum_likelihood():
    """4,000 rows, N = 3, seed 3: means within a tenth of a deviation of the mode, centred."""
    rng = np.random.default_rng(3)
    X, y, _ = labelled(rng, 4000, 3, 3)

    def loss(w):
        z, W = X @ w.reshape(3, 3).T, w.reshape(3, 3)
        p = softmax(z, axis=1)
        value = np.sum(logsumexp(z, axis=1)) - z[np.arange(4000), y].sum() + 0.005 * np.sum(W**2)
        return value, ((p - np.eye(3)[y]).T @ X + 0.01 * W).ravel()

    mode = minimize(loss, np.zeros(9), jac=True, method="BFGS").x.reshape(3, 3)
    belief, _ = absorb(SoftmaxPosterior.start(priors.Gaussian(var=100.0), 3, 3), SoftmaxBatch(X, y))
    off = (belief.mean - mode) - (belief.mean - mode).mean(axis=0)
    assert np.abs(off / np.sqrt(belief.var)).max() < 0.3


def centred(scores):
    """Scores without what all classes share, which no label depends on."""
    return scores - scores.mean(axis=-1, keepdims=True)


def typical(alpha, classes, strength, points=2048, iterations=15):
    """Overlap a of means with the truth and variance V of a coefficient, by state evolution.

    Rows of alpha N i.i.d. entries of variance 1/N. A left-out score is omega = a z + sqrt(b) e, its
    posterior mean m = omega + chi g(m) with the pull g = y - E p. With averages over z, e and y,
    here by quasi-Monte-Carlo in the K - 1 directions that labels depend on:

    chi = 1/(1/s^2 + Q), a = chi h, b = chi^2 alpha E g^2, V = 1/(1/s^2 + alpha E tau/(1 + tau V)),
    Q = -alpha E dg/domega, h = alpha E g z/s^2 + a Q.
    """
    cube = qmc.Sobol(2 * classes + 1, seed=1).random(points)
    normal = ndtri(np.clip(cube[:, :-1], 1e-9, 1.0 - 1e-9))
    z, e = centred(strength * normal[:, :classes]), centred(normal[:, classes:])
    y = (softmax(z, axis=1).cumsum(axis=1) > cube[:, -1:]).argmax(axis=1)
    truth, channel = np.eye(classes)[y], channels.Softmax()
    power, free = strength**2, points * (classes - 1.0)
    a, b, chi, V = 0.1, 0.1, power, power
    for _ in range(iterations):
        omega = a * z + np.sqrt(b) * e
        m, v = omega, np.full_like(omega, V)
        for _ in range(20):
            p, c, _ = channel.joint_output(m, v)
            tau = classes / (classes - 1.0) * c
            v = V / (1.0 + tau * V)
            # The step of a majoriser: 1 + chi tau is at least half of the slope.
            m = m + (omega + chi * (truth - p) - m) / (1.0 + chi * 2.0 * c)
        g = centred(truth - channel.joint_output(m, v)[0])
        Q = -alpha * np.vdot(g, e) / np.sqrt(b) / free
        h = alpha * np.vdot(g, z) / power / free + a * Q
        chi = 1.0 / (1.0 / power + Q)
        a, b = chi * h, chi**2 * alpha * np.vdot(g, g) / free
        V = 1.0 / (1.0 / power + alpha * np.mean(tau / (1.0 + tau * V)))
    return a, V


@pytest.mark.parametrize(("classes", "alpha"), [(3, 2.0), (4, 4.0)])
def test_state_evolution(classes, alpha):
    """N = 200, six draws, seed 4: K - 1 directions of N coefficients each.

    The overlap fluctuates by 1/sqrt(N (K - 1) draws), 0.02, and 2048 points by as much.
    """
    rng = np.random.default_rng(4)
    size, strength, found = 200, 3.0, []
    for _ in range(6):
        X, y, W = labelled(rng, int(alpha * size), size, classes, strength)
        start = SoftmaxPosterior.start(priors.Gaussian(var=strength**2), classes, size)
        belief, _ = absorb(start, SoftmaxBatch(X, y))
        truth, mean = centred(W.T), centred(belief.mean.T)
        found.append([np.vdot(mean, truth) / np.vdot(truth, truth), belief.var.mean()])
    a, V = typical(alpha, classes, strength)
    overlap, variance = np.mean(found, axis=0)
    assert overlap == pytest.approx(a, rel=0.1)
    assert variance == pytest.approx(V, rel=0.05)
    assert 0.1 < a < 0.95


def test_weights_count_rows():
    rng = np.random.default_rng(5)
    X, y, _ = labelled(rng, 50, 5, 3)
    times = rng.integers(1, 4, size=50)
    start = SoftmaxPosterior.start(priors.Gaussian(), 3, 5)
    weighted, _ = absorb(start, SoftmaxBatch(X, y, times.astype(float)))
    repeated, _ = absorb(start, SoftmaxBatch(np.repeat(X, times, axis=0), np.repeat(y, times)))
    np.testing.assert_allclose(weighted.mean, repeated.mean, atol=0.02)
    np.testing.assert_allclose(weighted.var, repeated.var, rtol=0.02)


def test_one_wrong_label_is_down_weighted():
    """300 rows of three far classes, and one of the first with the label of the third."""
    rng = np.random.default_rng(6)
    y = np.arange(300) % 3
    X = np.column_stack([10.0 * np.eye(3)[y] + 0.1 * rng.normal(size=(300, 3))])
    prior, sure = priors.Gaussian(var=9.0), 100.0 * np.eye(3)
    known = (InformationPosterior(prior, 3, sure, 5.0 * sure[k]) for k in range(3))
    belief = SoftmaxPosterior(tuple(known))  # scores of 50 +- 1 for the class, 0 +- 1 for others
    y = np.where(np.arange(300) == 7, (y + 1) % 3, y)
    _, info = absorb(belief, SoftmaxBatch(X, y), on_conflict="adapt")
    assert [one.outlier.row for one in info.adapted] == [7]
    assert info.adapted[0].factor < 0.2


def test_information_is_what_remembered_rows_say():
    rng = np.random.default_rng(7)
    prior = priors.WithIntercept(priors.Gaussian(var=2.0), 50.0)
    R, b = rng.normal(size=(5, 4)), rng.normal(size=4)
    one = InformationPosterior(prior, 4, R.T @ R, b)
    rows = one.remembered
    np.testing.assert_allclose(rows.rows.T @ rows.rows, R.T @ R, atol=1e-10)
    np.testing.assert_allclose(rows.targets @ rows.rows, b, atol=1e-10)
    plain = Posterior(prior, 4, memory=4).remembering(rows)
    np.testing.assert_allclose(plain.mean, one.mean, atol=1e-10)
    np.testing.assert_allclose(plain.var, one.var, atol=1e-10)
    again = InformationPosterior.of(plain)
    np.testing.assert_allclose(again.products, one.products, atol=1e-10)
    tilt = Tilt(np.ones(4), np.ones(4))
    np.testing.assert_allclose(one.tilted(tilt).mean, again.tilted(tilt).mean, atol=1e-10)
    for factor in (0.3, 2.0):
        np.testing.assert_allclose(
            one.stretched(factor).mean,
            InformationPosterior(prior, 4, R.T @ R / factor**2, b / factor).mean,
        )


def test_the_mean_variance_of_many_is_estimated(rng):
    """N = 400: a standard deviation of sqrt(2/(32 N)), 1.3 %; four of them."""
    R = rng.normal(size=(300, 400))
    belief = InformationPosterior(priors.Gaussian(), 400, R.T @ R)
    quick = belief.mean_variance
    assert quick == pytest.approx(belief.var.mean(), rel=0.05)


def test_files_keep_every_bit(tmp_path, rng):
    X, y, _ = labelled(rng, 50, 5, 3)
    start = SoftmaxPosterior.start(priors.Gaussian(), 3, 5)
    belief, _ = absorb(start, SoftmaxBatch(X, y))
    streams.save(tmp_path / "belief", {"belief": belief})
    loaded = streams.load(tmp_path / "belief")["belief"]
    one, other = (absorb(b, SoftmaxBatch(X, y))[0] for b in (belief, loaded))
    np.testing.assert_array_equal(one.mean, other.mean)
    np.testing.assert_array_equal(one.var, other.var)


@pytest.mark.parametrize("labels", [[0, 1, -1], [0, 1, 0.5], [0, 1], [0, 1, 3]])
def test_bad_labels_are_refused(labels):
    start = SoftmaxPosterior.start(priors.Gaussian(), 3, 2)
    with pytest.raises(InvalidInputError, match="labels"):
        absorb(start, SoftmaxBatch(np.ones((3, 2)), labels))
    with pytest.raises(InvalidInputError, match="size of the belief"):
        absorb(start, SoftmaxBatch(np.ones((3, 4)), [0, 1, 2]))


def test_wrong_labels_are_found_and_hardly_count():
    """One of twenty labels is drawn at random; else losses are 2.4 to 3.2 times those without."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, x = rng.normal(size=(1400, 5)), 4.0 * rng.normal(size=(5, 3))
        labels = (X @ x).argmax(axis=1)
        dirty, wrong = labels[:400].copy(), rng.choice(400, 20, replace=False)
        dirty[wrong] = rng.integers(3, size=20)
        losses, shares = [], []
        for y in (labels[:400], dirty):
            start = SoftmaxPosterior.start(priors.Gaussian(var=16.0), 3, 5)
            belief, _ = absorb(start, SoftmaxBatch(X[:400], y), on_conflict="adapt")
            right = replace(belief, channel=channels.Softmax()).probabilities(X[400:])
            losses.append(-np.mean(np.log(right[np.arange(1000), labels[400:]])))
            shares.append(belief.channel.wrong)
        assert losses[1] < 1.25 * losses[0]
        assert shares[0] < 1e-3
        assert 0.01 < shares[1] < 0.08


def test_what_labels_told_of_wrong_ones_fades_and_merges():
    told = channels.Softmax().told_by(np.array([0.9, 1e-6]), 3, np.ones(2))
    assert told.wrong > channels.Softmax().wrong == 0.0
    np.testing.assert_allclose(told.faded(0.5).merged(told.faded(0.5), 0.5).told, told.told)
