"""Categories: a vocabulary that is fixed, whatever comes later."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from miniamp.errors import InvalidInputError
from miniamp.streams import open_stream

FRAME = pd.DataFrame({"c": list("uvuvw"), "n": [1.0, 2, 3, 4, 5], "y": np.ones(5)})


def test_the_first_batch_fixes_the_vocabulary():
    stream = open_stream(FRAME, "y", 4)
    assert stream.feature_names == ("c=u", "c=v", "n")
    with pytest.raises(InvalidInputError, match=r"row 5, column 'c': got the category 'w'"):
        list(stream)


def test_an_unknown_category_is_no_category_when_asked_for():
    batches = list(open_stream(FRAME, "y", 4, unknown="ignore"))
    assert batches[1].X.tolist() == [[0.0, 0.0, 5.0]]


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


def test_text_is_refused_where_no_column_may_be_a_category():
    with pytest.raises(InvalidInputError, match="column 'c': got 'u', expected a number"):
        list(open_stream(FRAME, "y", 4, categorical=[]))


def test_a_column_of_identifiers_is_no_category():
    frame = pd.DataFrame({"id": [f"row {i}" for i in range(1500)], "y": np.ones(1500)})
    with pytest.raises(InvalidInputError, match="1500 different texts"):
        open_stream(frame, "y", 1500)


def test_the_guess_does_not_depend_on_how_rows_are_cut(tmp_path):
    """Text that only comes after the first batch must not make a category of its column."""
    frame = pd.DataFrame({"c": ["1", "2", "u", "v"], "y": np.ones(4)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    for source in (frame, tmp_path / "t.csv", frame.to_dict("records"), [frame[:1], frame[1:]]):
        with pytest.raises(InvalidInputError, match="row 3, column 'c': got 'u'"):
            list(open_stream(source, "y", 2))
