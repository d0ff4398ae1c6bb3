"""Categories: a vocabulary that is fixed, whatever comes later."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from miniamp.errors import InvalidInputError, MiniampWarning
from miniamp.streams import open_stream

FRAME = pd.DataFrame({"c": list("uvuvw"), "n": [1.0, 2, 3, 4, 5], "y": np.ones(5)})


def test_the_first_batch_of_a_pipe_fixes_the_vocabulary():
    stream = open_stream(iter(FRAME.to_dict("records")), "y", 4)
    assert stream.feature_names == ("c=u", "c=v", "n")
    with pytest.raises(InvalidInputError, match=r"row 5, column 'c': got the category 'w'"):
        list(stream)


def test_categories_that_come_after_the_first_batch_of_a_file_are_known(tmp_path):
    """Files are often sorted by a column; however the rows are cut, its last value is known."""
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    parts = [FRAME[:3], FRAME[3:]]
    for source in (FRAME, tmp_path / "t.csv", FRAME.to_dict("records"), parts):
        for shuffle in (0, 3):
            stream = open_stream(source, "y", 2, shuffle=shuffle)
            assert stream.feature_names == ("c=u", "c=v", "c=w", "n")
            assert sum(batch.rows for batch in stream) == 5


def test_an_unknown_category_is_no_category_when_asked_for():
    records = iter(FRAME.to_dict("records"))
    batches = list(open_stream(records, "y", 4, unknown="ignore"))
    assert batches[1].X.tolist() == [[0.0, 0.0, 5.0]]


def test_an_unknown_category_is_told_once_per_column_when_asked_for():
    rows = [{"c": c, "y": 1.0} for c in "uvuvwwx"]
    with pytest.warns(MiniampWarning, match="row 5, column 'c': the category 'w'") as told:
        batches = list(open_stream(iter(rows), "y", 2, unknown="warn"))
    assert len(told) == 1
    assert batches[2].X.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert sum(batch.rows for batch in batches) == 7


def test_a_schema_fixes_the_vocabulary_and_its_order():
    stream = open_stream(FRAME, "y", 2, schema={"c": ["w", "v", "u", "t"]})
    assert stream.feature_names == ("c=w", "c=v", "c=u", "c=t", "n")
    X = np.concatenate([b.X for b in stream])
    assert X[4].tolist() == [1.0, 0.0, 0.0, 0.0, 5.0]


def test_numbers_become_categories_when_named():
    frame = pd.DataFrame({"n": [3, 1, 3], "y": np.ones(3)})
    stream = open_stream(frame, "y", 3, categorical=["n"])
    assert stream.feature_names == ("n=1", "n=3")
    assert next(iter(stream)).X.tolist() == [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]


def test_naming_a_category_leaves_columns_of_text_categories():
    named = open_stream(FRAME, "y", 4, categorical=["n"])
    assert {name.split("=")[0] for name in named.feature_names} == {"c", "n"}
    assert open_stream(FRAME, "y", 4, categorical=[]).schema == open_stream(FRAME, "y", 4).schema


def test_a_column_of_identifiers_is_no_category():
    """With one indicator per school the error of `Caschool` was 205 times that of ridge."""
    ids = [f"row {i}" for i in range(1500)]
    frame = pd.DataFrame({"id": ids, "n": np.arange(1500.0) % 7, "y": np.ones(1500)})
    with pytest.warns(MiniampWarning, match="'id' is different .* and is left out; hash its words"):
        assert open_stream(frame, "y", 1500).feature_names == ("n",)
    with pytest.raises(InvalidInputError, match="1500 different texts"):
        open_stream(frame, "y", 1500, categorical=["id"])
    only = pytest.raises(InvalidInputError, match="got only identifiers besides the target")
    with pytest.warns(MiniampWarning, match="left out"), only:
        open_stream(frame[["id", "y"]], "y", 1500)
    few = frame[:40]  # asked for, they are used
    assert len(open_stream(few, "y", 40, categorical=["id"]).feature_names) == 41
    assert len(open_stream(few, "y", 40, columns=["id"]).feature_names) == 40


def test_codes_of_which_some_look_like_numbers_are_categories():
    codes = ["00M", "1E5", "00R", "01G", "06D", "1C9"] * 4
    stream = open_stream(pd.DataFrame({"code": codes, "y": np.ones(24)}), "y", 8)
    assert stream.feature_names == tuple(f"code={code}" for code in sorted(set(codes)))


def test_a_first_column_without_a_name_is_left_out(tmp_path):
    """R and pandas write the names of the rows there."""
    FRAME.to_csv(tmp_path / "t.csv")
    with pytest.warns(MiniampWarning, match="a column without a name is left out"):
        stream = open_stream(tmp_path / "t.csv", "y", 5)
    assert stream.feature_names == ("c=u", "c=v", "c=w", "n")
    lines = FRAME.to_csv(index=False).splitlines()  # and spreadsheets empty ones at the end
    (tmp_path / "t.csv").write_text("\n".join(f"{line},," for line in lines) + "\n")
    with pytest.warns(MiniampWarning, match="a column without a name is left out"):
        stream = open_stream(tmp_path / "t.csv", "y", 5)
    assert stream.feature_names == ("c=u", "c=v", "c=w", "n")


def test_the_guess_does_not_depend_on_how_rows_are_cut(tmp_path):
    """A mistake among numbers must not make a category of its column."""
    frame = pd.DataFrame({"c": ["1", "2", "u", "3"], "y": np.ones(4)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    for source in (frame, tmp_path / "t.csv", frame.to_dict("records"), [frame[:1], frame[1:]]):
        with pytest.raises(InvalidInputError, match="row 3, column 'c': got 'u'"):
            list(open_stream(source, "y", 2))
