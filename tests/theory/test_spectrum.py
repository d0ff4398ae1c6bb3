"""State evolution for any spectrum, against exact Gaussian cases, mpmath and vector AMP."""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

from miniamp import Posterior, Stop, absorb, channels, errors, evidence, priors, theory
from miniamp.theory import Spectrum
from miniamp.theory.spectrum import row_gain

SPARSE = priors.GaussBernoulli(rho=0.1)
DESIGNS = [
    Spectrum.orthogonal(0.5),
    Spectrum.orthogonal(1.5),
    Spectrum.condition(30.0, 0.4),
    Spectrum.condition(30.0, 2.0),
    Spectrum(np.linspace(0.1, 2.0, 70), columns=100),
]


def rotated(singular_values, N, rng):
    """Rows with these singular values and Haar singular vectors."""
    M = len(singular_values)
    left = np.linalg.qr(rng.normal(size=(M, M)))[0]
    right = np.linalg.qr(rng.normal(size=(N, M)))[0]
    return (left * singular_values) @ right.T


@pytest.mark.parametrize("E", [1e-9, 1e-4, 0.03, 0.9])
def test_i_i_d_rows_by_the_marchenko_pastur_density(E):
    """1/E - tau with E = integral of rho(c)/(tau + c/Delta), by mpmath: alpha/(Delta + E)."""
    alpha, noise = mpmath.mpf("0.5"), mpmath.mpf(0.02)
    with mpmath.workdps(40):
        low, high = (1 - mpmath.sqrt(alpha)) ** 2, (1 + mpmath.sqrt(alpha)) ** 2

    def error(tau):
        bulk = mpmath.quad(
            lambda c: mpmath.sqrt((high - c) * (c - low)) / (2 * mpmath.pi * c) / (tau + c / noise),
            [low, high],
        )
        return bulk + (1 - alpha) / tau

    with mpmath.workdps(40):
        start = (0.4 / mpmath.mpf(E), 1.0 / mpmath.mpf(E))
        tau = mpmath.findroot(lambda t: error(t) - E, start, solver="anderson", tol=1e-60)
        exact = (1 / mpmath.mpf(E) - tau) / alpha
    gain = theory.spectrum.output_channel(channels.Gaussian(var=0.02), 1.0).delta(E)
    assert float(exact) == pytest.approx(float(gain), rel=1e-9)
    drawn = np.random.default_rng(0).normal(size=(500, 1000)) / np.sqrt(1000)
    ours = row_gain(channels.Gaussian(var=0.02), 1.0, Spectrum.of(drawn)).delta(E)
    # Linear statistics of an i.i.d. spectrum scatter by 1/N, whatever their scale.
    assert float(ours) == pytest.approx(float(gain), rel=5e-3)


@pytest.mark.parametrize("design", DESIGNS, ids=repr)
@pytest.mark.parametrize("noise", [1e-6, 0.3])
def test_a_gaussian_prior_is_exact(design, noise):
    """E = tr (1 + Phi'Phi/Delta)^-1/N and I = log det (1 + Phi Phi'/Delta)/(2 N)."""
    channel = channels.Gaussian(var=noise)
    missing = 1.0 - design.weights.sum()
    exact = design.weights @ (1.0 / (1.0 + design.squares / noise)) + missing
    curve = theory.learning_curve(
        priors.Gaussian(), channel, design.alpha, batches=1, design=design
    )
    assert_allclose(curve.mse, exact, rtol=1e-9)
    information = theory.mutual_information(
        priors.Gaussian(), channel, curve.mse, design.alpha, design=design
    )
    log_det = 0.5 * design.weights @ np.log1p(design.squares / noise)
    assert_allclose(information, log_det, rtol=1e-9)


def test_gains_of_a_channel_by_either_form():
    """A Gaussian likelihood that is not known to be one goes through the two-sided form."""

    class Hidden(channels.Gaussian):
        """Gaussian rows, without its closed forms."""

        blur = 0.3

        def row_information(self, mse, power):
            return None

    plain, hidden = channels.Gaussian(var=0.09), Hidden(var=0.09)
    E = np.geomspace(1e-8, 0.99, 30)
    for design in DESIGNS[1:3]:
        one, two = (row_gain(channel, 1.0, design) for channel in (plain, hidden))
        assert_allclose(two.delta(E), one.delta(E), rtol=1e-8)
        assert_allclose(two.information(E), one.information(E), rtol=1e-7)


def test_i_i_d_labels_by_the_two_sided_form():
    """Probit rows with a drawn i.i.d. spectrum: the closed state evolution, to the scatter 1/N."""
    drawn = Spectrum.of(np.random.default_rng(0).normal(size=(800, 400)) / np.sqrt(400))
    channel = channels.Probit(var=0.1)
    E = np.array([0.01, 0.1, 0.5, 0.95])
    exact = theory.spectrum.output_channel(channel, 1.0).delta(E)
    assert_allclose(row_gain(channel, 1.0, drawn).delta(E), exact, rtol=5e-3)


