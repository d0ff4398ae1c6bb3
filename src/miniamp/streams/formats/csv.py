"""CSV: parsed by pyarrow one block at a time, every cell as text first.

Reading cells as text and turning them into numbers later costs little, and lets an error name row,
column and value even when the rows came through a pipe and are gone.
"""

from __future__ import annotations

import codecs
import csv as standard_csv
import re
from collections.abc import Collection, Iterator
from typing import IO, cast

from miniamp import checks
from miniamp.errors import InvalidInputError
from miniamp.streams.cells import MISSING_TEXTS, is_number
from miniamp.streams.formats.base import (
    Format,
    InputFile,
    StandardInput,
    Targets,
    is_text,
    line_blocks,
    read_some,
    refuse_too_many,
)
from miniamp.streams.pieces import ArrowArray, Cells, NumberedNames, Piece, TablePiece

#: Recognised by the parser itself; other spellings are found later, cell by cell (`cells`).
_NO_VALUE = [*MISSING_TEXTS, "NA", "N/A", "#N/A", "NaN", "NULL", "None", "<NA>"]
_DELIMITERS = (",", ";", "\t", "|")
#: A number with a comma before its decimals.
_COMMA = r"^(\s*[-+]?\d*),(\d+(?:[eE][-+]?\d+)?\s*)$"


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
        file: InputFile | StandardInput,
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

    def _all(self, columns: Collection[str] | None) -> Iterator[Piece]:
        row = 0
        with self.file.opened() as file:
            if self._encoding != "utf-8":
                file = cast("IO[bytes]", _Recoded(file, self._encoding, self.name))
            blocks = line_blocks(file, self.name, quotes=True, live=not self.rereadable)
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
                wanted: dict[str, Cells] = {
                    name: column
                    for name, column in zip(names, cells, strict=True)
                    if columns is None or name in columns
                }
                yield TablePiece(self.name, row, rows, wanted)
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
        checks.refuse_duplicates(cells, self.name)
        return cells

    def _parsed(self, block: bytes, names: list[str], delimiter: str, row: int) -> list[ArrowArray]:
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
                    f"{width} as in the header",
                    f"check for a stray {delimiter!r} or a missing cell",
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
    return max(_DELIMITERS, key=lambda sign: line.count(sign.encode()))
