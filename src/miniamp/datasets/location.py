"""Where the real data sets are found on this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from miniamp.arrays import Array
from miniamp.errors import InvalidInputError

#: Environment variable that names the folder with the data files.
VARIABLE = "MINIAMP_DATA"


class MissingDataError(InvalidInputError, FileNotFoundError):
    """A data set is not on this machine; the message says how to get it."""


@dataclass(frozen=True, eq=False)
class Labelled:
    """Samples with a known class each."""

    X: Array  #: (M, N) array or scipy.sparse matrix, one row per sample
    y: Array  #: (M,) array of int: the classes, by their index in `names`
    names: tuple[str, ...]  #: of the classes
    features: tuple[str, ...] = ()  #: names of the features; empty where they have none

    def __repr__(self) -> str:
        return f"<{self.X.shape[0]} samples of {self.X.shape[1]} features, classes {self.names}>"


def folder() -> Path | None:
    """The folder that MINIAMP_DATA names, if it is set and exists."""
    named = os.environ.get(VARIABLE, "")
    return Path(named) if named and Path(named).is_dir() else None


def file_in_folder(name: str) -> Path | None:
    """The path of a data file in that folder, if it is there."""
    place = folder()
    return place / name if place is not None and (place / name).is_file() else None


def missing(what: str, name: str, fetcher: str) -> MissingDataError:
    """The error for a data set that is in neither place."""
    return MissingDataError(
        what,
        "no such data on this machine",
        f"{name} in the folder that the environment variable {VARIABLE} names, or a copy in "
        "scikit-learn's cache",
        f"on a machine with a network run once {fetcher}, or set {VARIABLE} to a folder that has "
        f"{name}",
    )
