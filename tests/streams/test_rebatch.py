"""Rebatching: the same rows, exactly k at a time, however they came."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from miniamp.streams.encode import Block, rebatch


@settings(max_examples=60)
@given(sizes=st.lists(st.integers(0, 30), max_size=12), k=st.integers(1, 40), sparse=st.booleans())
def test_rows_stay_in_order_and_batches_are_exact(sizes, k, sparse):
    rows = sum(sizes)
    ends = np.cumsum([0, *sizes])
    X = np.arange(2.0 * rows).reshape(rows, 2)
    texts = np.array([f"t{i}" for i in range(rows)], dtype=object)

    def block(a, b):
        part = sp.csr_array(X[a:b]) if sparse else X[a:b]
        return Block(np.arange(a, b), part, {"c": texts[a:b]}, X[a:b, 0])

    out = list(rebatch((block(a, b) for a, b in pairwise(ends)), k))
    assert [b.rows for b in out] == [k] * (rows // k) + [rows % k] * (rows % k > 0)
    for i, b in enumerate(out):
        where = slice(i * k, i * k + k)
        dense = b.X.toarray() if sparse else b.X
        np.testing.assert_array_equal(dense, X[where])
        np.testing.assert_array_equal(b.numbers, np.arange(rows)[where])
        np.testing.assert_array_equal(b.y, X[where, 0])
        assert b.texts["c"].tolist() == texts[where].tolist()
