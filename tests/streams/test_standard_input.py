"""Standard input: CSV or JSON lines, used as it arrives."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import numpy as np
import pytest

from miniamp.errors import InvalidInputError
from miniamp.streams import open_stream

READER = """
import sys
from miniamp.streams import open_stream
for batch in open_stream("-", "y", 3):
    print(batch.rows, batch.position, float(batch.X.sum()), flush=True)
"""


@pytest.fixture
def piped(monkeypatch):
    """A function that gives text on standard input and returns what was read of it."""

    def read(text, k=3, start=0):
        monkeypatch.setattr(
            sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode())))
        )
        batches = open_stream("-", "y", k, start=start)
        return [(b.rows, b.position, float(b.X.sum())) for b in batches]

    return read


CSV = "a,b,y\n" + "".join(f"{i},{i / 2},0\n" for i in range(8))
JSON = "".join(json.dumps({"a": i, "b": i / 2, "y": 0}) + "\n" for i in range(8))


@pytest.mark.parametrize("text", [CSV, JSON, "\n\n" + CSV, "\ufeff" + CSV], ids=range(4))
def test_csv_and_json_lines_are_told_apart(text, piped):
    assert piped(text) == [(3, 3, 4.5), (3, 6, 18.0), (2, 8, 19.5)]


def test_rows_are_skipped_to_resume(piped):
    assert piped(CSV, start=6) == [(2, 8, 19.5)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "standard input: got no rows"),
        ("[1, 2]\n", "JSON array"),
        ("a,b\n1,2\n", "no column 'y'"),
        ("a,y\n1,2\n1,2,3\n", "standard input, row 2: got 3 cells"),
        ('{"a": 1, "y": 1}\nnonsense\n', "standard input, row 2"),
        ("a,y\n1,2\n1,x\n", "row 2, column 'y'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text, said, piped):
    with pytest.raises(InvalidInputError, match=said) as caught:
        piped(text, k=1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("lines", [CSV, JSON], ids=["csv", "json"])
@pytest.mark.timeout(60)
def test_a_batch_comes_as_soon_as_its_rows_have(lines):
    """The pipe stays open: a reader that waits for more than a batch would wait for ever."""
    rows = lines.splitlines(keepends=True)
    head = rows[: len(rows) - 8]
    with subprocess.Popen(
        [sys.executable, "-c", READER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as reader:
        reader.stdin.write("".join([*head, *rows[-8:-5]]).encode())
        reader.stdin.flush()
        assert reader.stdout.readline() == b"3 3 4.5\n"
        half = len(rows[-4]) // 2  # a row that arrives in two parts
        reader.stdin.write("".join([rows[-5], rows[-4][:half]]).encode())
        reader.stdin.flush()
        reader.stdin.write("".join([rows[-4][half:], rows[-3]]).encode())
        reader.stdin.flush()
        assert reader.stdout.readline() == b"3 6 18.0\n"
        reader.stdin.write("".join(rows[-2:]).encode())
        reader.stdin.close()
        assert reader.stdout.readline() == b"2 8 19.5\n"


def test_a_long_pipe_is_read_exactly(piped):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30_000, 5))
    text = "a,b,c,d,y\n" + "".join(",".join(map(repr, row)) + "\n" for row in X.tolist())
    sums = [total for _, _, total in piped(text, k=10_000)]
    expected = [float(X[i : i + 10_000, :4].copy().sum()) for i in range(0, 30_000, 10_000)]
    np.testing.assert_allclose(sums, expected, rtol=1e-12, atol=1e-9)
