"""Laws that forget, and the twin of low-rank AMP."""

import numpy as np
import pytest

from miniamp import Posterior, Stop, absorb, channels, evidence, priors
from miniamp.theory import ConvergedBatch, Law, lowrank
from miniamp.theory.lowrank.matrix import CONVERGED


def test_a_law_that_forgets_is_that_of_a_posterior_that_forgets():
    """Gaussian prior and noise, forget = .8, ten batches; N = 2000, seed 0.

    The error of one run scatters by sqrt(2/N) = 3 %: 10 % allows for three of them.
    """
    N, alpha, noise, forget = 2000, 0.5, 0.1, 0.8
    rng = np.random.default_rng(0)
    x = rng.normal(size=N)
    x /= np.sqrt(np.mean(x**2))
    channel = channels.Gaussian(var=noise)
    belief, law = Posterior(priors.Gaussian(), N), Law(priors.Gaussian())
    for _ in range(10):
        Phi = rng.normal(size=(int(alpha * N), N)) / np.sqrt(N)
        y = Phi @ x + np.sqrt(noise) * rng.normal(size=len(Phi))
        belief, _ = absorb(belief, evidence.Batch(Phi, y, channel), forget=forget)
        law, _ = absorb(law, ConvergedBatch(alpha, channel), Stop(2000, 1e-12), forget=forget)
    assert np.mean((belief.mean - x) ** 2) == pytest.approx(law.mse, rel=0.1)
    assert np.mean(belief.var) == pytest.approx(law.variance, rel=0.02)
    # The posterior that forgets reports more uncertainty than it has: the two must differ.
    assert law.variance > 1.15 * law.mse


def test_the_long_run_of_a_law_that_forgets_in_closed_form():
    """Gaussian prior of variance 1, gain g per batch: lambda = g/(1 - f), a geometric series."""
    alpha, noise, f = 0.5, 0.1, 0.9
    channel, law = channels.Gaussian(var=noise), Law(priors.Gaussian())
    for _ in range(400):
        law, _ = absorb(law, ConvergedBatch(alpha, channel), Stop(2000, 1e-13), forget=f)
    gain = alpha / (noise + law.variance)
    lam, gamma = (
        gain / (1 - f),
        alpha * (noise + law.mse) / (noise + law.variance) ** 2 / (1 - f**2),
    )
    assert law.lam == pytest.approx(lam, rel=1e-10)
    assert law.gamma == pytest.approx(gamma, rel=1e-10)
    assert law.variance == pytest.approx(1 / (1 + lam), rel=1e-10)
    assert law.mse == pytest.approx((1 + gamma) / (1 + lam) ** 2, rel=1e-10)


@pytest.mark.parametrize("R", [3, 5])
def test_labels_keep_their_symmetry_in_the_full_recursion(R):
    """Below alpha_c nothing but the grand mean is learned, however many batches (errata L13).

    Quadrature noise used to grow into a clustering: .744 at batch 14 for R = 5, Delta = .1.
    """
    curve = lowrank.learning_curve(
        priors.GaussianRows(R), priors.OneHot(R), 0.1, 0.1 * R**2 / 25, batches=14, full=True,
        points=8,
    )  # fmt: skip
    np.testing.assert_allclose(curve.label_error, 1.0 - 1.0 / R, atol=1e-4)
    uniform = curve.alpha / R
    np.testing.assert_allclose(curve.mse, 1.0 - uniform / (0.1 + uniform) / R, rtol=1e-8)


def test_a_clustering_that_forgets_leaves_the_reduction():
    """Counted fully it is the same law; counted in part it is a matrix law of larger error."""
    law, _ = absorb(lowrank.LabelLaw(3, 0.1), lowrank.ConvergedColumns(0.5))
    same = law.scaled(1.0 - 1e-12)
    assert same.mse == pytest.approx(law.mse, rel=2e-2)
    faded, _ = absorb(law, lowrank.ConvergedColumns(0.5), CONVERGED, forget=0.7)
    kept, _ = absorb(law, lowrank.ConvergedColumns(0.5))
    assert kept.mse < faded.mse < law.mse


def test_wrong_row_priors_cost_something():
    """Sparse rows of U taken for dense ones: state evolution against a run at N = 2000, seed 0."""
    sparse, dense, noise = priors.SparseRows(2, rho=0.2), priors.GaussianRows(2, cov=0.2), 0.1
    right = lowrank.learning_curve(sparse, priors.GaussianRows(2), noise, 0.5, batches=2)
    wrong = lowrank.learning_curve(
        dense, priors.GaussianRows(2), noise, 0.5, batches=2, truth_u=sparse
    )
    assert (wrong.mse > 1.1 * right.mse).all()
    N, rng = 2000, np.random.default_rng(0)
    U = sparse.sample(rng, N)
    belief = Posterior(dense, N)
    found = []
    for _ in range(2):
        V = rng.normal(size=(N // 2, 2))
        Y = U @ V.T / np.sqrt(N) + np.sqrt(noise) * rng.normal(size=(N, N // 2))
        batch = evidence.FactorBatch(Y, channels.Gaussian(var=noise), priors.GaussianRows(2), rng=0)
        belief, _ = absorb(belief, batch, Stop(300, 1e-7))
        # U and V are known up to a rotation: compare after the best one.
        left, _, right_ = np.linalg.svd(belief.mean.T @ U)
        found.append(np.mean((belief.mean @ left @ right_ - U) ** 2))
    # Finding the rotation from the data and 2000 rows, a fifth of them not zero: 10 %.
    np.testing.assert_allclose(found, wrong.mse, rtol=0.1)
