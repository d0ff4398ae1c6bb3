"""Optional dependencies of the streams, imported when first needed."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from miniamp.errors import MissingExtraError


@cache
def needed(module: str, purpose: str) -> Any:
    """The module, or an error that names the extra to install.

    Examples
    --------
    >>> needed("math", "reading numbers").pi
    3.141592653589793
    >>> needed("no_such_module", "reading Parquet")
    Traceback (most recent call last):
    ...
    miniamp.errors.MissingExtraError: reading Parquet needs no_such_module; ...
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        root = module.split(".", maxsplit=1)[0]
        raise MissingExtraError(
            f'{purpose} needs {root}; pip install "miniamp[streams]"'
        ) from error
