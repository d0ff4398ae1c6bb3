"""Whatever is wrong is one line and an exit code, and every file stays as it was."""

import io
import struct

import numpy as np
import pytest
import typer

import miniamp

FIT = ("--target", "y", "--batch-size", "60")


def table(*lines):
    return ("\n".join(lines) + "\n").encode()


def numbers(rows=40, header="a,b,y", last=None):
    """A sound small table, with a last line that is not."""
    rng = np.random.default_rng(0)
    lines = [f"{a:.3f},{b:.3f},{a - b:.3f}" for a, b in rng.normal(size=(rows, 2))]
    return table(header, *lines, *([] if last is None else [last]))


def _archive(**arrays):
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


#: Files beside the good ones.
LATE = range(99)
FILES = {
    "empty.csv": b"",
    "blank.csv": b"\n\n",
    "header.csv": b"a,b,y\n",
    "nan.csv": numbers(last="nan,1,2"),
    "gap.csv": numbers(last=",1,2"),
    "infinite.csv": numbers(last="inf,1,2"),
    "text.csv": numbers(last="five,1,2"),
    "ragged.csv": numbers(last="1,2"),
    "long.csv": numbers(last="1,2,3,4"),
    "double.csv": numbers(header="a,a,y"),
    "no_target.csv": numbers(last="1,2,"),
    "infinite_target.csv": numbers(last="1,2,inf"),
    "target_only.csv": table("y", "1", "2", "3"),
    "quote.csv": numbers(last='"1,2,3'),
    "utf16.csv": "a,b,y\n1,2,3\n".encode("utf-16"),
    "binary.dat": bytes(range(256)) * 8,
    "false.parquet": numbers(),
    "cut.parquet": b"PAR1" + b"\x00" * 40,
    "cut.npy": b"\x93NUMPY\x01\x00",
    "cut.csv.gz": b"\x1f\x8b\x08\x00",
    "array.json": b"[1, 2]\n",
    "broken.jsonl": b'{"a": 1, "y": 2}\n{"a": 1,\n',
    "one_class.csv": table("a,b,y", *(f"{i % 9},{i % 7},yes" for i in range(40))),
    "names.csv": table("a,b,y", *(f"{i % 9},{i % 7},name {i}" for i in range(40))),
    "comma.csv": table("a;y", *(f"{i},5;{i % 7}" for i in range(1, 40))),
    "huge.csv": table("a,b,y", *(f"{i}e307,{i % 7},{i % 5}" for i in range(-9, 10))),
    "alone.npz": _archive(X=np.zeros((3, 2))),
    "late_class.csv": table("a,b,y", *(f"{i % 5},{3 * i},{'uvw'[(i > 60) + i % 2]}" for i in LATE)),
    "late_city.csv": table("a,city,y", *(f"{i % 9},{'XY'[i > 60]},{i % 7}.5" for i in LATE)),
    "late_text.csv": table("a,b,y", *(f"{i % 9},{i if i < 70 else 'x'},{i % 7}" for i in LATE)),
    "missing_b.csv": table("a,c,city", "1,2,Rome"),
    "new_city.csv": table("a,b,c,city", "1,2,3,Bonn"),
    "new_text.csv": table("a,b,c,city", "1,two,3,Rome"),
    "new_gap.csv": table("a,b,c,city", "1,,3,Rome"),
}

#: Models that are none, made from the good one.
MODELS = {
    "empty.amp": lambda _: b"",
    "text.amp": lambda _: b"hello\n",
    "cut.amp": lambda good: good[:-1],
    "altered.amp": lambda good: good[:200] + bytes([good[200] ^ 1]) + good[201:],
    "future.amp": lambda good: _of_version(good, 99),
}


def _of_version(good, version):
    import hashlib

    content = bytearray(good[:-32])
    content[8:12] = struct.pack("<I", version)
    return bytes(content) + hashlib.sha256(content).digest()


