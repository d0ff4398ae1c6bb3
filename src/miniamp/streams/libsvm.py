"""LIBSVM (svmlight) files: `target index:value ...`, read into sparse rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from miniamp import checks
from miniamp.arrays import Array
from miniamp.errors import InvalidInputError
from miniamp.streams.pieces import Matrix, Piece, skipping
from miniamp.streams.text import line_blocks, opened


class LIBSVM:
    """The rows of one LIBSVM file, as CSR.

    Parameters
    ----------
    path : Path
        The file, gzipped or not.
    n_features : int, optional
        The number of features; by default the file is looked through once for the largest index.
    zero_based : bool or "auto"
        Whether indices count from 0; "auto" does where the file has an index 0.
    """

    again = True

    def __init__(
        self, path: Path, *, n_features: int | None = None, zero_based: bool | str = "auto"
    ) -> None:
        self.name = str(path)
        self._path = path
        if zero_based not in (True, False, "auto"):
            raise checks.refuse("zero_based", repr(zero_based), "True, False or 'auto'", "choose")
        if n_features is not None:
            n_features = checks.count("n_features", n_features)
        least, most = (1, 0)
        if n_features is None or zero_based == "auto":
            least, most = self._range()
        self._base = 0 if zero_based is True or (zero_based == "auto" and least == 0) else 1
        self.n_features = most + 1 - self._base if n_features is None else n_features
        if self.n_features < 1:
            raise InvalidInputError(
                f"{self.name}: no row has an index:value pair; check the file, or pass n_features="
            )

    def pieces(self, start: int, only: Collection[str] | None) -> Iterator[Piece]:
        """The rows from number `start` on."""
        return skipping(self._matrices(), start, self.name)

    def _lines(self) -> Iterator[list[bytes]]:
        with closing(opened(self._path)) as file:
            for block in line_blocks(file, self.name):
                lines = [line.split(b"#", 1)[0].strip() for line in block.splitlines()]
                yield [line for line in lines if line]

    def _range(self) -> tuple[int, int]:
        """Least and largest index; indices ascend within a line, so its ends are enough."""
        least, most, row = 1, 0, 0
        for lines in self._lines():
            for line in lines:
                row += 1
                pairs = line.split()[1:]
                pairs = pairs[1:] if pairs and pairs[0].startswith(b"qid:") else pairs
                if pairs:
                    least = min(least, self._index(pairs[0], row))
                    most = max(most, self._index(pairs[-1], row))
        return least, most

    def _index(self, pair: bytes, row: int) -> int:
        try:
            index = int(pair.split(b":")[0])
        except ValueError:
            raise self._unreadable(row, pair) from None
        if index < 0:
            raise self._unreadable(row, pair)
        return index

    def _matrices(self) -> Iterator[Piece]:
        row = 0
        for lines in self._lines():
            if lines:
                X, y = self._parsed(lines, row)
                yield Matrix(self.name, row, X, y)
                row += len(lines)

    def _parsed(self, lines: list[bytes], row: int) -> tuple[sp.csr_array, Array]:
        targets, values, indices = np.empty(len(lines)), [], []
        ends = np.zeros(len(lines) + 1, dtype=np.int64)
        for i, line in enumerate(lines):
            label, *pairs = line.split()
            if pairs and pairs[0].startswith(b"qid:"):
                del pairs[0]
            try:
                targets[i] = float(label)
            except ValueError:
                raise self._unreadable(row + i + 1, label) from None
            flat = b" ".join(pairs).replace(b":", b" ").split()
            try:
                index = np.array([int(i) for i in flat[::2]], dtype=np.int64) - self._base
                value = np.array([float(v) for v in flat[1::2]])
            except ValueError:
                raise self._unreadable(row + i + 1, _culprit(pairs)) from None
            if len(index) != len(pairs) or len(value) != len(pairs):
                raise self._unreadable(row + i + 1, _culprit(pairs))
            self._check(index, row + i + 1)
            indices.append(index)
            values.append(value)
            ends[i + 1] = ends[i] + len(index)
        parts = (np.concatenate(values), np.concatenate(indices), ends)
        return sp.csr_array(parts, shape=(len(lines), self.n_features)), targets

    def _check(self, index: NDArray[np.int64], row: int) -> None:
        if len(index) and (index[0] < 0 or index[-1] >= self.n_features):
            wrong = index[0] if index[0] < 0 else index[-1]
            raise InvalidInputError(
                f"{self.name}, row {row}: got the index {wrong + self._base}, expected "
                f"{self._base} to {self.n_features - 1 + self._base}; pass a larger n_features=, "
                "or zero_based=True if indices count from 0"
            )
        if (np.diff(index) <= 0).any():
            raise InvalidInputError(
                f"{self.name}, row {row}: indices do not ascend; sort each line by index"
            )

    def _unreadable(self, row: int, came: bytes) -> InvalidInputError:
        return InvalidInputError(
            f"{self.name}, row {row}: got {came.decode(errors='replace')!r:.60}, expected "
            "a number and then index:value pairs; check that this is a LIBSVM file"
        )


def _culprit(pairs: list[bytes]) -> bytes:
    for pair in pairs:
        index, sign, value = pair.partition(b":")
        try:
            int(index), float(value)
        except ValueError:
            return pair
        if not sign:
            return pair
    return b" ".join(pairs)[:60]
