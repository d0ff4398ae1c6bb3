"""The output channel: special against generic, generic against high precision."""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

from miniamp import channels, errors, priors, theory
from miniamp.theory.output import OutputChannel, output_channel

#: Two levels of Gauss-Legendre, 24 points at most on each piece: 1e-8 for these smooth integrands.
COARSE = {"method": "gauss-legendre", "maxdegree": 3}


@pytest.mark.parametrize("var", [0.0, 1e-6, 0.1])
def test_probit_special_and_generic(var):
    out = OutputChannel(channels.Probit(var=var), power=1.7)
    mse = 1.7 * np.array([1.0, 0.9, 0.1, 1e-4, 1e-12])
    assert_allclose([out._integrated(E) for E in mse], out.delta(mse), rtol=1e-10)


def test_an_interval_with_one_threshold_is_a_perceptron():
    signs = output_channel(channels.Probit(var=0.0), 1.0)
    cut = output_channel(channels.Interval([0.0], var=0.0), 1.0)
    mse = np.array([0.9, 0.2, 1e-3, 1e-15])
    assert_allclose([cut._integrated(E) for E in mse], signs.delta(mse), rtol=1e-9)
    assert_allclose(cut.exponent(), 0.5)


@pytest.mark.parametrize("mse", [0.3])
def test_logistic_against_high_precision(mse):
    mpmath.mp.dps = 18
    V, spread = mpmath.mpf(mse), mpmath.mpf(1.0 - mse)
    sigma = mpmath.sqrt(V)

    def integrand(omega):
        grid = [omega + k * sigma for k in (-9, -3, 0, 3, 9)]
        weight = lambda z: mpmath.npdf(z, omega, sigma) / (1 + mpmath.exp(-z))  # noqa: E731
        Z = mpmath.quad(weight, grid, **COARSE)
        g = mpmath.quad(lambda z: (z - omega) / V * weight(z), grid, **COARSE) / Z
        return mpmath.npdf(omega, 0, mpmath.sqrt(spread)) * Z * g * g

    reach = 9 * mpmath.sqrt(spread)
    exact = 2 * mpmath.quad(integrand, [reach * k / 4 for k in range(-4, 5)], **COARSE)
    assert_allclose(output_channel(LOGISTIC, 1.0).delta(mse), float(exact), rtol=1e-8)


LOGISTIC = channels.Logistic()


@pytest.mark.parametrize("mse", [0.5])
def test_student_t_against_high_precision(mse):
    mpmath.mp.dps = 18
    df, sigma = 4, mpmath.sqrt(mse)
    norm = mpmath.gamma((df + 1) / mpmath.mpf(2)) / (
        mpmath.gamma(df / mpmath.mpf(2)) * mpmath.sqrt(df * mpmath.pi)
    )

    def pieces(y):
        grid = [k * sigma for k in (-9, -3, 0, 3, 9)]

        def weight(z):
            tail = (1 + (y - z) ** 2 / df) ** (-(df + 1) / mpmath.mpf(2))
            return mpmath.npdf(z, 0, sigma) * norm * tail

        slope = mpmath.quad(lambda z: z / mse * weight(z), grid, **COARSE)
        return mpmath.quad(weight, grid, **COARSE), slope

    def integrand(y):
        Z, slope = pieces(y)
        return slope * slope / Z

    exact = 2 * mpmath.quad(integrand, [0, 3, 12, 100], **COARSE)
    found = output_channel(channels.StudentT(df=4.0), 1.0).delta(mse)
    assert_allclose(found, float(exact), rtol=1e-6)


def test_a_numerical_channel_agrees_with_its_closed_form():
    log_likelihood = lambda y, z: -0.5 * (np.log(2.0 * np.pi) + np.square(y - z))  # noqa: E731
    out = OutputChannel(channels.Numerical(log_likelihood), 1.0)
    assert_allclose([out._integrated(E) for E in (0.5, 0.01)], [1 / 1.5, 1 / 1.01], rtol=1e-9)


@pytest.mark.parametrize(
    "channel",
    [channels.Probit(0.0), channels.Probit(0.1), LOGISTIC, channels.StudentT(),
     channels.Interval([-0.5, 0.7], var=0.01)],
    ids=repr,
)  # fmt: skip
def test_information_is_half_the_integral(channel):
    out = output_channel(channel, 1.0)
    mse, h = 0.3, 1e-4
    slope = (out.information(mse + h) - out.information(mse - h)) / (2 * h)
    assert_allclose(slope, out.delta(mse) / 2, rtol=1e-6)
    assert_allclose(out.information(1e-40), 0.0, atol=1e-15)


def test_all_of_the_information_in_a_sign():
    # Known up to everything, a sign without noise tells one bit.
    out = output_channel(channels.Probit(var=0.0), 1.0)
    assert_allclose(out.information(1.0), np.log(2.0), rtol=1e-10)


def test_exponents():
    assert output_channel(channels.Gaussian(0.0), 1.0).exponent() == 1.0
    assert output_channel(channels.Gaussian(0.1), 1.0).exponent() == 0.0
    assert output_channel(channels.Probit(0.0), 1.0).exponent() == 0.5
    assert output_channel(channels.Probit(0.1), 1.0).exponent() == 0.0
    assert output_channel(LOGISTIC, 1.0).exponent() == 0.0


def test_refuses_what_is_no_channel():
    with pytest.raises(errors.InvalidInputError, match="variational Bayes"):
        output_channel("variational bayes", 1.0)
    with pytest.raises(errors.InvalidInputError, match="shared"):
        output_channel(channels.Gaussian(var=[1.0, 2.0]), 1.0)


def test_labels_of_a_known_signal_are_known():
    """Without an error there is no finest scale: the nodes over it were infinitely many."""
    prior, sign = priors.Rademacher(p=0.99), channels.Interval([0.0])
    curve = theory.learning_curve(prior, sign, 0.5, batches=2)
    assert curve.mse[1] == 0.0
    found = theory.generalisation_error(prior, sign, curve)
    expected = theory.generalisation_error(prior, channels.Probit(), curve)  # a closed form
    assert_allclose(found, expected, rtol=1e-9, atol=1e-15)
