"""NPY and NPZ files, read a slice at a time: nothing is mapped, so nothing stays resident."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import IO, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy
from numpy.typing import NDArray

from miniamp import checks
from miniamp.streams.base import (
    MAX_FEATURES,
    MAX_ROW_BYTES,
    MAX_WHOLE_BYTES,
    Format,
    Input,
    Piece,
    Targets,
    readable,
    refuse_expansion,
    refuse_too_many,
    rows_per_piece,
)
from miniamp.streams.in_memory import ArraySource, targets_of

#: The arrays of a scipy sparse matrix in an NPZ file.
_SPARSE = {"data", "shape", "format"}


class Header(NamedTuple):
    """The array of an NPY file."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[np.float64]

    @property
    def bytes(self) -> int:
        """The size of the numbers; of Python ints, which do not overflow."""
        return math.prod(self.shape) * self.dtype.itemsize


class NPY(Format):
    """The rows of a two-dimensional NPY file."""

    format = "npy"
    endings = (".npy",)
    marks = (b"\x93NUMPY",)
    takes_targets = True

    def __init__(self, file: Input, targets: Targets) -> None:
        super().__init__(file, targets)
        with readable(self.name, self.format), self._opened() as content:
            self._header = _checked(_header(content, self.name), self.name)
            size = -content.tell() + content.seek(0, 2)
        if size < self._header.bytes:
            raise checks.refuse(
                self.name,
                f"a file that is cut short: {size} bytes of numbers",
                f"{self._header.bytes} for shape {self._header.shape}",
                "write it again",
            )
        self._y = None if targets.y is None else targets_of(targets.y, self._header.shape[0])

    def count(self) -> int:
        return self._header.shape[0]

    def _opened(self) -> AbstractContextManager[IO[bytes]]:
        """The file, at its header."""
        return self.file.opened()

    def pieces(self, start: int, columns: Collection[str] | None) -> Iterator[Piece]:
        with self._opened() as file:
            (rows, width), fortran, dtype = _checked(_header(file, self.name), self.name)
            first, step = file.tell(), rows_per_piece(width)
            for begin in range(start, rows, step):
                k = min(step, rows - begin)
                if fortran:  # a column lies together: pick k of each
                    X = np.empty((k, width), dtype=dtype)
                    for j in range(width):
                        file.seek(first + (j * rows + begin) * dtype.itemsize)
                        X[:, j] = _numbers(file, k, 1, dtype, self.name)[:, 0]
                else:
                    file.seek(first + begin * width * dtype.itemsize)
                    X = _numbers(file, k, width, dtype, self.name)
                y = None if self._y is None else self._y[begin : begin + k]
                yield Piece(self.name, begin, k, y=y, X=X)


