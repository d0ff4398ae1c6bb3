"""The command line, `miniamp`: one file a command.

A failure is one line on stderr and an exit code: 1 for something that went wrong, 2 for a command
that was not understood, 130 for an interruption. `--debug`, anywhere, shows the traceback instead.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]

FAILED, MISUSED, INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Examples
    --------
    >>> main(["--version"])
    miniamp ...
    0
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    given = [word for word in given if word != "--debug"]
    try:
        from miniamp.cli.app import command
    except ModuleNotFoundError as error:
        if debug or error.name not in ("typer", "rich"):
            raise
        return _say(f'the command line needs {error.name}; pip install "miniamp[cli]"', FAILED)
    try:
        code = command(given, prog_name="miniamp", standalone_mode=False)
    except KeyboardInterrupt:
        return _say("interrupted", INTERRUPTED)
    except Exception as error:
        if debug:
            raise
        return _report(error)
    return code if isinstance(code, int) else 0


def _report(error: Exception) -> int:
    # Errors of usage come from click, or from the copy that newer typers carry: told by shape.
    explain = getattr(error, "format_message", None)
    if explain is not None:
        return _say(f"{explain()} (see miniamp --help)", MISUSED)
    if type(error).__name__ == "Abort":
        return _say("interrupted", INTERRUPTED)
    return _say(str(error) or type(error).__name__, FAILED)


def _say(message: str, code: int) -> int:
    sys.stderr.write(f"miniamp: {' '.join(message.split())}\n")
    return code
