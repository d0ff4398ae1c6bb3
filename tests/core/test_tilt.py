import dataclasses

import numpy as np
import pytest

from miniamp import Posterior, Tilt, priors
from miniamp.tilt import Information


def random_tilt(rng, N, scalar=False):
    A = np.asarray(rng.gamma(2.0)) if scalar else rng.gamma(2.0, size=N)
    return Tilt(A, rng.normal(size=N))


@pytest.mark.parametrize("scalar", [True, False])
def test_tilts_add_coordinate_by_coordinate(rng, scalar):
    one, two = random_tilt(rng, 5, scalar), random_tilt(rng, 5)
    both = one + two
    for i in range(5):
        assert both.A[i] == np.broadcast_to(one.A, 5)[i] + two.A[i]
        assert both.B[i] == one.B[i] + two.B[i]


def test_scalar_precisions_stay_scalar(rng):
    assert (random_tilt(rng, 5, scalar=True) + random_tilt(rng, 5, scalar=True)).A.shape == ()


def test_no_tilt_changes_nothing(rng):
    tilt = random_tilt(rng, 4)
    same = tilt + Tilt.none(4)
    np.testing.assert_array_equal(same.A, tilt.A)
    np.testing.assert_array_equal(same.B, tilt.B)


def test_adding_leaves_both_as_they_were(rng):
    one, two = random_tilt(rng, 4), random_tilt(rng, 4)
    A, B = one.A.copy(), two.B.copy()
    one + two
    np.testing.assert_array_equal(one.A, A)
    np.testing.assert_array_equal(two.B, B)


def test_scaling_counts_evidence_several_times(rng):
    tilt = random_tilt(rng, 4)
    thrice, sum_of_three = tilt.scaled(3.0), tilt + tilt + tilt
    np.testing.assert_allclose(thrice.A, sum_of_three.A, rtol=1e-15)
    np.testing.assert_allclose(thrice.B, sum_of_three.B, rtol=1e-14)


def test_tilt_is_frozen(rng):
    with pytest.raises(dataclasses.FrozenInstanceError):
        random_tilt(rng, 2).A = np.zeros(2)


def test_order_of_evidence_does_not_matter_to_a_belief(rng):
    belief = Posterior(priors.GaussBernoulli(rho=0.3), 6)
    one, two = random_tilt(rng, 6), random_tilt(rng, 6)
    np.testing.assert_array_equal(
        belief.tilted(one).tilted(two).mean, belief.tilted(two).tilted(one).mean
    )


@pytest.mark.parametrize("rows", [250, 1200])
def test_the_number_of_determined_coefficients_is_estimated_well_enough(rng, rows):
    # As well as the noise needs it: to a third of sqrt(2 n), three times that at the worst.
    N = 600
    Phi = rng.normal(size=(rows, N)) @ np.diag(np.geomspace(0.01, 1.0, N))
    sums = Phi.T @ Phi, Phi.T @ rng.normal(size=rows), float(rows), float(rows)
    seen = Information(*sums, 1.0, np.ones(N), np.zeros(N))
    exact = float(np.trace(np.linalg.solve(seen.S + np.eye(N), seen.S)))
    spare = min(exact, rows - exact)
    assert seen.determined == pytest.approx(exact, abs=np.sqrt(2.0 * spare))
    assert seen.variance_sum(np.ones(N)) == pytest.approx(N - exact, abs=np.sqrt(2.0 * spare))


def test_an_inverse_that_was_computed_goes_on_to_other_units(rng):
    A = rng.normal(size=(30, 20))
    sums = A.T @ A, A.T @ np.ones(30), 30.0, 30.0
    seen = Information(*sums, 0.5, np.ones(20), np.zeros(20))
    factor, fresh = rng.uniform(0.5, 2.0, size=20), dataclasses.replace(seen)
    old = seen.solution.var
    np.testing.assert_array_equal(
        seen.stretched(factor).solution.var, fresh.stretched(factor).solution.var
    )
    np.testing.assert_allclose(seen.stretched(factor).solution.var, old * factor**2)


@pytest.mark.parametrize("N", [20, 300])
def test_squared_residuals_of_rows_that_fade(rng, N):
    # Expected over rows that are drawn from the prior with the noise .5; each batch has the same X.
    Phi, weights, noise = rng.normal(size=(N // 2, N)), 0.9 ** np.arange(8), 0.5
    total, square = weights.sum(), np.square(weights).sum()
    S, prior = total * Phi.T @ Phi, rng.uniform(0.5, 2.0, size=N)
    sums = S, np.zeros(N), 1.0, total * len(Phi), noise, prior, np.zeros(N)
    seen = Information(*sums, kappa=square / total)
    left = np.linalg.inv(S / noise + np.diag(prior))
    hat = Phi @ left @ Phi.T / noise
    # Of the residuals of a batch: what the prior leaves, its own noise, and that of all others.
    from_prior = Phi @ left @ np.diag(prior) @ left @ Phi.T
    noisy = np.trace(total * np.eye(len(hat)) - 2.0 * square * hat + total * square * hat @ hat)
    expected = total * np.trace(from_prior) / noise + noisy
    assert seen.free == pytest.approx(expected, rel=1e-8 if N == 20 else 0.03)
    pulled = left @ (S / noise) / prior @ (S / noise) @ left  # the means' covariance
    pulled += square / total * left @ (S / noise) @ left
    used = N - seen.variance_sum(prior) - seen.fading.sum()
    assert used == pytest.approx(prior @ pulled.diagonal(), rel=1e-8 if N == 20 else 0.03)