class NPZ(NPY):
    """The rows of an NPZ archive: X (or its only two-dimensional array), and y for the targets.

    Compressed or not; a scipy sparse matrix is read whole.
    """

    format = "npz"
    endings = (".npz",)
    marks = (b"PK\x03\x04",)

    def __init__(self, file: Input, targets: Targets) -> None:
        Format.__init__(self, file, targets)
        self._sparse: ArraySource | None = None
        self._y = None
        with readable(self.name, self.format), self._archive() as archive:
            self._headers = {}
            for entry in archive.namelist():
                if entry.endswith(".npy"):
                    with archive.open(entry) as content:
                        self._headers[entry[:-4]] = _header(content, f"{self.name}:{entry}")
            if self._headers.keys() >= _SPARSE:
                self._sparse = ArraySource(self._sparse_matrix(archive), targets.y)
                return
            self._key, self._header = self._matrix()
            y = targets.y if targets.name is None else self._targets(archive, targets.name)
            self._y = None if y is None else targets_of(y, self._header.shape[0])

    @contextmanager
    def _archive(self) -> Iterator[zipfile.ZipFile]:
        with self.file.opened() as file, zipfile.ZipFile(file) as archive:
            yield archive

    def _matrix(self) -> tuple[str, Header]:
        """The name and header of the array that holds the features."""
        headers = self._headers
        matrices = [key for key, header in headers.items() if len(header.shape) == 2]
        if "X" not in headers and len(matrices) != 1:
            raise checks.refuse(
                self.name,
                f"the arrays {', '.join(headers) or 'none'}",
                "one called X, or only one of two dimensions",
                "save it with numpy.savez(path, X=X, y=y)",
            )
        key = "X" if "X" in headers else matrices[0]
        header = _checked(headers[key], f"{self.name}:{key}.npy")
        if header.fortran and header.shape[1] > 1:
            raise checks.refuse(
                self.name,
                f"the array {key!r} stored by columns",
                "one stored by rows",
                "save it as numpy.ascontiguousarray(X), or as an NPY file",
            )
        return key, header

    def _sparse_matrix(self, archive: zipfile.ZipFile) -> object:
        """A scipy sparse matrix, read whole and checked before compiled code uses its indices."""
        for name in self._headers:
            self._refuse_large(archive, name)
        shape = npy.read_array(archive.open("shape.npy"), allow_pickle=False)
        if shape.shape != (2,) or not (0 <= shape[0] <= MAX_WHOLE_BYTES // 8):
            raise checks.refuse(
                self.name, f"a matrix of shape {shape}", "(rows, columns)", "save it again"
            )
        refuse_too_many(int(shape[1]), self.name, MAX_FEATURES)
        with self.file.opened() as file:
            matrix = sp.load_npz(file)
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)
        return matrix

    def _refuse_large(self, archive: zipfile.ZipFile, name: str) -> None:
        """Refuse an array that is read whole and is out of proportion to its file."""
        entry = archive.getinfo(f"{name}.npy")
        size = max(self._headers[name].bytes, entry.file_size)
        remedy = "save it with numpy.savez, uncompressed"
        refuse_expansion(f"{self.name}:{entry.filename}", size, entry.compress_size, remedy)

    def _targets(self, archive: zipfile.ZipFile, name: str) -> NDArray[np.generic]:
        others = [other for other in self._headers if other != self._key]
        if name not in others:
            raise checks.refuse(
                "target",
                repr(name),
                f"one of the arrays {', '.join(others)}"
                if others
                else f"an array beside {self._key!r}",
                "name the array that holds the targets" if others else "save one with the targets",
            )
        rows, shape = self._header.shape[0], self._headers[name].shape
        if shape not in ((rows,), (rows, 1)):
            raise checks.refuse(
                "target", f"shape {shape}", f"({rows},)", "give one value for each row"
            )
        self._refuse_large(archive, name)
        with archive.open(f"{name}.npy") as file:
            targets: NDArray[np.generic] = npy.read_array(file, allow_pickle=False)
        return targets

    def count(self) -> int:
        return super().count() if self._sparse is None else self._sparse.count()

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        with self._archive() as archive, archive.open(f"{self._key}.npy") as file:
            yield file

    def pieces(self, start: int, columns: Collection[str] | None) -> Iterator[Piece]:
        if self._sparse is not None:
            return self._sparse.pieces(start, columns)
        return super().pieces(start, columns)


def _header(file: IO[bytes], name: str) -> Header:
    """Read an NPY header, leaving the file at the first number."""
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise checks.refuse(
            name, f"NPY version {version}", "(1, 0) or (2, 0)", "save it with numpy.save"
        )
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    return Header(*read(file))


def _checked(header: Header, name: str) -> Header:
    """The header, if it is one of rows of real numbers."""
    if len(header.shape) != 2 or min(header.shape) < 0:
        raise checks.refuse(
            name,
            f"an array of shape {header.shape}",
            "two dimensions",
            "reshape it to (rows, columns)",
        )
    width = header.shape[1]
    if width * header.dtype.itemsize > MAX_ROW_BYTES:
        refuse_too_many(width, name, MAX_ROW_BYTES // header.dtype.itemsize)
    if header.dtype.kind not in "fiub":
        raise checks.refuse(
            name, f"dtype {header.dtype}", "real numbers", "convert it with array.astype(float)"
        )
    return header


def _numbers(
    file: IO[bytes], rows: int, columns: int, dtype: np.dtype[np.float64], name: str
) -> NDArray[np.float64]:
    size = rows * columns * dtype.itemsize
    content = file.read(size)
    if len(content) < size:
        raise checks.refuse(name, "a file that is cut short", "all its rows", "write it again")
    return np.frombuffer(content, dtype=dtype).reshape(rows, columns)
