import numpy as np
import pytest

from miniamp.experiments.tables import Claim, Table, deviation, medians, outcome, write_table


def test_a_table_comes_back_as_it_was_written(tmp_path):
    rows = [{"kind": "a", "x": 1 / 3}, {"kind": "b", "y": 2, "x": np.nan}]
    write_table(tmp_path / "t.csv", rows)
    table = Table.read(tmp_path / "t.csv")
    assert [row["kind"] for row in table.rows] == ["a", "b"]
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


def test_nothing_to_compare_is_not_close():
    runs = Table([{"batch": "1", "mse": "1e-30"}])
    off = deviation(runs, runs, least=1e-6)
    assert off.points == 0
    assert not off.mean < 1.0


@pytest.mark.parametrize(
    ("agrees", "aside", "verdict", "failed"),
    [
        (True, "", "yes", False),
        (False, "", "no", True),
        (None, "", "not run", False),
        (True, "not claimed", "not claimed: wins", False),
        (False, "not claimed", "not claimed: loses", False),
    ],
)
def test_a_claim_reads_as_what_it_is(agrees, aside, verdict, failed):
    claim = Claim("3", "what", "paper", "ours", agrees, aside=aside)
    assert claim.verdict == verdict
    assert claim.failed is failed
    assert list(claim.row()) == ["panel", "what", "paper", "ours", "agrees", "corrected", "note"]
    assert claim.row()["agrees"] == verdict


def test_the_outcome_counts_what_is_lost_and_what_was_not_run():
    def claim(agrees, aside=""):
        return Claim("3", "what", "paper", "ours", agrees, aside=aside)

    lost, missing = claim(agrees=False, aside="not claimed"), claim(agrees=None)
    assert outcome([claim(agrees=True)]) == "all agree"
    assert outcome([claim(agrees=True), lost, missing, missing]) == (
        "all agree; 1 contest that was not claimed is lost; 2 not run"
    )
    assert outcome([claim(agrees=False), lost, lost]) == (
        "1 does not agree; 2 contests that were not claimed are lost"
    )
