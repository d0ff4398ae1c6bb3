"""The prior with an intercept equals the same prior written out per coefficient."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from miniamp import Posterior, absorb, channels, evidence, priors
from miniamp.evidence import batch

SIZE, WIDE = 40, 100.0


def pairs():
    """(with an intercept, the same written per coefficient), for shared and own numbers."""
    each = np.linspace(0.2, 0.8, SIZE - 1)
    yield (
        priors.WithIntercept(priors.GaussBernoulli(rho=0.2, var=0.5), WIDE),
        priors.GaussBernoulli(
            np.append(np.full(SIZE - 1, 0.2), 1.0), 0.0, np.append(np.full(SIZE - 1, 0.5), WIDE)
        ),
    )
    yield (
        priors.WithIntercept(priors.GaussBernoulli(rho=each, var=1.0 - each), WIDE),
        priors.GaussBernoulli(np.append(each, 1.0), 0.0, np.append(1.0 - each, WIDE)),
    )
    yield (
        priors.WithIntercept(priors.Gaussian(var=each), WIDE),
        priors.Gaussian(0.0, np.append(each, WIDE)),
    )


PAIRS = pytest.mark.parametrize(("prior", "written_out"), list(pairs()), ids=["shared", "own", "g"])


def problem(rng, size=SIZE, rows=60):
    Phi = rng.normal(size=(rows, size)) / np.sqrt(size)
    Phi[:, -1] = 1.0
    x = rng.normal(size=size) * (rng.random(size) < 0.3)
    x[-1] = 7.0
    return Phi, Phi @ x + 0.1 * rng.normal(size=rows)


def assert_same(one, other, rtol=1e-9):
    np.testing.assert_allclose(one.mean, other.mean, rtol=rtol, atol=1e-11)
    np.testing.assert_allclose(one.var, other.var, rtol=rtol, atol=1e-13)


@PAIRS
@pytest.mark.parametrize("make", [evidence.Batch, evidence.MeanFieldBatch, evidence.RobustBatch])
@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
def test_every_evidence_sees_the_intercept_as_one(
    prior, written_out, make, compiled, rng, monkeypatch
):
    monkeypatch.setattr(batch, "WORTH_COMPILING", 1 if compiled else 10**9)
    if not compiled:
        monkeypatch.setattr(priors.WithIntercept, "kernel", lambda self, size: None)
    Phi, y = problem(rng)
    rows = make(Phi, y, channels.Gaussian(var=0.01))
    assert_same(
        absorb(Posterior(prior, SIZE), rows)[0],
        absorb(Posterior(written_out, SIZE), rows)[0],
    )


@PAIRS
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
def test_row_by_row_the_intercept_is_one(prior, written_out, kind, compiled, rng, monkeypatch):
    """The plain loop asks for the prior of a row's own places, in which the intercept is last."""
    Phi, y = problem(rng)
    Phi[:, :-1] *= rng.random((60, SIZE - 1)) < 0.3
    if not compiled:
        monkeypatch.setattr(priors.WithIntercept, "kernel", lambda self, size: None)
    channel = channels.Gaussian(var=0.01)
    ours, _ = evidence.adf(Posterior(prior, SIZE), kind(Phi), y, channel)
    plain, _ = evidence.adf(Posterior(written_out, SIZE), kind(Phi), y, channel)
    assert_same(ours, plain)


@PAIRS
@pytest.mark.parametrize(
    "where",
    [
        slice(0, 5), slice(SIZE - 1, SIZE), slice(SIZE - 3, None), slice(None),
        np.array([3, SIZE - 1, 0]), np.array([-1]), np.array([2, 4]),
    ],
    ids=str,
)  # fmt: skip
def test_the_prior_of_some_places(prior, written_out, where, rng):
    A, B = rng.random(SIZE), rng.normal(size=SIZE)
    ours, plain = prior.at(where, SIZE), written_out.at(where, SIZE)
    for one, other in zip(
        ours.moments(A[where], B[where]), plain.moments(A[where], B[where]), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    np.testing.assert_allclose(
        ours.log_partition(A[where], B[where]), plain.log_partition(A[where], B[where]), rtol=1e-12
    )
    np.testing.assert_allclose(
        ours.inclusion_probability(A[where], B[where]),
        written_out.at(where, SIZE).inclusion_probability(A[where], B[where]),
        rtol=1e-12,
    )


def test_large_beliefs_use_the_compiled_update(rng, monkeypatch):
    """What the default fit_intercept=True gives from 500 coefficients on."""
    prior, size = priors.WithIntercept(priors.GaussBernoulli(rho=0.1), WIDE), 1300
    assert prior.kernel(size) is not None
    assert priors.WithIntercept(priors.Laplace()).kernel(size) is None
    Phi, y = problem(rng, size, 500)
    rows = evidence.Batch(Phi, y, channels.Gaussian(var=0.01))
    compiled, _ = absorb(Posterior(prior, size), rows)
    monkeypatch.setattr(priors.WithIntercept, "kernel", lambda self, size: None)
    plain, _ = absorb(Posterior(prior, size), rows)
    assert_same(compiled, plain, rtol=1e-7)