@pytest.mark.parametrize("design", DESIGNS[1:3], ids=repr)
@pytest.mark.parametrize("channel", [channels.Gaussian(0.01), channels.Probit(0.1)], ids=repr)
def test_the_mutual_information_is_stationary_at_fixed_points(design, channel):
    prior = priors.GaussBernoulli(rho=0.3)
    for point in theory.fixed_points(prior, channel, design.alpha, 0.5, design=design):
        E = point.mse * np.array([1.0 - 1e-3, 1.0, 1.0 + 1e-3, 1.1])
        E = np.minimum(E, 0.3)
        low, at, high, far = theory.mutual_information(
            prior, channel, E, design.alpha, 0.5, design=design
        )
        assert abs(high - low) < 2e-2 * abs(far - at) + 1e-12
        assert at == pytest.approx(point.mutual_information, rel=1e-9)


def test_worse_conditions_cost_and_orthogonal_rows_help():
    channel = channels.Gaussian(var=1e-3)
    made = [None, Spectrum.orthogonal(0.5), *(Spectrum.condition(k, 0.5) for k in (3, 10, 100))]
    mse = [
        float(theory.learning_curve(SPARSE, channel, 0.5, batches=1, design=d).mse[0]) for d in made
    ]
    assert mse[1] < mse[0]
    assert mse[1] < mse[2] < mse[3] < mse[4]


def test_a_design_goes_wherever_a_batch_goes():
    channel, design = channels.Gaussian(var=1e-6), Spectrum.condition(10.0, 0.3)
    found = theory.transitions(SPARSE, channel, design=design)
    below, above = theory.offline_curve(
        SPARSE, channel, found.spinodal * np.array([0.999, 1.001]), design=design
    ).mse
    assert above < 0.1 * below
    curve = theory.mmse_curve(SPARSE, channel, 0.15, batches=3, design=design)
    assert (curve.mse <= theory.learning_curve(SPARSE, channel, 0.15, 3, design=design).mse).all()
    assert len(theory.verdict(SPARSE, channel, 0.15, 2, design=design)) == 2
    thresholds = theory.batch_thresholds(SPARSE, channel, 1, design=design)
    assert thresholds.spinodal[0] == pytest.approx(found.spinodal)


@pytest.mark.slow
@pytest.mark.parametrize("condition", [10.0, 100.0])
def test_vector_amp_ends_where_the_theory_says(condition):
    """RobustBatch, N = 1000, 500 rows, ten seeds: medians within .06 decades.

    One run scatters by about 15 % (100 coefficients that are not zero); a median of ten by 6 %.
    """
    N, M, noise = 1000, 500, 1e-3
    channel = channels.Gaussian(var=noise)
    s = np.geomspace(1.0, 1.0 / condition, M)
    s *= np.sqrt(M / np.sum(s**2))
    design = Spectrum(s, columns=N)
    predicted = theory.learning_curve(SPARSE, channel, M / N, batches=1, design=design).mse[0]
    found = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = np.zeros(N)
        x[: N // 10] = rng.normal(size=N // 10)
        x *= np.sqrt(0.1 / np.mean(x**2))
        Phi = rotated(s, N, rng)
        y = Phi @ x + np.sqrt(noise) * rng.normal(size=M)
        rows = evidence.RobustBatch(Phi, y, channel)
        belief, _ = absorb(Posterior(SPARSE, N), rows, Stop(300, 1e-7))
        found.append(np.mean((belief.mean - x) ** 2))
    assert abs(np.log10(np.median(found) / predicted)) < 0.06


@pytest.mark.slow
def test_vector_amp_on_labels():
    """Probit rows of condition number 10, N = 600, 1200 rows, five seeds: within 10 %."""
    N, M = 600, 1200
    channel, prior = channels.Probit(var=0.1), priors.Gaussian()
    s = np.geomspace(1.0, 0.1, N)
    s *= np.sqrt(M / np.sum(s**2))
    design = Spectrum(s, columns=N, rows=M)
    predicted = theory.learning_curve(prior, channel, M / N, batches=1, design=design).mse[0]
    found = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=N)
        x /= np.sqrt(np.mean(x**2))
        Phi = rotated(s, M, rng).T
        y = channel.sample(rng, Phi @ x)
        belief, _ = absorb(Posterior(prior, N), evidence.RobustBatch(Phi, y, channel))
        found.append(np.mean((belief.mean - x) ** 2))
    assert np.median(found) == pytest.approx(predicted, rel=0.1)


def test_refusals():
    channel = channels.Gaussian(var=0.1)
    with pytest.raises(errors.InvalidInputError, match="singular_values"):
        Spectrum([-1.0], columns=10)
    with pytest.raises(errors.InvalidInputError, match="at most"):
        Spectrum(np.ones(20), columns=10)
    with pytest.raises(errors.InvalidInputError, match="t_max"):
        theory.learning_curve(SPARSE, channel, 0.5, 1, t_max=3, design=Spectrum.orthogonal(0.5))
    with pytest.raises(errors.InvalidInputError, match="not the truth"):
        theory.learning_curve(
            SPARSE, channel, 0.5, 1, truth=priors.Gaussian(), design=Spectrum.orthogonal(0.5)
        )
    with pytest.raises(errors.InvalidInputError, match="design"):
        theory.learning_curve(SPARSE, channel, 0.5, 1, design=np.eye(3))
