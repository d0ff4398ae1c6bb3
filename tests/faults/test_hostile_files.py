"""Files made to crash, exhaust or mislead: each ends as an error that names the file.

Every one is read in a process of its own under a limit of memory and time, since what they did
before was to kill the process, to take gigabytes or to hang.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import resource
import signal
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from miniamp.errors import InvalidInputError, MiniampError
from miniamp.streams import open_stream

#: Resident memory beyond the imports, and seconds of processor time, that a refusal may take.
MOST_MB, MOST_SECONDS = 300, 5

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


def used():
    """Peak of resident memory in MB, and seconds of processor time."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime


def read_in_child(path, target, pipe):
    signal.alarm(60)
    memory, seconds = used()
    try:
        for batch in open_stream(path, None if target == "-" else target, 100):
            batch.feature_names[:3]
        said = "read"
    except MiniampError as error:
        said = f"refused {error}"
    except BaseException as error:
        said = f"foreign {error!r}"
    now = used()
    os.write(pipe, f"{said[:2000]}\n{now[0] - memory} {now[1] - seconds}".encode())


def outcome(path, target="y"):
    """What reading does in a process of its own: "read" or the refusal, within the limits."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            read_in_child(str(path), target, write)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        report = pipe.read()
    status = os.waitpid(child, 0)[1]
    assert not os.WIFSIGNALED(status), f"killed by signal {os.WTERMSIG(status)}"
    said, numbers = report.rsplit("\n", 1)
    memory, seconds = map(float, numbers.split())
    assert memory < MOST_MB, f"{memory:.0f} MB: {said[:200]}"
    assert seconds < MOST_SECONDS, f"{seconds:.1f} s: {said[:200]}"
    return said


def refused(path, *parts, target="y"):
    said = outcome(path, target)
    assert said.startswith("refused"), said
    for part in parts or (str(path),):
        assert part in said, said


def ipc(table):
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


@pytest.mark.parametrize("offset", [1 << 20, 1 << 30, -5])
def test_string_offsets_out_of_bounds(offset, write):
    texts = ["aaaa", "bbbbbbbb", "cccccccccccc", "dddddddddddddddd"]
    content = ipc(pa.table({"c": texts, "y": [1.0, 2.0, 3.0, 4.0]}))
    offsets = struct.pack("<5i", 0, 4, 12, 24, 40)
    assert content.count(offsets) == 1
    altered = content.replace(offsets, struct.pack("<5i", 0, 4, 12, offset, 40))
    refused(write("t.arrow", altered), "arrow")


def test_dictionary_indices_out_of_bounds(write):
    codes = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 1, 0], pa.int32()), pa.array(["left", "right"])
    )
    content = ipc(pa.table({"c": codes, "y": [1.0, 2.0, 3.0, 4.0]}))
    indices = struct.pack("<4i", 0, 1, 1, 0)
    assert content.count(indices) == 1
    refused(write("t.arrow", content.replace(indices, struct.pack("<4i", 0, 1, 1 << 29, 0))))


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr"])
@pytest.mark.parametrize("index", [1 << 30, -7])
def test_sparse_indices_out_of_range(kind, index, tmp_path):
    matrix = sp.random_array((40, 30), density=0.2, random_state=0).asformat(kind)
    names = {"coo": ("row", "col")}.get(kind, ("indices", "indptr"))
    for name in names:
        path = tmp_path / f"{name}.npz"
        sp.save_npz(path, matrix)
        with np.load(path) as archive:
            arrays = dict(archive)
        if name not in arrays:  # newer scipy stores both coordinates of COO together
            arrays["coords"] = arrays["coords"].copy()
            arrays["coords"][0, 3] = index
        else:
            arrays[name] = arrays[name].copy()
            arrays[name][3] = index
        np.savez(path, **arrays)
        refused(path, target="-")


@pytest.mark.parametrize("last", [50_000_000, 2_000_000_000, 10**18, 10**30])
def test_libsvm_of_very_many_features(last, write):
    path = write("t.svm", f"1 1:2 {last}:3\n")
    refused(path, "n_features", target="-")


def test_libsvm_of_many_features_is_read_when_they_are_asked_for(write):
    stream = open_stream(write("t.svm", "1 1:2 50000000:3\n"), None, 10, n_features=50_000_000)
    assert next(iter(stream)).X.shape == (1, 50_000_000)
    assert stream.feature_names[-1] == "x49999999"


def npy_header(shape, dtype="<f8"):
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


@pytest.mark.parametrize(
    "shape", [(2**32, 2**32), (2**62, 4), (1, 2**40), (-1, 5), (2**63, 0), (3, 0)]
)
def test_npy_whose_shape_is_not_its_size(shape, write):
    refused(write("t.npy", npy_header(shape) + bytes(800)), target="-")


def archive(folder, entries):
    path = folder / "t.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for name, (header, zeros) in entries.items():
            with file.open(name, "w") as entry:
                entry.write(header)
                for _ in range(zeros >> 20):
                    entry.write(bytes(1 << 20))
    return path


def test_npz_whose_targets_unpack_to_gigabytes(tmp_path):
    """The targets alone are read whole, so that their size must be that of the rows."""
    small = npy_header((10, 2)), 1 << 20
    refused(archive(tmp_path, {"X.npy": small, "y.npy": (npy_header((2**26,)), 2**29)}), "target")


def test_npz_whose_targets_are_nearly_all_zero_is_read(tmp_path):
    """They pack 460 times; a few kB are no bomb."""
    y = np.zeros(10_000)
    y[::1000] = 1.0
    np.savez_compressed(tmp_path / "rare.npz", X=np.ones((10_000, 3)), y=y)
    batches = list(open_stream(tmp_path / "rare.npz", target="y", batch_size=5000))
    assert [batch.y.sum() for batch in batches] == [5.0, 5.0]


def test_sparse_npz_that_unpacks_to_gigabytes(tmp_path):
    entries = {
        name: (npy_header((2**26,)), 2**29 if name == "data.npy" else 1 << 20)
        for name in ("data.npy", "indices.npy", "indptr.npy", "shape.npy", "format.npy")
    }
    refused(archive(tmp_path, entries), target="-")


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("writer", [pa.ipc.new_file, pa.ipc.new_stream])
def test_arrow_batches_that_unpack_to_hundreds_of_megabytes(codec, writer, tmp_path):
    table = pa.table({"y": np.zeros(100_000_000)})
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with writer(str(tmp_path / "t.arrow"), table.schema, options=options) as file:
        file.write_table(table.slice(0, 1000))
        file.write_table(table)
    refused(tmp_path / "t.arrow", "compressed bytes that become 800,000,000", target="-")
    with writer(str(tmp_path / "t.arrow"), table.schema, options=options) as file:
        file.write_table(table.slice(0, 1_000_000), max_chunksize=50_000)
    assert outcome(tmp_path / "t.arrow", "-") == "read"


def test_parquet_pages_that_unpack_to_hundreds_of_megabytes(tmp_path):
    """What the metadata says does not matter: page headers are read."""
    table = pa.table({"a": np.zeros(1000), "y": np.zeros(1000)})
    large = pa.table({"a": np.zeros(9_900_000), "y": np.zeros(9_900_000)})
    options = {"compression": "zstd", "use_dictionary": False, "row_group_size": 1 << 40}
    with pq.ParquetWriter(
        tmp_path / "t.parquet", table.schema, compression="zstd", use_dictionary=False,
        data_page_size=1 << 30, max_rows_per_page=1 << 40, write_batch_size=1 << 30,
    ) as file:  # fmt: skip
        file.write_table(table)
        file.write_table(large, row_group_size=1 << 40)
    refused(tmp_path / "t.parquet", "compressed bytes that become 79,2", "column 'a'", target="-")
    pq.write_table(large.slice(0, 1_000_000), tmp_path / "t.parquet", **options)
    assert outcome(tmp_path / "t.parquet", "-") == "read"


def test_a_quote_that_never_closes(write):
    lines = b"".join(b'%d,"text %d\n' % (i, i) if i == 1 else b"%d,text\n" % i for i in range(10))
    path = write("t.csv", b"n,y\n" + lines + b"1,some text that goes on\n" * 850_000)
    refused(path, "never closed")


def test_a_duplicate_at_the_end_of_many_names(write):
    names = [f"column {j}" for j in range(40_000)]
    refused(write("t.csv", ",".join([*names, names[-1]]) + "\n1\n"), "twice")


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.arrow", "t.npy"])
def test_a_million_columns(name, write):
    n = 1_000_000
    if name == "t.csv":
        content = ",".join(f"c{j}" for j in range(n)) + "\n" + "1," * (n - 1) + "1\n"
    elif name == "t.jsonl":
        content = json.dumps({f"c{j}": 1 for j in range(n)}) + "\n"
    elif name == "t.npy":
        content = npy_header((2, 16 * n)) + bytes(2 * 16 * n * 8)
    else:
        wide = 150_000
        content = ipc(pa.table([[1.0]] * wide, names=[f"c{j}" for j in range(wide)]))
    refused(write(name, content), "columns", target="-")


def test_json_nested_without_end(write):
    refused(write("t.jsonl", '{"a": ' * 200_000 + "1" + "}" * 200_000 + "\n"), "row 1")
    refused(write("u.jsonl", '{"a": 1' + "0" * 5000 + ', "y": 1}\n'), "row 1")


@pytest.mark.parametrize("name", ["t.csv.gz", "t.jsonl.gz", "t.svm.gz"])
def test_gzip_that_unpacks_to_a_line_of_gigabytes(name, write):
    head = {"t.csv.gz": b"a,y\n", "t.jsonl.gz": b'{"a": "', "t.svm.gz": b"1 1:"}[name]
    content = gzip.compress(head + b"1" * (200 << 20), 9)
    refused(write(name, content), "MB", target="-")


def damaged_gzip():
    content = bytearray(gzip.compress(b"a,y\n" + b"1.5,2.5\n" * 5000))
    content[len(content) // 2] ^= 0xFF
    return bytes(content)


FOREIGN = {
    "zlib.csv.gz": damaged_gzip(),
    "huge_number.csv": b"a,y\n1" + b"0" * 400 + b",1\n2,2\n",
    "field.csv": b'a,"y' + b"x" * 200_000 + b'"\n1,2\n',
    "nul.csv": b"a,y\n" + b"1,2\n" * 2000 + b"\x00,3\n",
    "huge_integer.jsonl": b'{"a": 1' + b"0" * 4000 + b', "y": 1}\n',
    "surrogate.jsonl": b'{"a": "\\ud800", "y": 1}\n{"a": "b", "y": 2}\n',
    "index.svm": b"1 1:2\n1 99999999999999999999:2\n",
    "zip.npz": b"PK\x03\x04" + bytes(60),
    "parquet.parquet": b"PAR1" + bytes(60) + b"PAR1",
    "arrow.arrow": b"ARROW1\x00\x00" + bytes(80),
    "stream.arrows": b"\xff\xff\xff\xff" + b"\xff\xff\xff\x7f" + bytes(80),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_decoders_raise_is_an_error_about_the_file(name, write):
    path = write(name, FOREIGN[name])
    with pytest.raises(InvalidInputError) as caught:
        list(open_stream(path, "y" if "svm" not in name else None, 10))
    assert path in caught.value.argument or caught.value.argument in ("target", "source")


def test_a_line_separator_within_a_cell_does_not_shift_the_row_of_an_error(write):
    path = write("t.csv", "c,y\nu\u2028v\x0b\x0c\x1c\x85w,1\nw,2\nw,3,4\n")
    with pytest.raises(InvalidInputError) as caught:
        list(open_stream(path, "y", 2))
    assert caught.value.argument == f"{path}, row 3"


def test_parquet_with_more_rows_than_anybody_can_read(tmp_path):
    """A run of equal values takes a few bytes whatever its length; 1e13 rows fit into 1 MB."""
    table = pa.table({"x": np.zeros(1_000_000, np.int8), "y": np.zeros(1_000_000, np.int8)})
    path = tmp_path / "t.parquet"
    options = {"max_rows_per_page": 1 << 40, "write_batch_size": 1 << 30, "compression": "zstd"}
    with pq.ParquetWriter(path, table.schema, **options) as file:
        for _ in range(40):
            file.write_table(table)
    assert path.stat().st_size < 40_000
    refused(path, "40,000,000 rows")


@pytest.mark.parametrize("pages", ["1.0", "2.0"])
@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("compression", ["zstd", "snappy", "none"])
def test_parquet_of_all_kinds_of_columns_is_read(compression, statistics, pages, tmp_path):
    """Long texts in statistics and names, dates, Booleans, and several row groups and pages."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "a name of more than a few letters": rng.integers(0, 9, 300),
            "text": rng.choice(["short", "a long text " * 30], 300),
            "day": pd.date_range("2020-01-01", periods=300),
            "flag": rng.random(300) < 0.5,
            "y": rng.normal(size=300),
        }
    )
    path = tmp_path / "t.parquet"
    pq.write_table(
        pa.Table.from_pandas(frame), path, compression=compression, data_page_version=pages,
        write_statistics=statistics, write_page_index=statistics, row_group_size=70,
        data_page_size=300,
    )  # fmt: skip
    for columns in (None, ["text", "flag"]):
        assert sum(b.rows for b in open_stream(path, "y", 50, columns=columns)) == 300
    assert sum(b.rows for b in open_stream(path, "y", 50, start=150)) == 150


def test_parquet_of_a_million_zeros_is_read(tmp_path):
    pq.write_table(
        pa.table({"x": np.zeros(1_000_000), "y": np.zeros(1_000_000)}), tmp_path / "t.pq"
    )
    rows = sum(len(batch.y) for batch in open_stream(tmp_path / "t.pq", "y", 10_000))
    assert rows == 1_000_000


CORPUS = Path(__file__).parents[2] / "fuzz" / "corpus"


@pytest.mark.parametrize(
    "path",
    ["parquet/histogram", "parquet/long-page", "arrow/no-schema", "jsonl/no-columns"],
)
def test_what_fuzzing_found(path, tmp_path):
    """pyarrow aborts at a histogram of levels that does not fit, takes a page's memory before it
    reads the page, and crashes at a first message that is no schema."""
    name = tmp_path / f"t.{path.split('/')[0]}"
    name.write_bytes((CORPUS / path).read_bytes())
    said = outcome(name, "-")
    assert said == "read" or (said.startswith("refused") and str(name) in said)
