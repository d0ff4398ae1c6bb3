"""Whatever the user gave, as a source of rows: an address, standard input, files, or data."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from miniamp import checks
from miniamp.arrays import Given
from miniamp.errors import InvalidTypeError
from miniamp.streams import connections as connection_kinds
from miniamp.streams import formats as format_kinds
from miniamp.streams.base import (
    Format,
    InputFile,
    Piece,
    Source,
    StandardInput,
    Targets,
    ending_of,
    readable,
    too_short,
)
from miniamp.streams.connections import Connection
from miniamp.streams.in_memory import ArraySource, FrameSource, IterableSource, is_frame


def formats() -> dict[str, type[Format]]:
    """Every format that is exported, by what the option `format` calls it.

    Examples
    --------
    >>> sorted(formats())
    ['arrow', 'csv', 'jsonl', 'libsvm', 'npy', 'npz', 'parquet']
    """
    exported = (getattr(format_kinds, name) for name in format_kinds.__all__)
    return {kind.format: kind for kind in exported if kind is not Format}


def connections() -> dict[str, type[Connection]]:
    """Every connection that is exported, by the scheme of its addresses.

    Examples
    --------
    >>> sorted(connections())
    ['kafka', 'redis', 'sql']
    """
    exported = (getattr(connection_kinds, name) for name in connection_kinds.__all__)
    return {kind.format: kind for kind in exported if kind is not Connection}


def connection_of(given: object) -> type[Connection] | None:
    """The kind of source that has such an address; None for a file, or data in memory.

    Examples
    --------
    >>> connection_of("redis://localhost:6379/rows").__name__, connection_of("rows.csv")
    ('RedisStream', None)
    """
    scheme, colon, _ = given.partition(":") if isinstance(given, str) else ("", "", "")
    return connections().get(scheme) if colon else None


def source_of(
    given: Given, target: Given, y: Given, batch_size: int, options: dict[str, Given]
) -> Source:
    """The source for anything that `open_stream` takes; y is None or the targets themselves."""
    if isinstance(given, str) and given == "-":
        return _piped(options)
    connection = connection_of(given)
    if isinstance(given, str) and connection is not None:
        _refuse_options(options, [connection])
        return connection(given, **options)
    names = _paths(given)
    if names:
        paths = [path for name in names for path in find_files(name)]
        return _files(paths, Targets(y, target if isinstance(target, str) else None), options)
    for name in options:
        raise checks.refuse(name, "an option for files", "none for data in memory", "leave it out")
    if isinstance(given, tuple) and len(given) == 2 and _is_matrix(given[0]):
        given, y = given
    if is_frame(given):
        return FrameSource(given, y)
    records = isinstance(given, list) and bool(given) and isinstance(given[0], Mapping)
    if _is_array(given) or (y is not None and isinstance(given, list) and given and not records):
        return ArraySource(given, y)
    if y is not None:
        raise checks.refuse(
            "target", "an array", "a column's name or number", "give pairs (X, y) instead"
        )
    if callable(given) or (isinstance(given, Iterable) and not isinstance(given, (Mapping, bytes))):
        return IterableSource(given, batch_size)
    raise InvalidTypeError(
        "source",
        type(given).__name__,
        "a path, an array, a frame or an iterable",
        "see the documentation of open_stream",
    )


def column_name(target: Given) -> str | int | None:
    """The target where it is a column's name or number; None where it is none, or the targets."""
    if isinstance(target, bool):
        return None
    if isinstance(target, Integral):
        return int(target)
    return target if isinstance(target, str) else None


def _paths(given: Given) -> list[str | os.PathLike[str]]:
    """Names of files, folders or patterns; none if this is something else."""
    each: list[object] = given if isinstance(given, list) else [given]
    names = [one for one in each if isinstance(one, (str, os.PathLike))]
    return names if len(names) == len(each) else []


def _is_array(X: Given) -> bool:
    return sp.issparse(X) or isinstance(X, np.ndarray)


def _is_matrix(X: Given) -> bool:
    return is_frame(X) or sp.issparse(X) or (isinstance(X, (np.ndarray, list)) and np.ndim(X) == 2)


class FileSource(Source):
    """Files of one format, read one after the other as if they were one.

    Parameters
    ----------
    files : function that gives a list of formats
        One for each file; columns are found by name, whatever their order.
    name : str
        What the user called them.
    rereadable : bool
        Whether they can be read more than once.
    """

    def __init__(self, files: Callable[[], Sequence[Format]], name: str, rereadable: bool) -> None:
        self._files, self.name, self.rereadable = files, name, rereadable

    def count(self) -> int | None:
        rows = [file.count() for file in self._files()] if self.rereadable else [None]
        return None if None in rows else sum(n or 0 for n in rows)

    def pieces(self, start: int, columns: Collection[str] | None) -> Iterator[Piece]:
        """Files before the row `start` are skipped if their sizes are known."""
        before = 0  # rows of earlier files
        for file in self._files():
            rows = file.count() if before < start else None
            if rows is not None and before + rows <= start:
                before += rows
                continue
            end = 0
            with readable(file.name, file.format):
                for piece in file.pieces(max(0, start - before), columns):
                    end = piece.row + piece.rows
                    skip = start - before - piece.row
                    if skip < piece.rows:
                        yield piece.cut(skip, piece.rows) if skip > 0 else piece
            before += end
        if before < start:
            raise too_short(self.name, before, start)


