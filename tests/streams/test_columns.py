"""Dates, hashed words, references, random order, and warnings about columns."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import shlex
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import miniamp
from miniamp import cli
from miniamp.errors import InvalidInputError, MiniampWarning
from miniamp.streams import Schema, open_stream
from miniamp.streams.dates import DATE_KINDS, DATE_PARTS

DAYS = [dt.date(2019, 12, 30) + dt.timedelta(days=i) for i in range(12)]
EXPECTED = np.array([(d - dt.date(2000, 1, 1)).days for d in DAYS], dtype=float)


def dated(folder, kind):
    """The same dates in every form that they come in."""
    texts = [d.isoformat() for d in DAYS]
    y = np.arange(12.0)
    if kind == "csv":
        path = folder / "t.csv"
        path.write_text("d,y\n" + "\n".join(f"{t},{v}" for t, v in zip(texts, y, strict=True)))
        return path
    if kind in ("date32", "timestamp", "zoned"):
        types = {"date32": pa.date32(), "timestamp": pa.timestamp("ns")}
        array = pa.array(DAYS, pa.date32()).cast(types.get(kind, pa.timestamp("ms")))
        if kind == "zoned":
            array = array.cast(pa.timestamp("ms", "UTC"))
        pq.write_table(pa.table({"d": array, "y": y}), folder / "t.parquet")
        return folder / "t.parquet"
    if kind == "pandas":
        return pd.DataFrame({"d": pd.to_datetime(texts), "y": y})
    if kind == "pandas zoned":
        return pd.DataFrame({"d": pd.to_datetime(texts).tz_localize("UTC"), "y": y})
    if kind == "polars":
        return pytest.importorskip("polars").DataFrame({"d": DAYS, "y": y})
    return [{"d": d, "y": v} for d, v in zip(DAYS, y, strict=True)]


@pytest.mark.parametrize(
    "kind",
    ["csv", "date32", "timestamp", "zoned", "pandas", "pandas zoned", "polars", "records"],
)
def test_dates_become_a_few_features_whatever_they_come_in(kind, tmp_path):
    (batch,) = open_stream(dated(tmp_path, kind), "y", 12)
    assert batch.feature_names == tuple(f"d:{part}" for part in DATE_PARTS)
    np.testing.assert_array_equal(batch.X[:, 0], EXPECTED)
    weekdays = batch.X[:, 3:10].argmax(axis=1)
    assert weekdays.tolist() == [d.weekday() for d in DAYS]
    np.testing.assert_array_equal(batch.X[:, 3:10].sum(axis=1), 1.0)
    assert batch.X[2, 2] == pytest.approx(1.0, abs=1e-3)  # the first of January


@pytest.mark.parametrize(
    "form",
    [
        *("%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%b %d %Y", "%B %d, %Y", "%d %b %Y", "%d-%b-%Y"),
        *("%d-%b-%y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%y", "%m/%d/%y"),
    ],
)
def test_dates_that_can_be_read_in_one_way_are_dates(form):
    rows = [{"d": day.strftime(form), "y": i} for i, day in enumerate(DAYS)]
    (batch,) = open_stream(rows, "y", 12)
    np.testing.assert_array_equal(batch.X[:, 0], EXPECTED)


def test_dates_that_may_begin_with_the_day_or_the_month_are_refused_by_name():
    rows = [{"when": day.strftime("%d/%m/%Y"), "y": i} for i, day in enumerate(DAYS)]
    assert open_stream(rows, "y", 12, categorical=["when"]).feature_names[0].startswith("when=")
    stream = open_stream(rows, "y", 4)  # later days are read as the first ones show
    np.testing.assert_array_equal(np.concatenate([b.X[:, 0] for b in stream]), EXPECTED)
    again = open_stream([{"when": "04/03/20 6:00 PM"}], None, 1, schema=stream.schema.to_dict())
    assert next(iter(again)).X[0, 0] == (dt.date(2020, 3, 4) - dt.date(2000, 1, 1)).days + 0.75
    with pytest.raises(InvalidInputError, match=r"got '03/13/2020', expected .* as 31/12/2024"):
        open_stream([{"when": "03/13/2020"}], None, 1, schema=stream.schema.to_dict())
    for unclear in (rows[2:], [*rows, {"when": "12/31/2019", "y": 1}]):
        with pytest.raises(InvalidInputError, match=r"'when': got dates such as '\d\d/\d\d/20"):
            open_stream(unclear, "y", 12)


@pytest.mark.parametrize(
    ("texts", "months"),
    [
        (["1998 Q4", "1999 Q1", "1999Q2", "1999-Q3"], [10, 13, 16, 19]),
        (["1998-10", "1998-11", "1999-01"], [10, 11, 13]),
        (["1998 Oct", "Nov 1998", "Jan-1999"], [10, 11, 13]),
    ],
)
def test_months_and_quarters_are_dates(texts, months):
    """One feature for each month left nothing to predict the next one with."""
    (batch,) = open_stream([{"d": d, "y": i} for i, d in enumerate(texts)], "y", 12)
    first = np.array([(dt.date(1998 + m // 13, m - 12 * (m // 13), 1)) for m in months])
    assert batch.X[:, 0].tolist() == [(d - dt.date(2000, 1, 1)).days for d in first]
    (batch,) = open_stream([{"d": f"1991 W{k:02}", "y": k} for k in (1, 2, 9)], "y", 12)
    assert np.diff(batch.X[:, 0]).tolist() == [7, 49]
    seasons = [{"d": "2019-20", "y": 1}, {"d": "2020-21", "y": 2}]  # are none
    assert open_stream(seasons, "y", 12).feature_names == ("d=2019-20", "d=2020-21")


def test_a_time_of_day_adds_two_features_and_zones_are_one_clock():
    rows = [{"t": "2020-06-01T18:00", "y": 1}, {"t": "2020-06-01 20:00:00+02:00", "y": 2}]
    (batch,) = open_stream(rows, "y", 2)
    assert batch.feature_names == tuple(f"t:{part}" for part in DATE_KINDS["datetime"])
    np.testing.assert_allclose(batch.X[:, -2:], [[-1.0, 0.0], [-1.0, 0.0]], atol=1e-9)


@pytest.mark.parametrize(
    ("dates", "parts"),
    [
        ([f"{1990 + k}-01-01" for k in range(6)], ["days"]),
        ([f"{1990 + k}-12-31" for k in range(6)], ["days"]),
        ([f"2020-{1 + k:02}-01" for k in range(6)], ["days", "year_sin", "year_cos"]),
        (
            ["2020-01-31", "2020-02-29", "2020-03-31", "2020-04-30"],
            ["days", "year_sin", "year_cos"],
        ),
        (["2020-01-31", "2020-02-29", "2020-03-31", "2020-04-29"], list(DATE_PARTS)),
        (["2020-01-01", "2021-01-01"], list(DATE_PARTS)),  # too few to tell
    ],
)
def test_parts_of_dates_that_never_vary_are_no_features(dates, parts):
    """The season of yearly dates was a second intercept: -1e7 +- 5e7."""
    stream = open_stream([{"d": d, "y": i} for i, d in enumerate(dates)], "y", 12)
    assert stream.feature_names == tuple(f"d:{part}" for part in parts)
    (batch,) = stream
    again = open_stream([{"d": "2024-05-17"}], None, 1, schema=stream.schema.to_dict())
    assert next(iter(again)).X.shape == (1, len(parts)) == (1, batch.X.shape[1])


def test_dates_that_are_missing_or_wrong(tmp_path):
    rows = [{"d": d.isoformat(), "y": i} for i, d in enumerate(DAYS)]
    rows[5]["d"] = None
    (batch,) = open_stream(rows, "y", 12, missing="mean")
    assert batch.X[5, 0] == pytest.approx(np.delete(EXPECTED, 5).mean())
    rows[5]["d"] = "2020-02-31"
    with pytest.raises(InvalidInputError, match=r"row 6, column 'd': got '2020-02-31'"):
        list(open_stream(rows, "y", 12))
    stream = open_stream(rows[:5], "y", 12, categorical=["d"])
    assert stream.feature_names[0] == "d=2019-12-30"


def test_intervals_hold_on_dates_that_are_new():
    """1200 rows of two years of days in order, then 424 of the next months; were 17 % to 52 %.

    Trend, season, weekend and noise of deviation 1, seed 0: 90 % of 424 has a deviation of 1.5 %.
    """
    rng = np.random.default_rng(0)
    rows = []
    for i in range(1624):
        day = dt.date(2018, 1, 1) + dt.timedelta(days=i // 2)
        season = 3 * np.sin(2 * np.pi * (i // 2) / 365.25)
        y = 10 + 0.002 * i + season + 2 * (day.weekday() >= 5) + rng.normal()
        rows.append({"date": day.isoformat(), "x": rng.normal(), "y": float(y)})
    stream = open_stream(rows[:1200], "y", 200)
    model = miniamp.MiniAMPRegressor()
    for batch in stream:
        model.partial_fit(batch.X, batch.y)
    (new,) = open_stream(rows[1200:], "y", 1000, schema=stream.schema)
    low, high = model.predict_interval(new.X, 0.9)
    assert np.mean((low <= new.y) & (new.y <= high)) == pytest.approx(0.9, abs=0.05)


def test_hashed_words_count_wherever_they_are_new():
    rows = [{"text": f"word{i} word{i + 1}", "x": i % 7, "y": i} for i in range(40)]
    (batch,) = open_stream(rows, "y", 40, hashed={"text": 8})
    assert len(batch.feature_names) == 257
    assert batch.feature_names[:2] == ("x", "text#0")
    assert isinstance(batch.X, np.ndarray)
    assert np.abs(batch.X[:, 1:]).sum() == pytest.approx(80, abs=6)  # words that share a place
    (wide,) = open_stream(rows, "y", 40, hashed={"text": 16})
    assert sp.issparse(wide.X)
    assert wide.X.shape == (40, 1 + 2**16)
    again = Schema.from_dict(batch.schema.to_dict())
    (other,) = open_stream([{"text": "word3 never seen", "x": 0, "y": 0}], "y", 1, schema=again)
    assert np.abs(other.X).sum() == 3
    for bits in (0, 21):
        with pytest.raises(InvalidInputError, match="hashed"):
            open_stream(rows, "y", 40, hashed={"text": bits})
    with pytest.raises(InvalidInputError, match="no column 'texts'"):
        open_stream(rows, "y", 40, hashed={"texts": 8})


def test_a_missing_number_beside_hashed_words_is_filled():
    rows = [{"text": f"w{i}", "x": float(i) if i else None, "y": i} for i in range(5)]
    (batch,) = open_stream(rows, "y", 5, hashed={"text": 13}, missing="mean")
    assert batch.X.toarray()[0, 0] == 2.5


@pytest.mark.parametrize(("reference", "left"), [("first", "B"), ({"city": "B"}, "A")])
def test_a_reference_has_no_feature(reference, left):
    rows = [{"city": c, "x": i, "y": i} for i, c in enumerate("ABBA")]
    stream = open_stream(rows, "y", 4, reference=reference)
    assert stream.feature_names == (f"city={left}", "x")
    (batch,) = stream
    assert batch.X[:, 0].tolist() == [float(c == left) for c in "ABBA"]
    assert Schema.from_dict(stream.schema.to_dict()) == stream.schema
    with pytest.raises(InvalidInputError, match="'C' for column 'city'"):
        open_stream(rows, "y", 4, reference={"city": "C"})


def shuffled(rows, **more):
    return open_stream(rows, "y", 7, shuffle=20, seed=3, **more)


@pytest.mark.parametrize("missing", ["error", "drop"])
def test_rows_in_random_order_resume_bit_for_bit(missing):
    """50 rows in windows of 20 and batches of 7, resumed after each; with every ninth dropped."""
    rows = [{"x": i, "y": i} for i in range(50)]
    if missing == "drop":
        for row in rows[::9]:
            row["x"] = None
    whole = list(shuffled(rows, missing=missing))
    given = np.concatenate([batch.y for batch in whole])
    expected = [r["y"] for r in rows if r["x"] is not None]
    assert sorted(given) == expected
    assert np.array_equal(given, np.concatenate([b.row_numbers for b in whole]))
    assert np.mean(np.diff(given) == 1) < 0.2
    assert max(given[:20]) < 25  # a window at a time
    for k, stop in enumerate(whole[:-1]):
        rest = list(shuffled(rows, missing=missing, resume=stop.state()))
        for one, other in zip(whole[k + 1 :], rest, strict=True):
            assert np.array_equal(one.X, other.X)
            assert one.state() == other.state()
    other = np.concatenate(
        [b.y for b in open_stream(rows, "y", 7, shuffle=20, seed=4, missing=missing)]
    )
    assert not np.array_equal(given, other)


def test_a_file_that_has_grown_loses_no_row_of_a_window_that_was_begun():
    rows = [{"x": i, "y": i} for i in range(70)]
    first = list(shuffled(rows[:50]))
    rest = list(shuffled(rows, resume=first[-2].state()))
    seen = np.concatenate([b.y for b in [*first[:-1], *rest]])
    assert sorted(seen) == list(range(70))


def test_identifiers_and_many_categories_are_warned_of_by_name():
    n = 300
    rows = [{"id": i, "name": f"n{i}", "zip": f"z{i % 120}", "x": i % 7, "y": i} for i in range(n)]
    with pytest.warns(MiniampWarning) as caught:
        open_stream(rows, "y", n)
    texts = sorted(str(w.message) for w in caught)
    assert len(texts) == 3
    assert "column 'id' counts the rows" in texts[0]
    assert "leave it out with keep=['id']" in texts[0]
    assert "column 'name' is different in most rows, like an identifier" in texts[1]
    assert "and is left out; hash its words with hashed={'name': 8}" in texts[1]
    assert "column 'zip' has 120 categories" in texts[2]
    assert "hashed={'zip': 8}" in texts[2]
    open_stream(rows, "y", n, keep=["id", "name"], hashed={"zip": 6})  # warns of nothing
    for how in ({}, {"shuffle": 50}):  # the batches of small files, in any order
        with pytest.warns(MiniampWarning, match="'id' counts"):
            open_stream(rows, "y", 32, keep=["name", "zip"], **how)


def table(rows=400, order=False, classes=False):
    rng = np.random.default_rng(5)
    x = np.sort(rng.normal(size=rows)) if order else rng.normal(size=rows)
    y = np.where(x > 0, "yes", "no") if classes else x
    return "x,z,y\n" + "\n".join(f"{a!r},{a * a!r},{b}" for a, b in zip(x.tolist(), y, strict=True))


def test_gzip_on_standard_input(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["fit", "-", "--target", "y", "--batch-size", "100", "--output"]
    for name, content in (("a", table().encode()), ("b", gzip.compress(table().encode()))):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content))))
        assert cli.main([*words, f"{name}.amp"]) == 0
    same = [miniamp.load(f"{name}.amp").coef_.tobytes() for name in "ab"]
    assert same[0] == same[1]
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content[:200])))
    )
    assert cli.main([*words, "c.amp"]) == 1
    assert "damaged or cut short" in capsys.readouterr().err


@pytest.mark.parametrize("classes", [False, True])
def test_sorted_files_are_warned_of_and_shuffled_on_request(classes, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(table(order=True, classes=classes))
    words = ["fit", "t.csv", "--target", "y", "--batch-size", "300"]
    more = ["--shuffle", "1000", "--seed", "1", "--checkpoint", "m.amp"]
    assert cli.main(words) == 0
    assert "sorted by the target" in capsys.readouterr().err
    assert cli.main([*words, *more]) == 0
    assert "sorted" not in capsys.readouterr().err
    assert cli.main([*words, *more]) == 0  # nothing left to learn
    assert "nothing new" in capsys.readouterr().err


def test_options_of_columns_in_the_shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [f"c{i % 3},word{i % 50} w,{i % 5},{i % 3 + i % 5}" for i in range(200)]
    (tmp_path / "t.csv").write_text("city,text,x,y\n" + "\n".join(rows))
    words = ["fit", "t.csv", "--target", "y", "--task", "regression", "-o", "m.amp"]
    assert cli.main([*words, "--hashed", "text=6", "--reference", "city=c1"]) == 0
    names = miniamp.load("m.amp").feature_names_in_
    assert names[:4].tolist() == ["city=c0", "city=c2", "x", "text#0"]
    assert len(names) == 3 + 64
    assert cli.main(["predict", "m.amp", "t.csv", "-o", "p.csv"]) == 0
    assert cli.main([*words, "--hashed", "text"]) == 2
    assert "expected column=value" in capsys.readouterr().err


def test_amounts_are_numbers(tmp_path):
    path = tmp_path / "t.csv"
    prices, shares = ["$1,234.50", "£5", "-€1,000"], ["45%", "50 %", ".5%"]
    counts = ["1,234,567", "2,000,000.5", "3"]
    columns = {"price": prices, "share": shares, "count": counts, "y": [1, 2, 3]}
    pd.DataFrame(columns).to_csv(path, index=False)
    [batch] = open_stream(path, "y")
    expected = [[1234.5, 45.0, 1234567.0], [5.0, 50.0, 2000000.5], [-1000.0, 0.5, 3.0]]
    np.testing.assert_array_equal(batch.X, expected)


def test_one_comma_and_three_digits_may_be_thousands_or_decimals(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,y\n"85,210",1\n"1,500",2\n')
    with pytest.raises(InvalidInputError, match="remove commas between thousands, or read commas"):
        list(open_stream(path, "y"))


def test_the_index_of_a_frame_in_a_parquet_file_is_no_feature(tmp_path):
    path = tmp_path / "t.parquet"
    pd.DataFrame({"a": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 4.0]}, index=[7, 3, 5]).to_parquet(path)
    with pytest.warns(MiniampWarning, match="'__index_level_0__' is left out"):
        [batch] = open_stream(path, "y")
    assert list(batch.feature_names) == ["a"]


def test_dates_are_kept_and_counted_as_categories_in_every_form(tmp_path):
    days = pd.date_range("2024-01-01", periods=12).as_unit("ns")
    frame = pd.DataFrame({"day": days, "zone": days.tz_localize("UTC"), "y": range(12)})
    frame = frame.assign(stay=[[1, 2]] * 12, x=1.5 * frame.y)
    frame.to_parquet(tmp_path / "t.parquet")
    for source in (frame.drop(columns=["zone", "stay"]), str(tmp_path / "t.parquet")):
        kept = ["day"] if source is not str(source) else ["day", "zone", "stay"]
        batch = next(iter(open_stream(source, "y", 5, columns=["x"], keep=kept)))
        assert batch.kept["day"].tolist()[:2] == ["2024-01-01", "2024-01-02"]
        stream = open_stream(source, "y", 12, columns=["day"], categorical=["day"])
        assert stream.feature_names[:2] == ("day=2024-01-01", "day=2024-01-02")
    assert batch.kept["stay"][0] == "[1, 2]"
    assert batch.kept["zone"][0] == "2024-01-01 00:00:00+00:00"


def test_a_target_of_dates_is_refused_and_not_a_class_per_day():
    rows = [{"x": i, "y": day.isoformat()} for i, day in enumerate(DAYS)]
    for source in (rows, pd.DataFrame(rows), pd.DataFrame(rows).astype({"y": "datetime64[us]"})):
        with pytest.raises(InvalidInputError, match=r"target 'y': got dates, expected numbers"):
            open_stream(source, "y", 4)
    assert open_stream(rows, "y", 4, labels=True).schema.labels


def test_separators_within_quoted_names_are_not_counted(tmp_path):
    (tmp_path / "t.csv").write_text('"mass, body, kg";b;y\n' + "1;2;3\n4;5;6\n")
    stream = open_stream(str(tmp_path / "t.csv"), "y", 2)
    assert stream.feature_names == ("mass, body, kg", "b")


def test_a_table_that_seems_to_have_one_column_asks_for_its_separator(tmp_path):
    (tmp_path / "t.csv").write_text("a b y\n1 2 3\n")
    with pytest.raises(InvalidInputError, match="check the delimiter"):
        open_stream(str(tmp_path / "t.csv"), "y")


@pytest.mark.parametrize("name", ["x|z", "{q=1}", "it's"])
def test_remedies_name_a_column_of_any_signs(tmp_path, name):
    rows = [{name: i / 7, "y": i} for i in range(50)]
    rows[30][name] = "oops"
    with pytest.raises(InvalidInputError) as caught:
        list(open_stream(rows, "y"))
    assert str(caught.value).endswith(f"use categorical=[{name!r}] if it holds categories")
    shell = caught.value.as_typed("shell")
    assert shell.endswith(f"use --categorical {shlex.quote(name)} if it holds categories")
    texts = [{name: f"u{i}", "z": i % 7, "y": i} for i in range(50)]
    with pytest.warns(MiniampWarning) as warned:
        open_stream(texts, "y")
    assert f"column {name!r} is different" in str(warned[0].message)
    remedy = f"hash its words with hashed={{{name!r}: 8}}, or use it with categorical=[{name!r}]"
    assert remedy in str(warned[0].message)


def test_points_between_thousands_are_refused_and_signs_of_amounts_read(tmp_path):
    (tmp_path / "t.csv").write_text("a;b;y\n12,5%;-7,5 €;1\n1,25%;€3,0;2\n")
    batch = next(iter(open_stream(str(tmp_path / "t.csv"), "y", decimal=",")))
    np.testing.assert_array_equal(batch.X, [[12.5, -7.5], [1.25, 3.0]])
    (tmp_path / "t.csv").write_text("a;y\n1.234,50;1\n12.345,00;2\n")
    for sign in (".", ","):
        with pytest.raises(InvalidInputError, match=r"remove points between thousands, and read"):
            list(open_stream(str(tmp_path / "t.csv"), "y", decimal=sign))


@pytest.mark.parametrize("sign", [" ", "\u00a0", "\u202f", "'", "\u2019"])
def test_signs_between_thousands_that_are_no_commas(tmp_path, sign):
    """A target such as 5 100 was taken for 238 classes, which took 33 s."""
    (tmp_path / "t.csv").write_text(f"a;y\n1{sign}234;7\n12{sign}345,5;8\n3,25 €;9\n", "utf-8")
    batch = next(iter(open_stream(str(tmp_path / "t.csv"), "y", decimal=",")))
    np.testing.assert_array_equal(batch.X[:, 0], [1234.0, 12345.5, 3.25])
    batch = next(iter(open_stream([{"a": f"1{sign}234.5", "y": 1}], "y", 1)))
    assert batch.X.tolist() == [[1234.5]]
    rows = [{"a": text, "y": 1} for text in (f"1{sign}234,50", "2,50 €")]
    with pytest.raises(InvalidInputError, match="read commas before decimals with decimal=','"):
        open_stream(rows, "y", 1)


@pytest.mark.parametrize("text", [".", "--", "missing"])
def test_more_spellings_of_missing_among_numbers(text):
    rows = [{"a": i, "c": "xy"[i % 2], "y": i} for i in range(8)]
    rows[3]["a"] = rows[2]["c"] = text
    batch = next(iter(open_stream(rows, "y", 8, missing="mean")))
    assert batch.X[3, 0] == pytest.approx(np.mean([0, 1, 2, 4, 5, 6, 7]))
    assert f"c={text}" in batch.feature_names  # in a text column it is a category
