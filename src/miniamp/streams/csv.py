"""CSV: parsed by pyarrow a block at a time, every cell as text first.

Reading cells as text and turning them into numbers later costs little, and lets an error name row,
column and value even when the rows came through a pipe and are gone.
"""

from __future__ import annotations

import csv as standard_csv
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from typing import IO, Any

from miniamp import checks
from miniamp.errors import InvalidInputError
from miniamp.streams.cells import BadCell, parsed
from miniamp.streams.extras import needed
from miniamp.streams.pieces import Piece, Table, refuse_doubles, skipping
from miniamp.streams.text import line_blocks

#: Recognised by the parser itself; rarer spellings are found later, cell by cell (`cells`).
_NO_VALUE = ["", "NA", "N/A", "#N/A", "NaN", "nan", "NULL", "null", "None", "none", "<NA>", "?"]
_DELIMITERS = (",", ";", "\t", "|")


class CSV:
    """The rows of a CSV file, or of anything that opens as one.

    Parameters
    ----------
    name : str
        For messages.
    open_file : callable
        Gives a binary file at its beginning.
    delimiter : str, optional
        The sign between cells; by default the one of , ; tab | that is most frequent in the header.
    header : bool
        Whether the first line has the names of the columns; without, they are x0, x1, ...
    again : bool
        Whether `open_file` may be called more than once.
    """

    def __init__(
        self,
        name: str,
        open_file: Callable[[], IO[bytes]],
        *,
        delimiter: str | None = None,
        header: bool = True,
        again: bool = True,
    ) -> None:
        needed("pyarrow", "reading CSV")
        if delimiter is not None and len(delimiter) != 1:
            raise checks.refuse("delimiter", repr(delimiter), "one character", "write ',' or ';'")
        self.name = name
        self.again = again
        self._open = open_file
        self._delimiter = delimiter
        self._header = header

    def pieces(self, start: int, only: Collection[str] | None) -> Iterator[Piece]:
        """The rows from number `start` on."""
        return skipping(self._tables(only), start, self.name)

    def _tables(self, only: Collection[str] | None) -> Iterator[Piece]:
        row = 0
        with closing(self._open()) as file:
            blocks = line_blocks(file, self.name, quotes=True, live=not self.again)
            first = next(blocks, None)
            while first is not None and not first.strip():  # blank lines before the header
                first = next(blocks, None)
            if first is None:
                raise InvalidInputError(f"{self.name}: is empty; expected a header line and rows")
            line, rest = _first_line(first)
            delimiter = self._delimiter or _likely(line)
            names = self._names(line, delimiter)
            if not self._header:
                rest = first
            for block in _with_first(rest, blocks):
                table = self._parsed(block, names, delimiter, row)
                columns = {
                    name: table.column(j).combine_chunks()
                    for j, name in enumerate(names)
                    if only is None or name in only
                }
                yield Table(self.name, row, table.num_rows, columns)
                row += table.num_rows

    def _names(self, line: bytes, delimiter: str) -> list[str]:
        try:
            text = line.decode()
        except UnicodeDecodeError:
            raise InvalidInputError(
                f"{self.name}: the first line is not UTF-8 text; convert the file to UTF-8"
            ) from None
        if "\r" in text.rstrip("\r\n") and '"' not in text:
            raise InvalidInputError(
                f"{self.name}: lines end with carriage returns alone; convert the line ends first"
            )
        cells = [cell.strip() for cell in next(standard_csv.reader([text], delimiter=delimiter))]
        if not self._header:
            return [f"x{j}" for j in range(len(cells))]
        if all(_is_number(cell) for cell in cells):
            raise InvalidInputError(
                f"{self.name}: the first line holds only numbers, expected the names of the "
                "columns; write a header line, or pass header=False"
            )
        refuse_doubles(cells, self.name)
        return cells

    def _parsed(self, block: bytes, names: list[str], delimiter: str, row: int) -> Any:
        """One block as a table of strings."""
        pa = needed("pyarrow", "reading CSV")
        csv = needed("pyarrow.csv", "reading CSV")
        numbers = [f"{j}" for j in range(len(names))]
        try:
            return csv.read_csv(
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
            raise InvalidInputError(
                self._explained(block, names, delimiter, row, str(error))
            ) from None

    def _explained(
        self, block: bytes, names: list[str], delimiter: str, row: int, error: str
    ) -> str:
        """What is wrong with the block, naming the first bad row."""
        text = block.decode("utf-8", errors="replace")
        if "\ufffd" in text:
            at = text.count("\n", 0, text.index("\ufffd"))
            return f"{self.name}, row {row + at + 1}: is not UTF-8 text; convert the file to UTF-8"
        number = row
        for cells in standard_csv.reader(text.splitlines(keepends=True), delimiter=delimiter):
            if not cells:
                continue
            number += 1
            if len(cells) != len(names):
                return (
                    f"{self.name}, row {number}: got {len(cells)} cells, expected {len(names)} as "
                    f"in the header; check for a stray {delimiter!r} or a missing cell"
                )
        return f"{self.name}, row {row + 1}: cannot be read as CSV ({error.splitlines()[0]:.120})"


def _first_line(block: bytes) -> tuple[bytes, bytes]:
    block = block.lstrip(b"\r\n")
    end = block.find(b"\n") + 1 or len(block)
    while block.count(b'"', 0, end) % 2 and end < len(block):
        end = block.find(b"\n", end) + 1 or len(block)
    return block[:end], block[end:]


def _with_first(first: bytes, blocks: Iterator[bytes]) -> Iterator[bytes]:
    if first.strip():
        yield first
    for block in blocks:
        if not block.isspace():
            yield block


def _likely(line: bytes) -> str:
    counts = [line.count(sign.encode()) for sign in _DELIMITERS]
    return _DELIMITERS[counts.index(max(counts))]


def _is_number(cell: str) -> bool:
    try:
        parsed(cell)
    except BadCell:
        return False
    return cell != ""