def _piped(options: dict[str, Given]) -> FileSource:
    """The rows that are piped into the program: `kcat ... | miniamp fit -`.

    `format` decides how they are read, or else their first bytes, which are not waited for here.
    """
    options = dict(options)
    known = {name: cls for name, cls in formats().items() if cls.piped}
    named = _by_name(known, options.pop("format", None))
    _refuse_options(options, [named] if named else list(known.values()))

    def files() -> list[Format]:
        piped = StandardInput()
        head = piped.look()
        if named is None and head.lstrip().startswith(b"["):
            raise checks.refuse(
                piped.name,
                "a JSON array",
                "one JSON object per line",
                "write it as JSON lines, for instance with jq -c '.[]'",
            )
        cls = named or max(known.values(), key=lambda one: one.likeness(head))
        _refuse_options(options, [cls])
        return [cls(piped, Targets(), **options)]

    return FileSource(files, StandardInput.name, rereadable=False)


def _files(paths: list[Path], targets: Targets, options: dict[str, Given]) -> FileSource:
    """The source for one file, or for several as if they were one."""
    if len(paths) > 1 and targets.y is not None:
        raise checks.refuse(
            "target", "an array", "a column's name for several files", "name the target column"
        )
    files: list[Format] = []
    for path in paths:
        files.append(_file(path, targets, options))
        if len(paths) > 1:
            files[-1].file.close()  # not thousands at once
    for file in files:
        file.beside(files)
    others = f" and {len(paths) - 1} others" if len(paths) > 1 else ""
    return FileSource(lambda: files, f"{paths[0]}{others}", rereadable=True)


def files_of(source: str) -> list[Path]:
    """The files of a source of the command line; none for standard input and for an address."""
    return [] if source == "-" or connection_of(source) is not None else find_files(source)


def estimated_rows(paths: list[Path]) -> int:
    """Rows of files of text, by the length of the first lines."""
    with paths[0].open("rb") as file:
        head = file.read(1 << 20)
    size = sum(path.stat().st_size for path in paths)
    return size * (head.count(b"\n") + 1) // max(1, len(head))


def is_read_once(source: str) -> bool:
    """Whether the rows of a source of the command line come once: from a pipe, or live."""
    connection = connection_of(source)
    return source == "-" if connection is None else not connection.rereadable


def find_files(given: str | os.PathLike[str]) -> list[Path]:
    """The files that a path, folder or pattern means, in the order of their names."""
    if not os.fspath(given):
        raise checks.refuse("source", "an empty name", "a file", "check the path")
    path = Path(given)
    if path.exists() and not path.is_dir():
        return [path]
    if path.is_dir():
        return _in_folder(path)
    matches = sorted(glob.glob(str(given), recursive=True))  # noqa: PTH207 (absolute patterns)
    files = [Path(p) for p in matches if Path(p).is_file()]
    if not files:
        pattern = re.search(r"[*?\[]", str(given)) is not None
        what = "no file that matches this pattern" if pattern else "no such file"
        raise checks.refuse(str(given), what, "a file", "check the path")
    return files


def _in_folder(folder: Path) -> list[Path]:
    by_ending = _by_ending()
    found: dict[Path, str] = {}
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden and ending_of(path) in by_ending:
            found[path] = by_ending[ending_of(path)].format
    kinds = sorted(set(found.values()))
    if not kinds:
        raise checks.refuse(str(folder), "no data files", "Parquet, CSV, ...", "check the folder")
    if len(kinds) > 1:
        raise checks.refuse(
            str(folder),
            f"files of several formats ({', '.join(kinds)})",
            "one format",
            f"choose with a pattern such as {folder / '*.parquet'}",
        )
    return list(found)


def _by_ending() -> dict[str, type[Format]]:
    return {end: cls for cls in formats().values() for end in cls.endings}


def _file(path: Path, targets: Targets, options: dict[str, Given]) -> Format:
    """The source for one file, by its first bytes and its name."""
    chosen = {name: value for name, value in options.items() if name != "format"}
    cls = _by_name(formats(), options.get("format"))
    file = InputFile(path)
    try:
        cls = cls or recognised(file)
        _refuse_options(chosen, [cls])
        return cls(file, targets, **chosen)
    except BaseException:
        file.close()
        raise


def _by_name(known: Mapping[str, type[Format]], name: Given) -> type[Format] | None:
    if name is None:
        return None
    if not isinstance(name, str) or name not in known:
        raise checks.refuse("format", repr(name), f"one of {', '.join(known)}", "choose one")
    return known[name]


def _refuse_options(options: Iterable[str], classes: Sequence[type[Source]]) -> None:
    for name in options:
        if not any(name in cls.options for cls in classes):
            kinds = " or ".join(cls.format for cls in classes)
            raise checks.refuse(name, "the option", f"none such for {kinds}", "leave it out")


def recognised(file: InputFile) -> type[Format]:
    """The format of a file; refused where its name and its content contradict each other."""
    if not file.head:
        raise checks.refuse(file.name, "an empty file", "rows", "check the file")
    named = _by_ending().get(file.ending)
    if named is not None and named.likeness(file.head):
        return named
    likely = max(formats().values(), key=lambda cls: cls.likeness(file.head))
    if named is None and likely.likeness(file.head):
        return likely
    content = likely.format if likely.likeness(file.head) else "of no format known here"
    raise checks.refuse(
        file.name,
        f"content that is {content}",
        f"{named.format}, as its name suggests" if named else f"one of {', '.join(formats())}",
        "rename the file, or choose its {format}",
    )
