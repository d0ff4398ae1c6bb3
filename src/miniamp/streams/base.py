"""What all sources share: pieces of rows, files and their limits, and the classes to derive from.

A source reads *pieces*: some rows as they come, as named columns (CSV, Parquet, frames, records) or
as one block of numbers (NPY, LIBSVM, arrays). Later stages turn both into batches of exactly k
rows.
"""

from __future__ import annotations

import bz2
import gzip
import io
import os
import re
import stat
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from miniamp import checks
from miniamp.arrays import Given
from miniamp.errors import InvalidInputError, MiniampError

if TYPE_CHECKING:
    import pyarrow as pa
    import scipy.sparse as sp

#: A column as it was read.
Cells: TypeAlias = "NDArray[np.generic] | pa.Array"
#: A block of numbers of shape (k, N): dense, or a scipy CSR array.
Numbers: TypeAlias = "NDArray[np.float64] | sp.csr_array"
#: How far a source with an address was read, in its own plain values.
Mark: TypeAlias = dict[str, int | str]

#: About this many numbers are read at a time: 1 MB of float64. Larger pieces are hardly faster, and
#: a Parquet reader needs several times their size beside the pages that it holds anyway.
PIECE = 1 << 17
#: Every column has its cost per piece, so that pieces of many columns are larger: up to these rows
#: and numbers.
WIDE_ROWS, WIDE_PIECE = 64, 1 << 20
#: Bytes at the beginning of a file that decide what format it is.
HEAD = 4096
#: A line (or quoted field) longer than this is a file that is no text table.
LONGEST_LINE = 1 << 26

#: Limits of what a file may ask for, checked before memory is taken; SECURITY.md states them.
#: Columns of a table: each costs an object per piece, and pyarrow aborted on 1,000,000.
MAX_COLUMNS = 100_000
#: Features of sparse rows, unless the user asks for more: a model of them takes 24 bytes each.
MAX_FEATURES = 10_000_000
#: Bytes of one row.
MAX_ROW_BYTES = LONGEST_LINE
#: Bytes of arrays that are read whole (targets, sparse matrices), and how many times as large as in
#: the file they may be: 64-bit numbers of measurements pack 1 to 10 times, zeros 1,000 times.
MAX_WHOLE_BYTES = 1 << 31
MAX_EXPANSION = 200

#: How compressed files begin, and what unpacks them. Not xz, which may ask for gigabytes.
_PACKED: dict[bytes, Callable[..., IO[bytes]]] = {
    b"\x1f\x8b": lambda file: cast("IO[bytes]", gzip.GzipFile(fileobj=file)),
    b"BZh": bz2.BZ2File,
    b"\x28\xb5\x2f\xfd": lambda file: checks.needed(
        "pyarrow", "reading Zstandard"
    ).CompressedInputStream(file, "zstd"),
}
UTF16 = (b"\xff\xfe", b"\xfe\xff")


