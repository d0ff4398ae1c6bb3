"""Outputs are compared and tried before the first row, and hold nothing that acts."""

import os
from pathlib import Path

import pandas as pd
import pytest

import miniamp

FIT = ("fit", "rows.csv", "--target", "y", "--batch-size", "60")


def never(*arguments, **options):
    raise AssertionError("a row was read")


@pytest.mark.parametrize(
    ("outputs", "named"),
    [
        (("--checkpoint", "m.amp", "--report", "m.amp"), "--report: got m.amp, expected another"),
        (("--checkpoint", "m.amp", "-o", "./m.amp"), "that of --checkpoint"),
        (("--checkpoint", "m.amp", "-o", "m.amp.previous"), "that of --checkpoint"),
        (("--report", "link.html", "-o", "m.amp"), "that of --output"),
        (("--report", "rows.csv"), "the source itself"),
        (("--output", "/proc/m.amp"), "--output: got /proc/m.amp"),
        (("--output", "pipe"), "--output: got pipe, which is a pipe or device, expected a file"),
        (("--report", "pipe"), "--report: got pipe, which is a pipe or device, expected a file"),
    ],
)
def test_outputs_that_cannot_be_are_refused_before_the_first_row(
    folder, run, monkeypatch, outputs, named
):
    if outputs[-1].startswith("/proc") and not Path("/proc").is_dir():
        pytest.skip("needs a folder that nobody can write to")
    (folder / "m.amp").write_bytes(b"precious")
    (folder / "link.html").symlink_to("m.amp")
    if hasattr(os, "mkfifo"):
        os.mkfifo(folder / "pipe")
    elif outputs[-1] == "pipe":
        pytest.skip("needs named pipes")
    before = sorted(path.name for path in folder.iterdir())
    monkeypatch.setattr("miniamp.cli.learn.open_stream", never)
    ran = run(*FIT, *outputs)
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert named in ran.err
    assert (folder / "m.amp").read_bytes() == b"precious"
    assert sorted(path.name for path in folder.iterdir()) == before


def test_no_file_of_a_pattern_or_folder_is_overwritten(folder, run, monkeypatch):
    (folder / "parts").mkdir()
    for name in ("a.csv", "b.csv"):
        (folder / "parts" / name).write_text("x,y\n1,2\n")
    monkeypatch.setattr("miniamp.cli.learn.open_stream", never)
    for source in ("parts", "parts/*.csv"):
        ran = run("fit", source, "--target", "y", "--report", "parts/b.csv")
        assert (ran.code, ran.err.count("the source itself")) == (1, 1)


def test_no_output_replaces_the_model_that_is_read(models, run):
    (models / "m.csv").write_bytes((models / "rows.amp").read_bytes())
    before = (models / "m.csv").read_bytes()
    for words in (
        ("inspect", "m.csv", "--report", "./m.csv"),
        ("predict", "m.csv", "rows.csv", "-o", "m.csv"),
    ):
        ran = run(*words)
        assert (ran.code, ran.out) == (1, "")
        assert "expected another file than the model itself" in ran.err
    assert (models / "m.csv").read_bytes() == before


def test_a_report_that_cannot_be_written_is_refused_by_its_option(models, run):
    ran = run("inspect", "rows.amp", "--report", "nowhere/r.html")
    assert (ran.code, ran.out) == (1, "")
    assert "--report: got nowhere/r.html, expected a folder that exists" in ran.err


def test_a_file_that_must_not_be_written_is_refused(folder, run, monkeypatch):
    (folder / "m.amp").write_bytes(b"precious")
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.W_OK)
    monkeypatch.setattr("miniamp.cli.learn.open_stream", never)
    ran = run(*FIT, "--output", "m.amp")
    assert ran.code == 1
    assert "--output: got m.amp, expected a place that can be written" in ran.err


def test_predictions_are_written_under_a_name_that_nobody_can_prepare(folder, run):
    """Whoever may write to the folder could have put a link there; a link that is named stays."""
    run(*FIT, "--output", "m.amp")
    (folder / "precious").write_text("precious")
    (folder / f".p.csv.{os.getpid()}.new").symlink_to("precious")
    (folder / "p.csv").symlink_to("elsewhere.csv")
    assert run("predict", "m.amp", "rows.csv", "-o", "p.csv").code == 0
    assert (folder / "precious").read_text() == "precious"
    assert (folder / "p.csv").is_symlink()
    assert (folder / "elsewhere.csv").read_text().startswith("prediction,")


def test_control_characters_in_names_never_reach_the_terminal(folder, run):
    frame = pd.read_csv("rows.csv").rename(columns={"a": "a\x1b[31m\x07", "b": "b\u202eevil"})
    frame["city"] = frame.city.str.replace("Rome", "Rome\x1b]0;title\x07")
    frame.to_csv("rows.csv", index=False)
    ran = run(*FIT, "-o", "m\x1b[5m.amp")
    assert ran.code == 0, ran.err
    failed = run(*FIT, "--columns", "\x1b[2J")
    assert failed.code == 1
    inspected = run("inspect", "m\x1b[5m.amp")
    for text in (ran.out, ran.err, failed.err, inspected.out):
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "\u202e" not in text
    assert r"a\x1b[31m\x07" in inspected.out


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_labels_that_look_like_formulas_do_not_act_in_a_spreadsheet(folder, run, form):
    frame = pd.read_csv("labels.csv")
    evil = "=cmd|' /C calc'!A0"
    frame["y"] = frame.y.replace({"high": evil, "low": "-1"})
    frame.to_csv("labels.csv", index=False)
    assert run("fit", "labels.csv", "--target", "y", "-o", "m.amp").code == 0
    assert run("predict", "m.amp", "labels.csv", "-o", f"p.{form}").code == 0
    if form == "jsonl":  # no spreadsheet computes it: labels stay as they are
        assert set(pd.read_json("p.jsonl", lines=True).prediction) == {evil, "-1"}
        return
    table = pd.read_csv("p.csv", dtype={"prediction": str})
    assert set(table.prediction) == {f"'{evil}", "-1"}
    assert not any(line.startswith("=") for line in (folder / "p.csv").read_text().splitlines())
    assert set(miniamp.load("m.amp").classes_) == {evil, "-1"}


def test_a_saved_model_has_a_report_that_names_its_source(folder, run):
    pytest.importorskip("plotly")
    assert run(*FIT, "-o", "m.amp").code == 0
    ran = run("inspect", "m.amp", "--report", "later.html")
    assert ran.code == 0
    assert "report: later.html" in ran.out
    assert "rows.csv" in Path("later.html").read_text(encoding="utf-8")
    names = pd.read_csv("rows.csv").columns.drop("y")
    assert all(name in Path("later.html").read_text(encoding="utf-8") for name in names)


def test_usage_names_arguments_without_braces(run):
    for command in ("fit", "serve", "inspect", "reproduce"):
        assert "{" not in run(command, "--help").out.split("Example")[0]
