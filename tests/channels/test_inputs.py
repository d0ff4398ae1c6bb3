"""What channels refuse, and that they say which value it was."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from miniamp import Posterior, Stop, absorb, channels, evidence, priors
from miniamp.errors import InvalidInputError


@pytest.mark.parametrize("channel", [channels.Probit(), channels.Logistic()])
@pytest.mark.parametrize("label", [0.0, 2.0, 0.5])
def test_unknown_labels_are_named(channel, label):
    with pytest.raises(InvalidInputError, match=f"the label {label:g}"):
        channel.checked([1.0, label])


@pytest.mark.parametrize("count", [-1.0, 2.5])
def test_bad_counts_are_named(count):
    with pytest.raises(InvalidInputError, match=f"the count {count:g}"):
        channels.Poisson().checked([1.0, count])


@pytest.mark.parametrize("bin_number", [-1.0, 3.0, 0.5])
def test_unknown_bins_are_named(bin_number):
    with pytest.raises(InvalidInputError, match=f"the bin {bin_number:g}"):
        channels.Interval([0.0, 1.0]).checked([bin_number])


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: channels.Gaussian(var=-1.0), "var"),
        (lambda: channels.Gaussian(var=np.nan), "var"),
        (lambda: channels.Probit(var=-1.0), "var"),
        (lambda: channels.StudentT(df=0.0), "df"),
        (lambda: channels.StudentT(scale=0.0), "scale"),
        (lambda: channels.Poisson(link="log"), "link"),
        (lambda: channels.Poisson(exposure=0.0), "exposure"),
        (lambda: channels.Interval([1.0, 0.0]), "thresholds"),
        (lambda: channels.Interval([]), "thresholds"),
        (lambda: channels.Interval([0.0], var=-1.0), "var"),
        (lambda: channels.Gaussian(var=np.ones((2, 2))), "var"),
    ],
)
def test_bad_hyper_parameters_are_named(make, argument):
    with pytest.raises(InvalidInputError, match=f"^{argument}:"):
        make()


def test_one_bit_is_probit():
    omega = np.array([-1e4, -5.0, -0.1, 0.2, 3.0, 30.0])
    bits, probit = channels.Interval([0.0], var=0.3), channels.Probit(var=0.3)
    for a, b in zip(
        bits.output(np.ones(6), omega, 0.5), probit.output(np.ones(6), omega, 0.5), strict=True
    ):
        assert_allclose(a, b, rtol=1e-12)


def test_em_finds_the_noise():
    # N = 20000 rows; the estimate's own error is about sqrt(2/N) = 1 % where z is known.
    rng = np.random.default_rng(0)
    z = rng.normal(size=20_000)
    y = channels.Gaussian(var=0.3).sample(rng, z)
    assert_allclose(channels.Gaussian(var=5.0).fitted(y, z, 0.0).var, 0.3, rtol=0.05)
    channel, y = channels.StudentT(4.0, 2.0), channels.StudentT(4.0, 0.5).sample(rng, z)
    y, z = y[:2000], z[:2000]
    for _ in range(20):
        channel = channel.fitted(y, z, 0.0)
    assert_allclose(channel.scale, 0.5, rtol=0.1)
    assert_allclose(channel.df, 4.0)


def test_student_t_predicts_its_own_variance():
    mean, var = channels.StudentT(df=3.0, scale=0.5).predict(0.3, 0.2)
    assert_allclose([mean, var], [0.3, 0.2 + 0.25 * stats.t(3.0).var()], rtol=1e-14)
    assert np.isinf(channels.StudentT(df=2.0).predict(0.0, 1.0)[1])


def test_batches_of_every_kind_are_absorbed():
    # N = 100, M = 300 rows, seed 0: whatever the channel, the error falls below the prior's, 1.
    rng = np.random.default_rng(0)
    x = rng.normal(size=100)
    Phi = rng.normal(size=(300, 100)) / 10.0
    for channel in (
        channels.Logistic(),
        channels.Poisson(),
        channels.Poisson("softplus"),
        channels.StudentT(3.0, 0.1),
        channels.Interval([-1.0, 0.0, 1.0], var=0.01),
    ):
        rows = evidence.Batch(Phi, channel.sample(rng, Phi @ x), channel)
        belief, info = absorb(Posterior(priors.Gaussian(), 100), rows, Stop(max_iter=60))
        error = np.mean(np.square(belief.mean - x))
        assert error < 0.85, (channel, error, info)
        # The belief's own error bar is right to a few times sqrt(2/N) = 14 %.
        assert 0.5 < error / belief.var.mean() < 2.0, (channel, error, belief.var.mean())


@pytest.mark.parametrize(
    "channel",
    [channels.Gaussian([0.1]), channels.StudentT([4.0], [1.0]), channels.Interval([[0.0]], [0.1])],
    ids=lambda channel: type(channel).__name__,
)
def test_an_array_of_one_value_is_that_value(channel):
    assert channel.shape == ()


def test_noise_of_one_value_in_a_list_is_shared_by_all_columns():
    Y = np.random.default_rng(0).normal(size=(6, 5))
    pair = [evidence.FactorBatch(Y, channels.Gaussian(v), priors.OneHot(2)) for v in (0.1, [0.1])]
    assert pair[0].scores.beta == pair[1].scores.beta
