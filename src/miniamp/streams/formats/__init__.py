"""File formats. A new one is a file here with a subclass of `Format`, and its export below."""

from miniamp.streams.formats.arrow import ArrowIPC, Parquet
from miniamp.streams.formats.base import Format
from miniamp.streams.formats.csv import CSV
from miniamp.streams.formats.json_lines import JSONLines
from miniamp.streams.formats.libsvm import LIBSVM
from miniamp.streams.formats.numpy_files import NPY, NPZ

__all__ = ["CSV", "LIBSVM", "NPY", "NPZ", "ArrowIPC", "Format", "JSONLines", "Parquet"]
