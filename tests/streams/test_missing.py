"""Missing values: dropped or filled, the same however the rows come."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from miniamp.errors import InvalidInputError, MiniampWarning
from miniamp.estimators.outliers import suspects
from miniamp.estimators.scoring import Tally
from miniamp.streams import open_stream


def holey(rows=500, seed=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    X[rng.random((rows, 3)) < 0.2] = np.nan
    X[0] = 1.0
    return pd.DataFrame(X, columns=list("abc")).assign(y=rng.normal(size=rows))


def test_drop_keeps_full_batches_and_counts_dropped_rows(tmp_path):
    frame = holey()
    frame.loc[3, "y"] = np.nan
    whole = frame.dropna()
    frame.to_csv(tmp_path / "t.csv", index=False)
    for source in (frame, tmp_path / "t.csv"):
        batches = list(open_stream(source, "y", 32, missing="drop"))
        assert {b.rows for b in batches[:-1]} == {32}
        X = np.concatenate([b.X for b in batches])
        np.testing.assert_array_equal(X, whole[["a", "b", "c"]].to_numpy())
        assert [b.position for b in batches[:-1]] == (whole.index[31::32] + 1).tolist()
        rest = list(open_stream(source, "y", 32, missing="drop", resume=batches[3].state()))
        np.testing.assert_array_equal(np.concatenate([b.X for b in rest]), X[128:])


def test_drop_of_every_row_is_an_error():
    frame = pd.DataFrame({"a": [np.nan, np.nan], "y": [1.0, 2.0]})
    with pytest.raises(InvalidInputError, match="no rows"):
        list(open_stream(frame, "y", 2, missing="drop"))


def test_mean_fills_with_the_mean_so_far(tmp_path):
    frame = holey()
    X = frame[["a", "b", "c"]].to_numpy()
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=17)
    batches = list(open_stream(tmp_path / "t.parquet", "y", 60, missing="mean"))
    for b in batches:
        rows = X[b.position - b.rows : b.position]
        so_far = np.nanmean(X[: b.position], axis=0)
        np.testing.assert_allclose(b.X, np.where(np.isnan(rows), so_far, rows), rtol=1e-13)


def test_mean_is_resumed_bit_for_bit():
    frame = holey()
    batches = list(open_stream(frame, "y", 60, missing="mean"))
    rest = list(open_stream(frame, "y", 60, missing="mean", resume=batches[3].state()))
    for new, old in zip(rest, batches[4:], strict=True):
        np.testing.assert_array_equal(new.X, old.X)


def test_mean_of_a_missing_category_is_none_of_them():
    """With its frequencies there, a rare level was a far entry of its indicator."""
    frame = pd.DataFrame({"c": ["u", "v", "u", None, "u"], "y": np.ones(5)})
    (batch,) = open_stream(frame, "y", 5, missing="mean")
    np.testing.assert_array_equal(batch.X[3], [0.0, 0.0])
    assert batch.state()["means"]["count"].tolist() == [4.0, 4.0]  # the report shows the gap
    (batch,) = open_stream(frame, "y", 5, missing="mean", reference="first")
    np.testing.assert_allclose(batch.X[3], [0.25])  # none of them would be the reference


def test_a_rare_level_of_a_column_with_gaps_is_no_conflict():
    """In such rows of baseball teams 50 entries were replaced, with errors 1.2 times as large."""
    rng = np.random.default_rng(0)
    level = rng.choice(["a", "b", None], 600, p=[0.94, 0.01, 0.05])
    rows = pd.DataFrame({"x": rng.normal(size=600), "c": level})
    past = Tally()
    for batch in open_stream(rows, None, 100, missing="mean"):
        now = past.including(batch.X)
        assert not suspects(batch.X, past, now)
        past = now


def test_a_column_without_a_value_so_far_is_zero_until_it_has_one():
    """Stopping there refused tables whose first batch has none: a rare category, a late sensor."""
    late = pd.DataFrame({"a": [np.nan, np.nan, 4.0, np.nan], "b": [None, None, "u", None]})
    late["y"] = np.ones(4)
    with pytest.warns(MiniampWarning, match="'a': no value so far, read as 0") as told:
        first, second = open_stream(late, "y", 2, missing="mean")
    assert len(told) == 1
    np.testing.assert_array_equal(first.X, np.zeros((2, 2)))
    np.testing.assert_array_equal(second.X, [[4.0, 1.0], [4.0, 0.0]])


@pytest.mark.parametrize("target", [[1.0, np.nan, 3.0], ["u", None, "v"]])
def test_mean_leaves_out_rows_without_a_target(target):
    """Nine of 54 real tables were refused there, and "drop" loses every row with any gap."""
    frame = pd.DataFrame({"a": [1.0, 2.0, np.nan], "y": target})
    (batch,) = open_stream(frame, "y", 3, missing="mean")
    assert batch.y.tolist() == [target[0], target[2]]
    np.testing.assert_array_equal(batch.X, [[1.0], [1.0]])
    with pytest.raises(InvalidInputError, match="row 2, target 'y': got a missing value"):
        list(open_stream(frame[:2], "y", 2))


def test_mean_cannot_fill_a_sparse_row():
    sparse = sp.csr_array(np.array([[1.0, 0.0], [0.0, np.nan]]))
    with pytest.raises(InvalidInputError, match="row 2, column 'x1'"):
        list(open_stream(sparse, None, 2, missing="mean"))


def test_drop_of_sparse_rows():
    sparse = sp.csr_array(np.array([[1.0, 0.0], [0.0, np.nan], [3.0, 0.0]]))
    (batch,) = open_stream(sparse, None, 5, missing="drop")
    np.testing.assert_array_equal(batch.X.toarray(), [[1.0, 0.0], [3.0, 0.0]])


@pytest.mark.parametrize("word", ["", "NA", "nan", "NULL", "n/a", " ", "#N/A", "?"])
def test_words_for_missing(word, write):
    path = write("t.csv", f"a,b,y\n1,u,1\n{word},u,2\n3,{word},3\n")
    (batch,) = open_stream(path, "y", 5, missing="drop")
    assert batch.y.tolist() == [1.0]


@pytest.mark.parametrize("form", ["csv", "frame"])
def test_none_is_a_category_among_texts_and_missing_among_numbers_and_dates(form, write):
    rows = "a,belt,day,y\n1,none,2024-01-01,1\nNone,belted,2024-02-03,2\n3,none,none,3\n"
    path = write("t.csv", rows)
    source = path if form == "csv" else pd.read_csv(path, keep_default_na=False, dtype=str)
    batches = list(open_stream(source, "y", 5, missing="mean", labels=False))
    names = batches[0].feature_names
    assert names[:4] == ("a", "belt=belted", "belt=none", "day:days")
    np.testing.assert_array_equal(batches[0].X[:, :3], [[1, 0, 1], [2, 1, 0], [3, 0, 1]])
    kept = list(open_stream(source, "y", 5, missing="drop", labels=False))
    assert [batch.y.tolist() for batch in kept] == [[1.0]]


def test_none_is_a_class():
    frame = pd.DataFrame({"a": np.arange(4.0), "y": ["none", "some", "none", "all"]})
    (batch,) = open_stream(frame, "y", 4)
    assert batch.y.tolist() == ["none", "some", "none", "all"]


def test_infinite_is_not_missing():
    frame = pd.DataFrame({"a": [1.0, np.inf], "y": [1.0, 2.0]})
    for rule in ("error", "mean", "drop"):
        with pytest.raises(InvalidInputError, match="row 2, column 'a': got inf"):
            list(open_stream(frame, "y", 2, missing=rule))
