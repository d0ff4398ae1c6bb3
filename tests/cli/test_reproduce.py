import csv
import os

import pytest

from miniamp import cli
from miniamp.experiments import names


def test_a_figure_is_written_whole_and_taken_up_again(tmp_path, capsys):
    arguments = ["reproduce", "beyond-phases", "--quick", "--out", str(tmp_path)]
    assert cli.main(arguments) == 0
    assert "all agree" in capsys.readouterr().out
    written = {path.name: path for path in tmp_path.glob("beyond-phases*")}
    assert set(written) == {
        "beyond-phases-errors.csv",
        "beyond-phases-edges.csv",
        "beyond-phases-summary.csv",
        "beyond-phases.png",
        "beyond-phases.pdf",
    }
    assert written["beyond-phases.png"].read_bytes().startswith(b"\x89PNG")
    assert written["beyond-phases.pdf"].read_bytes().startswith(b"%PDF")
    before = {name: path.read_bytes() for name, path in written.items()}
    parts = {p: p.stat().st_mtime_ns for p in (tmp_path / ".parts").rglob("*.json")}
    assert cli.main(arguments) == 0
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / ".parts").rglob("*.json")} == parts
    assert {name: path.read_bytes() for name, path in written.items()} == before


def test_a_figure_that_is_not_there_is_named(capsys):
    assert cli.main(["reproduce", "figure9"]) == 1
    assert "figure: got 'figure9'" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_figure_quickly(tmp_path):
    jobs = str(min(2, os.cpu_count() or 1))
    assert cli.main(["reproduce", "all", "--quick", "--jobs", jobs, "--out", str(tmp_path)]) == 0
    for name in names("all"):
        assert (tmp_path / f"{name}.png").stat().st_size > 20_000
        assert (tmp_path / f"{name}.pdf").stat().st_size > 5_000
        with (tmp_path / f"{name}-summary.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert rows
        # Three orders of real data settle nothing, and data that are not there are not run.
        aside = {r["agrees"] for r in rows if r["panel"] == "3 right"} - {"yes"}
        assert all(
            word.startswith(("not run", "not claimed: ", "too few orders: ")) for word in aside
        )
        assert {row["agrees"] for row in rows if row["panel"] != "3 right"} <= {"yes"}
