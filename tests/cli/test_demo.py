import csv

import pytest

from miniamp import cli


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """A small demo, N=300, run once."""
    picture = tmp_path_factory.mktemp("demo") / "small.png"
    assert cli.main(["demo", "--size", "300", "--output", str(picture)]) == 0
    with picture.with_suffix(".csv").open(newline="") as file:
        return picture, list(csv.DictReader(file))


def test_the_picture_is_a_png_of_some_size(demo):
    content = demo[0].read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) > 20_000


def test_the_table_has_every_algorithm_and_the_theory(demo):
    _, rows = demo
    assert len(rows) == 9
    assert list(rows[0]) == ["alpha", "Mini-AMP", "ADF", "streaming VB", "state evolution"]
    assert [float(row["alpha"]) for row in rows][-1] == pytest.approx(3.15)


def test_mini_amp_wins_and_ends_near_the_theory(demo):
    """N=300, seed 1: past the jump the error is the noise's, within a factor of two."""
    last = {name: float(value) for name, value in demo[1][-1].items()}
    assert last["Mini-AMP"] == pytest.approx(last["state evolution"], rel=1.0)
    assert last["ADF"] > 100 * last["Mini-AMP"]
    assert last["streaming VB"] > 100 * last["Mini-AMP"]


def test_theory_is_that_of_the_reference(demo, glm):
    E = glm["slr_rho=0.3"]["minibatch_Delta=1e-8"]["0.35"]["E"]
    assert [float(row["state evolution"]) for row in demo[1]] == pytest.approx(E, rel=1e-9)


@pytest.mark.parametrize("output", ["nowhere/demo.png", "demo.txt"])
def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    output, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["demo", "--output", output]) in (1, 2)
    captured = capsys.readouterr()
    assert f"got {output}, expected " in captured.err
    assert captured.out == ""