def rows_per_piece(columns: int) -> int:
    """How many rows of `columns` numbers make a piece of bounded size."""
    columns = max(columns, 1)
    wide = min(WIDE_ROWS, WIDE_PIECE // columns)
    return max(1, min(65536, max(PIECE // columns, wide)))


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows: columns by name, or a block X of numbers whose columns have no names."""

    #: Where they come from, for messages: a file's path, "standard input", "pandas DataFrame".
    origin: str
    row: int  #: number of the first row within its origin, counted from 0
    rows: int  #: how many rows
    columns: dict[str, Cells] = field(default_factory=dict)  #: in the source's order
    y: Cells | None = None  #: targets that were given separately
    X: Numbers | None = None  #: (rows, N) numbers

    @property
    def names(self) -> Sequence[str]:
        """The names of the columns; those of a block, x0, x1, ..., are made when asked for."""
        return list(self.columns) if self.X is None else NumberedNames(int(self.X.shape[1]))

    def targets(self, name: str | int | None) -> Cells | None:
        """The cells of the target, None where they are not known yet."""
        return self.y if name is None or self.X is not None else self.columns.get(str(name))

    def cut(self, begin: int, end: int) -> Piece:
        """Rows begin to end - 1."""
        part = slice(begin, min(end, self.rows))
        return replace(
            self,
            row=self.row + begin,
            rows=part.stop - begin,
            columns={name: cells[part] for name, cells in self.columns.items()},
            y=None if self.y is None else self.y[part],
            X=None if self.X is None else self.X[part],
        )


class NumberedNames(Sequence[str]):
    """The names x0, x1, ... of a source without names, made when asked for.

    Examples
    --------
    >>> names = NumberedNames(2_000_000_000)
    >>> names[-1], "x7" in names, "x07" in names
    ('x1999999999', True, False)
    """

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, j):  # type: ignore[no-untyped-def]  # int to str, slice to tuple
        numbers = range(self._size)[j]
        return f"x{numbers}" if isinstance(numbers, int) else tuple(f"x{i}" for i in numbers)

    def __contains__(self, name: object) -> bool:
        digits = name[1:] if isinstance(name, str) and name.startswith("x") else ""
        return digits.isdecimal() and str(int(digits)) == digits and int(digits) < self._size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # compared like a list


class Source(ABC):
    """Where rows come from."""

    #: What to call it in messages.
    name: str
    #: What the option `format` calls a format, and what an address begins with.
    format: ClassVar[str]
    #: Options of `open_stream` that it takes.
    options: ClassVar[tuple[str, ...]] = ()
    #: Whether it can be read more than once.
    rereadable: bool = True
    #: A column that orders the rows and is no feature unless the user lists it.
    key: str | None = None

    @abstractmethod
    def pieces(self, start: int, columns: Collection[str] | None) -> Iterator[Piece]:
        """The rows from number `start` on; of a table, at least these columns."""

    def count(self) -> int | None:
        """How many rows it has, if that is known without reading them."""
        return None

    def resume(self, position: int, mark: Mark | None) -> None:
        """Take note of the mark after `position` rows, where the source has marks."""
        return  # others need only the number of rows

    def mark(self, position: int) -> Mark | None:
        """What to resume from after `position` rows, where that number is not enough."""
        return None


def skip_rows(pieces: Iterable[Piece], start: int, name: str) -> Iterator[Piece]:
    """The pieces without their first `start` rows."""
    left = start
    for piece in pieces:
        if left >= piece.rows:
            left -= piece.rows
        else:
            yield piece.cut(left, piece.rows) if left else piece
            left = 0
    if left:
        raise too_short(name, start - left, start)


def too_short(name: str, rows: int, start: int) -> InvalidInputError:
    """The error for a source that ends before the row to resume from."""
    return checks.refuse(
        name, f"{rows} rows", f"more than the {start} to skip", "give the same source or start over"
    )


class Targets(NamedTuple):
    """The targets of a file without column names: themselves, or what they are called in it."""

    y: Given = None
    name: str | None = None


class InputFile:
    """A file, opened once to recognise it and read it; reading it again opens it again.

    Parameters
    ----------
    path : Path
        The file, compressed or not.
    """

    rereadable = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)
        with readable(self.name):
            if not stat.S_ISREG(path.stat().st_mode):
                raise checks.refuse(self.name, "a pipe or device", "a file", "pipe its rows into -")
            # A bare handle: a file object that is older than the generator that reads it may be
            # finalised before it when both are garbage.
            self._handle: int | None = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            head = os.read(self._handle, HEAD)
            self._unpacked = _unpacking(head)
            if self._unpacked is not None:
                os.lseek(self._handle, 0, os.SEEK_SET)
                with os.fdopen(os.dup(self._handle), "rb") as packed:
                    head = self._unpacked(packed).read(HEAD)
            self.head = head
        self.ending = ending_of(path)

    def grows(self) -> bool:
        """Whether something was appended since the file was opened to be read."""
        return self.path.exists() and self.path.stat().st_size > self._size

    def close(self) -> None:
        """Close the file if it has not been read yet."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """The bytes from the beginning, unpacked if they are compressed."""
        with ExitStack() as stack:
            handle, self._handle = self._handle, None
            file: IO[bytes] = self.path.open("rb") if handle is None else os.fdopen(handle, "rb")
            stack.enter_context(file)
            file.seek(0)
            self._size = os.fstat(file.fileno()).st_size
            if self._unpacked is not None:
                file = stack.enter_context(self._unpacked(file))
            yield file


def _unpacking(head: bytes) -> Callable[..., IO[bytes]] | None:
    """What unpacks a file that begins so; None where it is not compressed."""
    return next((unpack for mark, unpack in _PACKED.items() if head.startswith(mark)), None)


def ending_of(path: Path) -> str:
    """The ending of a name, in lower case, without that of a compression."""
    return Path(re.sub(r"\.(gz|bz2|zst)$", "", path.name.lower())).suffix


class StandardInput:
    """What is piped into the program; read once."""

    name = "standard input"
    rereadable = False
    ending = ""

    def __init__(self) -> None:
        self._file: io.BufferedReader = cast(io.BufferedReader, sys.stdin.buffer)
        self.head = b""

    def look(self) -> bytes:
        """The first bytes that are no blank, waited for; they are read again by `opened`."""
        while not self.head.strip():
            with readable(self.name):
                self._file.read1(len(self.head))
                self.head = self._file.peek()
            if not self.head:
                raise checks.refuse(
                    self.name, "no rows", "CSV or JSON lines", "pipe them into the program"
                )
            unpack = _unpacking(self.head)
            if unpack is not None:
                self._file = io.BufferedReader(cast("io.RawIOBase", unpack(self._file)))
                self.head = b""
        return self.head

    def grows(self) -> bool:
        """False: it has ended where it is read to its end."""
        return False

    def close(self) -> None:
        """Nothing: standard input stays open."""

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """The bytes from the first row on; standard input itself stays open."""
        yield self._file


#: The bytes that a format reads.
Input: TypeAlias = InputFile | StandardInput


@contextmanager
def readable(name: str, format: str = "") -> Iterator[None]:  # noqa: A002 (as in open_stream)
    """The boundary of a format: whatever a decoder raises is an error about the file.

    Which exceptions damaged bytes provoke in zlib, zipfile, pyarrow, NumPy or json cannot be
    listed: mutated files gave zlib.error, BadZipFile, RecursionError, OverflowError and others.
    """
    try:
        yield
    except MiniampError:
        raise
    except Exception as error:
        # The operating system gives a reason; decoders that raise OSError give none.
        if isinstance(error, OSError) and error.strerror is not None:
            received = f"an error when reading it ({error.strerror})"
            raise checks.refuse(name, received, "a file", "check the path") from error
        reason = (str(error).splitlines() or [""])[0] or type(error).__name__
        raise checks.refuse(
            name,
            f"a file that is damaged or cut short ({reason:.100})",
            f"a whole {format} file".replace("  ", " "),
            "write or copy it again",
        ) from error


class Format(Source):
    """A file format, found by its name, the ending of a file, or its first bytes.

    A new format is one file with a subclass, and an export from `miniamp.streams.formats`. The
    ending comes before the first bytes: no two formats can have the same.

    Parameters
    ----------
    file : InputFile or StandardInput
        The bytes.
    targets : Targets
        For formats without column names (`takes_targets`), where the targets are.
    """

    endings: ClassVar[tuple[str, ...]]
    #: First bytes of every such file; none for text.
    marks: ClassVar[tuple[bytes, ...]] = ()
    takes_targets: ClassVar[bool] = False
    #: Whether it can be read from a pipe.
    piped: ClassVar[bool] = False
    #: Whether a library opens the file by its path.
    by_path: ClassVar[bool] = False

    def __init__(self, file: Input, targets: Targets) -> None:
        if targets.y is not None and not self.takes_targets:
            raise checks.refuse(
                "target", "an array", f"a column's name for {self.format}", "name the column"
            )
        self.name = file.name
        self.rereadable = file.rereadable
        self.file = file
        if self.by_path:
            file.close()

    @classmethod
    def likeness(cls, head: bytes) -> int:
        """Whether a file that begins so can be this: 3 surely, 2 probably, 1 perhaps, 0 not."""
        return 3 * any(head.startswith(mark) for mark in cls.marks)

    def beside(self, files: Sequence[Format]) -> None:
        """Use what only all files of a folder together show, such as the number of features."""

    @abstractmethod
    def pieces(self, start: int, columns: Collection[str] | None) -> Iterator[Piece]:
        """At least the rows from number `start` on; a format that cannot seek gives all rows."""


def refuse_too_many(columns: int, name: str, most: int = MAX_COLUMNS, remedy: str = "") -> None:
    """Refuse more columns than the limit."""
    if columns > most:
        raise checks.refuse(
            name, f"{columns:,} columns", f"at most {most:,}", remedy or "split or transpose it"
        )


def refuse_expansion(name: str, size: int, packed: int, remedy: str) -> None:
    """Refuse a part that is out of proportion to its compressed bytes."""
    limit = min(MAX_WHOLE_BYTES, max(MAX_ROW_BYTES, MAX_EXPANSION * packed))
    if size > limit:
        received = f"{packed:,} compressed bytes that become {size:,}"
        raise checks.refuse(name, received, f"at most {limit:,}", remedy)
