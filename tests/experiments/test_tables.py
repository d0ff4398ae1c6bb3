import numpy as np
import pytest

from miniamp.experiments.claims import deviation, medians
from miniamp.experiments.tables import Table, write_table


def test_a_table_comes_back_as_it_was_written(tmp_path):
    rows = [{"kind": "a", "x": 1 / 3}, {"kind": "b", "y": 2, "x": np.nan}]
    write_table(tmp_path / "t.csv", rows)
    table = Table.read(tmp_path / "t.csv")
    assert table.words("kind") == ["a", "b"]
    assert table["x"][0] == pytest.approx(1 / 3, rel=1e-9)
    assert np.isnan(table["x"][1])
    assert np.isnan(table["y"][0])
    assert list(tmp_path.iterdir()) == [tmp_path / "t.csv"]


def test_rows_are_found_by_words_and_by_numbers():
    table = Table([{"k": "a", "n": "0.1"}, {"k": "a", "n": "0.2"}, {"k": "b", "n": ""}])
    assert len(table.where(k="a", n=0.1)) == 1
    assert len(table.where(n=0.3)) == 0
    assert table.values("n") == [0.1, 0.2]


def test_medians_and_quartiles_of_each_batch():
    runs = Table([{"batch": "1", "mse": str(e)} for e in (1.0, 2.0, 3.0, 4.0, 100.0)])
    k, median, low, high = medians(runs, "batch", "mse")
    assert (k, median, low, high) == ([1.0], [3.0], [2.0], [4.0])


def test_deviation_counts_decades_where_it_should():
    runs = Table([{"batch": str(k), "mse": str(10.0**-k)} for k in (1, 2, 3, 9)])
    line = Table([{"batch": str(k), "mse": str(2 * 10.0**-k)} for k in (1, 2, 3, 9)])
    off = deviation(runs, line, least=1e-6, leave_out=np.array([2.0]))
    assert off.points == 2
    assert off.mean == pytest.approx(np.log10(2.0))
