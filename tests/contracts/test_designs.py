"""What every design must do: sweep like the plain one, whoever holds Phi."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from miniamp import Posterior, absorb, channels, designs, evidence, priors
from miniamp.designs import threads

ROWS, COLUMNS = 203, 61  # neither a multiple of the kernels' groups of rows


def framed(Phi):
    """Rows with other zeros and units, which the design takes away again."""
    centre, unit = np.arange(COLUMNS) % 3 / 64.0, 2.0 ** (np.arange(COLUMNS) % 5 - 2)
    X = (Phi / unit + centre).astype(Phi.dtype)
    return designs.Framed(X, centre, unit, intercept=False)


DESIGNS = {
    "dense": designs.Dense,
    "dense, by columns": lambda Phi: designs.Dense(np.asfortranarray(Phi)),
    "dense, every other row": lambda Phi: designs.Dense(np.repeat(Phi, 2, axis=0)[::2]),
    "fused": designs.Fused,
    "framed": framed,
    "sparse": lambda Phi: designs.Sparse(sparse.csr_array(Phi)),
    "sparse, other format": lambda Phi: designs.Sparse(sparse.coo_matrix(Phi)),
    "sparse, long indices": lambda Phi: designs.Sparse(long_indices(Phi)),
    "sparse, entries in two parts": lambda Phi: designs.Sparse(in_two_parts(Phi)),
}
CHANNELS = [
    channels.Gaussian(var=0.1),
    channels.Gaussian(var=np.linspace(0.1, 1.0, ROWS)),
    channels.Probit(var=0.0),
    channels.Logistic(),
    channels.StudentT(),
]


def long_indices(Phi):
    made = sparse.csr_array(Phi)
    made.indices, made.indptr = made.indices.astype(np.int64), made.indptr.astype(np.int64)
    return made


def in_two_parts(Phi):
    whole = sparse.csr_array(Phi)
    places, ends = np.repeat(whole.indices, 2), 2 * whole.indptr
    return sparse.csr_array((np.repeat(whole.data / 2, 2), places, ends), shape=whole.shape)


def problem(rng, dtype=np.float64):
    Phi = rng.normal(size=(ROWS, COLUMNS)) * (rng.random((ROWS, COLUMNS)) < 0.3)
    Phi[17] = 0.0  # a row that says nothing
    y = rng.choice([-1.0, 1.0], ROWS)
    return Phi.astype(dtype), rng.normal(size=COLUMNS), rng.random(COLUMNS), y


def assert_same(ours, plain, tolerance):
    for one, other in zip(ours, plain, strict=True):
        scale = np.max(np.abs(other))
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("make", DESIGNS.values(), ids=DESIGNS)
@pytest.mark.parametrize("channel", CHANNELS, ids=lambda c: f"{type(c).__name__} {c.shape}")
@pytest.mark.parametrize("averaged", [False, True], ids=["vector", "scalar"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
def test_sandwich_equals_dense(make, channel, averaged, dtype, rng):
    """Several iterations, so that the Onsager memory is part of it."""
    Phi, x, v, y = problem(rng, dtype)
    ours, plain = make(Phi), designs.Dense(Phi.astype(np.float64))
    if averaged:
        ours, plain = ours.averaged(), plain.averaged()
    mine = theirs = None
    for _ in range(4):
        one = ours.sandwich(x, v, y, channel, mine)
        other = plain.sandwich(x, v, y, channel, theirs)
        mine, theirs = one.memory, other.memory
        assert_same(one, other, 1e-10 if dtype == np.float64 else 1e-4)
        assert one.pull.dtype == np.float64
        x = x + 0.1 * one.pull / np.max(np.abs(one.pull))


@pytest.mark.parametrize("make", DESIGNS.values(), ids=DESIGNS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
def test_forecast_entries_and_columns_equal_dense(make, dtype, rng):
    Phi, x, v, _ = problem(rng, dtype)
    ours, wide = make(Phi), Phi.astype(np.float64)
    tolerance = 1e-10 if dtype == np.float64 else 1e-4
    assert_same(ours.forecast(x, v), (wide @ x, np.square(wide) @ v), tolerance)
    assert ours.mean_square == pytest.approx(np.mean(np.square(wide)), rel=tolerance)
    assert ours.shape == Phi.shape
    np.testing.assert_allclose(ours.toarray(), wide, rtol=tolerance)
    np.testing.assert_allclose(ours.columns().power, np.square(wide).sum(axis=0), rtol=1e-6)


@pytest.mark.parametrize("make", DESIGNS.values(), ids=DESIGNS)
def test_products_for_solvers_that_decompose(make, rng):
    Phi, x, v, y = problem(rng)
    ours, root, weights = make(Phi), rng.normal(size=(7, COLUMNS)), rng.random(ROWS)
    products = ours.gram(v), ours.information(weights), ours.times(x), ours.transposed_times(y)
    wanted = (Phi * v) @ Phi.T, (Phi.T * weights) @ Phi, Phi @ x, Phi.T @ y
    assert_same(products, wanted, 1e-12)
    assert_same(
        (ours.times(root.T), ours.transposed_times(Phi)), (Phi @ root.T, Phi.T @ Phi), 1e-12
    )
    K = Phi @ Phi.T
    assert_same((ours.column_variances(K),), (np.einsum("ij,ik,kj->j", Phi, K, Phi),), 1e-12)
    covariance = np.diag(v) - root.T @ root
    wanted = np.einsum("ij,jk,ik->i", Phi, covariance, Phi)
    assert_same((ours.row_variances(root, v),), (wanted,), 1e-10)
    assert_same((ours.row_variances(None, v),), (np.square(Phi) @ v,), 1e-12)
    used, narrow = ours.used_columns()
    assert_same((narrow.times(x[used]),), (Phi @ x,), 1e-12)
    rows, targets = ours.weighted(weights, y)
    wanted = weights[:, None] * Phi
    assert_same((rows.T @ rows, targets @ rows), (wanted.T @ wanted, y @ wanted), 1e-12)
    assert_same((ours.held().toarray(),), (Phi,), 1e-12)


@pytest.mark.parametrize("make", DESIGNS.values(), ids=DESIGNS)
def test_the_order_of_rows_does_not_matter(make, rng):
    Phi, _, _, y = problem(rng)
    order = rng.permutation(ROWS)
    start, channel = Posterior(priors.GaussBernoulli(rho=0.3), COLUMNS), channels.Gaussian(var=2.0)
    one, _ = absorb(start, evidence.Batch(make(Phi), y, channel))
    other, _ = absorb(start, evidence.Batch(make(Phi[order]), y[order], channel))
    np.testing.assert_allclose(other.mean, one.mean, rtol=0.0, atol=1e-10)
    np.testing.assert_allclose(other.var, one.var, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize("make", DESIGNS.values(), ids=DESIGNS)
def test_nothing_given_is_changed(make, rng):
    Phi, x, v, y = problem(rng)
    kept = [part.copy() for part in (Phi, x, v, y)]
    for part in (Phi, x, v, y):
        part.setflags(write=False)  # what comes from a file or a frame often is
    design = make(Phi)
    memory = design.sandwich(x, v, y, channels.Gaussian(), None).memory
    before = memory.copy()
    design.sandwich(x, v, y, channels.Gaussian(), memory)
    for now, then in zip((Phi, x, v, y, memory), (*kept, before), strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("make", [designs.Fused, framed, DESIGNS["sparse"]])
@pytest.mark.parametrize("channel", [channels.Gaussian(0.1), channels.Logistic()], ids=str)
@pytest.mark.parametrize("averaged", [False, True], ids=["vector", "scalar"])
def test_threads_change_nothing(make, channel, averaged, rng, monkeypatch):
    Phi, x, v, y = problem(rng)
    design = make(Phi)
    design = design.averaged() if averaged else design
    monkeypatch.setattr(designs.Fused, "IN_CACHE", 0)
    alone = design.sandwich(x, v, y, channel, None)
    monkeypatch.setattr(threads, "cores", lambda: 3)
    monkeypatch.setattr(threads, "WORTH_A_THREAD", 1)
    assert len(threads.shares(ROWS, 10**6)) == 3
    assert_same(design.sandwich(x, v, y, channel, None), alone, 1e-12)
    plain = design.forecast(x, v)
    np.testing.assert_allclose(plain[0], Phi @ x, atol=1e-12)


def test_the_blas_way_of_a_cached_matrix_equals_the_sweep(rng, monkeypatch):
    Phi, x, v, y = problem(rng)
    design, channel = designs.Fused(Phi).averaged(), channels.Gaussian(0.1)
    by_blas = design.sandwich(x, v, y, channel, None)
    monkeypatch.setattr(designs.Fused, "IN_CACHE", 0)
    assert_same(design.sandwich(x, v, y, channel, None), by_blas, 1e-12)
