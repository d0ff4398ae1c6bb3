"""What file formats share: how one is found, opened, and read in blocks of whole lines."""

from __future__ import annotations

import gzip
import io
import os
import stat
import sys
import zlib
from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, ClassVar, NamedTuple, cast

from miniamp import checks
from miniamp.arrays import Given
from miniamp.errors import InvalidInputError, MiniampError
from miniamp.streams.pieces import Piece, Source, skip_rows

#: Bytes at the beginning of a file that decide what format it is.
HEAD = 4096
#: Bytes of text read at a time. Larger blocks gain nothing in speed and cost several times that.
BLOCK = 1 << 20
#: Blocks of wide lines are larger, to hold about this many of them, up to this many bytes.
LINES = 64
WIDEST = 1 << 24
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

_GZIP = b"\x1f\x8b"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class Targets(NamedTuple):
    """The targets of a file without column names: themselves, or what they are called in it."""

    y: Given = None
    name: str | None = None


class InputFile:
    """A file, opened once to recognise it and read it; reading it again opens it again.

    Parameters
    ----------
    path : Path
        The file, gzipped or not.
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
            self.gzipped = head.startswith(_GZIP)
            self.head = zlib.decompressobj(31).decompress(head, HEAD) if self.gzipped else head

    @property
    def ending(self) -> str:
        """The ending of the name, in lower case, without that of gzip."""
        return ending_of(self.path)

    def close(self) -> None:
        """Close the file if it has not been read yet."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """The bytes from the beginning, unpacked if they are gzipped."""
        with ExitStack() as stack:
            handle, self._handle = self._handle, None
            file: IO[bytes] = self.path.open("rb") if handle is None else os.fdopen(handle, "rb")
            stack.enter_context(file)
            file.seek(0)
            if self.gzipped:
                file = cast("IO[bytes]", stack.enter_context(gzip.GzipFile(fileobj=file)))
            yield file


def ending_of(path: Path) -> str:
    """The ending of a name, in lower case, without that of gzip."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


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
            if self.head.startswith(_GZIP):
                self._file = io.BufferedReader(gzip.GzipFile(fileobj=self._file))
                self.head = b""
        return self.head

    def close(self) -> None:
        """Nothing: standard input stays open."""

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """The bytes from the first row on; standard input itself stays open."""
        yield self._file


def read_some(file: IO[bytes], size: int) -> bytes:
    """What has arrived, without waiting for `size` bytes."""
    fresh: bytes = getattr(file, "read1", file.read)(size)
    return fresh


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
    except OSError as error:
        if error.strerror is not None:  # of the operating system; decoders give none
            raise checks.refuse(
                name, f"an error when reading it ({error.strerror})", "a file", "check the path"
            ) from error
        raise damaged(name, format, error) from error
    except Exception as error:
        raise damaged(name, format, error) from error


def damaged(name: str, format: str, error: Exception) -> InvalidInputError:  # noqa: A002
    """The error for a file that is not a whole file of its format."""
    reason = (str(error).splitlines() or [""])[0] or type(error).__name__
    return checks.refuse(
        name,
        f"a file that is damaged or cut short ({reason:.100})",
        f"a whole {format} file".replace("  ", " "),
        "write or copy it again",
    )


class Format(Source):
    """A file format, found by its name, the ending of a file, or its first bytes.

    A new format is one file with a subclass, and an export from `miniamp.streams.formats`.

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

    def __init__(self, file: InputFile | StandardInput, targets: Targets) -> None:
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

    def pieces(self, start: int, columns: Collection[str] | None) -> Iterator[Piece]:
        with readable(self.name, self.format):
            yield from self._from(start, columns)

    def _from(self, start: int, columns: Collection[str] | None) -> Iterator[Piece]:
        """The rows from number `start` on; a format that can seek overrides this."""
        return skip_rows(self._all(columns), start, self.name)

    @abstractmethod
    def _all(self, columns: Collection[str] | None) -> Iterator[Piece]:
        """The rows from the first on."""


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


def is_text(head: bytes) -> bool:
    """Whether the first bytes of a file look like text."""
    return b"\x00" not in head or head.startswith(_UTF16)


def line_blocks(
    file: IO[bytes], name: str, *, quotes: bool = False, live: bool = False
) -> Iterator[bytes]:
    r"""Blocks of whole lines, each as soon as the file has some; a final line may lack its end.

    Parameters
    ----------
    file : binary file
        Read to its end.
    name : str
        For messages.
    quotes : bool
        Whether a line end between double quotes belongs to the field (CSV).
    live : bool
        For a pipe: what has arrived is passed on without waiting for more.

    Examples
    --------
    >>> import io
    >>> list(line_blocks(io.BytesIO(b'a,b\n1,"x\ny"\n2,z'), "data", quotes=True))
    [b'a,b\n1,"x\ny"\n', b'2,z']
    """
    waiting: list[bytes] = []  # blocks without a line end outside quotes, each looked at once
    length, open_quote, size = 0, False, 0
    while fresh := read_some(file, size or BLOCK) if live else file.read(size or BLOCK):
        if not size:
            fresh = _without_mark(fresh, name)
            # Each of many columns has its cost per block, so wide lines are read more at a time.
            size = max(BLOCK, min(WIDEST, BLOCK * LINES // (fresh.count(b"\n") + 1)))
        end, open_quote = _last_line_end(fresh, quotes, open_quote)
        if end:
            yield b"".join([*waiting, fresh[:end]])
            waiting, length = [], 0
        waiting.append(fresh[end:])
        length += len(fresh) - end
        if length > LONGEST_LINE:
            raise checks.refuse(
                name,
                f"a line longer than {LONGEST_LINE >> 20} MB",
                "a text table",
                "check that quotes are closed and that this is the right file",
            )
    rest = b"".join(waiting)
    if open_quote:
        line = rest.split(b"\n", 1)[0].decode(errors="replace")
        raise checks.refuse(
            name,
            f"a quote that is never closed, in or after the line {line!r:.60}",
            "quotes in pairs",
            "close it or double it",
        )
    if rest and not rest.isspace():
        yield rest


def _without_mark(fresh: bytes, name: str) -> bytes:
    if fresh.startswith(_UTF16):
        raise checks.refuse(name, "text in UTF-16", "UTF-8", "convert the file to UTF-8")
    return fresh.removeprefix(b"\xef\xbb\xbf")


def _last_line_end(block: bytes, quotes: bool, open_quote: bool) -> tuple[int, bool]:
    """Index after the last line end outside quotes (0: none), and whether a quote is open at last.

    A quote within a quoted field is doubled, so an even number of them is always outside.
    """
    end = block.rfind(b"\n") + 1
    if not quotes or not (open_quote or b'"' in block):
        return end, open_quote
    inside = open_quote ^ bool(block.count(b'"', 0, end) % 2)
    still_open = inside ^ bool(block.count(b'"', end) % 2)
    while end and inside:
        before = block.rfind(b"\n", 0, end - 1) + 1
        inside ^= bool(block.count(b'"', before, end) % 2)
        end = before
    return end, still_open
