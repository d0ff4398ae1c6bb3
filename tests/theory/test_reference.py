"""Every number of the reference, to nine digits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from miniamp import channels, priors, theory
from miniamp.theory.scalar import scalar_channel

SPARSE = priors.GaussBernoulli(rho=0.3)
BINARY = priors.Rademacher()
CLEAN = channels.Gaussian(var=1e-8)
NOISELESS = channels.Gaussian(var=0.0)
PERCEPTRON = channels.Probit(var=0.0)
NOISY_LABELS = channels.Probit(var=0.1)


def near(found, expected):
    assert_allclose(found, expected, rtol=1e-9, atol=0.0)


@pytest.mark.parametrize(
    ("key", "prior"), [("gauss_bernoulli_rho=0.3", SPARSE), ("rademacher", BINARY)]
)
def test_scalar_channel(glm, key, prior):
    table = glm["scalar"][key]
    lam = np.array([row["lam"] for row in table])
    near(scalar_channel(prior).mmse(lam), [row["eps"] for row in table])
    near(scalar_channel(prior).information(lam), [row["info"] for row in table])


@pytest.mark.parametrize("key", ["0.05", "0.2", "0.35", "0.5"])
def test_sparse_regression_with_a_little_noise(glm, key):
    expected = glm["slr_rho=0.3"]["minibatch_Delta=1e-8"][key]
    number = len(expected["E"])
    near(theory.learning_curve(SPARSE, CLEAN, float(key), batches=number).mse, expected["E"])
    near(theory.mmse_curve(SPARSE, CLEAN, float(key), batches=number).mse, expected["MMSE"])


@pytest.mark.parametrize("key", ["0.2", "0.35"])
def test_sparse_regression_without_noise(glm, key):
    expected = glm["slr_rho=0.3"]["minibatch_Delta=0"][key]
    number = len(expected["E"])
    near(theory.learning_curve(SPARSE, NOISELESS, float(key), batches=number).mse, expected["E"])
    near(theory.mmse_curve(SPARSE, NOISELESS, float(key), batches=number).mse, expected["MMSE"])


@pytest.mark.parametrize("key", ["1", "5", "25", "inf"])
def test_few_iterations_a_batch(glm, key):
    expected = glm["slr_rho=0.3"]["t_max_alpha_b=0.35_Delta=1e-8"][key]
    t_max = None if key == "inf" else int(key)
    curve = theory.learning_curve(SPARSE, CLEAN, 0.35, batches=len(expected), t_max=t_max)
    near(curve.mse, expected)


@pytest.mark.parametrize("key", ["0.0", "1e-08"])
def test_offline_transitions_of_sparse_regression(glm, key):
    expected = glm["slr_rho=0.3"]["offline_transitions"][key]
    found = theory.transitions(SPARSE, channels.Gaussian(var=float(key)))
    near(found.spinodal, expected["AMP_spinodal_alpha"])
    near(found.information, expected["IT_alpha"])
    near(found.lower_spinodal, expected["lower_spinodal_alpha"])


def test_thresholds_of_each_batch(glm):
    expected = glm["slr_rho=0.3"]["per_batch_thresholds_Delta=1e-8"]
    found = theory.batch_thresholds(SPARSE, CLEAN, 3)
    near(found.information, list(expected["T_k information-theoretic"].values()))
    near(found.spinodal, list(expected["S_k Mini-AMP"].values()))


def test_online_sparse_regression(glm):
    expected = glm["slr_rho=0.3"]["online_ADF"]["Delta=1e-8"]
    curve = theory.online_curve(SPARSE, CLEAN, expected["alpha"])
    near(curve.mse, expected["E"])
    assert curve.blow_up is None


@pytest.mark.parametrize("key", ["0.25", "1.0"])
def test_perceptron(glm, key):
    expected = glm["perceptron_rademacher"]["minibatch"][key]
    number = len(expected["E_AMP"])
    curve = theory.learning_curve(BINARY, PERCEPTRON, float(key), batches=number)
    near(curve.mse, expected["E_AMP"])
    near(theory.mmse_curve(BINARY, PERCEPTRON, float(key), batches=number).mse, expected["MMSE"])
    assert curve.reaches(0.0) == expected["alpha_zero_AMP"]
    near(theory.generalisation_error(BINARY, PERCEPTRON, curve), expected["generalisation_error"])


def test_perceptron_transitions_and_online_learning(glm):
    expected = glm["perceptron_rademacher"]
    found = theory.transitions(BINARY, PERCEPTRON)
    near(found.spinodal, expected["AMP_spinodal_alpha"])
    near(found.information, expected["IT_alpha"])
    assert found.lower_spinodal == 0.0  # zero error is a fixed point at every alpha
    curve = theory.online_curve(BINARY, PERCEPTRON, expected["online_ADF"]["alpha"])
    near(curve.blow_up, expected["online_ADF"]["alpha_blowup"])
    near(curve.mse, expected["online_ADF"]["E"])


def test_noisy_labels(glm):
    expected = glm["probit"]["rademacher Delta=0.1"]["0.5"]
    number = len(expected["E_AMP"])
    near(theory.learning_curve(BINARY, NOISY_LABELS, 0.5, batches=number).mse, expected["E_AMP"])
    near(theory.mmse_curve(BINARY, NOISY_LABELS, 0.5, batches=number).mse, expected["MMSE"])
    ridge = glm["probit"]["gaussian, Delta=0.1"]["0.5"]
    near(theory.learning_curve(priors.Gaussian(), NOISY_LABELS, 0.5, batches=len(ridge)).mse, ridge)


@pytest.mark.parametrize(("rho", "t_max"), [(0.2, 200), (0.3, 2)])
def test_mismatched_sequences(glm, rho, t_max):
    key = f"assumed rho={rho} Delta=0.01 | true rho=0.3 Delta=0.01 | alpha_b=0.4 tmax={t_max}"
    expected = glm["mismatched_slr"][key]
    channel = channels.Gaussian(var=0.01)
    curve = theory.learning_curve(
        priors.GaussBernoulli(rho=rho),
        channel,
        0.4,
        batches=len(expected["E"]),
        t_max=t_max,
        truth=SPARSE,
        true_channel=channel,
    )
    for found, name in ((curve.mse, "E"), (curve.variance, "V"), (curve.lam, "lam")):
        near(found, expected[name])
    near(curve.gamma, expected["gam"])


def test_decay(glm):
    expected = glm["slr_rho=0.3"]["decay_Delta=0"]["0.2"]
    rate = theory.decay_rate(SPARSE, NOISELESS, 0.2)
    near(rate.per_batch, expected["rate_per_batch_theory"])
    near(rate.per_alpha, expected["exponent_per_unit_alpha"])