#: Command, exit code, and what the line must say.
CASES = {
    "missing file": (("fit", "nothing.csv", *FIT), 1, "nothing.csv: got no such file"),
    "pattern without a match": (("fit", "zz*.csv", *FIT), 1, "no file that matches"),
    "folder of many kinds": (("fit", ".", *FIT), 1, "several formats"),
    "folder without data": (("fit", "void", *FIT), 1, "no data files"),
    "empty file": (("fit", "empty.csv", *FIT), 1, "empty"),
    "blank file": (("fit", "blank.csv", *FIT), 1, "blank.csv"),
    "header only": (("fit", "header.csv", *FIT), 1, "no rows"),
    "NaN": (("fit", "nan.csv", *FIT), 1, "fill it with --missing mean"),
    "missing value": (("fit", "gap.csv", *FIT), 1, "row 41, column 'a'"),
    "infinite value": (("fit", "infinite.csv", *FIT), 1, "got inf"),
    "text among numbers": (("fit", "text.csv", *FIT), 1, "'five'"),
    "ragged row": (("fit", "ragged.csv", *FIT), 1, "ragged.csv"),
    "row too long": (("fit", "long.csv", *FIT), 1, "long.csv"),
    "column twice": (("fit", "double.csv", *FIT), 1, "'a'"),
    "missing target value": (("fit", "no_target.csv", *FIT), 1, "target 'y': got a missing value"),
    "infinite target": (("fit", "infinite_target.csv", *FIT), 1, "column 'y': got inf"),
    "no features": (("fit", "target_only.csv", *FIT), 1, "no column besides the target"),
    "open quote": (("fit", "quote.csv", *FIT), 1, "quote"),
    "other encoding": (("fit", "utf16.csv", *FIT), 1, "UTF-16"),
    "no table": (("fit", "binary.dat", *FIT), 1, "no format known"),
    "wrong ending": (("fit", "false.parquet", *FIT), 1, "content that is csv"),
    "cut Parquet": (("fit", "cut.parquet", *FIT), 1, "cut.parquet"),
    "cut NPY": (("fit", "cut.npy", *FIT), 1, "cut.npy"),
    "cut gzip": (("fit", "cut.csv.gz", *FIT), 1, "cut.csv.gz"),
    "JSON array": (("fit", "array.json", *FIT), 1, "array.json"),
    "broken JSON line": (("fit", "broken.jsonl", *FIT), 1, "broken.jsonl"),
    "unknown target": (("fit", "rows.csv", "--target", "z"), 1, "no column 'z'"),
    "misspelt target": (("fit", "rows.csv", "--target", "ciy"), 1, "did you mean 'city'?"),
    "target number too large": (("fit", "rows.csv", "--target", "#9"), 1, "column number 9"),
    "unknown column": (
        ("fit", "rows.csv", *FIT, "--columns", "a,q"), 1, "expected one of a, b, c, city, y"),
    "no name": (("fit", "", *FIT), 1, "source: got an empty name"),
    "targets in no array": (("fit", "alone.npz", *FIT), 1, "expected an array beside 'X'"),
    "numbers with a comma": (("fit", "comma.csv", *FIT), 1, "row 1, column 'a': got '1,5'"),
    "numbers too large": (("fit", "huge.csv", *FIT), 1, "change the units"),
    "counts of labels": (("fit", "labels.csv", *FIT, "--noise", "poisson"), 1, "channel of labels"),
    "labels without noise": (
        ("fit", "labels.csv", *FIT, "--noise", "0", "--on-conflict", "raise"), 1, "contradict"),
    "target as a column": (("fit", "rows.csv", *FIT, "--columns", "a,y"), 1, "is the target"),
    "unknown category": (("fit", "rows.csv", *FIT, "--categorical", "q"), 1, "no column 'q'"),
    "one class": (("fit", "one_class.csv", *FIT), 1, "one class, 'yes'"),
    "a class per row": (("fit", "names.csv", *FIT), 1, "expected classes that repeat"),
    "a class that comes late": (("fit", "late_class.csv", *FIT), 1, "--classes"),
    "a category that comes late": (("fit", "late_city.csv", *FIT, "--unknown", "error"), 1, "'Y'"),
    "a text that comes late": (("fit", "late_text.csv", *FIT), 1, "'x'"),
    "classes of numbers with a point": (
        ("fit", "rows.csv", *FIT, "--task", "classification"), 1, "use --task regression"),
    "regression of text": (
        ("fit", "labels.csv", *FIT, "--task", "regression"), 1, "--task classification"),
    "counts that are none": (("fit", "rows.csv", *FIT, "--noise", "poisson"), 1, "target: got"),
    "empty pipe": (("fit", "-", *FIT), 1, "standard input: got no rows"),
    "output in no folder": (("fit", "rows.csv", *FIT, "-o", "no/m.amp"), 1, "does not exist"),
    "output is a folder": (("fit", "rows.csv", *FIT, "-o", "void"), 1, "is a folder"),
    "output over the source": (("fit", "rows.csv", *FIT, "-o", "rows.csv"), 1, "source itself"),
    "checkpoint of other rows": (
        ("fit", "labels.csv", *FIT, "--checkpoint", "rows.amp"), 1, "expected those of rows.csv"),
    "checkpoint of Python": (
        ("fit", "rows.csv", *FIT, "--checkpoint", "python.amp"), 1, "written by Python"),
    "damaged checkpoint": (("fit", "rows.csv", *FIT, "--checkpoint", "cut.amp"), 1, "cut short"),
    "no target": (("fit", "rows.csv"), 2, "--target"),
    "no source": (("fit", "--target", "y"), 2, "SOURCE"),
    "unknown option": (("fit", "rows.csv", *FIT, "--colour", "red"), 2, "--colour"),
    "unknown command": (("fti", "rows.csv"), 2, "fti"),
    "negative batch size": (("fit", "rows.csv", "--target", "y", "--batch-size", "-5"), 2, "'-5'"),
    "batch size zero": (("fit", "rows.csv", "--target", "y", "--batch-size", "0"), 2, "'0'"),
    "batch size in words": (("fit", "rows.csv", *FIT, "--batch-size", "ten"), 2, "'ten'"),
    "unknown task": (("fit", "rows.csv", *FIT, "--task", "ranking"), 2, "ranking"),
    "unknown prior": (("fit", "rows.csv", *FIT, "--prior", "cauchy"), 2, "cauchy"),
    "unknown number of a prior": (("fit", "rows.csv", *FIT, "--prior", "sparse:q=1"), 2, "rho"),
    "a prior's number in words": (("fit", "rows.csv", *FIT, "--prior", "sparse:rho=x"), 2, "rho=x"),
    "a prior's number out of range": (
        ("fit", "rows.csv", *FIT, "--prior", "sparse:rho=3"), 2, "rho: got 3"),
    "unknown noise": (("fit", "rows.csv", *FIT, "--noise", "pink"), 2, "pink"),
    "negative noise": (("fit", "rows.csv", *FIT, "--noise=-1"), 2, "-1"),
    "unknown solver": (("fit", "rows.csv", *FIT, "--solver", "magic"), 2, "magic"),
    "negative memory": (("fit", "rows.csv", *FIT, "--memory", "-1"), 2, "-1"),
    "forget of two": (("fit", "rows.csv", *FIT, "--forget", "2"), 2, "at most 1"),
    "half-life of zero": (("fit", "rows.csv", *FIT, "--half-life", "0"), 2, "above 0"),
    "forget in two ways": (
        ("fit", "rows.csv", *FIT, "--forget", "0.9", "--half-life", "9"), 2, "not both"),
    "every zero batches": (("fit", "rows.csv", *FIT, "--every", "0"), 2, "--every"),
    "new rows for nothing": (("fit", "rows.csv", *FIT, "--new-rows"), 2, "--checkpoint"),
    "missing by magic": (("fit", "rows.csv", *FIT, "--missing", "magic"), 2, "magic"),
    "model that is not there": (("predict", "no.amp", "new.csv"), 1, "no.amp"),
    "model that is a folder": (("predict", "void", "new.csv"), 1, "void: got a folder"),
    "no model to inspect": (("inspect", "no.amp"), 1, "check the path"),
    "columns of a clustering": (("predict", "points.amp", "missing_b.csv"), 1, "'b'"),
    "model that is a table": (("predict", "rows.csv", "new.csv"), 1, "no checkpoint"),
    "model that is empty": (("predict", "empty.amp", "new.csv"), 1, "empty"),
    "model that is text": (("predict", "text.amp", "new.csv"), 1, "no checkpoint"),
    "model cut short": (("predict", "cut.amp", "new.csv"), 1, "cut short"),
    "model altered": (("inspect", "altered.amp"), 1, "altered"),
    "model of the future": (("predict", "future.amp", "new.csv"), 1, "version 99"),
    "model of another kind": (("predict", "state.amp", "new.csv"), 1, "saved estimator"),
    "feature missing in predict": (("predict", "rows.amp", "missing_b.csv"), 1, "'b'"),
    "too many features for a nameless model": (
        ("predict", "python.amp", "rows.csv"), 1, "features"),
    "unseen category in predict": (
        ("predict", "rows.amp", "new_city.csv"), 1, "read unknown ones as none: --unknown"),
    "text in predict": (("predict", "rows.amp", "new_text.csv"), 1, "use --categorical b if"),
    "gap in predict": (("predict", "rows.amp", "new_gap.csv"), 1, "--missing mean"),
    "predict to an unknown format": (("predict", "rows.amp", "new.csv", "-o", "p.xls"), 1, ".xls"),
    "predict to no folder": (("predict", "rows.amp", "new.csv", "-o", "no/p.csv"), 1, "no"),
    "predict over the source": (("predict", "rows.amp", "new.csv", "-o", "new.csv"), 1, "itself"),
    "level of two": (("predict", "rows.amp", "new.csv", "--level", "2"), 2, "above 0 and below 1"),
    "predict with a row late that is bad": (
        ("predict", "rows.amp", "late_bad.csv", "-o", "p.csv", "--batch-size", "10"), 1, "'oops'"),
    "new rows of no clustering": (
        ("cluster", "points.csv", "--clusters", "2", "--new-rows"), 2, "--checkpoint"),
    "clusters with no noise": (
        ("cluster", "points.csv", "--clusters", "2", "--noise", "0"), 2, "above 0"),
    "numbers too large to cluster": (
        ("cluster", "huge.csv", "--clusters", "2"), 1, "change the units"),
    "no clusters": (("cluster", "points.csv"), 2, "--clusters"),
    "zero clusters": (("cluster", "points.csv", "--clusters", "0"), 2, "--clusters"),
    "more clusters than rows": (("cluster", "new_gap.csv", "--clusters", "3"), 1, "missing"),
    "few rows to cluster": (("cluster", "new_city.csv", "--clusters", "3"), 1, "n_clusters"),
    "labels of a pipe": (
        ("cluster", "-", "--clusters", "2", "-o", "l.csv"), 1, "cannot be read a second time"),
    "noise of clusters in words": (
        ("cluster", "points.csv", "--clusters", "2", "--noise", "loud"), 2, "loud"),
    "inspect nothing": (("inspect",), 2, "MODEL"),
    "plan nothing": (("plan",), 2, "--features"),
    "plan no features": (("plan", "--features", "0"), 2, "--features"),
    "plan a sparsity of two": (("plan", "--features", "9", "--sparsity", "2"), 2, "at most 1"),
    "plan without an effort": (
        ("plan", "--features", "9", "--target-mse", "2"), 1, "known without any rows"),
    "plan a memory in words": (("plan", "--features", "9", "--max-memory", "lots"), 1, "'lots'"),
    "plan no memory": (("plan", "--features", "900", "--max-memory", "1B"), 1, "max_memory"),
    "plan an unknown channel": (("plan", "--features", "9", "--channel", "tv"), 2, "tv"),
    "plan a picture of no kind": (("plan", "--features", "9", "--plot", "p.txt"), 2, "p.txt"),
}  # fmt: skip


