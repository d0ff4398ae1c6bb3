"""Every kind of source gives the same batches, bit for bit, and can be taken up anywhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from miniamp.errors import InvalidInputError
from miniamp.streams import Schema, open_stream

K = 100


def csv(frame, folder):
    frame.to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def semicolons(frame, folder):
    frame.to_csv(folder / "t.csv", index=False, sep=";")
    return str(folder / "t.csv")


def tabs(frame, folder):
    frame.to_csv(folder / "t.tsv", index=False, sep="\t")
    return str(folder / "t.tsv")


def windows_csv(frame, folder):
    text = frame.to_csv(index=False, lineterminator="\r\n")
    (folder / "t.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    return str(folder / "t.csv")


def gzipped_csv(frame, folder):
    frame.to_csv(folder / "t.csv.gz", index=False)
    return str(folder / "t.csv.gz")


def bzipped_csv(frame, folder):
    frame.to_csv(folder / "t.csv.bz2", index=False)
    return str(folder / "t.csv.bz2")


def zstandard_csv(frame, folder):
    with pa.CompressedOutputStream(str(folder / "t.csv.zst"), "zstd") as file:
        file.write(frame.to_csv(index=False).encode())
    return str(folder / "t.csv.zst")


def parquet(frame, folder):
    frame.to_parquet(folder / "t.parquet", row_group_size=130)
    return str(folder / "t.parquet")


def one_row_group(frame, folder):
    frame.to_parquet(folder / "t.pq", row_group_size=10**6)
    return str(folder / "t.pq")


def parquet_folder(frame, folder):
    """Three files, the later ones with their columns in another order and one column more."""
    frame[:333].to_parquet(folder / "part-0.parquet")
    frame[333:340][["y", "city", "b", "a", "n"]].to_parquet(folder / "part-1.parquet")
    frame[340:].assign(extra=1.0).to_parquet(folder / "part-2.parquet")
    (folder / "_SUCCESS").touch()
    return str(folder)


def glob(frame, folder):
    parquet_folder(frame, folder)
    return str(folder / "part-*.parquet")


def list_of_csv(frame, folder):
    frame[:10].to_csv(folder / "a.csv", index=False)
    frame[10:][["y", "n", "a", "b", "city"]].to_csv(folder / "b.csv", index=False)
    return [str(folder / "a.csv"), str(folder / "b.csv")]


def arrow_file(frame, folder):
    table = pa.Table.from_pandas(frame)
    with pa.OSFile(str(folder / "t.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as w:
        w.write_table(table, max_chunksize=90)
    return str(folder / "t.arrow")


def arrow_stream(frame, folder):
    table = pa.Table.from_pandas(frame)
    path = str(folder / "t.arrows")
    with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=90)
    return str(folder / "t.arrows")


def json_lines(frame, folder):
    lines = (json.dumps(record) for record in frame.to_dict("records"))
    (folder / "t.jsonl").write_text("\n".join(lines))
    return str(folder / "t.jsonl")


def pandas_frame(frame, folder):
    return frame


def pandas_types(frame, folder):
    return frame.astype({"city": "category", "n": "Int64", "a": "Float64"})


def polars_frame(frame, folder):
    polars = pytest.importorskip("polars")
    return polars.from_pandas(frame)


def arrow_table(frame, folder):
    return pa.Table.from_pandas(frame)


def dictionary_table(frame, folder):
    table = pa.Table.from_pandas(frame)
    at = table.schema.get_field_index("city")
    return table.set_column(at, "city", table.column("city").dictionary_encode())


def records(frame, folder):
    return frame.to_dict("records")


def function(frame, folder):
    return lambda: iter(frame.to_dict("records"))


def frames(frame, folder):
    return [frame[begin : begin + 77] for begin in range(0, len(frame), 77)]


SOURCES = [
    csv, semicolons, tabs, windows_csv, gzipped_csv, bzipped_csv, zstandard_csv, parquet,
    one_row_group, parquet_folder, glob, list_of_csv, arrow_file, arrow_stream, json_lines,
    pandas_frame, pandas_types, polars_frame, arrow_table, dictionary_table, records, function,
    frames,
]  # fmt: skip


def joined(batches):
    return np.concatenate([b.X for b in batches]), np.concatenate([b.y for b in batches])


def expected(frame):
    """The features, written without the package."""
    cities = sorted(frame["city"].unique())
    indicators = np.array([[c == word for word in cities] for c in frame["city"]], dtype=float)
    X = np.column_stack([frame["a"], frame["n"], indicators, frame["b"]])
    return X, frame["y"].to_numpy(), ("a", "n", *(f"city={c}" for c in cities), "b")


@pytest.mark.parametrize("make", SOURCES, ids=lambda make: make.__name__)
def test_every_source_gives_the_same_exact_batches(make, frame, tmp_path):
    stream = open_stream(make(frame, tmp_path), "y", K)
    batches = list(stream)
    X, y, names = expected(frame)
    assert [b.rows for b in batches] == [K] * 10 + [50]
    assert [b.position for b in batches] == [*range(K, 1001, K), 1050]
    assert stream.feature_names == batches[0].feature_names == names
    assert stream.target == "y"
    np.testing.assert_array_equal(joined(batches)[0], X)
    np.testing.assert_array_equal(joined(batches)[1], y)
    again = list(stream)
    np.testing.assert_array_equal(joined(again)[0], X)


@pytest.mark.parametrize("make", SOURCES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("after", [1, 4, 11])
def test_a_resumed_stream_goes_on_exactly(make, after, frame, tmp_path):
    source = make(frame, tmp_path)
    batches = list(open_stream(source, "y", K))
    rest = list(open_stream(source, "y", K, resume=batches[after - 1].state()))
    assert [b.position for b in rest] == [b.position for b in batches[after:]]
    for new, old in zip(rest, batches[after:], strict=True):
        np.testing.assert_array_equal(new.X, old.X)
        np.testing.assert_array_equal(new.y, old.y)


@pytest.mark.parametrize("start", [0, 1, 129, 130, 131, 1049, 1050])
def test_start_skips_rows_within_and_across_row_groups_and_files(start, frame, tmp_path):
    X, _, _ = expected(frame)
    for make in (parquet, parquet_folder, csv, arrow_file):
        folder = tmp_path / make.__name__
        folder.mkdir()
        schema = open_stream(frame, "y", len(frame)).schema
        stream = open_stream(make(frame, folder), "y", 60, start=start, schema=schema)
        got = [b.X for b in stream]
        np.testing.assert_array_equal(np.concatenate([np.empty((0, 6)), *got]), X[start:])


def test_start_beyond_the_end_is_refused(frame, tmp_path):
    for make in (parquet, parquet_folder, csv, pandas_frame, records):
        folder = tmp_path / make.__name__
        folder.mkdir()
        with pytest.raises(InvalidInputError, match="1050 rows"):
            list(open_stream(make(frame, folder), "y", 10, start=1051))


def matrix(seed=3, rows=250, columns=4):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, columns)), rng.normal(size=rows)


def matrix_sources(folder: Path):
    X, y = matrix()
    np.save(folder / "c.npy", np.column_stack([X, y]))
    np.save(folder / "f.npy", np.asfortranarray(np.column_stack([X, y])))
    np.save(folder / "X.npy", X)
    np.savez(folder / "s.npz", X=X, y=y)
    np.savez_compressed(folder / "z.npz", features=X, label=y)
    return {
        "npy": (folder / "c.npy", -1),
        "npy by columns": (folder / "f.npy", 4),
        "npy and targets": (folder / "X.npy", y),
        "npz": (folder / "s.npz", "y"),
        "compressed npz": (folder / "z.npz", "label"),
        "array": (np.column_stack([X, y]), 4),
        "array and targets": (X, y),
        "pair": ((X, y), None),
        "list of rows": (np.column_stack([X, y]).tolist(), 4),
        "pairs of blocks": ([(X[:7], y[:7]), (X[7:190], y[7:190]), (X[190:], y[190:])], None),
        "rows and targets": (list(zip(X, y, strict=True)), None),
        "dicts and targets": (
            [(dict(zip("pqrs", r, strict=True)), t) for r, t in zip(X, y, strict=True)],
            None,
        ),
    }


def test_matrices_from_files_and_memory_give_the_same(tmp_path):
    X, y = matrix()
    for name, (source, target) in matrix_sources(tmp_path).items():
        batches = list(open_stream(source, target, 60))
        assert [b.rows for b in batches] == [60, 60, 60, 60, 10], name
        np.testing.assert_array_equal(joined(batches)[0], X, err_msg=name)
        np.testing.assert_array_equal(joined(batches)[1], y, err_msg=name)
        rest = list(open_stream(source, target, 60, resume=batches[1].state()))
        np.testing.assert_array_equal(joined(rest)[0], X[120:], err_msg=name)
        np.testing.assert_array_equal(joined(rest)[1], y[120:], err_msg=name)


def libsvm_lines(X, y, base=1):
    rows = (
        f"{t!r} " + " ".join(f"{j + base}:{row[j]!r}" for j in np.flatnonzero(row)) + " # a note"
        for row, t in zip(X.tolist(), y.tolist(), strict=True)
    )
    return "\n".join(rows) + "\n"


def sparse_data():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(230, 12)) * (rng.random((230, 12)) < 0.3)
    X[:, 11] = 0.0
    X[200, 11] = 1.0  # the last feature comes late
    return X, rng.choice([-1.0, 1.0], 230)


@pytest.mark.parametrize("base", [0, 1])
def test_libsvm_gives_sparse_batches(base, write):
    X, y = sparse_data()
    if base == 0:
        X[0, 0] = 2.0
    path = write("t.libsvm", libsvm_lines(X, y, base))
    batches = list(open_stream(path, None, 60))
    assert all(isinstance(b.X, sp.csr_array) for b in batches)
    assert [b.X.shape for b in batches] == [(60, 12)] * 3 + [(50, 12)]
    np.testing.assert_array_equal(sp.vstack([b.X for b in batches]).toarray(), X)
    np.testing.assert_array_equal(np.concatenate([b.y for b in batches]), y)
    rest = list(open_stream(path, None, 60, resume=batches[0].state()))
    np.testing.assert_array_equal(sp.vstack([b.X for b in rest]).toarray(), X[60:])


@pytest.mark.parametrize("form", ["csr_matrix", "csc_array", "coo_array"])
def test_sparse_arrays_stay_sparse(form, tmp_path):
    X, y = sparse_data()
    S = getattr(sp, form)(X)
    sp.save_npz(tmp_path / "s.npz", S)
    for source in (S, (S, y), tmp_path / "s.npz", [(sp.csr_array(S)[:100], y[:100])]):
        pairs = isinstance(source, (tuple, list))
        batches = list(open_stream(source, None if pairs else y, 70))
        assert all(sp.issparse(b.X) for b in batches)
        got = sp.vstack([b.X for b in batches]).toarray()
        np.testing.assert_array_equal(got, X[: len(got)])


def test_an_iterator_can_be_read_once(frame):
    stream = open_stream(iter(frame.to_dict("records")), "y", K)
    assert sum(b.rows for b in stream) == 1050
    with pytest.raises(InvalidInputError, match="cannot be read again"):
        iter(stream)


def test_an_iterator_is_not_read_ahead_of_the_batch():
    taken = []

    def rows():
        for i in range(100):
            taken.append(i)
            yield {"a": float(i), "y": 0.0}

    batches = iter(open_stream(rows(), "y", 10))
    next(batches)
    assert len(taken) <= 20
    next(batches)
    assert len(taken) <= 30


def test_columns_are_chosen_by_name_and_order(frame, tmp_path):
    for make in (csv, parquet, arrow_file, pandas_frame, records):
        folder = tmp_path / make.__name__
        folder.mkdir()
        stream = open_stream(make(frame, folder), "y", K, columns=["b", "a"])
        assert stream.feature_names == ("b", "a")
        np.testing.assert_array_equal(joined(list(stream))[0], frame[["b", "a"]].to_numpy())
    X, _ = matrix()
    stream = open_stream(X, None, K, columns=[2, 0])
    assert stream.feature_names == ("x2", "x0")
    np.testing.assert_array_equal(next(iter(stream)).X, X[:K, [2, 0]])


def test_float32_is_kept_when_asked_for(frame, tmp_path):
    batch = next(iter(open_stream(parquet(frame, tmp_path), "y", K, dtype="float32")))
    assert batch.X.dtype == np.float32
    np.testing.assert_array_equal(batch.X, expected(frame)[0][:K].astype(np.float32))


def test_without_a_target_all_columns_are_features(frame):
    stream = open_stream(frame, None, K, columns=["a", "y"])
    assert stream.target is None
    assert next(iter(stream)).y is None


def test_text_targets_are_kept_as_labels(write):
    path = write("t.csv", "a,y\n1,cat\n2,7\n3,dog\n")
    batch = next(iter(open_stream(path, "y", 3)))
    assert batch.y.tolist() == ["cat", "7", "dog"]
    numbers = write("n.csv", "a,y\n1,0\n2,1\n")
    assert next(iter(open_stream(numbers, "y", 3))).y.tolist() == [0.0, 1.0]
    assert next(iter(open_stream(numbers, "y", 3, labels=True))).y.tolist() == ["0", "1"]


def test_labels_are_the_same_text_from_every_source(write):
    path = write("t.csv", "a,y\n1,3\n2,1\n")
    frame = pd.DataFrame({"a": [1.0, 2.0], "y": [3, 1]})
    for source in (path, frame, pa.Table.from_pandas(frame), frame.to_dict("records")):
        assert next(iter(open_stream(source, "y", 2, labels=True))).y.tolist() == ["3", "1"]


def test_the_schema_of_a_stream_reads_other_data_the_same_way(frame):
    schema = open_stream(frame, "y", K).schema
    other = frame[["city", "b", "n", "a"]][5:6]
    batch = next(iter(open_stream(other, None, 1, schema=schema)))
    np.testing.assert_array_equal(batch.X, expected(frame)[0][5:6])
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


def test_an_unknown_ending_is_recognised_by_content(frame, tmp_path, write):
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "data")
    assert next(iter(open_stream(tmp_path / "data", "y", K))).rows == K
    assert open_stream(write("rows", '{"a": 1, "y": 2}\n'), "y", 1).feature_names == ("a",)
    assert next(iter(open_stream(write("svm", "1 1:2 3:4\n"), None, 1))).X.shape == (1, 3)


def test_a_headerless_csv_is_read_when_told(write):
    path = write("t.csv", "1,2,3\n4,5,6\n")
    batch = next(iter(open_stream(path, "x2", 5, header=False)))
    assert batch.X.tolist() == [[1.0, 2.0], [4.0, 5.0]]
    assert batch.y.tolist() == [3.0, 6.0]


def test_quoted_cells_may_hold_delimiters_quotes_and_line_ends(write):
    rows = "".join(f'{2 * i},"a, ""b""\nc{i % 2}",{i}\n' for i in range(30_000))
    path = write("t.csv", "n,text,y\n" + rows)
    stream = open_stream(path, "y", 4096)
    X = np.concatenate([b.X for b in stream])
    assert stream.feature_names == ("n", 'text=a, "b"\nc0', 'text=a, "b"\nc1')
    np.testing.assert_array_equal(X[:, 0], 2.0 * np.arange(30_000))
    np.testing.assert_array_equal(X[:, 1], np.arange(30_000) % 2 == 0)


def test_true_and_false_are_numbers_from_every_source(write):
    """A column of booleans is 0 and 1, as a feature and as a target."""
    frame = pd.DataFrame({"a": [True, False], "y": [False, True]})
    jsonl = write("t.jsonl", '{"a": true, "y": false}\n{"a": false, "y": true}\n')
    pairs = [({"a": True}, False), ({"a": np.False_}, np.True_)]
    for source in (frame, jsonl, pa.Table.from_pandas(frame), frame.to_dict("records"), pairs):
        (batch,) = open_stream(source, None if source is pairs else "y", 2)
        assert batch.X.tolist() == [[1.0], [0.0]]
        assert batch.y.tolist() == [0.0, 1.0]


def test_the_number_of_rows_is_told_where_it_is_known(frame, tmp_path):
    for make in (parquet, parquet_folder, pandas_frame, arrow_table):
        folder = tmp_path / make.__name__
        folder.mkdir()
        assert open_stream(make(frame, folder), "y", K).rows == len(frame)
    assert open_stream(frame.to_dict("records"), "y", K).rows is None
    assert open_stream(list_of_csv(frame, tmp_path), "y", K).rows is None


def test_wide_tables_are_read_exactly(tmp_path):
    """3000 columns: a few lines a block, all columns converted at once."""
    X = np.random.default_rng(1).normal(size=(90, 3000))
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(3000)])
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        got, y = joined(list(open_stream(tmp_path / name, "f7", 40)))
        np.testing.assert_array_equal(got, np.delete(X, 7, axis=1))
        np.testing.assert_array_equal(y, X[:, 7])


def test_libsvm_files_of_a_folder_have_the_width_of_the_widest(tmp_path):
    """Of two files with other largest indices the second was refused; one lacks the index 0."""
    (tmp_path / "a.libsvm").write_text("1 0:2 3:4\n0 2:1\n")
    (tmp_path / "b.libsvm").write_text("1 1:2 5:4\n")
    batches = list(open_stream(tmp_path, None, 2))
    dense = np.concatenate([batch.X.toarray() for batch in batches])
    assert dense.tolist() == [[2, 0, 0, 4, 0, 0], [0, 0, 1, 0, 0, 0], [0, 2, 0, 0, 0, 4]]
