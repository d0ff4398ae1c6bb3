"""What is wrong with the data is said in one line that names the place and a remedy."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from miniamp.errors import InvalidInputError, InvalidTypeError
from miniamp.streams import open_stream


def refused(source, *parts, target="y", k=2, kind=InvalidInputError, **options):
    """All batches are asked for; the error must be one line with all the parts."""
    with pytest.raises(kind) as caught:
        list(open_stream(source, target, k, **options))
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message, message
    return message


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["an empty file"]),
        ("\n\n", ["an empty file"]),
        ("a,y\n", ["no rows"]),
        ("a,y", ["no rows"]),
        ("a,b\n1,2\n", ["target", "no column 'y'", "a, b"]),
        ("a,yy\n1,2\n", ["did you mean 'yy'"]),
        ("a,a,y\n1,2,3\n", ["the column name 'a' twice"]),
        ("y\n1\n", ["no column besides the target"]),
        ("1,2\n3,4\n", ["only numbers", "header=False"]),
        ("a,y\n1,2\n1,2,3\n", ["row 2", "got 3 cells, expected 2"]),
        ("a,y\n1,2\n3\n4,5\n", ["row 2", "got 1 cells, expected 2"]),
        ("a,y\n1,2\n3,4\nabc,5\n", ["row 3", "column 'a'", "'abc'", "categorical"]),
        ("a,y\n1,2\n3,4\n5,abc\n", ["row 3", "column 'y'", "'abc'", "labels=True"]),
        ("a,y\n1,2\n3,x\nabc,5\n", ["row 3", "column 'a'", "'abc'"]),
        ("a,y\nabc,1\n1,2\n", ["row 1", "column 'a'", "'abc'"]),
        ("a,y\n1,2\n3,4\n,5\n", ["row 3", "column 'a'", "missing", "missing='mean'"]),
        ("a,y\n1,2\n3,4\n6,NA\n", ["row 3, target 'y'", "missing='drop'"]),
        ('a,y\n1,2\n3,"4\n5,6\n', ["never closed", "3,"]),
        ("a,y\r1,2\r", ["carriage returns"]),
        ("a,y\n1,2\ninf,4\n", ["row 2", "column 'a'", "finite"]),
        ("a,y\n1,2\n1,-inf\n", ["row 2", "column 'y'", "finite"]),
        ("a,y\n1,2\n1e999,1\n", ["row 2", "column 'a'", "finite"]),
        ("a,y\n1,2\n1_000,1\n", ["row 2", "'1_000'"]),
    ],
)
def test_csv(text, parts, write):
    refused(write("t.csv", text), "t.csv", *parts)


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("a,y\n1,2\nä,3\n".encode("latin-1"), ["row 2", "UTF-8"]),
        ("ä,y\n1,2\n".encode("latin-1"), ["first line", "UTF-8"]),
        ("a,y\n1,2\n".encode("utf-16"), ["UTF-16", "UTF-8"]),
        (b"\x00\x01\x02\x03" * 40, ["no format known"]),
        (b"PAR1" + bytes(40), ["expected csv", "parquet"]),
    ],
)
def test_csv_that_is_no_utf8_text(content, parts, write):
    refused(write("t.csv", content), *parts)


def test_a_gzip_file_that_is_cut_short(write):
    rng = np.random.default_rng(0)
    text = "a,y\n" + "".join(f"{v!r},1\n" for v in rng.normal(size=20_000).tolist())
    packed = gzip.compress(text.encode())
    refused(write("t.csv.gz", packed[: len(packed) // 2]), "gzip", "cut short", k=1000)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('{"a": 1, "y": 2}\n{"a": 1', ["row 2", "JSON object"]),
        ('{"a": 1, "y": 2}\n[1, 2]\n', ["row 2", "got list"]),
        ('{"a": [1, 2], "y": 2}\n', ["row 1", "column 'a'", "list"]),
        ('{"a": 1, "y": 2}\n{"y": 2}\n', ["row 2", "column 'a'", "missing"]),
        ('{"a": 1, "y": 2}\n{"a": 1, "y": null}\n', ["row 2", "target 'y'"]),
        ('{"a": 1, "y": 2}\n{"a": "u", "y": 1}\n', ["row 2", "column 'a'", "'u'"]),
    ],
)
def test_json_lines(text, parts, write):
    refused(write("t.jsonl", text), *parts)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("1 1:2\nx 1:2\n", ["row 2", "'x'"]),
        ("1\n2\n", ["no index:value pair"]),
        ("1 1:2\n1 1:z\n", ["row 2", "1:z"]),
        ("1 1:2\n1 2:1 1:3\n", ["row 2", "ascend"]),
        ("1 1:2\n1 1:2 q:3\n", ["row 2", "q:3"]),
        ("1 1:2\n1 1:nan\n", ["row 2", "column 'x0'", "missing"]),
    ],
)
def test_libsvm(text, parts, write):
    refused(write("t.svm", text), *parts, target=None)


def test_libsvm_index_beyond_the_features(write):
    path = write("t.svm", "1 1:2\n1 7:2\n")
    refused(path, "row 2", "index 7", "n_features", target=None, n_features=3)


def parquet(tmp_path, frame, name="t.parquet"):
    path = tmp_path / name
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path)
    return path


def test_parquet_cut_short_or_altered(tmp_path):
    rng = np.random.default_rng(0)
    path = parquet(tmp_path, pd.DataFrame(rng.normal(size=(5000, 3)), columns=["a", "b", "y"]))
    content = path.read_bytes()
    for size in (5, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        refused(path, "t.parquet", "damaged or cut short", k=5000)
    path.write_bytes(content[:4] + bytes(2000) + content[2004:])
    refused(path, "t.parquet", "damaged or cut short", k=5000)


def test_parquet_that_is_csv(write):
    refused(write("t.parquet", "a,y\n1,2\n"), "expected parquet", "csv")
    refused(write("t.npy", "a,y\n1,2\n"), "expected npy", "csv")
    refused(write("t.arrow", "a,y\n1,2\n"), "expected arrow", "csv")


def test_a_file_without_a_column_names_file_and_column(tmp_path):
    parquet(tmp_path, pd.DataFrame({"a": [1.0, 2], "b": [1.0, 2], "y": [1.0, 2]}), "0.parquet")
    parquet(tmp_path, pd.DataFrame({"a": [1.0, 2], "y": [1.0, 2]}), "1.parquet")
    refused(tmp_path, "1.parquet", "no column 'b'")


def test_errors_name_the_row_of_the_file_not_of_the_stream(tmp_path):
    parquet(tmp_path, pd.DataFrame({"a": [1.0] * 5, "y": [1.0] * 5}), "0.parquet")
    parquet(tmp_path, pd.DataFrame({"a": [1.0, np.nan], "y": [1.0, 2]}), "1.parquet")
    refused(tmp_path, "1.parquet, row 2, column 'a'", k=4)
    refused(tmp_path, "1.parquet, row 2, column 'a'", k=4, start=5)
    refused(tmp_path, "1.parquet, row 2, column 'a'", k=4, start=3)


def test_durations_and_lists_are_refused_by_name(tmp_path):
    durations = pd.DataFrame({"t": pd.to_timedelta(["2 days"]), "y": [1.0]})
    lists = pa.table({"t": [[1.0, 2.0]], "y": [1.0]})
    for source in (durations, parquet(tmp_path, durations), lists):
        refused(source, "column 't'", "leave it out with keep=['t']")


def test_duplicate_columns_of_frames():
    frame = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "a", "y"])
    refused(frame, "the column name 'a' twice")
    refused(pa.table([[1.0], [2.0], [3.0]], names=["a", "a", "y"]), "the column name 'a' twice")


def test_npy_of_the_wrong_shape_type_or_length(tmp_path):
    np.save(tmp_path / "one.npy", np.ones(3))
    refused(tmp_path / "one.npy", "shape (3,)", target=None)
    np.save(tmp_path / "text.npy", np.array([["a"]]))
    refused(tmp_path / "text.npy", "dtype", target=None)
    np.save(tmp_path / "good.npy", np.ones((3, 2)))
    content = (tmp_path / "good.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(content[:-1])
    refused(tmp_path / "cut.npy", "cut short", target=None)
    (tmp_path / "mark.npy").write_bytes(content[:9])
    refused(tmp_path / "mark.npy", "npy", target=None)
    np.savez(tmp_path / "many.npz", p=np.ones((2, 2)), q=np.ones((2, 2)))
    refused(tmp_path / "many.npz", "p, q", "called X", target=None)
    np.savez(tmp_path / "short.npz", X=np.ones((3, 2)), y=np.ones(2))
    refused(tmp_path / "short.npz", "target", "(3,)")
    refused(tmp_path / "short.npz", "target", "'z'", target="z")


def test_arrays_of_the_wrong_shape_or_type():
    refused(np.ones(3), "two-dimensional", target=None)
    refused(np.ones((2, 2, 2)), "two-dimensional", target=None)
    refused(np.ones((2, 2)) * 1j, "real", target=None)
    refused(np.array([["a", "b"]]), "real numbers", target=None, kind=InvalidTypeError)
    refused(np.ones((3, 2)), "target", "(3,)", target=np.ones(4))
    refused(np.ones((3, 2)), "target", "column number 5", target=5)
    refused(np.array([[1.0], [np.nan]]), "array, row 2, column 'x0'", target=None)
    refused(np.array([[1.0], [np.inf]]), "array, row 2, column 'x0'", target=None)
    refused(sp.csr_array(np.array([[0, 1.0], [0, np.inf]])), "row 2, column 'x1'", target=None)
    refused(np.ones((0, 2)), "no rows", target=None)


def test_iterators_that_change_or_give_nonsense():
    refused([1.0, 2.0], "(X, y)", target=None, kind=InvalidTypeError)
    refused(iter([]), "no rows", target=None)
    refused([([1.0], 1.0), [2.0]], "item 2", target=None, kind=InvalidTypeError)
    refused([{"a": 1, "y": 1}, 3], "item 2", kind=InvalidTypeError)
    refused([([1.0], 1.0), ([1.0, 2.0], 1.0)], "row 2", "2 values, expected 1", target=None)
    refused([(np.ones((2, 2)), np.ones(2)), (np.ones((1, 3)), [1.0])], "3 columns", target=None)
    refused(3, "source", "int", target=None, kind=InvalidTypeError)
    refused({"a": [1]}, "source", "dict", target=None, kind=InvalidTypeError)
    refused(lambda: 3, "function that returned int", target=None, kind=InvalidTypeError)


def test_paths_that_are_not_there(tmp_path):
    refused(tmp_path / "none.csv", "no such file")
    refused(str(tmp_path / "*.csv"), "no file that matches")
    refused(tmp_path, "no data files")
    (tmp_path / "a.csv").write_text("a,y\n1,2\n")
    (tmp_path / "b.jsonl").write_text('{"a": 1, "y": 2}\n')
    refused(tmp_path, "several formats")


def test_arguments(frame):
    refused(frame, "batch_size", k=0)
    refused(frame, "batch_size", k=2.5, kind=InvalidTypeError)
    refused(frame, "missing", "'drop'", missing="zero")
    refused(frame, "unknown", unknown="yes")
    refused(frame, "labels", labels="yes")
    refused(frame, "dtype", dtype="int32")
    refused(frame, "start", start=-1)
    refused(frame, "columns", "no column 'q'", columns=["q"])
    refused(frame, "columns", "the target", columns=["y"])
    refused(frame, "columns", "twice", columns=["a", "a"])
    refused(frame, "columns", "['a']", columns="a", kind=InvalidTypeError)
    refused(frame, "categorical", "no column 'q'", categorical=["q"])
    refused(frame, "schema", "no column 'q'", schema={"q": ["u"]})
    refused(frame, "schema", schema={"city": "Oslo"})
    refused(frame, "schema", "twice", schema={"city": ["Oslo", "Oslo"]})
    refused(frame, "schema", schema=3, kind=InvalidTypeError)
    refused(frame, "resume", resume={"position": 3})
    refused(frame, "delimiter", "data in memory", delimiter=";")


def test_options_of_other_formats(write):
    path = write("t.csv", "a,y\n1,2\n")
    refused(path, "n_features", "csv", n_features=3)
    refused(path, "format", "'xml'", format="xml")
    refused(path, "delimiter", delimiter=";;")
    refused(path, "target", "name the column", target=np.ones(3))


def test_a_schema_of_another_kind_of_source(frame):
    array = open_stream(np.ones((2, 3)), None, 1).schema
    refused(frame, "named columns", "plain array of 3 columns", target=None, schema=array)
    table = open_stream(frame, "y", 1).schema
    refused(np.ones((2, 3)), "without column names", "a, n", target=None, schema=table)
    state = next(iter(open_stream(frame, "y", 1))).state()
    refused(frame.drop(columns="b"), "no column 'b'", resume=state)
