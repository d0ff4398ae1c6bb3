"""File formats. A new one is a file here with a subclass of `Format`, and its export below."""

from miniamp.streams.base import Format
from miniamp.streams.formats.arrow import ArrowIPC, Parquet
from miniamp.streams.formats.libsvm import LIBSVM
from miniamp.streams.formats.numpy_files import NPY, NPZ
from miniamp.streams.formats.text import CSV, JSONLines

__all__ = ["CSV", "LIBSVM", "NPY", "NPZ", "ArrowIPC", "Format", "JSONLines", "Parquet"]
