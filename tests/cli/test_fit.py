"""`miniamp fit` learns what is in the rows, says so, and keeps it."""

import gzip
import json
import time

import numpy as np
import pandas as pd
import pytest

import miniamp
from miniamp.cli import learn
from miniamp.estimators.state import FitState


def test_a_regression_finds_the_coefficients(folder, run):
    """N = 5, 240 rows of noise 0.1: within about 0.1/sqrt(240), five times that allowed."""
    ran = run("fit", "rows.csv", "--target", "y", "--json", "--output", "m.amp")
    assert (ran.code, ran.err) == (0, "")
    about = json.loads(ran.out)
    assert about["task"] == "regression"
    assert (about["rows"], about["features"]) == (240, 5)
    found = {one["feature"]: one["mean"] for one in about["coefficients"]}
    assert found["a"] == pytest.approx(2.0, abs=0.035)
    assert found["b"] == pytest.approx(-1.0, abs=0.035)
    assert found["c"] == pytest.approx(0.0, abs=0.035)
    assert about["hyper_parameters"]["noise_var"] == pytest.approx(0.01, rel=0.5)
    assert about["last_error"] == pytest.approx(about["forecast"], rel=0.8)
    assert len(about["history"]) == about["batches"] > 1


def test_the_model_is_an_estimator_that_python_reads(models):
    model = miniamp.load("rows.amp")
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "city=Oslo", "city=Rome"]
    rows = pd.DataFrame([[1.0, 1.0, 0.0, 1.0, 0.0]], columns=model.feature_names_in_)
    assert model.predict(rows)[0] == pytest.approx(6.0, abs=0.1)


@pytest.mark.parametrize(
    ("table", "classes"),
    [
        ("labels.csv", ["high", "low"]),
        ("binary.csv", [0, 1]),
        ("three.csv", ["class 0", "class 1", "class 2"]),
    ],
)
def test_classes_are_recognised(folder, run, table, classes):
    about = json.loads(run("fit", table, "--target", "y", "--json").out)
    assert about["task"] == "classification"
    assert about["classes"] == classes
    assert about["error"] < 0.3


def test_prior_and_forgetting_are_learned(folder, run):
    asked = ("--prior", "auto", "--forget", "auto")
    ran = run("fit", "rows.csv", "--target", "y", "--json", *asked, "--output", "m.amp")
    assert ran.code == 0
    model = miniamp.load("m.amp")
    assert (model.prior, model.forget, model.forget_) == ("auto", "auto", 1.0)
    assert model.coef_[0] == pytest.approx(2.0, abs=0.035)
    wrong = run("fit", "rows.csv", "--target", "y", "--forget", "often")
    assert wrong.code == 2
    assert "expected auto or a number" in " ".join(wrong.err.replace("│", "").split())


def test_two_numbers_may_be_a_regression_after_all(folder, run):
    ran = run("fit", "binary.csv", "--target", "y", "--task", "regression", "--json")
    assert json.loads(ran.out)["task"] == "regression"


