"""Text read in blocks that end at the end of a line, from files, gzipped files and pipes."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from miniamp.errors import InvalidInputError

#: Bytes read at a time. Larger blocks gain nothing in speed and cost several times their size.
BLOCK = 1 << 20
#: Blocks of wide lines are larger, to hold about this many of them, up to this many bytes.
LINES = 64
WIDEST = 1 << 24
#: A line (or quoted field) longer than this is a file that is no text table.
LONGEST_LINE = 1 << 26

_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


def opened(path: Path) -> IO[bytes]:
    """The file as bytes, unpacked if it is gzipped, whatever its name."""
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP
    return cast("IO[bytes]", gzip.open(path, "rb") if packed else path.open("rb"))


def line_blocks(
    file: IO[Any], name: str, *, quotes: bool = False, live: bool = False
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
    read = getattr(file, "read1", file.read) if live else file.read
    rest = b""
    begun = False
    size = BLOCK
    while True:
        try:
            fresh = read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InvalidInputError(
                f"{name}: the gzip file is damaged or cut short ({error}); fetch it again"
            ) from None
        if not begun and fresh:
            fresh, begun = _without_mark(fresh, name), True
            # Each of many columns has its cost a block, so wide lines are read more at a time.
            size = max(BLOCK, min(WIDEST, BLOCK * LINES // (fresh.count(b"\n") + 1)))
        if not fresh:
            break
        block = rest + fresh
        end = _last_line_end(block, quotes)
        if end:
            yield block[:end]
        rest = block[end:]
        if len(rest) > LONGEST_LINE:
            raise InvalidInputError(
                f"{name}: a line is longer than {LONGEST_LINE >> 20} MB, expected a text table; "
                "check that quotes are closed and that this is the right file"
            )
    if quotes and rest.count(b'"') % 2:
        raise InvalidInputError(
            f"{name}: a cell opens with a quote that is never closed, in or after the line "
            f"{rest.splitlines()[0].decode(errors='replace')!r:.60}; close it or double it"
        )
    if rest and not rest.isspace():
        yield rest


def _without_mark(fresh: bytes, name: str) -> bytes:
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if fresh.startswith(mark):
            raise InvalidInputError(
                f"{name}: is written in {encoding}, expected UTF-8; convert it first"
            )
    return fresh.removeprefix(b"\xef\xbb\xbf")


def _last_line_end(block: bytes, quotes: bool) -> int:
    """Index after the last line end that is outside quotes, 0 if there is none."""
    end = block.rfind(b"\n") + 1
    if not quotes or b'"' not in block:
        return end
    # A quote within a quoted field is doubled, so an even number of them is always outside.
    total = block.count(b'"', 0, end)
    while end and total % 2:
        before = block.rfind(b"\n", 0, end - 1) + 1
        total -= block.count(b'"', before, end)
        end = before
    return end


def is_text(start: bytes) -> bool:
    """Whether the first bytes of a file look like text."""
    return b"\x00" not in start or start.startswith(tuple(_BYTE_ORDER_MARKS))