@pytest.fixture(scope="module")
def wrong(made, tables, tmp_path_factory):
    """All files, good and bad, by name."""
    place = tmp_path_factory.mktemp("python")
    good = made["rows.amp"]
    miniamp.MiniAMPRegressor().fit(np.eye(3), [1.0, 2.0, 3.0]).save(place / "python.amp")
    miniamp.streams.save(place / "state.amp", {"belief": None})
    lines = tables["new.csv"].splitlines()
    lines[15] = "oops" + lines[15][lines[15].index(",") :]
    return {
        **FILES,
        **{name: make(good) for name, make in MODELS.items()},
        **{name: (place / name).read_bytes() for name in ("python.amp", "state.amp")},
        "late_bad.csv": table(*lines),
    }


@pytest.mark.parametrize("case", CASES)
def test_one_line_an_exit_code_and_nothing_changed(case, models, wrong, run, monkeypatch):
    if "late" in case:  # after the rows that the schema is from
        monkeypatch.setattr("miniamp.streams.stream.HEAD_ROWS", 60)
    for name, content in wrong.items():
        (models / name).write_bytes(content)
    (models / "void").mkdir()
    before = contents(models)
    arguments, code, told = CASES[case]
    ran = run(*arguments, stdin=b"")
    assert ran.code == code, ran
    assert ran.out == ""
    assert ran.err.startswith("miniamp: ")
    assert ran.err.count("\n") == 1
    assert told in ran.err
    assert "Traceback" not in ran.err
    assert contents(models) == before


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_there_are_many_kinds():
    assert len(CASES) >= 100
    assert {name for name, (_, code, _) in CASES.items() if code == 1} > {"NaN", "one class"}


