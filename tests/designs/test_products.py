"""Wide sparse rows cost their stored entries, float32 keeps its digits, and size is refused."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from miniamp import channels, designs
from miniamp.errors import InvalidInputError

ROWS, COLUMNS, FILLED = 200, 1_000_000, 50


@pytest.fixture(scope="module")
def wide():
    """Rows with 50 entries among a million columns."""
    rng = np.random.default_rng(0)
    indices = np.sort(rng.integers(COLUMNS, size=(ROWS, FILLED)), axis=1)
    ends = FILLED * np.arange(ROWS + 1)
    entries = rng.normal(size=ROWS * FILLED)
    made = sparse.csr_array((entries, indices.ravel(), ends), shape=(ROWS, COLUMNS))
    return designs.as_design(made)


def peak_bytes(work) -> int:
    work()  # what is compiled or kept on the way
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_products_of_wide_sparse_rows_form_nothing_dense(wide):
    """A few vectors of N numbers, where the dense rows would be 200 of them."""
    v, y, K = np.ones(COLUMNS), np.ones(ROWS), np.eye(ROWS)
    products = [
        lambda: wide.sandwich(v, v, y, channels.Gaussian(1.0), None),
        lambda: wide.forecast(v, v),
        lambda: wide.gram(v),
        lambda: wide.times(v),
        lambda: wide.transposed_times(y),
        lambda: wide.column_variances(K),
        lambda: wide.row_variances(None, v),
        wide.used_columns,
    ]
    for work in products:
        assert peak_bytes(work) < 8 * 10 * COLUMNS


def test_used_columns_are_as_many_as_entries(wide):
    used, narrow = wide.used_columns()
    assert narrow.shape == (ROWS, len(used))
    assert len(used) <= ROWS * FILLED
    x = np.random.default_rng(1).normal(size=COLUMNS)
    np.testing.assert_allclose(narrow.times(x[used]), wide.times(x), rtol=1e-12)
    np.testing.assert_allclose(narrow.gram(np.square(x[used])), wide.gram(np.square(x)), rtol=1e-12)


def test_what_would_be_dense_is_refused_with_its_size(wide):
    """200 x 1e6 entries are 1.6 GB, and 1e6 x 1e6 products 8 TB."""
    for work in (wide.toarray, wide.held):
        with pytest.raises(InvalidInputError, match=r"200 x 1000000 .*1\.6 GB.*1\.07 GB"):
            work()
    with pytest.raises(InvalidInputError, match=r"1000000 x 1000000 .*8e\+03 GB"):
        wide.information(np.ones(ROWS))


@pytest.mark.parametrize("make", [designs.Dense, designs.Fused, sparse.csr_array])
def test_float32_is_kept_and_summed_in_float64(make):
    """To 1e-5 of what float64 gives: the entries differ by 6e-8, their sums by no more."""
    rng = np.random.default_rng(0)
    Phi = rng.normal(size=(300, 400)) * (rng.random((300, 400)) < 0.5)
    narrow = designs.as_design(make(Phi.astype(np.float32)))
    assert narrow.Phi.dtype == np.float32
    x, v, y = rng.normal(size=400), rng.random(400), rng.normal(size=300)
    K = Phi @ Phi.T
    exact = designs.Dense(Phi)
    for name, arguments in (
        ("sandwich", (x, v, y, channels.Gaussian(1.0), None)),
        ("sandwich", (x, np.asarray(0.5), np.sign(y), channels.Logistic(), None)),
        ("forecast", (x, v)),
        ("gram", (v,)),
        ("information", (np.square(y),)),
        ("times", (x,)),
        ("transposed_times", (y,)),
        ("column_variances", (K,)),
        ("row_variances", (None, v)),
    ):
        ours, wanted = getattr(narrow, name)(*arguments), getattr(exact, name)(*arguments)
        pairs = zip(ours, wanted, strict=True) if isinstance(ours, tuple) else [(ours, wanted)]
        for one, other in pairs:
            assert np.asarray(one).dtype == np.float64
            scale = np.max(np.abs(other))
            np.testing.assert_allclose(one, other, rtol=0.0, atol=1e-5 * scale)
    assert narrow.mean_square == pytest.approx(exact.mean_square, rel=1e-5)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, np.asfortranarray])
def test_squares_times_a_vector_of_any_sign(make):
    """Zero counted as one, for rows that have entries."""
    Phi, w = np.random.default_rng(0).normal(size=(6, 3)), np.array([0.0, 1.0, 2.0, 0.0, -1.0, 0.5])
    found = designs.as_design(make(Phi)).transposed_squares_times(w)
    np.testing.assert_allclose(found, np.square(Phi).T @ w, rtol=1e-12)
