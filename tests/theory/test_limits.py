"""Learning curves: their limits, their mismatched kin, and what they refuse."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from miniamp import Stop, absorb, channels, errors, priors, theory
from miniamp.theory.law import Law, TypicalBatch, averaged_responses

SPARSE = priors.GaussBernoulli(rho=0.3)
CHANNEL = channels.Gaussian(var=0.01)


def test_small_batches_tend_to_the_online_curve():
    online = theory.online_curve(SPARSE, CHANNEL, [1.0]).mse[0]
    gaps = [
        abs(theory.learning_curve(SPARSE, CHANNEL, a, alpha_max=1.0).mse[-1] - online)
        for a in (0.02, 0.01, 0.005)
    ]
    # The first-order scheme: halving the batch halves the gap.
    assert_allclose(np.array(gaps[:-1]) / gaps[1:], 2.0, rtol=0.05)


def test_online_learning_through_a_gaussian_channel_in_closed_form():
    # alpha = Delta lambda + 2 I_x(lambda) (errata D).
    curve = theory.online_curve(priors.Gaussian(), channels.Gaussian(0.5), [0.3, 2.0, 40.0])
    assert_allclose(0.5 * curve.lam + np.log1p(curve.lam), curve.alpha, rtol=1e-12)


def test_online_error_without_noise_in_the_end():
    # E = rho exp(2 H(rho)/rho) exp(-alpha/rho), prefactor 17.6098 (errata D).
    curve = theory.online_curve(SPARSE, channels.Gaussian(0.0), [15.0])
    entropy = -0.3 * np.log(0.3) - 0.7 * np.log(0.7)
    prefactor = 0.3 * np.exp(2 * entropy / 0.3)
    assert_allclose(prefactor, 17.6098, rtol=1e-5)
    assert_allclose(curve.mse, prefactor * np.exp(-15.0 / 0.3), rtol=1e-6)


def test_one_batch_is_offline():
    for alpha in (0.2, 0.4, 0.6):
        one = theory.learning_curve(SPARSE, channels.Gaussian(1e-8), alpha, batches=1)
        best = theory.mmse_curve(SPARSE, channels.Gaussian(1e-8), alpha, batches=1)
        offline = theory.offline_curve(SPARSE, channels.Gaussian(1e-8), [alpha])
        assert_allclose(one.mse, offline.mse, rtol=1e-12)
        assert_allclose(best.mse, offline.mmse, rtol=1e-12)


def test_converged_is_the_end_of_the_iteration():
    iterated = theory.learning_curve(SPARSE, CHANNEL, 0.35, batches=4, t_max=500)
    converged = theory.learning_curve(SPARSE, CHANNEL, 0.35, batches=4)
    assert_allclose(iterated.mse, converged.mse, rtol=1e-10)
    assert iterated.iterations.tolist() == [500] * 4
    assert all(5 < n < 200 for n in converged.iterations)


def test_matched_by_the_general_equations():
    """E = V and lambda = gamma come out of Theorem 1 where truth and belief are the same."""
    law = Law(SPARSE, truth=priors.GaussBernoulli(rho=0.3))
    batch = TypicalBatch(0.4, CHANNEL, channels.Gaussian(var=0.01))
    law, _ = absorb(law, batch, Stop(max_iter=30))
    matched, _ = absorb(Law(SPARSE), TypicalBatch(0.4, CHANNEL), Stop(max_iter=30))
    assert_allclose([law.mse, law.variance], matched.mse, rtol=1e-11)
    assert_allclose([law.lam, law.gamma, law.signal], matched.lam, rtol=1e-11)


@pytest.mark.parametrize(
    ("prior", "channel"),
    [(priors.Rademacher(), channels.Probit(0.1)), (priors.Gaussian(), channels.Logistic()),
     (SPARSE, channels.StudentT()), (priors.Gaussian(), channels.Probit(0.0))],
)  # fmt: skip
def test_matched_by_the_general_equations_of_any_channel(prior, channel):
    errors_now = Law(prior, lam=0.8, gamma=0.8, signal=0.8).errors
    seen, square, signal = averaged_responses(channel, channel, errors_now)
    power = errors_now.power + errors_now.mse
    from miniamp.theory.output import output_channel

    expected = output_channel(channel, power).delta(errors_now.mse)
    assert_allclose([seen, square, signal], float(expected), rtol=1e-8)


def test_general_mismatch_contains_the_gaussian_one():
    believed, true = channels.Gaussian(0.05), channels.Gaussian(0.02)
    errors_now = Law(
        SPARSE, truth=priors.GaussBernoulli(0.2), lam=2.0, gamma=2.5, signal=1.8
    ).errors
    closed = believed.responses(true, *errors_now)
    assert_allclose(averaged_responses(believed, true, errors_now), closed, rtol=1e-10)


def test_a_wrong_channel_costs():
    believed = theory.learning_curve(
        priors.Gaussian(), channels.Probit(0.01), 1.0, batches=3, true_channel=channels.Probit(0.5)
    )
    right = theory.learning_curve(priors.Gaussian(), channels.Probit(0.5), 1.0, batches=3)
    assert (believed.mse > right.mse * 1.01).all()
    assert (believed.variance < believed.mse).all()  # overconfident


def test_an_equal_truth_is_no_mismatch():
    curve = theory.learning_curve(SPARSE, CHANNEL, 0.4, batches=2, truth=priors.GaussBernoulli(0.3))
    assert_allclose(
        curve.mse, theory.learning_curve(SPARSE, CHANNEL, 0.4, batches=2).mse, rtol=1e-14
    )


def test_alpha_max_counts_whole_batches():
    assert len(theory.learning_curve(SPARSE, CHANNEL, 0.35, alpha_max=3.0).alpha) == 8
    assert len(theory.learning_curve(SPARSE, CHANNEL, 0.1, alpha_max=0.3).alpha) == 3


def test_refusals():
    with pytest.raises(errors.InvalidInputError, match="exactly one"):
        theory.learning_curve(SPARSE, CHANNEL, 0.3)
    with pytest.raises(errors.InvalidInputError, match="alpha_b"):
        theory.learning_curve(SPARSE, CHANNEL, 0.0, batches=1)
    with pytest.raises(errors.InvalidInputError, match="t_max"):
        theory.learning_curve(SPARSE, CHANNEL, 0.3, batches=1, t_max=0)
    with pytest.raises(errors.InvalidInputError, match="truth"):
        theory.learning_curve(SPARSE, CHANNEL, 0.3, batches=1, truth="sparse")
    with pytest.raises(errors.InvalidInputError, match="alphas"):
        theory.online_curve(SPARSE, CHANNEL, [-1.0])


def test_plot_draws_every_point():
    pytest.importorskip("matplotlib").use("Agg")
    curve = theory.offline_curve(SPARSE, CHANNEL, np.linspace(0.1, 1.0, 7))
    lines = curve.plot().get_lines()
    assert [len(line.get_xdata()) for line in lines] == [7, 7]