def test_what_was_learned_before_the_bad_row_is_still_in_the_checkpoint(folder, run):
    """Six batches of one file are learned, the next has a bad row; put right, the run goes on."""
    header, *lines = (folder / "rows.csv").read_text().splitlines()
    bad = "oops" + lines[150][lines[150].index(",") :]
    good = table(header, *lines[120:])
    (folder / "part1.csv").write_bytes(table(header, *lines[:120]))
    (folder / "part2.csv").write_bytes(table(header, *lines[120:150], bad, *lines[151:]))
    fit = ("fit", "part*.csv", "--target", "y", "--batch-size", 20, "--every", 1)
    ran = run(*fit, "--checkpoint", "m.amp")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "part2.csv, row 31, column 'a'" in ran.err
    assert miniamp.load("m.amp").n_samples_seen_ == 120
    (folder / "part2.csv").write_bytes(good)
    assert run(*fit, "--checkpoint", "m.amp").code == 0
    assert run(*fit, "-o", "whole.amp").code == 0
    assert (folder / "m.amp").read_bytes() == (folder / "whole.amp").read_bytes()


def test_a_constant_target_is_learned_as_such(folder, run):
    (folder / "constant.csv").write_bytes(table("a,y", *(f"{i % 7},3.5" for i in range(60))))
    assert run("fit", "constant.csv", "--target", "y", "-o", "m.amp").code == 0
    prediction = run("predict", "m.amp", "constant.csv").out.splitlines()[1].split(",")[0]
    assert float(prediction) == pytest.approx(3.5, rel=0.05)


