"""`miniamp predict` writes what the estimator says, one row for each row."""

import json
from io import StringIO

import numpy as np
import pandas as pd
import pytest

import miniamp


def expected(level=0.9):
    frame = pd.read_csv("new.csv")
    model = miniamp.load("rows.amp")
    X = frame[["a", "b", "c"]].assign(
        **{f"city={name}": (frame.city == name).astype(float) for name in ("Oslo", "Rome")}
    )
    mean, std = model.predict(X, return_std=True)
    return np.column_stack([mean, std, *model.predict_interval(X, level)])


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_regression_in_every_format(models, run, form):
    ran = run("predict", "rows.amp", "new.csv", "-o", f"out.{form}", "--batch-size", 7)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == f"miniamp: 20 predictions in out.{form}\n"
    read = {
        "csv": pd.read_csv,
        "jsonl": lambda path: pd.read_json(path, lines=True, precise_float=True),
        "parquet": pd.read_parquet,
    }
    table = read[form](f"out.{form}")
    assert list(table.columns) == ["prediction", "std", "lower", "upper"]
    np.testing.assert_allclose(table.to_numpy(), expected(), rtol=1e-12)


def test_the_level_of_the_interval(models, run):
    run("predict", "rows.amp", "new.csv", "-o", "out.csv", "--level", 0.5)
    np.testing.assert_allclose(pd.read_csv("out.csv").to_numpy(), expected(0.5), rtol=1e-12)


def test_classes_and_probabilities(models, run):
    assert run("predict", "labels.amp", "labels.csv", "-o", "out.jsonl").code == 0
    rows = [json.loads(line) for line in (models / "out.jsonl").read_text().splitlines()]
    assert list(rows[0]) == ["prediction", "p(high)", "p(low)"]
    assert all(row["p(high)"] + row["p(low)"] == pytest.approx(1.0) for row in rows)
    truth = pd.read_csv("labels.csv").y
    assert np.mean([row["prediction"] for row in rows] == truth) > 0.85


def test_whole_numbers_stay_whole(folder, run):
    run("fit", "binary.csv", "--target", "y", "-o", "m.amp")
    out = run("predict", "m.amp", "binary.csv").out.splitlines()
    assert out[0] == "prediction,p(0),p(1)"
    assert {line.split(",")[0] for line in out[1:]} == {"0", "1"}


def test_a_pipe_to_a_pipe(models, run):
    ran = run("predict", "rows.amp", "-", stdin=(models / "new.csv").read_bytes())
    assert (ran.code, ran.err) == (0, "")
    assert len(ran.out.splitlines()) == 21


def test_columns_are_found_by_name(models, run):
    run("predict", "rows.amp", "new.csv", "-o", "one.csv")
    frame = pd.read_csv("new.csv").assign(note="x")[["note", "city", "c", "b", "a"]]
    frame.to_csv("other.csv", index=False)
    run("predict", "rows.amp", "other.csv", "-o", "two.csv")
    assert (models / "one.csv").read_text() == (models / "two.csv").read_text()


def test_a_category_that_is_new_may_count_as_none(models, run):
    frame = pd.read_csv("new.csv").assign(city="Bonn")
    frame.to_csv("bonn.csv", index=False)
    assert run("predict", "rows.amp", "bonn.csv").code == 1
    assert run("predict", "rows.amp", "bonn.csv", "--unknown", "ignore").code == 0


def test_missing_values_are_filled_by_the_means_of_training(folder, run):
    run("fit", "rows.csv", "--target", "y", "--missing", "mean", "-o", "m.amp")
    frame = pd.read_csv("new.csv")
    means = pd.read_csv("rows.csv").a
    frame.loc[0, "a"] = np.nan
    frame.to_csv("gap.csv", index=False)
    # The running mean goes on with the 19 values of these rows.
    frame.loc[0, "a"] = (means.sum() + frame.a.sum()) / (len(means) + 19)
    frame.to_csv("full.csv", index=False)
    gap = run("predict", "m.amp", "gap.csv", "--missing", "mean").out
    full = run("predict", "m.amp", "full.csv").out
    first = [float(out.splitlines()[1].split(",")[0]) for out in (gap, full)]
    assert first[0] == pytest.approx(first[1], rel=1e-12)
    assert run("predict", "m.amp", "gap.csv").out == gap  # the rule of the fit holds
    assert run("predict", "m.amp", "gap.csv", "--missing", "error").code == 1


def test_models_saved_in_python_serve_too(folder, run):
    frame = pd.read_csv("rows.csv").drop(columns="city")
    model = miniamp.MiniAMPRegressor().fit(frame[["a", "b", "c"]], frame.y)
    model.save("m.amp")
    ran = run("predict", "m.amp", "new.csv")
    assert ran.code == 0, ran.err
    assert len(ran.out.splitlines()) == 21
    assert run("inspect", "m.amp").code == 0


@pytest.mark.parametrize("model", ["rows.amp", "points.amp"])
def test_gaps_are_filled_by_what_the_model_knows(models, run, model):
    """It was learned from rows without any, so no means were kept for them."""
    header, row = ("a,b,c,city", ",1,2,Rome") if model == "rows.amp" else ("a,b,c", ",1,2")
    (models / "gap.csv").write_text(f"{header}\n{row}\n")
    ran = run("predict", model, "gap.csv", "--missing", "mean")
    assert ran.code == 0, ran.err
    learned = miniamp.load(model)
    centre = (
        learned._state.units.centre[0]
        if model == "rows.amp"
        else learned.cluster_weights_ @ learned.cluster_centers_[:, 0]
    )
    (models / "full.csv").write_text(f"{header}\n{float(centre)!r}{row}\n")
    tables = [
        pd.read_csv(StringIO(out)) for out in (run("predict", model, "full.csv").out, ran.out)
    ]
    pd.testing.assert_frame_equal(*tables, rtol=1e-9)  # the mean is rounded in two ways


@pytest.mark.parametrize("command", ["predict", "cluster"])
def test_rows_left_out_for_a_missing_value_are_told_by_number(models, run, command):
    name, model = ("new.csv", "rows.amp") if command == "predict" else ("points.csv", "points.amp")
    lines = (models / name).read_text().splitlines()
    lines[3] = "," + lines[3].split(",", 1)[1]
    (models / "gap.csv").write_text("\n".join(lines) + "\n")
    if command == "predict":
        ran = run("predict", model, "gap.csv", "--missing", "drop", "-o", "p.csv")
    else:
        ran = run("cluster", "gap.csv", "--clusters", 3, "--missing", "drop", "-o", "p.csv")
    assert ran.code == 0, ran.err
    rows = pd.read_csv("p.csv").row.tolist()
    assert rows == [n for n in range(1, len(lines)) if n != 3]


def test_libsvm_with_fewer_features_than_the_model(folder, run):
    """The option that the error about very many features names; the command line had none."""
    rng = np.random.default_rng(0)
    lines = [f"{a - b:.4f} 1:{a:.4f} 5:{b:.4f}" for a, b in rng.normal(size=(100, 2))]
    (folder / "rows.svm").write_text("\n".join(lines))
    (folder / "new.svm").write_text("0 1:1.0\n0 2:1.0\n")
    assert run("fit", "rows.svm", "--target", "y", "--output", "svm.amp").code == 0
    ran = run("predict", "svm.amp", "new.svm", "-o", "out.csv", "--n-features", 5)
    assert ran.code == 0, ran.err
    np.testing.assert_allclose(pd.read_csv("out.csv").prediction, [1.0, 0.0], atol=0.1)