def test_every_option_of_the_model_is_heard(folder, run):
    ran = run(
        "fit", "rows.csv", "--target", "#4", "--prior", "sparse:rho=0.5,var=2", "--noise", "30",
        "--memory", "2", "--solver", "robust", "--forget", "0.9", "--no-intercept",
        "--columns", "b,a", "--batch-size", "80", "--output", "m.amp",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    model = miniamp.load("m.amp")
    assert model.prior == miniamp.priors.GaussBernoulli(rho=0.5, var=2.0)
    assert (model.noise, model.memory, model.solver) == (30.0, 2, "robust")
    assert (model.forget, model.fit_intercept, model.batch_size) == (0.9, False, 80)
    assert model.feature_names_in_.tolist() == ["b", "a"]
    assert [entry["rows"] for entry in model.history_] == [80, 80, 80]


def test_half_life_is_forgetting_in_rows(folder, run):
    run("fit", "rows.csv", "--target", "y", "--batch-size", 60, "--half-life", 120, "-o", "m.amp")
    assert miniamp.load("m.amp").forget == pytest.approx(0.5**0.5)


def test_a_channel_by_name(folder, run):
    ran = run("fit", "labels.csv", "--target", "y", "--noise", "logistic", "-o", "m.amp")
    assert ran.code == 0, ran.err
    assert miniamp.load("m.amp").noise == miniamp.channels.Logistic()


@pytest.mark.parametrize("rule", ["mean", "drop"])
def test_missing_values(folder, run, rule):
    text = (folder / "rows.csv").read_text().splitlines()
    text[7] = "," + text[7].split(",", 1)[1]
    (folder / "gap.csv").write_text("\n".join(text) + "\n")
    ran = run("fit", "gap.csv", "--target", "y", "--missing", rule, "--json")
    assert json.loads(ran.out)["rows"] == (240 if rule == "mean" else 239)


def test_a_gap_in_the_first_row_is_filled(folder, run):
    header, first, *rest = (folder / "rows.csv").read_text().splitlines()
    first = "," + first.split(",", 1)[1]
    (folder / "gap.csv").write_text("\n".join([header, first, *rest]) + "\n")
    fit = ("fit", "gap.csv", "--target", "y", "--missing", "mean", "--batch-size", 60)
    assert run(*fit).code == 0


def test_a_file_that_is_sorted_by_class_is_learned(folder, run):
    header, *rows = (folder / "labels.csv").read_text().splitlines()
    rows.sort(key=lambda row: row.endswith("low"))
    (folder / "sorted.csv").write_text("\n".join([header, *rows]) + "\n")
    ran = run("fit", "sorted.csv", "--target", "y", "--batch-size", 60)
    assert (ran.code, "sorted by the target" in ran.err) == (0, True)


def test_classes_that_come_late_can_be_named(folder, run, monkeypatch):
    monkeypatch.setattr("miniamp.streams.stream.HEAD_ROWS", 60)
    header, *rows = (folder / "labels.csv").read_text().splitlines()
    rows.sort(key=lambda row: row.endswith("low"))
    (folder / "sorted.csv").write_text("\n".join([header, *rows]) + "\n")
    fit = ("fit", "sorted.csv", "--target", "y", "--batch-size", 60)
    assert "--classes" in run(*fit).err
    assert run(*fit, "--classes", "high,low").code == 0


def test_numbers_as_classes_can_be_named(folder, run):
    fit = ("fit", "binary.csv", "--target", "y", "--task", "classification", "--json")
    assert json.loads(run(*fit, "--classes", "0,1,2").out)["classes"] == [0, 1, 2]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_standard_input_is_a_source_like_any(folder, run, form):
    frame = pd.read_csv("rows.csv")
    text = (
        frame.to_csv(index=False) if form == "csv" else frame.to_json(orient="records", lines=True)
    )
    fit = ("--target", "y", "--batch-size", 60, "--json")
    piped = json.loads(run("fit", "-", *fit, stdin=text.encode()).out)
    read = json.loads(run("fit", "rows.csv", *fit).out)
    assert piped["coefficients"] == read["coefficients"]


@pytest.mark.parametrize("form", ["parquet", "feather", "npy"])
def test_formats(folder, run, form):
    frame = pd.read_csv("rows.csv").drop(columns="city")
    if form == "npy":
        np.save("rows.npy", frame.to_numpy())
    else:
        getattr(frame, f"to_{form}")(f"rows.{form}")
    target = "#-1" if form == "npy" else "y"
    about = json.loads(run("fit", f"rows.{form}", "--target", target, "--json").out)
    assert about["rows"] == 240
    assert about["coefficients"][0]["mean"] == pytest.approx(2.0, abs=0.035)


@pytest.mark.parametrize(("sign", "word"), [(":", ":"), ("\t", "\\t")])
def test_a_headless_table_with_another_delimiter(sign, word, folder, run):
    rows = (folder / "rows.csv").read_text().splitlines()[1:]
    (folder / "bare.txt").write_text("\n".join(row.replace(",", sign) for row in rows) + "\n")
    ran = run("fit", "bare.txt", "--target", "x4", "--no-header", "--delimiter", word, "--json")
    assert json.loads(ran.out)["features"] == 5


def test_a_log_has_lines_now_and_then(folder, run, monkeypatch):
    monkeypatch.setattr("miniamp.cli.learn.PAUSE", 0.0)
    monkeypatch.setattr("miniamp.cli.learn.RARELY", 0.0)
    ran = run("fit", "rows.csv", "--target", "y", "--batch-size", 60)
    lines = ran.err.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("miniamp: 60 rows, ")
    assert "rows/s, no predictions yet" in lines[0]
    assert "error so far" in lines[-1]
    assert "predicted" in lines[-1]


def test_for_independent_features_theory_has_a_say(folder, run):
    """N = 80 independent features, AMP: the error is what state evolution says, to 40 %."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 80))
    y = X @ rng.normal(size=80) + 0.5 * rng.normal(size=400)
    pd.DataFrame(X).assign(y=y).to_csv("wide.csv", index=False)
    fit = ("fit", "wide.csv", "--target", "y", "--batch-size", 200, "--memory", 0)
    ran = run(*fit, "--solver", "amp")
    assert ran.code == 0, ran.err
    assert ", theory " in ran.out
    about = json.loads(run(*fit, "--solver", "amp", "--json").out)
    assert about["last_error"] == pytest.approx(about["theory"], rel=0.4)


def test_a_report_is_written(folder, run):
    ran = run("fit", "rows.csv", "--target", "y", "--batch-size", 60, "--report", "r.html")
    assert ran.code == 0, ran.err
    assert "report: r.html" in ran.out
    page = (folder / "r.html").read_text()
    assert "city=Oslo" in page
    assert "regression of y from rows.csv, 240 rows in 4 batches" in page


def test_a_report_counts_missing_values(folder, run):
    text = (folder / "rows.csv").read_text().splitlines()
    for i in (7, 9):
        text[i] = "," + text[i].split(",", 1)[1]
    (folder / "gap.csv").write_text("\n".join(text) + "\n")
    fit = ("fit", "gap.csv", "--target", "y", "--missing", "mean", "--batch-size", 60)
    assert run(*fit, "--report", "r.html").code == 0
    table = (folder / "r.html").read_text().split("<h2>Data</h2>")[1].split("</table>")[0]
    first = table.split("<tbody><tr>")[1].split("</tr>")[0]
    assert first.startswith("<td>a</td>")
    assert first.endswith('<td class="number">2</td>')


def test_one_row_claims_nothing(folder, run):
    (folder / "one.csv").write_text("a,b,y\n1,2,3.5\n")
    ran = run("fit", "one.csv", "--target", "y")
    assert ran.code == 0, ran.err
    assert "health: unknown, as no row was predicted" in ran.out
    assert "nothing is known about features that never varied: a, b" in ran.out
    (line,) = [line.split() for line in ran.out.splitlines() if line.startswith("a ")]
    assert line == ["a", "0"]  # no deviation, no interval, no effect


def test_cluster_and_inspect_name_the_same_features(folder, run):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 12))
    X[:, [7, 9]] += 4.0 * rng.integers(2, size=(300, 1))
    pd.DataFrame(X, columns=[f"f{i}" for i in range(12)]).to_csv("wide.csv", index=False)
    learned = run("cluster", "wide.csv", "--clusters", 2, "--model", "m.amp").out
    inspected = run("inspect", "m.amp").out
    heads = [
        next(line for line in text.splitlines() if line.startswith("cluster "))
        for text in (learned, inspected)
    ]
    assert heads[0] == heads[1]
    assert set(heads[0].split()[2:4]) == {"f7", "f9"}


def test_a_batch_that_contradicts_is_treated_as_asked(folder, run):
    lines = (folder / "rows.csv").read_text().splitlines()
    spoiled = [f"{line.rsplit(',', 1)[0]},{1e4 * (-1) ** i}" for i, line in enumerate(lines[181:])]
    (folder / "bad.csv").write_text("\n".join([*lines[:181], *spoiled]) + "\n")
    fit = ("fit", "bad.csv", "--target", "y", "--batch-size", 60, "--noise", "0.01")
    ran = run(*fit, "--on-conflict", "raise", "--json")
    assert ran.code == 1
    assert "contradict" in ran.err
    ran = run(*fit, "--on-conflict", "skip", "--json")
    assert ran.code == 0
    found = {one["feature"]: one["mean"] for one in json.loads(ran.out)["coefficients"]}
    assert found["a"] == pytest.approx(2.0, abs=0.05)
    assert run(*fit, "--on-conflict", "shrug").code == 2


def test_a_pipe_sorted_by_a_category_is_learned_to_its_end(folder, run):
    """What cannot be read again is not stopped by a late category, which counts as none."""
    rng = np.random.default_rng(0)
    rows = [
        f"{x:.4f},{'ab' if k < 90 else 'cd'}{k % 2},{x:.4f}"
        for k, x in enumerate(rng.normal(size=150))
    ]
    text = gzip.compress("\n".join(["x,c,y", *rows, ""]).encode())
    fit = ("fit", "-", "--target", "y", "--batch-size", "50", "--json")
    ran = run(*fit, stdin=text)
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["rows"] == 150
    assert ran.err.count("the category 'cd0'") == 1
    assert "row 91, column 'c'" in ran.err
    assert "the category" not in run(*fit, "--unknown", "ignore", stdin=text).err
    (folder / "sorted.csv").write_bytes(gzip.decompress(text))
    assert run("fit", "sorted.csv", *fit[2:]).code == 0  # the first 10,000 rows are looked at


def test_a_file_with_a_late_category_is_learned_to_its_end(folder, run):
    """Beyond the rows that are looked at first: it was refused after most of the work."""
    rng = np.random.default_rng(0)
    rows = [f"{x:.4f},{'ab'[k % 2]},{x:.4f}" for k, x in enumerate(rng.normal(size=10_500))]
    rows[10_400] = "1.0,new,1.0"
    (folder / "late.csv").write_text("\n".join(["x,c,y", *rows, ""]))
    fit = ("fit", "late.csv", "--target", "y", "--batch-size", "1000", "--json")
    ran = run(*fit)
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["rows"] == 10_500
    assert "row 10401, column 'c'" in ran.err
    strict = run(*fit, "--unknown", "error")
    assert strict.code == 1
    assert "the category 'new'" in strict.err


def test_a_pipe_sorted_by_class_says_how_to_go_on(run):
    rows = [f"{k % 7},{'no' if k < 90 else 'yes'}" for k in range(150)]
    text = "\n".join(["x,y", *rows, ""]).encode()
    fit = ("fit", "-", "--target", "y", "--batch-size", "50")
    assert "--classes a,b,c" in run(*fit, stdin=text).err
    assert run(*fit, "--classes", "no,yes", stdin=text).code == 0


def test_a_file_sorted_by_class_is_fitted_once_and_not_at_every_batch(folder, run, monkeypatch):
    """Its first rows wait for the other class; who asks for the error makes the model fit them."""
    header, *rows = (folder / "labels.csv").read_text().splitlines()
    rows.sort(key=lambda row: row.endswith("low"))
    (folder / "sorted.csv").write_text("\n".join([header, *rows]) + "\n")
    fits, before = [], FitState._learned
    monkeypatch.setattr(FitState, "_learned", lambda *given: fits.append(1) or before(*given))
    ran = run("fit", "sorted.csv", "--target", "y", "--batch-size", 10)
    assert ran.code == 0
    assert len(rows) // 10 > 10
    assert len(fits) < len(rows) // 20


def test_decimal_commas_and_another_encoding(folder, run):
    """The same rows as spreadsheets of other countries write them, to the last digit."""
    text = (folder / "rows.csv").read_text().replace("Oslo", "Malmö, süd")
    lines = text.splitlines()
    (folder / "plain.csv").write_text(text.replace("Malmö, süd", '"Malmö, süd"'), encoding="utf-8")
    cells = [line.split(",") for line in lines[1:]]
    rows = [";".join([*(c.replace(".", ",") for c in r[:3]), *r[3:-1], r[-1].replace(".", ",")])
            for r in ([*c[:3], ",".join(c[3:-1]), c[-1]] for c in cells)]  # fmt: skip
    content = "\r\n".join([lines[0].replace(",", ";"), *rows]) + "\r\n"
    (folder / "latin.csv").write_bytes(content.encode("latin-1"))
    fit = ("--target", "y", "--batch-size", 60, "--json")
    plain = json.loads(run("fit", "plain.csv", *fit).out)
    for sign in ("comma", ","):
        ran = run("fit", "latin.csv", *fit, "--decimal", sign, "--encoding", "latin-1")
        assert ran.code == 0, ran.err
        assert json.loads(ran.out)["coefficients"] == plain["coefficients"]
    assert "point or comma" in run("fit", "latin.csv", *fit, "--decimal", "x").err
    assert "--encoding latin-1" in run("fit", "latin.csv", *fit, "--decimal", "comma").err
    assert "a known encoding" in run("fit", "latin.csv", *fit, "--encoding", "klingon").err


def test_an_identifier_is_no_feature_and_comes_back_with_the_predictions(folder, run):
    frame = pd.read_csv("rows.csv")
    frame.insert(0, "id", [f"house {i}" for i in range(len(frame))])
    frame.to_csv("named.csv", index=False)
    assert run("fit", "named.csv", "--target", "y", "--keep", "id", "-o", "m.amp").code == 0
    assert "id" not in miniamp.load("m.amp").feature_names_in_
    assert run("predict", "m.amp", "named.csv", "--keep", "id,y", "-o", "p.csv").code == 0
    table = pd.read_csv("p.csv")
    assert list(table.columns)[:3] == ["id", "y", "prediction"]
    assert table.id.tolist() == frame.id.tolist()
    ran = run("predict", "m.amp", "named.csv", "--keep", "nr")
    assert (ran.code, ran.out) == (1, "")
    assert "keep: got no column 'nr' in named.csv" in ran.err


def test_few_whole_numbers_are_asked_about(folder, run):
    frame = pd.read_csv("rows.csv").assign(y=lambda table: (table.a > 0) + 2 * (table.b > 0))
    frame.to_csv("stars.csv", index=False)
    ran = run("fit", "stars.csv", "--target", "y")
    assert ran.code == 0
    assert ran.err.count("if these are classes, use --task classification") == 1
    assert run("fit", "stars.csv", "--target", "y", "--task", "regression").err == ""
    assert run("fit", "rows.csv", "--target", "y").err == ""
    frame.assign(y=7).to_csv("constant.csv", index=False)
    assert run("fit", "constant.csv", "--target", "y").err == ""


def test_texts_that_hardly_repeat_are_no_classes(folder, run):
    """238 prices with a currency in 534 rows were 238 classes, and 33 s."""
    frame = pd.read_csv("rows.csv")
    frame.assign(y=[f"USD {i // 2}.50" for i in range(len(frame))]).to_csv("usd.csv", index=False)
    ran = run("fit", "usd.csv", "--target", "y")
    assert ran.code == 1
    assert "such as 'USD 99.50', expected classes that repeat" in ran.err


def test_what_a_message_advises_works(folder, run):
    """Missing values, an empty column, sorted classes: the remedy is typed as it is written."""
    rows = [f"{k % 9},{'' if k % 7 else k},,{2 * (k % 9) + k % 2}" for k in range(90)]
    (folder / "gaps.csv").write_text("\n".join(["a,b,empty,y", *rows, ""]))
    fit = ("fit", "gaps.csv", "--target", "y")
    assert "fill it with --missing mean or drop such rows with --missing drop" in run(*fit).err
    assert "--keep empty" in run(*fit, "--missing", "mean").err
    assert run(*fit, "--missing", "mean", "--keep", "empty").code == 0
    rows = [f"{k % 7},{'no' if k < 45 else 'yes'}" for k in range(90)]
    (folder / "sorted.csv").write_text("\n".join(["x,y", *rows, ""]))
    ran = run("fit", "sorted.csv", "--target", "y")
    assert "2 blocks in the 90 rows" in ran.out
    assert "use --shuffle 10000" in ran.err
    ran = run("fit", "sorted.csv", "--target", "y", "--shuffle", "10000", "--batch-size", "20")
    assert "health: no problems found" in ran.out


def test_the_time_counts_learning_from_rows_that_wait(folder, run, monkeypatch):
    """Of 1,431 leaves, sorted by species, "0.1 s" was shown after minutes."""
    learn = FitState._learned

    def slowly(state, rows):
        time.sleep(0.5)
        return learn(state, rows)

    monkeypatch.setattr(FitState, "_learned", slowly)
    (folder / "sorted.csv").write_text("a,y\n1,no\n2,no\n3,no\n3,yes\n5,yes\n")
    ran = run("fit", "sorted.csv", "--target", "y", "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["seconds"] > 0.5


def test_lines_that_take_long_come_rarely(monkeypatch, capsys):
    """Asked of rows that wait, a line of 0.5 s every 0.25 s was most of the time."""
    clock = [0.0]
    monkeypatch.setattr("miniamp.cli.learn.time.perf_counter", lambda: clock[0])

    def slow():
        clock[0] += 2.0
        return "slow"

    watch = learn.Watch(None, 0, False)
    for _ in range(400):
        clock[0] += 1.0
        watch.advance(1, slow)
    assert 8 <= capsys.readouterr().err.count("slow") <= 11
