"""Standard input: CSV or JSON lines, told apart by the first sign, used as it arrives."""

from __future__ import annotations

import io
import sys
from collections.abc import Collection, Iterator
from typing import IO, Any

from miniamp import checks
from miniamp.errors import InvalidInputError
from miniamp.streams.csv import CSV
from miniamp.streams.json_lines import JSONLines
from miniamp.streams.pieces import Piece
from miniamp.streams.text import BLOCK

NAME = "standard input"


class StandardInput:
    """The rows that are piped into the program: `kcat ... | miniamp fit -`.

    Parameters
    ----------
    file : binary file, optional
        What to read; standard input by default.
    options : dict
        `format`: "csv" or "jsonl" where the first sign should not decide; `delimiter`, `header`.
    """

    name = NAME
    again = False

    def __init__(self, options: dict[str, Any], file: IO[bytes] | None = None) -> None:
        self._options = dict(options)
        self._file = file
        kind = self._options.pop("format", None)
        if kind not in (None, "csv", "jsonl"):
            raise checks.refuse(
                "format", repr(kind), "'csv' or 'jsonl' for standard input", "choose one"
            )
        for name in self._options:
            if name not in ("delimiter", "header"):
                raise checks.refuse(
                    name, "the option", "none such for standard input", "leave it out"
                )
        self._format = kind

    def pieces(self, start: int, only: Collection[str] | None) -> Iterator[Piece]:
        """The rows from number `start` on."""
        file = self._file if self._file is not None else sys.stdin.buffer
        first = b""
        while not first.strip():
            fresh = getattr(file, "read1", file.read)(BLOCK)
            if not fresh:
                raise InvalidInputError(f"{NAME}: is empty; pipe CSV or JSON lines into it")
            first += fresh
        joined = _Rejoined(first, file)
        sign = first.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        if sign == b"[" and self._format is None:
            raise InvalidInputError(
                f"{NAME}: got a JSON array, expected one JSON object a line; "
                "write it as JSON lines, for instance with jq -c '.[]'"
            )
        if (self._format or ("jsonl" if sign == b"{" else "csv")) == "jsonl":
            return JSONLines(NAME, lambda: joined, again=False).pieces(start, only)
        return CSV(NAME, lambda: joined, again=False, **self._options).pieces(start, only)


class _Rejoined(io.BytesIO):
    """A pipe with the bytes put back that were read to see what it is; never closes the pipe."""

    def __init__(self, first: bytes, rest: IO[bytes]) -> None:
        super().__init__(first)
        self._rest = rest

    def read1(self, size: int | None = -1, /) -> bytes:
        own = super().read1(size)
        if own:
            return own
        fresh: bytes = getattr(self._rest, "read1", self._rest.read)(size or -1)
        return fresh
