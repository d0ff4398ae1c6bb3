"""File formats are found by their export, recognised by content, and opened once."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from miniamp.errors import InvalidInputError
from miniamp.streams import formats, open_stream, sources
from miniamp.streams.base import Format, NumberedNames, Piece

HEADS = {
    "csv": b"a,y\n1,2\n",
    "jsonl": b'{"a": 1, "y": 2}\n',
    "libsvm": b"1 1:2 3:4\n",
    "npy": b"\x93NUMPY\x01\x00",
    "npz": b"PK\x03\x04\x14\x00",
    "parquet": b"PAR1\x15\x04",
    "arrow": b"ARROW1\x00\x00",
}


def test_every_exported_format_recognises_its_own_content():
    known = sources.formats()
    assert set(known) == set(HEADS)  # a new format needs a line above, to be proved here
    for name, head in HEADS.items():
        assert max(known.values(), key=lambda cls: cls.likeness(head)) is known[name]
    endings = [end for cls in known.values() for end in cls.endings]
    assert len(endings) == len(set(endings))


class Bytes(Format):
    """Every byte is a row."""

    format = "bytes"
    endings = (".bytes",)
    marks = (b"\x00BYTES",)

    def pieces(self, start, columns):
        with self.file.opened() as file:
            X = np.frombuffer(file.read()[6:], np.uint8).astype(float)[:, None]
        yield Piece(self.name, 0, len(X), X=X)


def test_a_new_format_is_a_class_and_an_export(monkeypatch, write):
    monkeypatch.setattr(formats, "Bytes", Bytes, raising=False)
    monkeypatch.setattr(formats, "__all__", [*formats.__all__, "Bytes"])
    for name in ("t.bytes", "unnamed"):
        (batch,) = open_stream(write(name, b"\x00BYTES\x03\x05"), None, 10)
        assert batch.X.ravel().tolist() == [3.0, 5.0]
    with pytest.raises(InvalidInputError, match=r"one of .*bytes"):
        open_stream(write("t.csv", "a\n"), None, 1, format="nothing")


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.jsonl", "unnamed"])
def test_a_file_is_opened_once_however_it_is_recognised(name, monkeypatch, write):
    import gzip

    text = '{"a": 1, "y": 2}\n' * 9 if name == "t.jsonl" else "a,y\n" + "1,2\n" * 9
    path = write(name, gzip.compress(text.encode()) if name.endswith("gz") else text)
    opened = []
    for module, attribute in ((os, "open"), (Path, "open")):
        real = getattr(module, attribute)

        def counted(first, *rest, real=real, **more):
            opened.append(str(first))
            return real(first, *rest, **more)

        monkeypatch.setattr(module, attribute, counted)
    assert sum(batch.rows for batch in open_stream(path, "y", 2)) == 9
    assert opened.count(path) == 1


@pytest.mark.parametrize("number", [-100, -4, 3, 100])
def test_a_column_number_out_of_range_is_refused_with_the_range(number, frame):
    for given in ({"columns": [number]}, {"target": number}):
        with pytest.raises(InvalidInputError) as caught:
            open_stream(np.ones((3, 3)), batch_size=2, **given)
        assert caught.value.argument in given
        assert caught.value.received == f"column number {number}"
        assert caught.value.expected == "-3 to 2"


def test_column_numbers_count_from_the_end_too():
    X = np.arange(6.0).reshape(2, 3)
    (batch,) = open_stream(X, None, 2, columns=[-1, 0])
    assert batch.X.tolist() == [[2.0, 0.0], [5.0, 3.0]]


def test_names_of_numbered_columns_are_those_of_a_list():
    names = NumberedNames(12)
    assert names == tuple(f"x{j}" for j in range(12))
    assert names[3:5] == ("x3", "x4")
    assert [name in names for name in ("x0", "x11", "x12", "x-1", "x", "", 3, "x1 ")] == [
        True, True, False, False, False, False, False, False,
    ]  # fmt: skip
