"""File formats. A new one is a file here with a subclass of `Format`, and its export below."""

from miniamp.streams.formats.arrow import ArrowIPC, Parquet
from miniamp.streams.formats.base import Format
from miniamp.streams.formats.csv import CSV
from miniamp.streams.formats.json_lines import JSONLines
from miniamp.streams.formats.libsvm import LIBSVM
from miniamp.streams.formats.numpy_files import NPY, NPZ
from miniamp.streams.pieces import by_format

__all__ = ["CSV", "LIBSVM", "NPY", "NPZ", "ArrowIPC", "Format", "JSONLines", "Parquet", "formats"]


def formats() -> dict[str, type[Format]]:
    """Every format that is exported here, by what the option `format` calls it.

    Examples
    --------
    >>> sorted(formats())
    ['arrow', 'csv', 'jsonl', 'libsvm', 'npy', 'npz', 'parquet']
    """
    found = [globals()[name] for name in __all__]
    return by_format(Format, found)  # type: ignore[type-abstract]  # only asked what is derived
