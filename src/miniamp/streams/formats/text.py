"""Text: CSV, parsed by pyarrow one block at a time, JSON lines, and blocks of whole lines.

Reading cells of a CSV as text and turning them into numbers later costs little, and lets an error
name row, column and value even when the rows came through a pipe and are gone.
"""

from __future__ import annotations

import codecs
import csv as standard_csv
import json
import re
import warnings
from collections.abc import Callable, Collection, Iterator
from typing import IO, TYPE_CHECKING, cast

from miniamp import checks
from miniamp.errors import InvalidInputError, MiniampWarning
from miniamp.streams.base import (
    LONGEST_LINE,
    UTF16,
    Format,
    Input,
    NumberedNames,
    Piece,
    Targets,
    refuse_too_many,
)
from miniamp.streams.cells import MISSING_TEXTS, is_number
from miniamp.streams.in_memory import record_pieces

if TYPE_CHECKING:
    import pyarrow as pa

#: Bytes of text read at a time. Larger blocks gain nothing in speed and cost several times that.
BLOCK = 1 << 20
#: Blocks of wide lines are larger, to hold about this many of them, up to this many bytes.
LINES = 64
WIDEST = 1 << 24
#: Recognised by the parser itself; other spellings are found later, cell by cell (`cells`).
_NO_VALUE = [*MISSING_TEXTS, "NA", "N/A", "#N/A", "NaN", "NULL", "<NA>"]
_DELIMITERS = (",", ";", "\t", "|")
#: A number with a comma before its decimals, and maybe a currency or a percent sign, or signs
#: between thousands.
_COMMA = (
    r"^(\s*[-+]?[$€£¥]? ?(?:\d*|\d{1,3}(?:['\x{2019} \x{a0}\x{202f}]\d{3})+)),"
    r"(\d+(?:[eE][-+]?\d+)? ?[%€]?\s*)$"
)


