"""Information along a stream, against exact Gaussian models, derivatives and samples."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from miniamp import channels, errors, priors, theory

SPARSE = priors.GaussBernoulli(rho=0.3)


def marchenko_pastur(alpha, noise, lam=0.0):
    """(1/2N) log det (1 + Phi Phi' v/Delta), v = 1/(1 + lam), as N grows; by the known formula."""
    v = 1.0 / (1.0 + lam)
    E = (v * (1 - alpha) - noise + np.sqrt((v * (1 - alpha) - noise) ** 2 + 4 * noise * v)) / 2
    return 0.5 * (
        alpha * np.log1p(E / noise) - alpha * E / (noise + E) + np.log1p(v * alpha / (noise + E))
    )


@pytest.mark.parametrize("lam", [0.0, 2.0])
def test_the_log_evidence_of_a_gaussian_model(lam):
    """Rows drawn at N = 1500, seed 0: log N(y; 0, Delta + v Phi Phi') in the mean over y.

    A log-determinant of N = 1500 is off by 1/N, so by 1e-3 per coefficient.
    """
    alpha, noise, N = 0.6, 0.2, 1500
    rng = np.random.default_rng(0)
    Phi = rng.normal(size=(int(alpha * N), N)) / np.sqrt(N)
    cov = noise * np.eye(len(Phi)) + Phi @ Phi.T / (1 + lam)
    exact = -0.5 * (np.linalg.slogdet(cov)[1] + len(Phi) * np.log(2 * np.pi * np.e)) / N
    channel = channels.Gaussian(var=noise)
    found = theory.expected_log_evidence(priors.Gaussian(), channel, alpha, lam)
    assert found == pytest.approx(exact, abs=1e-3)
    known = -marchenko_pastur(alpha, noise, lam) - 0.5 * alpha * np.log(2 * np.pi * np.e * noise)
    assert found == pytest.approx(known, rel=1e-10)


@pytest.mark.parametrize("channel", [channels.Gaussian(var=0.05), channels.Probit(var=0.1)])
def test_it_is_the_replica_free_energy(channel):
    """phi_k - phi of the marginals before, with its sign changed (errata A8)."""
    alpha, lam = 0.8, 1.5
    point = theory.fixed_points(SPARSE, channel, alpha, lam)[0]
    m, m_hat = 0.3 - point.mse, point.lam - lam
    phi = theory.free_energy(SPARSE, channel, m, m_hat, alpha, lam)
    before = theory.free_energy(SPARSE, channel, 0.0, 0.0, 0.0, lam)
    found = theory.expected_log_evidence(SPARSE, channel, alpha, lam)
    assert found == pytest.approx(float(before - phi), rel=1e-9)


def test_labels_by_summing_over_all_of_them():
    """Probit, Gaussian prior, tiny alpha: rows are independent, log-evidence log(1/2) each."""
    found = theory.expected_log_evidence(priors.Gaussian(), channels.Probit(var=0.1), 1e-3)
    assert found == pytest.approx(1e-3 * np.log(0.5), rel=2e-3)


def test_a_stream_of_evidence_adds_up():
    """Kept, gained and discarded: what is kept before and gained is kept after and discarded."""
    curve = theory.information_curve(SPARSE, channels.Gaussian(var=1e-3), 0.2, 6)
    kept_before = np.concatenate([[0.0], curve.kept[:-1]])
    assert_allclose(kept_before + curve.gained, curve.kept + curve.discarded, rtol=1e-12)
    assert (curve.discarded > 0.0).all()
    assert (curve.share < 1.0).all()
    singles = [
        theory.expected_log_evidence(SPARSE, channels.Gaussian(var=1e-3), 0.2, lam)
        for lam in [0.0, *theory.learning_curve(SPARSE, channels.Gaussian(1e-3), 0.2, 5).lam]
    ]
    assert_allclose(curve.log_evidence, singles, rtol=1e-9)


def test_row_by_row_a_known_share_is_thrown_away():
    """A row tells log(1 + E/Delta)/2, and E/(Delta + E)/2 of that is in the marginals."""
    prior, channel = priors.Gaussian(), channels.Gaussian(var=0.1)
    found = theory.information_curve(prior, channel, 1e-5, 1).share[0]
    assert found == pytest.approx(1.0 - (10 / 11) / np.log(11), rel=1e-4)
    # The same rows at once tell more, and keep more.
    once = theory.information_curve(prior, channel, 1.0, 1)
    many = theory.information_curve(prior, channel, 0.01, 100)
    assert many.kept[-1] < once.kept[0] < once.gained[0]


def test_a_gaussian_design_of_any_spectrum():
    design = theory.Spectrum.condition(20.0, 0.5)
    curve = theory.information_curve(
        priors.Gaussian(), channels.Gaussian(var=0.1), 0.5, 1, design=design
    )
    exact = 0.5 * design.weights @ np.log1p(design.squares / 0.1)
    assert curve.gained[0] == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(("alpha", "noise", "lam"), [(0.3, 0.01, 2.0), (0.9, 0.05, 0.0)])
def test_y_mmse_by_differentiating_the_information(alpha, noise, lam):
    """Errata A4 and the I-MMSE relation, by central differences in 1/Delta."""

    def information(precision):
        channel = channels.Gaussian(var=1.0 / precision)
        points = theory.fixed_points(SPARSE, channel, alpha, lam)
        return min(p.mutual_information for p in points if p.stable)

    step = 1e-4 / noise
    slope = (information(1 / noise + step) - information(1 / noise - step)) / (2 * step)
    found = theory.information_slope(SPARSE, channels.Gaussian(var=noise), alpha, lam)
    assert found == pytest.approx(slope, rel=1e-6)


def test_y_mmse_of_drawn_rows():
    """tr Phi Sigma Phi'/M at N = 1500, seed 0: 1/N for the spectrum's own scatter."""
    alpha, noise, N = 0.6, 0.2, 1500
    rng = np.random.default_rng(0)
    Phi = rng.normal(size=(int(alpha * N), N)) / np.sqrt(N)
    s2 = np.linalg.svd(Phi, compute_uv=False) ** 2
    exact = np.mean(s2 / (1 + s2 / noise))
    found = theory.y_mmse(priors.Gaussian(), channels.Gaussian(var=noise), alpha)
    assert found == pytest.approx(exact, rel=3e-3)


def test_refusals():
    with pytest.raises(errors.InvalidInputError, match="channel: got 'gaussian'"):
        theory.information_slope(SPARSE, "gaussian", 0.5)
    with pytest.raises(errors.InvalidInputError, match="Gaussian"):
        theory.information_slope(SPARSE, channels.Probit(var=0.1), 0.5)
    with pytest.raises(errors.InvalidInputError, match="Gaussian"):
        theory.information_slope(SPARSE, channels.StudentT(), 0.5)
