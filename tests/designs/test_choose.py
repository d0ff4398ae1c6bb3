"""The design that suits a matrix, and matrices that suit none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from miniamp import designs
from miniamp.designs import Dense, Fused, Sparse, as_design
from miniamp.errors import InvalidInputError, InvalidTypeError

LARGE = np.ones((200, 200))


@pytest.mark.parametrize(
    ("Phi", "kind"),
    [
        (np.ones((3, 2)), Dense),
        ([[1, 2], [3, 4]], Dense),
        (LARGE, Fused),
        (LARGE.astype(np.float32), Fused),
        (np.asfortranarray(LARGE[:, :180]), Dense),
        (np.ones((400, 200))[::2], Dense),
        (sparse.csr_matrix(LARGE), Sparse),
        (sparse.csc_array(LARGE), Sparse),
        (sparse.lil_matrix(LARGE), Sparse),
    ],
)
def test_kind_by_matrix(Phi, kind):
    assert type(as_design(Phi)) is kind


def test_a_design_stays_itself():
    design = Dense(np.ones((3, 2)))
    assert as_design(design) is design
    averaged = designs.Averaged(design)
    assert averaged.averaged() is averaged


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_are_held_without_a_copy(dtype):
    Phi = np.ones((200, 200), dtype=dtype)
    assert as_design(Phi).Phi is Phi
    stored = sparse.csr_array(Phi)
    assert np.shares_memory(as_design(stored).Phi.data, stored.data)
    assert as_design(stored).Phi.dtype == dtype


BAD = {
    "no rows": (np.ones((0, 3)), InvalidInputError, "empty batch"),
    "one dimension": (np.ones(3), InvalidInputError, "two dimensions"),
    "three dimensions": (np.ones((2, 2, 2)), InvalidInputError, "two dimensions"),
    "NaN": (np.array([[1.0, np.nan]]), InvalidInputError, r"index \(0, 1\)"),
    "infinity": (np.array([[1.0, np.inf]]), InvalidInputError, "finite"),
    "opposite infinities": (np.array([[np.inf, -np.inf]]), InvalidInputError, "finite"),
    "text": (np.array([["a", "b"]]), InvalidTypeError, "dtype"),
    "complex": (np.ones((2, 2), dtype=complex), InvalidTypeError, "dtype"),
    "half precision": (np.ones((2, 2), dtype=np.float16), InvalidTypeError, "float32"),
    "nothing": (None, InvalidTypeError, "dtype"),
    "sparse without rows": (sparse.csr_array((0, 3)), InvalidInputError, "empty batch"),
    "sparse NaN": (sparse.csr_array(np.array([[0.0, np.nan]])), InvalidInputError, "finite"),
    "sparse complex": (sparse.eye_array(2, dtype=complex), InvalidTypeError, "dtype"),
    "sparse vector": (sparse.coo_array(np.ones(3)), InvalidInputError, "two dimensions"),
}


@pytest.mark.parametrize(("Phi", "error", "says"), BAD.values(), ids=BAD)
def test_refused(Phi, error, says):
    with pytest.raises(error, match=says):
        as_design(Phi)
    with pytest.raises(error, match="Phi"):
        designs.Averaged(Phi)


def test_each_design_refuses_what_it_cannot_hold():
    with pytest.raises(InvalidTypeError, match=r"scipy\.sparse"):
        Sparse(np.ones((2, 2)))
    with pytest.raises(InvalidInputError, match="C-contiguous"):
        Fused(np.asfortranarray(np.ones((3, 2))))


def test_integers_and_booleans_become_floats():
    assert as_design(np.array([[True, False]])).toarray().dtype == np.float64
    assert as_design(sparse.csr_array(np.array([[1, 0]]))).Phi.dtype == np.float64


def test_a_huge_but_finite_matrix_is_no_error():
    assert as_design(np.full((2, 2), 1e308)).shape == (2, 2)


def test_diagnosis_in_words():
    Phi = np.random.default_rng(0).normal(size=(30, 4))
    Phi[:, 1], Phi[:, 3] = 2.0, Phi[:, 0]
    said = as_design(Phi).diagnosis()
    assert "column 1 is constant" in said
    assert "repeats" in said
    stored = sparse.csr_array(np.vstack([np.zeros((1, 4)), np.eye(4)[[0] * 29]]))
    said = as_design(stored).diagnosis()
    assert "1 rows are empty" in said
    assert "column 0" in said


def test_a_design_says_its_size():
    assert repr(as_design(np.ones((3, 2)))) == "Dense(3 x 2)"
