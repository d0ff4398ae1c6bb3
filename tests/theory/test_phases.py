"""Transitions, verdicts and diagrams beyond the numbers of the reference."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from miniamp import channels, errors, priors, theory
from miniamp.theory.scalar import scalar_channel

SPARSE = priors.GaussBernoulli(rho=0.3)
CLEAN = channels.Gaussian(var=1e-8)


def test_later_thresholds_of_the_errata():
    found = theory.batch_thresholds(SPARSE, CLEAN, 6)
    assert_allclose(found.information[3:], [0.332952, 0.323439, 0.315445], atol=1e-6)
    assert_allclose(found.spinodal[3:], [0.354218, 0.333799, 0.318872], atol=1e-6)


def test_verdicts_follow_the_thresholds():
    for alpha_b in (0.31, 0.32):
        assert theory.verdict(SPARSE, CLEAN, alpha_b, 8).optimal
    trapped = [v.batch for v in theory.verdict(SPARSE, CLEAN, 0.33, 8) if v.trapped]
    assert trapped == [5]
    verdict = theory.verdict(SPARSE, CLEAN, 0.35, 5)
    assert verdict.status == ["optimal", "optimal", "hard", "hard", "hard"]
    assert [v.trapped for v in verdict] == [False, False, True, True, False]
    assert (verdict.mmse <= verdict.mse * (1 + 1e-9)).all()


@pytest.mark.parametrize("rho", [0.05, 0.6])
def test_noiseless_spinodal_is_the_largest_lambda_epsilon(rho):
    prior = priors.GaussBernoulli(rho=rho, mean=0.4, var=2.0)
    lam = np.logspace(-3, 6, 4001)
    expected = (lam * scalar_channel(prior).mmse(lam)).max()
    found = theory.transitions(prior, channels.Gaussian(0.0))
    assert_allclose(found.spinodal, expected, rtol=1e-5)
    assert_allclose([found.information, found.lower_spinodal], rho, rtol=1e-12)


def test_iteration_sees_the_spinodal():
    spinodal = theory.transitions(SPARSE, CLEAN).spinodal
    below = theory.learning_curve(SPARSE, CLEAN, spinodal * 0.999, batches=1, t_max=5000)
    above = theory.learning_curve(SPARSE, CLEAN, spinodal * 1.001, batches=1, t_max=5000)
    assert below.mse[0] > 0.01
    assert above.mse[0] < 1e-6


def test_at_the_information_threshold_two_minima_are_equally_deep():
    alpha = theory.transitions(SPARSE, CLEAN).information
    points = [p for p in theory.fixed_points(SPARSE, CLEAN, alpha) if p.stable]
    assert_allclose(points[0].mutual_information, points[1].mutual_information, rtol=1e-12)


def test_diagram_agrees_with_the_transitions():
    alphas = np.linspace(0.25, 0.55, 7)
    found = theory.phase_diagram(SPARSE, CLEAN, alphas, noises=[1e-8, 1e-4, 1e-1], progress=False)
    for row, noise in zip(found.hard, found.levels, strict=True):
        at = theory.transitions(SPARSE, channels.Gaussian(noise))
        expected = (
            np.zeros(7, bool)
            if at.spinodal is None
            else (alphas > at.information) & (alphas < at.spinodal)
        )
        assert row.tolist() == expected.tolist()
    assert found.verdicts.shape == (3, 7)


def test_diagram_plots_and_shows_progress(capsys):
    pytest.importorskip("matplotlib").use("Agg")
    found = theory.phase_diagram(
        SPARSE, CLEAN, [0.3, 0.4, 0.5], sparsities=[0.2, 0.3], progress=True
    )
    assert "phase diagram" in capsys.readouterr().err
    assert found.plot().get_ylabel() == "sparsity"


def test_diagram_refusals():
    with pytest.raises(errors.InvalidInputError, match="exactly one"):
        theory.phase_diagram(SPARSE, CLEAN, [0.3])
    with pytest.raises(errors.InvalidInputError, match="rho"):
        theory.phase_diagram(priors.Gaussian(), CLEAN, [0.3], sparsities=[0.1])


@pytest.mark.parametrize("alpha_b", [0.05, 0.2])
def test_exponential_decay_without_noise(alpha_b):
    channel = channels.Gaussian(0.0)
    rate = theory.decay_rate(SPARSE, channel, alpha_b)
    # Down to errors of e^-50: the correction is of relative size sqrt(log lambda/lambda).
    number = int(-50.0 / rate.per_batch)
    curve = theory.learning_curve(SPARSE, channel, alpha_b, batches=number)
    measured = np.diff(np.log(curve.mse))[-1]
    assert_allclose(measured, rate.per_batch, rtol=1e-6)
    assert_allclose(rate.per_alpha, np.log(1 - alpha_b / 0.3) / alpha_b, rtol=1e-12)


@pytest.mark.parametrize(
    ("prior", "channel", "exponent"),
    [(SPARSE, channels.Gaussian(0.1), -1.0), (priors.Gaussian(), channels.Probit(0.0), -2.0)],
)
def test_power_laws(prior, channel, exponent):
    rate = theory.decay_rate(prior, channel, 0.2)
    assert (rate.form, rate.per_batch, rate.exponent) == ("power law", 0.0, exponent)
    curve = theory.online_curve(prior, channel, [1e5, 2e5])
    assert_allclose(np.log2(curve.mse[1] / curve.mse[0]), exponent, rtol=1e-2)


def test_discrete_decay():
    prior, channel = priors.Rademacher(), channels.Gaussian(0.5)
    rate = theory.decay_rate(prior, channel, 1.0)
    curve = theory.online_curve(prior, channel, [300.0, 600.0])
    slope = np.log(curve.mse[1] / curve.mse[0]) / 300.0
    assert_allclose(slope, rate.per_alpha, rtol=1e-2)  # up to log(alpha)/alpha
    assert theory.decay_rate(prior, channels.Probit(0.0), 0.1).form == "finite"
    assert theory.decay_rate(SPARSE, channels.Gaussian(0.0), 0.3).form == "doubly exponential"
    assert theory.decay_rate(SPARSE, channels.Gaussian(0.0), 0.31).form == "finite"


def test_generalisation_of_regression_is_noise_plus_error():
    channel = channels.Gaussian(0.1)
    curve = theory.learning_curve(SPARSE, channel, 0.5, batches=3)
    assert_allclose(theory.generalisation_error(SPARSE, channel, curve), 0.1 + curve.mse)


def test_generalisation_of_counts_is_the_variance_of_the_prediction():
    """omega ~ N(0, 1 - V) and z ~ N(omega, V): log-normal rates, in closed form."""
    prior, channel = priors.Gaussian(), channels.Poisson()
    curve = theory.learning_curve(prior, channel, 1.0, batches=2)
    V = curve.mse
    expected = np.exp(0.5) + np.exp(2.0 - V) * np.expm1(V)
    assert_allclose(theory.generalisation_error(prior, channel, curve), expected, rtol=1e-8)


def test_generalisation_of_labels_by_simulation():
    prior, channel = priors.Gaussian(), channels.Logistic()
    curve = theory.learning_curve(prior, channel, 2.0, batches=1)
    rng = np.random.default_rng(0)
    omega = np.sqrt(1 - curve.mse) * rng.normal(size=400_000)
    y = channel.sample(rng, omega + np.sqrt(curve.mse) * rng.normal(size=omega.size))
    found = theory.generalisation_error(prior, channel, curve)
    assert_allclose(found, np.mean(np.sign(omega) != y), atol=4 * 0.5 / np.sqrt(omega.size))


def test_without_noise_the_information_threshold_stays_at_the_dimension():
    found = theory.batch_thresholds(priors.GaussBernoulli(rho=0.3), channels.Gaussian(0.0), 3)
    np.testing.assert_allclose(found.information, 0.3, rtol=1e-9)
    assert np.all(np.diff(found.spinodal) < 0.0)
