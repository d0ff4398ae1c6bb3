"""LIBSVM (svmlight) files: `target index:value ...`, read into sparse rows."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from miniamp import checks
from miniamp.arrays import Array
from miniamp.errors import InvalidInputError
from miniamp.streams.base import (
    MAX_FEATURES,
    Format,
    Input,
    Piece,
    Targets,
    readable,
    refuse_too_many,
)
from miniamp.streams.formats.text import is_text, line_blocks

_FIRST_LINE = re.compile(rb"\S+( qid:\d+)?( \d+:[^\s,;]+)+\s*(#|$)")


class LIBSVM(Format):
    """The rows of one LIBSVM file, as sp.csr_array.

    Parameters
    ----------
    file, targets
        See `Format`.
    n_features : int, optional
        The number of features; by default the file is searched once for the largest index.
    zero_based : bool or "auto"
        Whether indices count from 0; "auto" does where the file has an index 0.
    """

    format = "libsvm"
    endings = (".libsvm", ".svmlight", ".svm")
    options = ("n_features", "zero_based")

    def __init__(
        self,
        file: Input,
        targets: Targets,
        *,
        n_features: int | None = None,
        zero_based: bool | str = "auto",
    ) -> None:
        super().__init__(file, targets)
        if zero_based not in (True, False, "auto"):
            raise checks.refuse("zero_based", repr(zero_based), "True, False or 'auto'", "choose")
        if n_features is not None:
            n_features = checks.count("n_features", n_features)
        self._asked, self._zero_based, self._ends = n_features, zero_based, (1, 0)
        if n_features is None or zero_based == "auto":
            with readable(self.name, self.format):
                self._ends = self._range()
        if n_features is None:
            remedy = "check the largest index, or set {n_features} if there are so many"
            refuse_too_many(self._ends[1], self.name, MAX_FEATURES, remedy)
        self.beside([self])
        if self.n_features < 1:
            raise checks.refuse(
                self.name, "no index:value pair", "at least one", "check it, or {n_features=3}"
            )

    def beside(self, files: Sequence[Format]) -> None:
        """Where indices begin, and how many features there are, in all files together."""
        ends = [file._ends for file in files if isinstance(file, LIBSVM)]
        least, most = min(end[0] for end in ends), max(end[1] for end in ends)
        first = least == 0 if self._zero_based == "auto" else self._zero_based
        self._base = 0 if first else 1
        self.n_features = self._asked or most + 1 - self._base

    @classmethod
    def likeness(cls, head: bytes) -> int:
        line = (head.strip().splitlines() or [b""])[0]
        return 3 if _FIRST_LINE.match(line) else int(is_text(head))

    def _lines(self) -> Iterator[list[bytes]]:
        with self.file.opened() as file:
            for block in line_blocks(file, self.name, grows=self.file.grows):
                lines = [line.split(b"#", 1)[0].strip() for line in block.splitlines()]
                yield [line for line in lines if line]

    def _range(self) -> tuple[int, int]:
        """Least and largest index; indices ascend within a line, so its ends are enough."""
        least, most, row = 1, 0, 0
        for lines in self._lines():
            for line in lines:
                row += 1
                pairs = _pairs(line)
                if pairs:
                    least = min(least, self._index(pairs[0], row))
                    most = max(most, self._index(pairs[-1], row))
        return least, most

    def _index(self, pair: bytes, row: int) -> int:
        try:
            index = int(pair.split(b":")[0])
        except ValueError:
            index = -1
        if index < 0:
            raise self._unreadable(row, pair)
        return index

    def pieces(self, start: int, columns: Collection[str] | None) -> Iterator[Piece]:
        row = 0
        for lines in self._lines():
            if lines:
                X, y = self._parsed(lines, row)
                yield Piece(self.name, row, len(lines), y=y, X=X)
                row += len(lines)

    def _parsed(self, lines: list[bytes], row: int) -> tuple[sp.csr_array, Array]:
        targets = np.empty(len(lines))
        values: list[Array] = []
        indices: list[NDArray[np.int64]] = []
        for i, line in enumerate(lines, start=1):
            label, pairs = line.split(None, 1)[0], _pairs(line)
            flat = b" ".join(pairs).replace(b":", b" ").split()
            try:
                targets[i - 1] = float(label)
            except ValueError:
                raise self._unreadable(row + i, label) from None
            try:
                index = np.array([int(j) for j in flat[::2]], dtype=np.int64) - self._base
                value = np.array([float(v) for v in flat[1::2]])
            except (ValueError, OverflowError):
                raise self._unreadable(row + i, _unreadable_pair(pairs)) from None
            if len(index) != len(pairs) or len(value) != len(pairs):
                raise self._unreadable(row + i, _unreadable_pair(pairs))
            self._check(index, row + i)
            indices.append(index)
            values.append(value)
        ends = np.cumsum([0, *map(len, indices)])
        parts = (np.concatenate(values), np.concatenate(indices), ends)
        X: sp.csr_array = sp.csr_array(parts, shape=(len(lines), self.n_features))
        return X, targets

    def _check(self, index: NDArray[np.int64], row: int) -> None:
        place = f"{self.name}, row {row}"
        if (np.diff(index) <= 0).any():
            raise checks.refuse(
                place, "indices that do not ascend", "ascending ones", "sort each line by index"
            )
        if len(index) and (index[0] < 0 or index[-1] >= self.n_features):
            wrong = index[0] if index[0] < 0 else index[-1]
            raise checks.refuse(
                place,
                f"the index {wrong + self._base}",
                f"{self._base} to {self.n_features - 1 + self._base}",
                "use a larger {n_features} (in Python zero_based=True if indices count from 0)",
            )

    def _unreadable(self, row: int, received: bytes) -> InvalidInputError:
        return checks.refuse(
            f"{self.name}, row {row}",
            f"{received.decode(errors='replace')!r:.60}",
            "a number and then index:value pairs",
            "check that this is a LIBSVM file",
        )


def _pairs(line: bytes) -> list[bytes]:
    pairs = line.split()[1:]
    return pairs[1:] if pairs and pairs[0].startswith(b"qid:") else pairs


def _unreadable_pair(pairs: list[bytes]) -> bytes:
    for pair in pairs:
        index, colon, value = pair.partition(b":")
        try:
            int(index), float(value)
        except ValueError:
            return pair
        if not colon:
            return pair
    return b" ".join(pairs)[:60]
