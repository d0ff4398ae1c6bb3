"""Paths to sources: which files are meant, and what format each is."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, cast

from miniamp import checks
from miniamp.arrays import Given
from miniamp.errors import InvalidInputError
from miniamp.streams import text
from miniamp.streams.arrow_ipc import ArrowIPC
from miniamp.streams.csv import CSV
from miniamp.streams.json_lines import JSONLines
from miniamp.streams.libsvm import LIBSVM
from miniamp.streams.numpy_files import NPY, npz_source
from miniamp.streams.parquet import Parquet
from miniamp.streams.pieces import Piece, Source, row_count, too_short

_BY_ENDING = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
    ".npy": "npy",
    ".npz": "npz",
    ".libsvm": "libsvm",
    ".svmlight": "libsvm",
    ".svm": "libsvm",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
_BY_START = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\x93NUMPY": "npy", b"PK\x03\x04": "npz"}
FORMATS = ("csv", "parquet", "arrow", "npy", "npz", "libsvm", "jsonl")
#: Options that open_stream passes on, and the formats that take them.
_OPTIONS = {
    "delimiter": ("csv",),
    "header": ("csv",),
    "n_features": ("libsvm",),
    "zero_based": ("libsvm",),
}


class Files:
    """Several files, read one after the other as if they were one.

    Parameters
    ----------
    sources : list of sources
        One for each file; columns are found by name, whatever their order.
    name : str
        What the user called them.
    """

    again = True

    def __init__(self, sources: list[Source], name: str) -> None:
        self._sources = sources
        self.name = name

    def count(self) -> int | None:
        """The number of rows of all, if each can tell."""
        counts = [row_count(source) for source in self._sources]
        return None if None in counts else sum(rows for rows in counts if rows is not None)

    def pieces(self, start: int, only: Collection[str] | None) -> Iterator[Piece]:
        """The rows from number `start` on; files before it are skipped if they tell their size."""
        left = start
        for source in self._sources:
            rows = row_count(source) if left else None
            if rows is not None and left >= rows:
                left -= rows
                continue
            if rows is not None:
                yield from source.pieces(left, only)
                left = 0
                continue
            for piece in source.pieces(0, only):
                if left >= piece.rows:
                    left -= piece.rows
                else:
                    yield piece.cut(left, piece.rows) if left else piece
                    left = 0
        if left:
            raise too_short(self.name, start - left, start)


def files_source(given: Given, y: Given, target: str | None, options: dict[str, Any]) -> Source:
    """The source for a path, folder, glob pattern, or list of paths."""
    paths = [
        path
        for one in (given if isinstance(given, list) else [given])
        for path in found(cast(str, one))
    ]
    name = str(given) if not isinstance(given, list) else f"{paths[0]} and others"
    if len(paths) > 1 and y is not None:
        raise checks.refuse(
            "target", "an array", "a column's name for several files", "name the target column"
        )
    sources = [file_source(path, y, target, options) for path in paths]
    return sources[0] if len(sources) == 1 else Files(sources, name)


def found(given: str | os.PathLike[str]) -> list[Path]:
    """The files that a path, folder or pattern means, in the order of their names."""
    if not os.fspath(given):
        raise InvalidInputError("source: got an empty name, expected a file; check the path")
    path = Path(given)
    if path.is_file() or (path.exists() and not path.is_dir()):
        return [path]
    if path.is_dir():
        every = [p for p in sorted(path.rglob("*")) if p.is_file() and _visible(p, path)]
        known = [p for p in every if _ending(p) in _BY_ENDING]
        if not known:
            raise InvalidInputError(
                f"{given}: the folder has no data files; expected Parquet, CSV, ..."
            )
        kinds = sorted({_BY_ENDING[_ending(p)] for p in known})
        if len(kinds) > 1:
            raise InvalidInputError(
                f"{given}: the folder has files of several formats ({', '.join(kinds)}); choose "
                f"with a pattern such as {path / '*.parquet'}"
            )
        return known
    matches = sorted(glob.glob(str(given), recursive=True))  # noqa: PTH207 (absolute patterns)
    files = [Path(p) for p in matches if Path(p).is_file()]
    if not files:
        what = (
            "no file matches this pattern" if re.search(r"[*?\[]", str(given)) else "no such file"
        )
        raise InvalidInputError(f"{given}: {what}; check the path")
    return files


def file_source(path: Path, y: Given, target: str | None, options: dict[str, Any]) -> Source:
    """The source for one file, by its first bytes and its name."""
    kind = options.get("format") or recognised(path)
    if kind not in FORMATS:
        raise checks.refuse("format", repr(kind), f"one of {', '.join(FORMATS)}", "choose one")
    chosen = {name: value for name, value in options.items() if name != "format"}
    for name in chosen:
        if kind not in _OPTIONS.get(name, ()):
            raise checks.refuse(name, "the option", f"none such for {kind}", "leave it out")
    if y is not None and kind not in ("npy", "npz"):
        raise checks.refuse("target", "an array", f"a column's name for {kind}", "name the column")
    try:
        return _source(path, kind, y, target, chosen)
    except OSError as error:
        raise InvalidInputError(
            f"{path}: cannot be read ({error.strerror}); check the path"
        ) from None


def _source(path: Path, kind: str, y: Given, target: str | None, chosen: dict[str, Any]) -> Source:
    if kind == "parquet":
        return Parquet(path)
    if kind == "arrow":
        return ArrowIPC(path)
    if kind == "npy":
        return NPY(path, y)
    if kind == "npz":
        return npz_source(path, target, y)
    if kind == "libsvm":
        return LIBSVM(path, **chosen)
    if kind == "jsonl":
        return JSONLines(str(path), lambda: text.opened(path))
    if _ending(path) == ".tsv":
        chosen = {"delimiter": "\t", **chosen}
    return CSV(str(path), lambda: text.opened(path), **chosen)


def recognised(path: Path) -> str:
    """The format of a file; refused where its name and its content contradict each other."""
    named = _BY_ENDING.get(_ending(path))
    try:
        with path.open("rb") as file:
            start = file.read(1024)
        if start.startswith(b"\x1f\x8b"):
            with text.opened(path) as file:
                start = file.read(1024)
    except (OSError, EOFError) as error:
        raise InvalidInputError(f"{path}: cannot be read ({error}); check the file") from None
    if not start:
        raise InvalidInputError(f"{path}: is empty; expected rows")
    magic = next((kind for mark, kind in _BY_START.items() if start.startswith(mark)), None)
    if magic is None and named == "arrow":
        return "arrow"  # the stream format has no mark of its own
    if magic is not None and named in (None, magic):
        return magic
    if magic is not None or named in ("parquet", "npy", "npz") or not text.is_text(start):
        content = magic or ("text" if text.is_text(start) else "no format known here")
        raise InvalidInputError(
            f"{path}: the name says {named or 'nothing'}, the content is {content}; rename the "
            f"file, or pass format= as one of {', '.join(FORMATS)}"
        )
    return named or text_format(start)


def text_format(start: bytes) -> str:
    """Whether text is JSON lines, LIBSVM or CSV, by its first line."""
    if start.lstrip().startswith(b"{"):
        return "jsonl"
    line = (start.strip().splitlines() or [b""])[0]
    return "libsvm" if re.match(rb"\S+( qid:\d+)?( \d+:[^\s,;]+)+\s*(#|$)", line) else "csv"


def _ending(path: Path) -> str:
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def _visible(path: Path, folder: Path) -> bool:
    return not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
