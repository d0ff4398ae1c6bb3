"""What the theory must give for every prior with every channel."""

import inspect

import numpy as np
import pytest
from numpy.testing import assert_allclose

from contracts import examples
from miniamp import channels, priors, theory
from miniamp.theory.law import Law

#: Every scalar prior and every channel; of the probit, the perceptron.
PRIORS = {c.__name__: p for c, p in examples.PRIORS.items() if issubclass(c, priors.ScalarPrior)}
CHANNELS = {c.__name__: p for c, p in examples.CHANNELS.items()}
CHANNELS["Probit"] = channels.Probit(var=0.0)
#: Seconds to tabulate: with every prior only in the slow tests.
COSTLY = {"Poisson", "Numerical"}
ALPHA, LAM = 0.7, 0.4


def pair(prior, channel):
    costly = (channel in COSTLY and prior not in ("Gaussian", "Rademacher")) or (
        prior == "Numerical"
    )
    return pytest.param(
        PRIORS[prior],
        CHANNELS[channel],
        id=f"{prior}-{channel}",
        marks=[pytest.mark.slow] if costly else [],
    )


every_pair = pytest.mark.parametrize(
    ("prior", "channel"), [pair(p, c) for p in PRIORS for c in CHANNELS]
)


def exported(module, base):
    return {
        name
        for name in module.__all__
        if inspect.isclass(kind := getattr(module, name))
        and issubclass(kind, base)
        and not inspect.isabstract(kind)
    }


def test_every_exported_prior_and_channel_is_here():
    assert exported(priors, priors.ScalarPrior) == set(PRIORS)
    assert exported(channels, channels.Channel) == set(CHANNELS)


@every_pair
def test_the_contract(prior, channel):
    points = theory.fixed_points(prior, channel, ALPHA, LAM)
    assert points
    for point in points:
        if point.mse == 0.0:
            continue
        # Stationary: the slope is of second order where it is of first order a little further off.
        h = 1e-3
        factors = np.array([1.0 - h, 1.0 + h, 0.9])
        below, above, far = theory.mutual_information(
            prior, channel, point.mse * factors, ALPHA, LAM
        )
        assert abs(above - below) < 0.05 * h * abs(far - below) + 1e-12
        at = theory.mutual_information(prior, channel, point.mse, ALPHA, LAM)
        assert_allclose(at, point.mutual_information, rtol=1e-9)
    # Mini-AMP reaches the first of them; one batch is offline.
    first = theory.fixed_points(prior, channel, ALPHA)[0]
    curve = theory.learning_curve(prior, channel, ALPHA, batches=1)
    offline = theory.offline_curve(prior, channel, [ALPHA])
    assert_allclose(curve.mse, first.mse, rtol=1e-9)
    assert_allclose(curve.mse, offline.mse, rtol=1e-9)
    # Matched: the error made is the error believed, and the two parameters are one.
    assert_allclose(curve.mse, curve.variance)
    assert_allclose(curve.lam, curve.gamma)
    # A second batch can only help, exact inference is no worse, online learning no better.
    longer = theory.mmse_curve(prior, channel, ALPHA, batches=2)
    assert longer.mse[1] < longer.mse[0] <= curve.mse[0] * (1 + 1e-9)
    online = theory.online_curve(prior, channel, [ALPHA])
    assert online.mse[0] > curve.mse[0]


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_errors_of_the_general_law_agree_with_the_matched_one(prior):
    lam = 3.0
    matched = Law(prior, lam=lam, gamma=lam, signal=lam).errors
    general = Law(prior, truth=prior, lam=lam, gamma=lam, signal=lam).errors
    assert_allclose(general[:3], matched[:3], rtol=1e-8)
    assert abs(general.excess) < 1e-8