class CSV(Format):
    """The rows of a CSV file.

    Parameters
    ----------
    file, targets
        See `Format`.
    delimiter : str, optional
        The separator; by default the one of , ; tab | that is most frequent in the header.
    header : bool
        Whether the first line has the names of the columns; without, they are x0, x1, ...
    decimal : str
        The sign before the decimals, "." or ",".
    encoding : str
        The encoding of the text, such as "latin-1".
    """

    format = "csv"
    endings = (".csv", ".tsv", ".txt")
    options = ("delimiter", "header", "decimal", "encoding")
    piped = True

    def __init__(
        self,
        file: Input,
        targets: Targets,
        *,
        delimiter: str | None = None,
        header: bool = True,
        decimal: str = ".",
        encoding: str = "utf-8",
    ) -> None:
        super().__init__(file, targets)
        checks.needed("pyarrow", "reading CSV")
        if decimal not in (".", ","):
            raise checks.refuse("decimal", repr(decimal), "'.' or ','", "choose one")
        try:
            self._encoding = codecs.lookup(encoding).name
        except LookupError:
            raise checks.refuse(
                "encoding", repr(encoding), "a known encoding", "write 'utf-8' or 'latin-1'"
            ) from None
        self._decimal = decimal
        if delimiter is not None and len(delimiter) != 1:
            raise checks.refuse("delimiter", repr(delimiter), "one character", "write ',' or ';'")
        self._delimiter = "\t" if delimiter is None and file.ending == ".tsv" else delimiter
        self._header = header

    @classmethod
    def likeness(cls, head: bytes) -> int:
        return 2 * is_text(head)

    def pieces(self, start: int, columns: Collection[str] | None) -> Iterator[Piece]:
        row = 0
        with self.file.opened() as file:
            if self._encoding != "utf-8":
                file = cast("IO[bytes]", _Recoded(file, self._encoding, self.name))
            live, grows = not self.rereadable, self.file.grows
            blocks = line_blocks(file, self.name, quotes=True, live=live, grows=grows)
            first = next((block for block in blocks if block.strip()), None)
            if first is None:
                raise checks.refuse(
                    self.name, "an empty file", "a header line and rows", "check the file"
                )
            line, rest = _first_line(first)
            delimiter = self._delimiter or _likely(line)
            names = self._names(line, delimiter)
            for block in _with_first(rest if self._header else first, blocks):
                cells = self._parsed(block, names, delimiter, row)
                rows = len(cells[0])
                wanted = {
                    name: column
                    for name, column in zip(names, cells, strict=True)
                    if columns is None or name in columns
                }
                yield Piece(self.name, row, rows, wanted)
                row += rows

    def _names(self, line: bytes, delimiter: str) -> list[str]:
        try:
            text = line.decode()
        except UnicodeDecodeError:
            raise self._not_utf8(f"{self.name}, first line") from None
        if "\r" in text.rstrip("\r\n") and '"' not in text:
            raise checks.refuse(
                self.name, "lines that end with carriage returns alone", "line ends", "convert them"
            )
        refuse_too_many(text.count(delimiter) + 1, self.name)
        cells = [cell.strip() for cell in next(standard_csv.reader([text], delimiter=delimiter))]
        if not self._header:
            return list(NumberedNames(len(cells)))
        if all(is_number(cell) and cell != "" for cell in cells):
            raise checks.refuse(
                f"{self.name}, first line",
                "only numbers",
                "the names of the columns",
                "write a header line, or use {header=False}",
            )
        checks.refuse_duplicates([cell for cell in cells if cell], self.name)
        return cells

    def _parsed(self, block: bytes, names: list[str], delimiter: str, row: int) -> list[pa.Array]:
        """The columns of one block, as strings."""
        pa = checks.needed("pyarrow", "reading CSV")
        csv = checks.needed("pyarrow.csv", "reading CSV")
        numbers = [f"{j}" for j in range(len(names))]
        try:
            table = csv.read_csv(
                pa.BufferReader(block),
                csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=numbers),
                csv.ParseOptions(delimiter=delimiter, newlines_in_values=b'"' in block),
                csv.ConvertOptions(
                    column_types=dict.fromkeys(numbers, pa.string()),
                    null_values=_NO_VALUE,
                    strings_can_be_null=True,
                ),
            )
        except pa.ArrowInvalid as error:
            raise self._explained(block, len(names), delimiter, row, str(error)) from None
        columns = [column.combine_chunks() for column in table.columns]
        if self._decimal == ",":
            point = checks.needed("pyarrow.compute", "reading CSV").replace_substring_regex
            columns = [point(c, pattern=_COMMA, replacement=r"\1.\2") for c in columns]
        return columns

    def _explained(
        self, block: bytes, width: int, delimiter: str, row: int, reason: str
    ) -> InvalidInputError:
        """What is wrong with the block, naming the first bad row."""
        text = block.decode("utf-8", errors="replace")
        if "\ufffd" in text:
            before = text.count("\n", 0, text.index("\ufffd"))
            return self._not_utf8(f"{self.name}, row {row + before + 1}")
        # Only these end a line; str.splitlines would also cut at U+2028 and others within a cell.
        lines = re.findall(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+$", text)
        for cells in standard_csv.reader(lines, delimiter=delimiter):
            row += bool(cells)
            if cells and len(cells) != width:
                return checks.refuse(
                    f"{self.name}, row {row}",
                    f"{len(cells)} cells",
                    f"{width} as in the first line",
                    f"check for a stray or missing {delimiter!r}, and that the header comes first",
                )
        return checks.refuse(
            f"{self.name}, near row {row}",
            f"text that is no CSV ({reason.splitlines()[0]:.120})",
            "cells between separators",
            "check quotes and separators",
        )

    def _not_utf8(self, place: str) -> InvalidInputError:
        return checks.refuse(
            place, "bytes that are not UTF-8 text", "UTF-8", "name its {encoding=latin-1}"
        )


class _Recoded:
    """A file of text in another encoding, as UTF-8."""

    def __init__(self, file: IO[bytes], encoding: str, name: str) -> None:
        self._file, self._encoding, self._name = file, encoding, name
        self._decoder = codecs.getincrementaldecoder(encoding)()

    def read(self, size: int = -1) -> bytes:
        while True:
            raw = read_some(self._file, size)
            try:
                text = self._decoder.decode(raw, final=not raw)
            except UnicodeDecodeError:
                raise checks.refuse(
                    self._name,
                    f"bytes that are not {self._encoding} text",
                    f"{self._encoding}",
                    "name another {encoding}",
                ) from None
            if text or not raw:  # a character may have arrived in part
                return text.encode()

    read1 = read


def _first_line(block: bytes) -> tuple[bytes, bytes]:
    block = block.lstrip(b"\r\n")
    begin = end = quotes = 0
    while end < len(block) and (end == 0 or quotes % 2):
        begin, end = end, block.find(b"\n", end) + 1 or len(block)
        quotes += block.count(b'"', begin, end)
    return block[:end], block[end:]


def _with_first(first: bytes, blocks: Iterator[bytes]) -> Iterator[bytes]:
    if first.strip():
        yield first
    for block in blocks:
        if not block.isspace():
            yield block


def _likely(line: bytes) -> str:
    line = re.sub(rb'"[^"]*"', b"", line)  # names may have commas
    return max(_DELIMITERS, key=lambda sign: line.count(sign.encode()))


class JSONLines(Format):
    """The objects of a JSON lines file; a key that an object lacks is a missing value."""

    format = "jsonl"
    endings = (".jsonl", ".ndjson", ".json")
    piped = True

    @classmethod
    def likeness(cls, head: bytes) -> int:
        if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
            return 3
        return int(is_text(head))

    def pieces(self, start: int, columns: Collection[str] | None) -> Iterator[Piece]:
        return record_pieces(self._objects(), self.name, columns)

    def _objects(self) -> Iterator[list[dict[str, object]]]:
        row = 0
        with self.file.opened() as file:
            live, grows = not self.rereadable, self.file.grows
            for block in line_blocks(file, self.name, live=live, grows=grows):
                objects = []
                for line in block.split(b"\n"):
                    if line.strip():
                        row += 1
                        objects.append(json_object(line, f"{self.name}, row {row}"))
                yield objects


def json_object(line: bytes, place: str) -> dict[str, object]:
    """The JSON object of a row; `place` names it in the error where it is none."""
    refuse_too_many(line.count(b":"), place)
    try:
        value = json.loads(line)
        if b"\\u" in line:  # half a surrogate pair is no text that could be written again
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        value = line.decode(errors="replace")
    if not isinstance(value, dict):
        received = f"{value!r:.60}" if isinstance(value, str) else type(value).__name__
        remedy = 'write each row as {"name": value, ...}'
        lists = isinstance(value, list) and not any(isinstance(one, dict) for one in value)
        if line.lstrip().startswith(b"[") and not lists:
            received, remedy = "a JSON array", "convert it, for instance with jq -c '.[]'"
        raise checks.refuse(place, received, "one JSON object per row", remedy)
    return value


def is_text(head: bytes) -> bool:
    """Whether the first bytes of a file look like text."""
    return b"\x00" not in head or head.startswith(UTF16)


def line_blocks(
    file: IO[bytes],
    name: str,
    *,
    quotes: bool = False,
    live: bool = False,
    grows: Callable[[], bool] = bool,
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
    grows : callable
        Whether the file is being written: a final line without an end is then left for later.

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
    if rest and grows():
        text = f"{name} is being written, and its last line has no end yet: that row is left out"
        warnings.warn(MiniampWarning(text), stacklevel=2)
        return
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
    if fresh.startswith(UTF16):
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


def read_some(file: IO[bytes], size: int) -> bytes:
    """What has arrived, without waiting for `size` bytes."""
    fresh: bytes = getattr(file, "read1", file.read)(size)
    return fresh
