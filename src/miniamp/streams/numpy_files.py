"""NPY and NPZ files, read a slice at a time: nothing is mapped, so nothing stays resident."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from miniamp import checks
from miniamp.arrays import Given
from miniamp.errors import InvalidInputError
from miniamp.streams.arrays import Arrays, targets_of
from miniamp.streams.pieces import Cells, Matrix, Piece, rows_a_piece, skipping, too_short


class Header(NamedTuple):
    """What an NPY file says of its array."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]


class NPY:
    """The rows of a two-dimensional NPY file.

    Parameters
    ----------
    path : Path
        The file.
    y : array, optional
        Targets, where they are no column of the file.
    """

    again = True

    def __init__(self, path: Path, y: Given = None) -> None:
        self.name = str(path)
        self._path = path
        with path.open("rb") as file:
            self._header = header_of(file, self.name)
            self._data = file.tell()
        size = path.stat().st_size - self._data
        shape, _, dtype = self._header
        if size < int(np.prod(shape)) * dtype.itemsize:
            raise InvalidInputError(
                f"{self.name}: is cut short, has {size} bytes of numbers, expected "
                f"{int(np.prod(shape)) * dtype.itemsize} for shape {shape}; write it again"
            )
        self._y = None if y is None else targets_of(y, shape[0])

    def count(self) -> int:
        """The number of rows."""
        return self._header.shape[0]

    def pieces(self, start: int, only: Collection[str] | None) -> Iterator[Piece]:
        """The rows from number `start` on."""
        (rows, columns), fortran, dtype = self._header
        if start > rows:
            raise too_short(self.name, rows, start)
        step = rows_a_piece(columns)
        with self._path.open("rb") as file:
            for begin in range(start, rows, step):
                k = min(step, rows - begin)
                if fortran:  # a column lies together: pick k of each
                    X = np.empty((k, columns), dtype=dtype)
                    for j in range(columns):
                        file.seek(self._data + (j * rows + begin) * dtype.itemsize)
                        X[:, j] = np.frombuffer(file.read(k * dtype.itemsize), dtype=dtype)
                else:
                    file.seek(self._data + begin * columns * dtype.itemsize)
                    X = _filled(file, k, columns, dtype, self.name)
                y = None if self._y is None else self._y[begin : begin + k]
                yield Matrix(self.name, begin, X, y)


class NPZ:
    """The rows of an NPZ archive: X (or its only two-dimensional array), and y for the targets.

    Parameters
    ----------
    path : Path
        The file, compressed or not.
    target : str, optional
        The name of the array of targets in it.
    y : array, optional
        Targets that are not in the file.
    """

    again = True

    def __init__(self, path: Path, target: str | None = None, y: Given = None) -> None:
        self.name = str(path)
        self._path = path
        headers = self._headers()
        matrices = [key for key, header in headers.items() if len(header.shape) == 2]
        if "X" not in headers and len(matrices) != 1:
            raise checks.refuse(
                self.name,
                f"the arrays {', '.join(headers) or 'none'}",
                "one called X, or only one of two dimensions",
                "save it with numpy.savez(path, X=X, y=y)",
            )
        self._key = "X" if "X" in headers else matrices[0]
        self._header = headers[self._key]
        if self._header.fortran and self._header.shape[1] > 1:
            raise InvalidInputError(
                f"{self.name}: the array {self._key!r} is stored by columns and cannot be read row "
                "by row; save it as numpy.ascontiguousarray(X), or as an NPY file"
            )
        if target is not None and target not in headers:
            others = ", ".join(k for k in headers if k != self._key)
            raise checks.refuse(
                "target",
                repr(target),
                f"one of the arrays {others}" if others else f"an array beside {self._key!r}",
                "name the array that holds the targets" if others else "save one with the targets",
            )
        rows = self._header.shape[0]
        self._y: Cells = None
        if target is not None or y is not None:
            self._y = targets_of(self._array(target) if target is not None else y, rows)

    def _headers(self) -> dict[str, Header]:
        try:
            with zipfile.ZipFile(self._path) as archive:
                found = {}
                for entry in archive.namelist():
                    if entry.endswith(".npy"):
                        with archive.open(entry) as file:
                            found[entry[:-4]] = header_of(
                                file, f"{self.name}:{entry}", dims=(0, 1, 2)
                            )
                return found
        except zipfile.BadZipFile as error:
            raise InvalidInputError(
                f"{self.name}: the NPZ file is damaged or cut short ({error}); write it again"
            ) from None

    def _array(self, key: str) -> Any:
        with np.load(self._path, allow_pickle=False) as archive:
            return archive[key]

    def count(self) -> int:
        """The number of rows."""
        return self._header.shape[0]

    def pieces(self, start: int, only: Collection[str] | None) -> Iterator[Piece]:
        """The rows from number `start` on."""
        return skipping(self._matrices(), start, self.name)

    def _matrices(self) -> Iterator[Piece]:
        (rows, columns), _, dtype = self._header
        step = rows_a_piece(columns)
        with zipfile.ZipFile(self._path) as archive, archive.open(f"{self._key}.npy") as file:
            header_of(file, self.name)
            for begin in range(0, rows, step):
                try:
                    X = _filled(file, min(step, rows - begin), columns, dtype, self.name)
                except zipfile.BadZipFile as error:
                    raise InvalidInputError(
                        f"{self.name}: is damaged ({error}); write it again"
                    ) from None
                y = None if self._y is None else self._y[begin : begin + step]
                yield Matrix(self.name, begin, X, y)


def npz_source(path: Path, target: str | None, y: Given) -> NPZ | Arrays:
    """The source for an NPZ file: arrays by name, or a scipy sparse matrix."""
    try:
        with zipfile.ZipFile(path) as archive:
            sparse = {"data.npy", "shape.npy", "format.npy"} <= set(archive.namelist())
    except zipfile.BadZipFile:
        sparse = False
    if not sparse:
        return NPZ(path, target, y)
    from scipy.sparse import load_npz

    return Arrays(load_npz(path), y)


def header_of(file: IO[bytes], name: str, dims: tuple[int, ...] = (2,)) -> Header:
    """Read an NPY header, leaving the file at the first number."""
    readers: dict[tuple[int, int], Callable[[Any], Any]] = {
        (1, 0): npy.read_array_header_1_0,
        (2, 0): npy.read_array_header_2_0,
    }
    try:
        version = npy.read_magic(file)
        header = Header(*readers[version](file))
    except (ValueError, KeyError, EOFError) as error:
        raise InvalidInputError(
            f"{name}: is not a sound NPY file ({error}); write it again"
        ) from None
    if len(header.shape) not in dims:
        raise checks.refuse(
            name,
            f"an array of shape {header.shape}",
            "two dimensions",
            "reshape it to (rows, columns)",
        )
    if dims == (2,) and header.dtype.kind not in "fiub":
        raise checks.refuse(
            name, f"dtype {header.dtype}", "real numbers", "convert it with array.astype(float)"
        )
    return header


def _filled(file: IO[bytes], rows: int, columns: int, dtype: np.dtype[Any], name: str) -> Any:
    wanted = rows * columns * dtype.itemsize
    data = file.read(wanted)
    if len(data) < wanted:
        raise InvalidInputError(f"{name}: is cut short; write it again")
    return np.frombuffer(data, dtype=dtype).reshape(rows, columns)
