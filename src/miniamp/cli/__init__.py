"""The command line, `miniamp`: one file per command.

A failure is one line on stderr and an exit code: 1 for something that went wrong, 2 for a command
that was not understood, 130 for an interruption. `--debug`, anywhere, shows the traceback instead.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Sequence

__all__ = ["main"]

try:
    for _found in pkgutil.iter_modules(__path__):  # each adds its commands
        importlib.import_module(f"{__name__}.{_found.name}")
    from miniamp.cli.app import main
except ModuleNotFoundError as error:
    if error.name not in ("typer", "rich"):
        raise
    _MISSING = error.name

    def main(arguments: Sequence[str] | None = None) -> int:  # noqa: ARG001
        """Report the package that is missing."""
        sys.stderr.write(
            f'miniamp: the command line needs {_MISSING}; pip install "miniamp[cli]"\n'
        )
        return 1
