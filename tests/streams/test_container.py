"""The container: plain values and arrays come back with their bits, and any damage is seen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from miniamp.errors import InvalidTypeError
from miniamp.streams.container import DamagedError, check, packed, unpacked

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | hnp.arrays(hnp.floating_dtypes(endianness="<", sizes=(32, 64)), hnp.array_shapes(min_dims=0)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text().filter(lambda key: key != "$"), inner, max_size=3)
    ),
    max_leaves=12,
)


def same(a, b):
    """Equal in type and bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return repr(a) == repr(b)


@settings(max_examples=60)
@given(VALUES)
def test_values_come_back_with_type_and_bits(value):
    assert same(unpacked(packed(value)), value)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("-inf"),
        -0.0,
        5e-324,
        np.float64(0.1),
        np.float32(0.1),
        np.int64(-(2**63)),
        np.True_,
        np.array(["a", "Łódź"]),
        np.array([True, False]),
        np.array([1 + 2j]),
        np.array([np.nan, np.inf, -0.0, 5e-324]),
        np.zeros((0, 3)),
        np.array(3.0),
    ],
    ids=repr,
)
def test_odd_values_come_back(value):
    assert same(unpacked(packed({"v": value})), {"v": value})


def test_arrays_keep_their_order_in_memory():
    """A product by BLAS may round otherwise when its factor lies otherwise in memory."""
    X = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    (back,) = unpacked(packed([X]))
    assert back.flags.f_contiguous
    assert not back.flags.c_contiguous
    np.testing.assert_array_equal(back, X)
    (strided,) = unpacked(packed([X[:, ::2]]))
    np.testing.assert_array_equal(strided, X[:, ::2])


def test_foreign_byte_order_comes_back_as_the_same_numbers():
    (back,) = unpacked(packed([np.array([1.5, 2.5], dtype=">f8")]))
    assert back.tolist() == [1.5, 2.5]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": {"b": [0, object()]}}, r"state\.a\.b\[1\]"),
        ({"a": np.array([object()])}, r"state\.a: got dtype object"),
        ({1: 2}, "key 1"),
        ({"$": 2}, "key '\\$'"),
        ({"a": {1, 2}}, "type set"),
        ({"t": np.array(["2020"], dtype="M8[D]")}, "dtype datetime64"),
    ],
)
def test_what_has_no_plain_form_is_refused_with_its_place(value, said):
    with pytest.raises(InvalidTypeError, match=said):
        packed(value)


@pytest.fixture(scope="module")
def content():
    rng = np.random.default_rng(0)
    return packed({"A": rng.normal(size=200), "history": [{"rows": i} for i in range(20)]})


def test_every_flipped_bit_is_seen(content):
    for place in range(len(content)):
        altered = bytearray(content)
        altered[place] ^= 1 << (place % 8)
        with pytest.raises(DamagedError):
            check(bytes(altered))


def test_every_cut_is_seen(content):
    for size in range(len(content)):
        with pytest.raises(DamagedError):
            check(content[:size])
    with pytest.raises(DamagedError, match="altered"):
        check(content + b"\x00")


def test_the_same_state_gives_the_same_bytes(content):
    assert packed(unpacked(content)) == content


def test_another_version_is_named(monkeypatch):
    monkeypatch.setattr("miniamp.streams.container.VERSION", 2)
    newer = packed({})
    monkeypatch.undo()
    with pytest.raises(DamagedError, match="version 2, of which this miniamp reads version 1"):
        check(newer)