def test_debug_shows_the_traceback(folder, run):
    with pytest.raises(miniamp.errors.InvalidInputError, match="no such file"):
        run("fit", "nothing.csv", *FIT, "--debug")


def test_a_noise_far_too_small_is_told_in_one_line(folder, run):
    """Batches are skipped, and the health line says why."""
    ran = run("fit", "rows.csv", "--target", "y", "--batch-size", "24", "--noise", "1e-9")
    assert "noise" in ran.err.lower()
    assert ran.err.count("\n") == 1
    assert ran.code == 0
    assert "The noise may be larger than the one given: try --noise learn" in ran.out


@pytest.mark.parametrize(
    ("words", "came"),
    [
        (("--shuffle", "abc"), "got 'abc', expected "),
        (("--every", "0"), "got '0', expected "),
        (("--missing", "foo"), "got 'foo', expected one of 'error', 'mean', 'drop' (see"),
    ],
)
def test_a_wrong_option_shows_what_came_and_what_was_expected(folder, run, words, came):
    ran = run("fit", "rows.csv", *FIT, *words)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert came in ran.err or tuple(map(int, typer.__version__.split(".")[:2])) < (0, 29)


def test_a_json_array_is_refused_with_the_way_to_convert_it(folder, run):
    (folder / "t.json").write_text('[{"a": 1, "y": 2}]')
    ran = run("fit", "t.json", "--target", "y")
    assert "t.json, row 1: got a JSON array, expected one JSON object per row" in ran.err
    assert "jq" in ran.err


def test_a_file_that_is_no_model_is_called_so(folder, run):
    ran = run("inspect", "rows.csv")
    assert "expected a saved model; name the file of a model, or start over" in ran.err
